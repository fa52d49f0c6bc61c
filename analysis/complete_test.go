// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/store"
)

// journalFiles are those of which a journal consists.
var journalFiles = []string{results.SecondsFile, results.CountsFile, results.HistogramsFile, results.ErrorsFile, results.TrafficFile}

// damages are what may become of a file.
var damages = []struct {
	name string
	do   func(text []byte) []byte // nil: remove it
}{
	{"cut at a line", func(text []byte) []byte {
		lines := bytes.SplitAfter(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
		return bytes.Join(lines[:len(lines)*2/3], nil)
	}},
	{"cut anywhere", func(text []byte) []byte { return text[:len(text)-7] }},
	{"emptied", func([]byte) []byte { return []byte{} }},
	{"a line gone", func(text []byte) []byte {
		lines := bytes.SplitAfter(text, []byte("\n"))
		return bytes.Join(slices.Delete(lines, len(lines)/2, len(lines)/2+1), nil)
	}},
	{"a line damaged", func(text []byte) []byte {
		lines := bytes.Split(text, []byte("\n"))
		i := len(lines) / 2
		lines[i] = bytes.Repeat([]byte("?"), len(lines[i]))
		return bytes.Join(lines, []byte("\n"))
	}},
	{"a line twice", func(text []byte) []byte {
		lines := bytes.SplitAfter(text, []byte("\n"))
		i := len(lines) / 2
		return bytes.Join(slices.Insert(lines, i, lines[i]), nil)
	}},
	{"removed", nil},
}

// Whatever becomes of a file of a journal, the result is not valid, names the file, and
// keeps the target that was asked for.
func TestDamaged(t *testing.T) {
	t.Parallel()
	for _, file := range journalFiles {
		for _, d := range damages {
			t.Run(file+" "+d.name, func(t *testing.T) {
				t.Parallel()
				f := &fixture{workers: 2, window: 6 * time.Second, target: 400, result: mixed(0, 30, 0), sent: []store.Traffic{{Store: "10.0.1.1:20160", Messages: 100, Commands: 100}},
					change: func(r *results.Run) { limit := 0.5; r.Limits.ErrorShare = &limit }}
				dir := f.write(t)
				path := filepath.Join(dir, "w1", file)
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if d.do == nil {
					remove(t, path)
				} else if err := os.WriteFile(path, d.do(text), 0o666); err != nil {
					t.Fatal(err)
				}
				p := report(t, dir)
				if p.Verdict.Code != exitcode.Degraded {
					t.Errorf("verdict %+v", p.Verdict)
				}
				named := strings.Join(p.Missing, "\n") + fmt.Sprint(p.WorkersLost)
				if !strings.Contains(named, file) && !strings.Contains(named, "no journal of it is here") {
					t.Errorf("%s is not named: %s", file, named)
				}
				if math.Abs(p.TargetOps-400) > 0.001 {
					t.Errorf("the target has become %g/s", p.TargetOps)
				}
			})
		}
	}
}

// What can be seen of the contents is seen in results that do not tell how long their files were.
func TestFilesDiffer(t *testing.T) {
	t.Parallel()
	f := &fixture{workers: 2, window: 6 * time.Second, target: 400, result: mixed(0, 30, 0)}
	dir := f.write(t)
	path := filepath.Join(dir, "w1")
	w, err := results.ReadWorker(path)
	if err != nil {
		t.Fatal(err)
	}
	w.Bytes = nil
	if err := results.WriteWorker(path, w); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file string
		cut  string // a line that holds it, and all after it
		want string
	}{
		{results.HistogramsFile, ",4.000000,", "w1: hist.hlog holds 800 of 1,200 service times"},
		{results.CountsFile, "\n4.000000,", "w1: counts.csv holds 800 of 1,200 operations"},
		{results.ErrorsFile, `{"start_s":4,`, "w1: errors.jsonl holds 27 of 40 errors"},
		{results.SecondsFile, "\n4.000000,", "w1: seconds.csv holds nothing from 4.0 to 6.0 s"},
	} {
		text, err := os.ReadFile(filepath.Join(path, c.file))
		if err != nil {
			t.Fatal(err)
		}
		i := bytes.Index(text, []byte(c.cut))
		if i < 0 {
			t.Fatalf("%q is not in %s:\n%s", c.cut, c.file, text)
		}
		i = bytes.LastIndexByte(text[:i+1], '\n') + 1
		if err := os.WriteFile(filepath.Join(path, c.file), text[:i], 0o666); err != nil {
			t.Fatal(err)
		}
		p := report(t, dir)
		if p.Verdict.Code != exitcode.Degraded || !strings.Contains(strings.Join(p.Missing, "\n"), c.want) {
			t.Errorf("%s: %+v, missing %q, want %q", c.file, p.Verdict, p.Missing, c.want)
		}
		if err := os.WriteFile(filepath.Join(path, c.file), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if p := report(t, dir); len(p.Missing) != 0 {
		t.Errorf("of a whole one is missing: %q", p.Missing)
	}
}

// A target is what the run was asked for, whoever did not take part.
func TestTargetOfAll(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]*fixture{
		"lost in the warm-up":    {workers: 3, warmup: 3 * time.Second, window: 4 * time.Second, target: 900, lost: map[int]time.Duration{1: 1500 * time.Millisecond}},
		"lost in the window":     {workers: 3, warmup: time.Second, window: 8 * time.Second, target: 900, lost: map[int]time.Duration{1: 5500 * time.Millisecond}},
		"one never took part":    {workers: 3, window: 4 * time.Second, target: 675, change: func(r *results.Run) { r.Target, r.Plan.Workers = 900, 4 }},
		"one of another profile": {workers: 3, window: 4 * time.Second, target: 900, change: func(r *results.Run) { r.Spec["target"] = "0..900@1s" }},
	} {
		if p := report(t, f.write(t)); math.Abs(p.TargetOps-900) > 0.001 {
			t.Errorf("%s: the target is %g/s, %+v", name, p.TargetOps, p.Verdict)
		}
	}
}
