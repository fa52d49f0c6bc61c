// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/internal/playground"
	"github.com/kvbench/kvbench/internal/study"
)

// TestKilledStudyIsContinued: of a study whose process is killed in the middle of a run, what was done is kept, what was broken off is made
// again and counts once, and the rest is done.
func TestKilledStudyIsContinued(t *testing.T) {
	if testing.Short() {
		t.Skip("processes, in which the race detector sees nothing")
	}
	t.Parallel()
	f := queue(t, playground.Service{Time: 10 * time.Millisecond, Servers: 1}, 2)
	counts := []float64{50, 10_000, 60}
	killed := start(t, f.verb("study", "--vary", "operationcount=50,10000,60", "-w", "read", "--name", "killed")...)
	killed.until("run 2 of 3: operationcount=10000, repeat 1 of 1")
	dirs, err := filepath.Glob(filepath.Join(f.out, "killed-*"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("folders of the study: %v, %v", dirs, err)
	}
	// At a hundred operations a second the second run takes minutes. It has begun when the coordinator has what it did in a second.
	counted := filepath.Join(opened(t, dirs[0]).RunDir(opened(t, dirs[0]).Steps[1].Last().RunID), "*", "counts.csv")
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) { // of looking again
		if found, err := filepath.Glob(counted); err != nil || len(found) > 0 {
			break
		}
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("%s does not come to be", counted)
		}
	}
	killed.kill()
	before := opened(t, dirs[0])
	first, second := before.Steps[0].Last(), before.Steps[1].Last()
	if second == nil || second.State != study.Running || before.Steps[2].Last() != nil {
		t.Fatalf("when it was killed: %+v", before.Steps)
	}

	if err := f.cluster.SetService(1, playground.Service{}); err != nil {
		t.Fatal(err)
	}
	again := start(t, append([]string{"study", "continue", dirs[0], "--json"}, f.args[:2]...)...)
	again.code(2 * time.Minute)
	again.mentions("run 2 of 3: operationcount=10000, repeat 1: run " + second.RunID + " was broken off with its process")

	after := opened(t, dirs[0])
	if a := after.Steps[0].Attempts; first.State == study.Done && (len(a) != 1 || a[0].RunID != first.RunID || !a[0].End.Equal(first.End)) {
		t.Errorf("a run that was done: %+v, was %+v", a, first)
	}
	if a := after.Steps[1].Attempts; len(a) != 2 || a[0].State != study.Interrupted || a[0].RunID != second.RunID || a[1].RunID == second.RunID {
		t.Errorf("the run that was broken off: %+v", a)
	}
	var report analysis.Study
	stdout, stderr := again.said()
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || len(report.Cells) != len(counts) {
		t.Fatalf("%v\n%s\n%s", err, stdout, stderr)
	}
	for i, want := range counts {
		last := after.Steps[i].Last()
		if last == nil || last.State != study.Done && last.State != study.Failed {
			t.Errorf("step %d is left: %+v", i, last)
			continue
		}
		// On a busy machine a run may be degraded, and stand among those that failed.
		runs := append(report.Cells[i].Runs, report.Cells[i].Failed...)
		if len(runs) != 1 || runs[0].RunID != last.RunID {
			t.Errorf("cell %d counts %+v, want run %s alone", i, runs, last.RunID)
		}
		run, err := analysis.Load(after.RunDir(last.RunID))
		if err != nil {
			t.Error(err)
		} else if n := run.Report().Operations; float64(n) != want {
			t.Errorf("run %d has %v operations, want %v", i, n, want)
		}
	}
}

func opened(t *testing.T, dir string) *study.Study {
	t.Helper()
	s, err := study.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The workers of a study are found as those of a run are, by the same flags, in Kubernetes as elsewhere, and what is to be typed to carry it on
// names the same ones.
func TestStudyFindsWorkersAsARunDoes(t *testing.T) {
	t.Parallel()
	a := &app{}
	run, whole := a.runCommand(), a.studyCommand()
	verbs := []*cobra.Command{whole}
	for _, c := range whole.Commands() {
		if c.Name() == "continue" {
			verbs = append(verbs, c)
		}
	}
	if len(verbs) != 2 {
		t.Fatal("there is no study continue")
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	addFleetFlags(flags, true)
	flags.VisitAll(func(f *pflag.Flag) {
		for _, c := range verbs {
			of, in := run.Flags().Lookup(f.Name), c.Flags().Lookup(f.Name)
			if of == nil || in == nil || of.Usage != in.Usage || of.DefValue != in.DefValue || of.Shorthand != in.Shorthand {
				t.Errorf("--%s of %s is not as that of run", f.Name, c.Name())
			}
		}
	})
	given := pflag.NewFlagSet("", pflag.ContinueOnError)
	fleet := addFleetFlags(given, true)
	if err := given.Parse([]string{"--kube", "-n", "bench", "-l", "app in (a,b)", "--context", "x"}); err != nil {
		t.Fatal(err)
	}
	if got, want := fleet.given(), "--kube --namespace bench --selector 'app in (a,b)' --context x"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
