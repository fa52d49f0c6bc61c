// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/playground"
	"github.com/kvbench/kvbench/internal/search"
)

// accuracy in the environment makes TestSearchAccuracy run, which takes long: `make search-accuracy`.
const accuracy = "KVBENCH_SEARCH"

// queue starts a fleet on one store of known capacity.
func queue(t *testing.T, s playground.Service, workers int) *fleet {
	f := newFleetOn(t, playground.Options{Stores: 1}, workers)
	if err := f.cluster.SetService(1, s); err != nil { // after the load
		t.Fatal(err)
	}
	return f
}

// recordIn reads what a search has printed, which must be what it has kept, and checks that each cell's run is there.
func recordIn(t *testing.T, f *fleet, printed string) *search.Record {
	t.Helper()
	var r search.Record
	if err := json.Unmarshal([]byte(printed), &r); err != nil {
		t.Fatalf("%v\n%s", err, printed)
	}
	dir := filepath.Join(f.out, r.ID)
	var kept search.Record
	if text, err := os.ReadFile(filepath.Join(dir, search.RecordFile)); err != nil {
		t.Error(err)
	} else if err := json.Unmarshal(text, &kept); err != nil || len(kept.Cells) != len(r.Cells) || kept.Text != r.Text || kept.Reason != r.Reason {
		t.Errorf("%s has %+v, %v; printed is %+v", search.RecordFile, kept, err, r)
	}
	for _, c := range r.Cells {
		if run, err := analysis.Load(filepath.Join(dir, c.RunID)); err != nil {
			t.Error(err)
		} else if p := run.Report(); p.TargetOps != c.PerS || c.State != search.Unknown && math.Abs(p.WindowS-c.LengthS) > 0.001 {
			t.Errorf("run %s had a target of %v/s over %v s, in the search %+v", c.RunID, p.TargetOps, p.WindowS, c)
		}
	}
	return &r
}

// TestSearchAgainstAQueue: rates below the capacity of a store are held, up to the bound that was given; less than what it takes is not.
func TestSearchAgainstAQueue(t *testing.T) {
	if testing.Short() {
		t.Skip("processes of their own")
	}
	t.Parallel()
	f := queue(t, playground.Service{Time: 10 * time.Millisecond}, 1) // 100/s
	lengths := []string{"--cell", "1s", "--verify", "1500ms", "--warmup", "0s", "--budget", "1m", "--json"}
	held := start(t, append(f.verb("search", "-w", "read", "--slo", "READ response p50 < 2s", "--start", "20", "--max", "40"), lengths...)...)
	broken := queue(t, playground.Service{Time: 10 * time.Millisecond}, 1)
	not := start(t, append(broken.verb("search", "-w", "read", "--slo", "READ service p50 < 5ms", "--min", "30", "--max", "40"), lengths...)...)

	held.exits(exitcode.Valid, time.Minute)
	stdout, stderr := held.said()
	r := recordIn(t, f, stdout)
	if r.Reason != search.AtMax || len(r.Cells) < 3 || *r.VerifiedPerS != 40 || *r.LowPerS != 40 || r.HighPerS != nil || len(r.Objectives) != 3 {
		t.Errorf("%s", stdout)
	}
	if !strings.Contains(stderr, "READ response p50 < 2.00 s, errors < 0.1 %, rate >= 99 % of the target") || !strings.Contains(stderr, "40/s for 1s   kept") {
		t.Errorf("%s", stderr)
	}

	code := not.code(time.Minute)
	stdout, _ = not.said()
	r = recordIn(t, broken, stdout)
	if last := r.Cells[len(r.Cells)-1]; last.State == search.Client && strings.Contains(last.Why, "with other processes") {
		t.Skipf("this machine is too busy for an answer: %s", last.Why)
	}
	if code != exitcode.SLO {
		t.Errorf("exit code %d", code)
	}
	if r.Reason != search.BelowMin || r.LowPerS != nil || r.VerifiedPerS != nil || !strings.HasPrefix(r.Text, "30/s, the lowest rate that was to be tried (--min), are not held: READ service p50 is 1") {
		t.Errorf("%s", stdout)
	}
}

