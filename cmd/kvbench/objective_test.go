// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/exitcode"
)

// TestObjectives: a run that misses an objective exits with 7 and says which; one that holds them is valid.
func TestObjectives(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	for _, s := range f.cluster.State().Stores {
		if err := f.cluster.SlowStore(s.ID, 20*time.Millisecond, 1); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "objectives")
	if err := os.WriteFile(file, []byte("# in a file\nerrors < 0.1%\nrate >= 60%\nrate >= 150/s   # more than is asked for\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	run := start(t, f.verb("run", "-w", "read", "--target", "100", "--duration", "2s", "--json",
		"--slo", "READ service p50 < 10ms", "--slo", "READ service p50 < 1h", "--slo-file", file)...)
	run.exits(exitcode.SLO, time.Minute)
	r := run.report()
	if v := r.Verdict; v.Code != exitcode.SLO || strings.Count(v.Text, "objective missed: ") != 2 || !strings.Contains(v.Text, "objective missed: READ service p50 is 2") {
		t.Errorf("%+v", v)
	}
	var kept []string
	for _, o := range r.Objectives {
		if o.Kept == nil || o.Value == nil || o.Seen == "" {
			t.Errorf("nothing is known of %+v", o)
		} else if *o.Kept {
			kept = append(kept, o.Text)
		}
	}
	if want := []string{"READ service p50 < 3,600 s", "errors < 0.1 %", "rate >= 60 % of the target"}; len(r.Objectives) != 5 || !slices.Equal(kept, want) {
		t.Errorf("%q are kept, want %q", kept, want)
	}
	again := start(t, "analyze", "--verdict", "--format", "markdown", "--slo", "rate >= 10/s", f.out)
	again.exits(exitcode.SLO, time.Minute)
	if text := again.stdout.String(); !strings.Contains(text, "| rate &gt;= 10/s | kept |") || !strings.Contains(text, "| rate &gt;= 150/s | missed |") {
		t.Errorf("%s", text)
	}
}

// TestBrokenObjectiveEndsTheRun: stores that become slow break an objective while the run goes on, which is shown, and ends it
// when its user has waited long enough; what was measured is collected.
func TestBrokenObjectiveEndsTheRun(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	run := start(t, f.verb("run", "-w", "read", "--target", "200", "--duration", "5m", "--json",
		"--slo", "READ response p50 < 15ms", "--slo", "errors < 50%", "--slo", "rate >= 20%", "--abort-on-slo", "2s")...)
	run.until("measuring")
	for _, s := range f.cluster.State().Stores {
		if err := f.cluster.SlowStore(s.ID, 25*time.Millisecond, 1); err != nil {
			t.Fatal(err)
		}
	}
	run.until("objective 'READ response p50 < 15.0 ms' is broken: READ response p50 is ")
	run.until("READ response p50 BROKEN since ")
	run.exits(exitcode.SLO, time.Minute)
	r := run.report()
	if r.Verdict.Code != exitcode.SLO || !strings.HasPrefix(r.Verdict.Text, "stopped: READ response p50 is ") || !strings.Contains(r.Verdict.Text, "and --abort-on-slo=2s") {
		t.Errorf("%+v", r.Verdict)
	}
	if !strings.HasPrefix(r.Ended.Text, "stopped: READ response p50") || r.WorkersFinished != 2 || len(r.Missing) > 0 || r.Operations == 0 {
		t.Errorf("%+v, %d workers finished, missing %q, %d operations", r.Ended, r.WorkersFinished, r.Missing, r.Operations)
	}
	for _, o := range r.Objectives[1:] {
		if o.Kept == nil || !*o.Kept {
			t.Errorf("%+v", o)
		}
	}
	again := start(t, "analyze", "--verdict", filepath.Join(f.out, r.RunID))
	again.exits(exitcode.SLO, time.Minute)
}
