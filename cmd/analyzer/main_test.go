// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/workload"
)

// makeRun makes a run of one second and one operation.
func makeRun(t *testing.T, root, id string, state results.State) {
	t.Helper()
	dir, err := results.CreateRun(root, id)
	if err != nil {
		t.Fatal(err)
	}
	run := results.Run{RunID: id, Phase: "run", State: state, Start: time.Unix(1e9, 0), WindowS: 1,
		Plan: results.Plan{Workers: 1, Threads: 1}, Fleet: []results.Member{{Name: "w0", State: results.Finished}}}
	j, err := results.CreateJournal(filepath.Join(dir, "w0"), results.Worker{Name: "w0"})
	if err = errors.Join(err, results.WriteRun(dir, &run)); err != nil {
		t.Fatal(err)
	}
	c := measure.NewCollector(measure.Config{Window: time.Second}, 1)
	res := workload.Result{RPCs: 1}
	res.Count[workload.OK] = 1
	c.Recorder(0).Record(&measure.Sample{Result: &res, End: time.Millisecond, Seen: time.Millisecond})
	c.Recorder(0).Finish(time.Second)
	c.Run(func(iv *measure.Interval) { err = errors.Join(err, j.Write(iv, 0, measure.HostSample{})) })
	if err := errors.Join(err, j.Close(results.End{})); err != nil {
		t.Fatal(err)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	makeRun(t, root, "a", results.Finished)
	makeRun(t, root, "b", results.Interrupted)
	empty := t.TempDir()
	out := filepath.Join(t.TempDir(), "report.html")
	for _, c := range []struct {
		name   string
		args   string
		code   int
		stdout string // in it
		stderr string
	}{
		{"help", "--help", 0, "examples:", ""},
		{"one run", root + "/a", 0, "run a", ""},
		{"flags after", root + "/a --format csv", 0, "a,2001-09-09T", ""},
		{"a directory of runs", root, 0, "run b", ""},
		{"verdict, valid", "--verdict " + root + "/a", 0, "verdict", ""},
		{"verdict, interrupted", "--verdict " + root, 130, "interrupted", ""},
		{"html to a file", "--format html -o " + out + " " + root, 0, "", ""},
		{"no directory", "", 2, "", "no directory given"},
		{"unknown flag", "--nope " + root, 2, "", "--nope"},
		{"unknown format", "--format xml " + root, 2, "", `"xml"`},
		{"not there", root + "/c", 2, "", "no such file"},
		{"nothing in it", empty, 2, "", "run.json"},
		{"cannot write", "-o " + empty + " " + root, 2, "", "write the report"},
	} {
		var stdout, stderr strings.Builder
		code := run(strings.Fields(c.args), &stdout, &stderr)
		if code != c.code || !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) {
			t.Errorf("%s: exit %d, want %d\nstdout: %s\nstderr: %s", c.name, code, c.code, &stdout, &stderr)
		}
		if (stderr.Len() > 0) != (c.stderr != "") {
			t.Errorf("%s: stderr: %s", c.name, &stderr)
		}
		if strings.Contains(stdout.String(), "\x1b") {
			t.Errorf("%s: colour, though this is no terminal", c.name)
		}
	}
	if text, err := os.ReadFile(out); err != nil || !strings.Contains(string(text), "</html>") {
		t.Errorf("the report's file: %v", err)
	}
	var stdout, stderr strings.Builder
	run([]string{"--format", "json", root}, &stdout, &stderr)
	var doc analysis.Document
	if err := json.Unmarshal([]byte(stdout.String()), &doc); err != nil || len(doc.Runs) != 2 || doc.Runs[0].Operations != 1 {
		t.Errorf("JSON: %v, %+v", err, doc)
	}
}

// The analyzer is there to be built quickly.
func TestImports(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, dep := range strings.Fields(string(out)) {
		for _, bad := range []string{"google.golang.org/grpc", "google.golang.org/protobuf", "github.com/tikv/", "github.com/pingcap/"} {
			if strings.HasPrefix(dep, bad) {
				t.Errorf("it imports %s", dep)
			}
		}
	}
}
