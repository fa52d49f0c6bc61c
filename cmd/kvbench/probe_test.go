// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/analysis/availability"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/playground"
	"github.com/kvbench/kvbench/internal/results"
)

// TestProbeSeesEachStore: while one store stalls, one loses a write, and one is killed and comes back, a probe tells of each what was.
func TestProbeSeesEachStore(t *testing.T) {
	t.Parallel()
	c, err := playground.Start(t.Context(), playground.Options{Regions: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	out := t.TempDir()
	p := start(t, "probe", "--pd", c.PDAddr(), "--out", out, "--json", "--deadline", "500ms", "--label", "rolling restart")
	// line waits for a line that is not among those so far.
	line := func(what string, fits func(string) bool) {
		t.Helper()
		_, before := p.said()
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) { // of looking again
			_, stderr := p.said()
			for l := range strings.Lines(stderr[len(before):]) {
				if strings.HasSuffix(l, "\n") && fits(l) {
					return
				}
			}
			if time.Now().After(deadline) {
				t.Fatalf("not within 30 s: %s\n%s", what, stderr)
			}
		}
	}
	well := func(l string) bool {
		return strings.Count(l, "s") > 3 && !strings.Contains(l, "STALLED") && !strings.Contains(l, "not probed")
	}
	line("all stores are well", well)
	must(c.SetSilentFault(3, playground.Lose, 1, 1))
	const stall = 1500 * time.Millisecond
	began := time.Now()
	must(c.StallStore(2, stall))
	line("store 2 is seen to stall", func(l string) bool { return strings.Contains(l, "store 2 STALLED") })
	line("all stores are well again", well)
	most := time.Since(began).Seconds()
	must(c.StopStore(1))
	line("store 1 leads nothing", func(l string) bool { return strings.Contains(l, "store 1 not probed") })
	must(c.StartStore(1))
	must(c.Restore()) // its leaders, too
	line("store 1 is probed again", func(l string) bool {
		_, l, _ = strings.Cut(l, "store 1 ")
		return !strings.HasPrefix(l, "not probed") && !strings.HasPrefix(l, "STALLED")
	})
	p.interrupt()
	if code := p.code(30 * time.Second); code != exitcode.Wrong {
		_, stderr := p.said()
		t.Fatalf("exit code %d, want %d: a write was lost\n%s", code, exitcode.Wrong, stderr)
	}
	r := p.report()
	if r.Label != "rolling restart" || r.Phase != "probe" || r.Probe == nil || len(r.Probe.Stores) != 3 {
		t.Fatalf("%+v", r)
	}
	stores, b := r.Probe.Stores, r.Probe.ReadBack
	// On a busy machine the prober stands still, too, which counts as no stall. There may be others, when leaders move back.
	fits := func(s availability.Stall) bool { return s.Seconds >= stall.Seconds()/2 && s.Seconds <= most && s.Ended }
	if s := stores[1]; s.Late == 0 || !slices.ContainsFunc(s.Stalls, fits) {
		t.Errorf("store 2: %+v", s)
	}
	if s := stores[0]; s.LongestS == 0 || s.UnprobedS == 0 {
		t.Errorf("store 1: %+v", s)
	}
	if b.Lost != 1 || b.Wrong+b.Unread != 0 || b.Right != b.Acknowledged-1 || len(b.Findings) != 1 || b.Findings[0].Store != stores[2].Store {
		t.Errorf("%+v", b)
	}
	if r.Probe.Kept {
		t.Error("keys are left")
	}
	// It is kept, and listed as a run.
	var again availability.Probe
	stdout := do(t, "analyze", "--json", filepath.Join(out, r.RunID))
	var doc struct {
		Runs []struct{ Probe json.RawMessage }
	}
	if err := json.Unmarshal([]byte(stdout), &doc); err != nil || len(doc.Runs) != 1 {
		t.Fatalf("%v: %s", err, stdout)
	}
	if err := json.Unmarshal(doc.Runs[0].Probe, &again); err != nil || again.ReadBack.Lost != 1 {
		t.Errorf("%v: %+v", err, again)
	}
	if stdout := do(t, "results", out); !strings.Contains(stdout, "rolling restart") {
		t.Errorf("the list of runs: %s", stdout)
	}
}

// TestRunWithProbe: a run with a probe beside it tells in one report of its load, and of the store that stalled.
func TestRunWithProbe(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	p := start(t, f.verb("run", "-w", "read", "--target", "200", "--duration", "10m", "--probe", "--probe-deadline", "400ms", "--json")...)
	p.until("measuring ")
	p.until("p50")
	if err := f.cluster.StallStore(2, 2*time.Second); err != nil {
		t.Fatal(err)
	}
	p.until("probe: store 2 (" + f.cluster.StoreAddrs()[1] + ") has acknowledged nothing for ")
	p.until("stalls no more")
	if err := f.cluster.SetSilentFault(3, playground.Lose, 1, 1); err != nil {
		t.Fatal(err)
	}
	_, before := p.said()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) { // of looking again
		if _, now := p.said(); strings.Count(now[len(before):], "\n") > 2 { // seconds, in which store 3 was probed
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the run does not go on")
		}
	}
	p.interrupt()
	if code := p.code(30 * time.Second); code != exitcode.Wrong {
		_, stderr := p.said()
		t.Fatalf("exit code %d, want %d: a write was lost\n%s", code, exitcode.Wrong, stderr)
	}
	r := p.report()
	if r.Operations == 0 || r.Probe == nil || r.Verdict.Code != exitcode.Wrong {
		t.Fatalf("%d operations, verdict %+v, probe %+v", r.Operations, r.Verdict, r.Probe)
	}
	if s := r.Probe.Stores[1]; s.LongestS < 1 || s.LongestS > 10 || r.Probe.StartS > 0 || r.Probe.StartS < -30 {
		t.Errorf("store 2 from %v s on: %+v", r.Probe.StartS, s)
	}
	if b := r.Probe.ReadBack; b.Lost != 1 || b.Wrong+b.Unread != 0 || b.Right != b.Acknowledged-1 {
		t.Errorf("%+v", b)
	}
	stalled := slices.IndexFunc(r.Events, func(e results.Event) bool { return e.Kind == analysis.StoreStalled })
	if stalled < 0 || r.Events[stalled].S < 0 {
		t.Errorf("events: %+v", r.Events)
	}
	for format, want := range map[string]string{"text": "\nprobe\n", "html": "<h2>Probe</h2>", "markdown": "probe: a small write to each of 3 stores"} {
		if stdout := do(t, "analyze", "--format", format, filepath.Join(f.out, r.RunID)); !strings.Contains(stdout, want) {
			t.Errorf("%s: %s", format, stdout)
		}
	}
}