// TestSearchIsInterrupted: Ctrl-C ends the cell that runs, and what is known is kept and said.
func TestSearchIsInterrupted(t *testing.T) {
	if testing.Short() {
		t.Skip("processes of their own")
	}
	t.Parallel()
	f := queue(t, playground.Service{Time: time.Millisecond}, 1)
	run := start(t, f.verb("search", "-w", "read", "--slo", "READ response p50 < 2s", "--start", "20", "--cell", "1s", "--verify", "10m", "--warmup", "0s", "--budget", "1h", "--max", "20", "--json")...)
	run.until("to verify it")
	run.interrupt()
	run.exits(exitcode.Interrupted, 20*time.Second)
	stdout, _ := run.said()
	if r := recordIn(t, f, stdout); r.Reason != search.Interrupted || r.LowPerS == nil || *r.LowPerS != 20 || !strings.HasPrefix(r.Text, "interrupted; so far, 20/s or more are held") {
		t.Errorf("%s", stdout)
	}
}

// TestSearchAccuracy: against queues whose highest rate within an objective follows from theory, nine answers in ten are within 3 % of it.
func TestSearchAccuracy(t *testing.T) {
	if os.Getenv(accuracy) == "" {
		t.Skip("it takes an hour: set " + accuracy)
	}
	// Of M/M/1, response times are exponential with the rate µ − λ: P(T > t) = e^−(µ−λ)t, so that p99 = ln 100 ÷ (µ − λ). Of D/D/1 there is no
	// wait up to µ, and above it grows without end.
	mm1 := func(capacity, p99 float64) float64 { return capacity - math.Log(100)/p99 }
	near, all := 0, 0
	for _, c := range []struct {
		name, arrival, slo string
		service            playground.Service
		want               float64 // operations a second
	}{
		{"DD1", "uniform", "READ response p99 < 50ms", playground.Service{Time: 2 * time.Millisecond}, 500},
		{"DD4", "uniform", "READ response p99 < 50ms", playground.Service{Time: 5 * time.Millisecond, Servers: 4}, 800},
		{"MM1", "poisson", "READ response p99 < 50ms", playground.Service{Time: time.Millisecond, Spread: playground.Exponential}, mm1(1000, 0.05)},
		{"MM1 short", "poisson", "READ response p99 < 25ms", playground.Service{Time: time.Millisecond, Spread: playground.Exponential}, mm1(1000, 0.025)},
		{"MM1 slow", "poisson", "READ response p99 < 100ms", playground.Service{Time: 2 * time.Millisecond, Spread: playground.Exponential}, mm1(500, 0.1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 2 {
				f := queue(t, c.service, 0)
				run := start(t, append(f.verb("search", "-w", "read", "--arrival", c.arrival, "--slo", c.slo), "--threads", "400",
					"--start", "200", "--cell", "8s", "--verify", "24s", "--warmup", "2s", "--budget", "15m", "--json")...)
				run.code(20 * time.Minute)
				stdout, stderr := run.said()
				r := recordIn(t, f, stdout)
				all++
				if r.VerifiedPerS == nil {
					t.Logf("%s: in theory %.1f/s; %s\n%s", c.name, c.want, r.Text, stderr)
					continue
				}
				off := *r.VerifiedPerS/c.want - 1
				if math.Abs(off) <= 0.03 {
					near++
				}
				t.Logf("%s: in theory %.1f/s (%+.1f %%): %s; %d runs, %.0f s", c.name, c.want, off*100, r.Text, len(r.Cells), r.TookS)
			}
		})
	}
	if near*10 < all*9 {
		t.Errorf("%d of %d answers are within 3 %%", near, all)
	}
}

// A search that ends since its runs showed nothing says what to do, and one that found something has no such advice.
func TestAnswerHasAdvice(t *testing.T) {
	t.Parallel()
	r := &search.Result{Reason: search.ByUnknown, Why: "crowded", Low: 100}
	if text := answer(r, &search.Config{}, "use more workers"); !strings.HasSuffix(text, "showed nothing: crowded\nuse more workers") {
		t.Errorf("%s", text)
	}
	r.Reason = search.Found
	if text := answer(r, &search.Config{}, "use more workers"); strings.Contains(text, "more workers") {
		t.Errorf("%s", text)
	}
}
