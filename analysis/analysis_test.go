// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/analysis/availability"
	"github.com/kvbench/kvbench/analysis/internal/golden"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/objective"
	"github.com/kvbench/kvbench/internal/prices"
	"github.com/kvbench/kvbench/internal/results"
)

// stall is what a schedule sees of a server that stands still from 5 s to 6 s.
func stall(slot time.Duration) time.Duration {
	if slot > 5*time.Second && slot < 6*time.Second {
		return 6*time.Second - slot
	}
	return 20 * time.Microsecond
}

// The percentiles of a report are those of the pooled samples of all workers.
func TestMergedIsPooled(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		f := &fixture{seed: seed, workers: 3, warmup: 1500 * time.Millisecond, window: 8 * time.Second, target: 900, wait: stall, result: mixed(7, 11, 0)}
		p := report(t, f.write(t))
		for _, k := range p.Kinds {
			var service, response []int64
			for _, s := range f.pooled {
				if s.outcome.String() == k.Outcome && (k.Kind == AllKinds || s.kind.String() == k.Kind) {
					service = append(service, s.service.Microseconds())
					response = append(response, s.response.Microseconds())
				}
			}
			if k.Operations != int64(len(service)) || k.Batches != k.Operations {
				t.Fatalf("seed %d: %s %s has %d operations, want %d", seed, k.Kind, k.Outcome, k.Operations, len(service))
			}
			if want := float64(len(service)) / 8; math.Abs(k.OpsPerS-want) > 1e-9 {
				t.Errorf("seed %d: %s %s is %g/s, want %g", seed, k.Kind, k.Outcome, k.OpsPerS, want)
			}
			within(t, k.ServiceUS, service)
			within(t, k.ResponseUS, response)
		}
	}
}

// within checks a latency against the samples that it describes.
func within(t *testing.T, l *Latency, samples []int64) {
	t.Helper()
	slices.Sort(samples)
	sum := 0.0
	for _, us := range samples {
		sum += float64(us)
	}
	if mean := sum / float64(len(samples)); math.Abs(l.Mean-mean) > mean*0.001+1 {
		t.Errorf("mean %g, of the samples %g", l.Mean, mean)
	}
	for q, got := range map[float64]int64{50: l.P50, 90: l.P90, 95: l.P95, 99: l.P99, 99.9: l.P999, 99.99: l.P9999, 100: l.Max} {
		rank := min(len(samples)-1, max(0, int(q/100*float64(len(samples))+0.5)-1))
		// Recording rounds to the next microsecond, a bucket ends up to 0.1 % higher.
		if want := samples[rank]; got < want || float64(got) > float64(want)*1.001+1 {
			t.Errorf("p%g is %d, of the samples %d", q, got, want)
		}
	}
}

func TestRates(t *testing.T) {
	t.Parallel()
	const s = time.Second
	fixed := func(d time.Duration) *fixture { return &fixture{window: d, achieved: 1000} }
	for _, c := range []struct {
		name       string
		f          *fixture
		operations int64
		rate       float64
		windowS    float64
		code       int
		note       string
	}{
		{"ten seconds", &fixture{workers: 3, warmup: 2 * s, window: 10 * s, target: 1200}, 12000, 1200, 10, exitcode.Valid, ""},
		{"0.4 s", fixed(400 * time.Millisecond), 400, 1000, 0.4, exitcode.Valid, ""},
		{"window cuts a second", &fixture{warmup: 300 * time.Millisecond, window: 1900 * time.Millisecond, achieved: 1000}, 1900, 1000, 1.9, exitcode.Valid, ""},
		{"target met by a hair", &fixture{window: 10 * s, target: 1000, achieved: 991}, 9910, 991, 10, exitcode.Valid, ""},
		{"target not reached", &fixture{window: 10 * s, target: 1000, achieved: 900}, 9000, 900, 10, exitcode.Target, ""},
		{"slow target, cut anywhere", &fixture{window: 1500 * time.Millisecond, target: 1.1}, 2, 2 / 1.5, 1.5, exitcode.Valid, ""},
		// One worker ends at 4 s, the other at 8: both ran in the first 4 s.
		{"by count", &fixture{workers: 2, count: []int64{2000, 4000}, achieved: 1000}, 6000, 1000, 4, exitcode.Valid, ""},
		{"by count, 0.4 s", &fixture{workers: 2, count: []int64{200, 200}, achieved: 1000}, 400, 1000, 0.4, exitcode.Valid, ""},
		{"by count, a worker without work", &fixture{workers: 2, count: []int64{2000, 0}, achieved: 1000}, 2000, 500, 4, exitcode.Valid, ""},
		{"a worker lost", &fixture{workers: 2, window: 10 * s, achieved: 1000, lost: map[int]time.Duration{1: 4500 * time.Millisecond}}, 6999, 1000, 4, exitcode.Degraded, "lost at 4.0 s"},
		{"lost in the warm-up", &fixture{workers: 2, warmup: 3 * s, window: 4 * s, achieved: 1000, lost: map[int]time.Duration{1: 1500 * time.Millisecond}}, 2000, 500, 4, exitcode.Degraded, "w1 measured nothing"},
		{"lost before the start", &fixture{workers: 3, window: 4 * s, target: 900, lost: map[int]time.Duration{1: 0}}, 2400, 600, 4, exitcode.Degraded, "w1 measured nothing"},
		{"lost, tolerated", &fixture{workers: 2, window: 10 * s, achieved: 1000, lost: map[int]time.Duration{1: 4500 * time.Millisecond},
			change: func(r *results.Run) { r.Limits.TolerateLost = 1 }}, 6999, 1000, 4, exitcode.Valid, "lost at 4.0 s"},
		{"journal never closed", &fixture{workers: 2, window: 5 * s, achieved: 1000, lost: map[int]time.Duration{1: 5 * s},
			change: func(r *results.Run) { r.Fleet[1].State, r.Fleet[1].LostAtS = results.Running, nil }}, 5000, 1000, 5, exitcode.Degraded, ""},
		{"stopped by the user", &fixture{warmup: s, window: 5 * s, achieved: 1000,
			change: func(r *results.Run) { at := 6.0; r.WindowS, r.StoppedS, r.State = 60, &at, results.Interrupted }}, 5000, 1000, 5, exitcode.Interrupted, "stopped after 6.0 s"},
		{"operationcount before the time is over", &fixture{window: 5 * s, achieved: 1000,
			change: func(r *results.Run) { r.WindowS, r.Plan.Operations = 60, 5000 }}, 5000, 1000, 5, exitcode.Valid, ""},
		{"the coordinator was killed", &fixture{window: 2 * s, achieved: 1000, change: func(r *results.Run) { r.State = results.Running }}, 2000, 1000, 2, exitcode.Degraded, ""},
		{"never took part", &fixture{window: 2 * s, achieved: 1000, change: func(r *results.Run) { r.Plan.Workers = 2 }}, 2000, 1000, 2, exitcode.Degraded, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := report(t, c.f.write(t))
			if p.Operations != c.operations {
				t.Errorf("%d operations, want %d", p.Operations, c.operations)
			}
			// The last operation of a run by count ends after its slot, by up to its service time.
			if math.Abs(p.OpsPerS-c.rate) > c.rate*0.01+1e-9 || math.Abs(p.WindowS-c.windowS) > 0.005 {
				t.Errorf("%g/s over %g s, want %g/s over %g s", p.OpsPerS, p.WindowS, c.rate, c.windowS)
			}
			if p.Verdict.Code != c.code {
				t.Errorf("verdict %+v, want %d", p.Verdict, c.code)
			}
			notes := strings.Join(p.Notes, "\n")
			if !strings.Contains(notes, c.note) || c.note == "" && notes != "" {
				t.Errorf("notes: %q, want %q", notes, c.note)
			}
			if len(p.Warnings) > 0 {
				t.Errorf("warnings: %v", p.Warnings)
			}
			sum := 0.0
			for _, w := range p.Workers {
				sum += w.OpsPerS
			}
			if math.Abs(sum-p.OpsPerS) > 1e-6*sum {
				t.Errorf("the workers' rates sum to %g, the fleet's is %g", sum, p.OpsPerS)
			}
		})
	}
}

// Directories that lack something are reported for what they are.
func TestMissing(t *testing.T) {
	t.Parallel()
	make := func(t *testing.T) string {
		f := &fixture{workers: 3, window: 3 * time.Second, achieved: 900}
		return f.write(t)
	}
	t.Run("a worker's directory", func(t *testing.T) {
		dir := make(t)
		remove(t, dir, "w1")
		p := report(t, dir)
		if p.Verdict.Code != exitcode.Degraded || p.Operations != 1800 || p.WorkersFinished != 2 || len(p.WorkersLost) != 1 || p.WorkersLost[0].Name != "w1" {
			t.Errorf("%+v, %d operations, lost %+v", p.Verdict, p.Operations, p.WorkersLost)
		}
	})
	t.Run("all directories", func(t *testing.T) {
		dir := make(t)
		for _, w := range []string{"w0", "w1", "w2"} {
			remove(t, dir, w)
		}
		p := report(t, dir)
		if p.Verdict.Code != exitcode.Degraded || p.OpsPerS != 0 {
			t.Errorf("%+v, %g/s", p.Verdict, p.OpsPerS)
		}
	})
	t.Run("the histograms", func(t *testing.T) {
		dir := make(t)
		remove(t, dir, "w1", results.HistogramsFile)
		p := report(t, dir)
		if p.Operations != 2700 || len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], results.HistogramsFile) {
			t.Errorf("%d operations, warnings %v", p.Operations, p.Warnings)
		}
	})
	t.Run("run.json", func(t *testing.T) {
		dir := make(t)
		remove(t, dir, results.RunFile)
		if _, err := Load(dir); err == nil {
			t.Error("no error")
		}
	})
	t.Run("damage", func(t *testing.T) {
		dir := make(t)
		path := filepath.Join(dir, "w0", results.SecondsFile)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.SplitAfter(text, []byte("\n"))
		lines[2] = []byte("0,1,what\n")
		if err := os.WriteFile(path, bytes.Join(lines, nil), 0o666); err != nil {
			t.Fatal(err)
		}
		p := report(t, dir)
		if len(p.Warnings) == 0 || p.Operations != 2400 {
			t.Errorf("%d operations, warnings %v", p.Operations, p.Warnings)
		}
	})
}

// slo gives a run objectives.
func slo(texts ...string) func(*results.Run) {
	return func(r *results.Run) {
		for _, text := range texts {
			o, err := objective.Parse(text)
			if err != nil {
				panic(err)
			}
			r.Limits.SLO = append(r.Limits.SLO, o)
		}
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for _, c := range []struct {
		name  string
		f     *fixture
		code  int
		by    string
		texts []string
	}{
		{"target met", &fixture{window: 5 * s, target: 1000, cpu: 0.2}, exitcode.Valid, ByTarget, []string{"valid", "target met"}},
		{"target met by a busy client", &fixture{window: 5 * s, target: 1000, cpu: 0.95}, exitcode.Valid, ByTarget, []string{"include waiting in the client"}},
		{"target met with too few threads", &fixture{window: 5 * s, target: 1000, cpu: 0.2, queued: 0.04}, exitcode.Valid, ByTarget, []string{"4 % of the operations were due while all threads had one"}},
		{"client", &fixture{window: 5 * s, achieved: 1000, cpu: 0.95}, exitcode.Valid, ByClient, []string{"95 %", "--driver stream"}},
		{"client's machine", &fixture{window: 5 * s, achieved: 1400, threads: 1, cpu: 0.6, machine: 0.99}, exitcode.Valid, ByClient, []string{"its machine was 99 % busy, 39 % of it or more with other processes"}},
		{"others on the client's machine", &fixture{window: 5 * s, achieved: 1400, threads: 1, cpu: 0.2, machine: 0.96, cpuWait: 0.7}, exitcode.Valid, ByOthers, []string{"limited by other processes on the client's machine", "w0 used 20 % of its 2 cores", "76 % of it or more with other processes"}},
		{"others that leave a lane little", &fixture{window: 5 * s, achieved: 64_000, threads: 64, cpu: 0.08, machine: 0.68, cpuWait: 0.35}, exitcode.Valid, ByOthers, []string{"wanted another 35 %"}},
		{"others that may be the limit", &fixture{window: 5 * s, achieved: 64_000, threads: 64, cpu: 0.08, machine: 0.68, cpuWait: 0.2}, exitcode.Valid, ByUnknown, []string{"waited for 2 s until they got it"}},
		{"others in the way of a schedule", &fixture{window: 5 * s, target: 2000, achieved: 1000, threads: 50, cpu: 0.2, machine: 0.96, cpuWait: 0.7}, exitcode.Target, ByOthers, nil},
		{"errors only", &fixture{window: 5 * s, achieved: 1000, result: failing}, exitcode.Degraded, ByErrors, []string{"100 % of the operations failed (limit: 0.1 %): 2,500 READ timeout, 2,500 UPDATE timeout"}},
		{"errors only, paced", &fixture{window: 5 * s, target: 1000, threads: 50, cpu: 0.3, result: failing}, exitcode.Degraded, ByErrors, []string{"100 % of the operations failed", "0 % of the target"}},
		{"misses only", &fixture{window: 5 * s, target: 1000, result: mixed(2, 0, 0)}, exitcode.Degraded, ByTarget, []string{"of the operations found no value (limit: 0.1 %), though nothing deletes"}},
		{"misses, allowed", &fixture{window: 5 * s, target: 1000, result: mixed(50, 0, 0), change: func(r *results.Run) { limit := 0.05; r.Limits.MissShare = &limit }}, exitcode.Valid, ByTarget, nil},
		{"misses, more than allowed", &fixture{window: 5 * s, target: 1000, result: mixed(10, 0, 0), change: func(r *results.Run) { limit := 0.05; r.Limits.MissShare = &limit; r.Spec["ttl"] = "60" }}, exitcode.Degraded, ByTarget, []string{"10 % of the operations found no value (limit: 5 %)"}},
		{"misses, for something deletes", &fixture{window: 5 * s, target: 1000, result: mixed(10, 0, 0), change: func(r *results.Run) { r.Spec["deleteproportion"] = "0.1" }}, exitcode.Valid, ByTarget, nil},
		{"misses, for rows live only so long", &fixture{window: 5 * s, target: 1000, result: mixed(10, 0, 0), change: func(r *results.Run) { r.Spec["ttl"] = "60" }}, exitcode.Valid, ByTarget, nil},
		{"exactly what is enough", &fixture{window: 10 * s, target: 1000, achieved: 990}, exitcode.Valid, ByTarget, nil},
		{"no answer for a while", &fixture{window: 12 * s, achieved: 1000, took: nil, wait: nil, pause: pause{at: 4300 * time.Millisecond, length: 4 * s}}, exitcode.Valid, ByServer, []string{"; no answer for 4 s at 4.3 s"}},
		{"no answer for a while, caught up", &fixture{window: 12 * s, target: 1000, pause: pause{at: 4300 * time.Millisecond, length: 4 * s}}, exitcode.Valid, ByTarget, []string{"valid; target met; no answer for 4 s at 4.3 s"}},
		{"no answer for a while, and all threads waited", &fixture{window: 12 * s, target: 1000, queued: 0.4, pause: pause{at: 4300 * time.Millisecond, length: 4 * s}}, exitcode.Valid, ByTarget, []string{"; no answer for 4 s at 4.3 s", "waited for the database to answer, which it did not for 4 s from 4.3 s on"}},
		{"no answer, and too little to catch up with on a machine that others use", &fixture{window: 8 * s, target: 1000, achieved: 780, threads: 8, pause: pause{at: 1600 * time.Millisecond, length: 2100 * time.Millisecond}, cpu: 0.03, machine: 0.99, cpuWait: 0.4}, exitcode.Target, ByUnknown, []string{"no answer for 2.1 s", "wanted another 40 %", "cannot be told"}},
		{"no answer in a load", &fixture{count: []int64{12_000}, achieved: 1000, pause: pause{at: 4300 * time.Millisecond, length: 4 * s}}, exitcode.Valid, ByServer, []string{"no answer for 4 s at 4.3 s"}},
		{"one of two is answered", &fixture{workers: 2, window: 12 * s, target: 1000, pause: pause{at: 4300 * time.Millisecond, length: 4 * s, worker: 1}}, exitcode.Valid, ByTarget, nil},
		{"hung to the end", &fixture{window: 8 * s, target: 1000, achieved: 1000, threads: 4, hang: 3 * s}, exitcode.Target, ByServer,
			[]string{"the stores never answered 4 calls; the first, sent at 3 s, had waited 10 s", "; no answer for 5 s at 3 s", "4,996 operations were due and never started, for all 4 threads waited"}},
		{"hung to the end, unpaced", &fixture{window: 8 * s, achieved: 1000, threads: 4, hang: 3 * s}, exitcode.Degraded, ByServer,
			[]string{"the stores never answered 4 calls; the first, sent at 3 s, had waited 10 s", "; no answer for 5 s at 3 s"}},
		{"hung to the end, on a busy machine", &fixture{window: 8 * s, target: 1000, threads: 4, hang: 3 * s, cpu: 0.2, machine: 0.96, cpuWait: 0.7}, exitcode.Target, ByServer, []string{"never answered 4 calls", "no answer"}},
		{"hung near the end", &fixture{window: 8 * s, achieved: 1000, threads: 4, hang: 7700 * time.Millisecond}, exitcode.Degraded, ByUnknown, []string{"the stores never answered 4 calls; the first, sent at 7.7 s, had waited 5.3 s"}},
		{"one of many hangs", &fixture{window: 8 * s, target: 1000, threads: 4, hang: 7997 * time.Millisecond}, exitcode.Degraded, ByTarget, []string{"the stores never answered", "target met"}},
		{"a tail that is cut off", &fixture{window: 8 * s, achieved: 100, threads: 2000, hang: 7500 * time.Millisecond, took: func(r *rand.Rand) time.Duration { return time.Duration(100+r.IntN(5000)) * time.Millisecond }}, exitcode.Valid, ByUnknown, nil},
		{"few are due", &fixture{window: 12 * s, target: 1}, exitcode.Valid, ByTarget, nil},
		{"some milliseconds", &fixture{window: 20 * time.Millisecond, achieved: 20_000, threads: 4, cpu: 12}, exitcode.Valid, ByUnknown, []string{"measured for only 20.0 ms, too short", "cannot be told"}},
		{"a verification", &fixture{window: 5 * s, achieved: 1400, threads: 1, change: func(r *results.Run) { r.Phase = "verify" }}, exitcode.Valid, ByUnknown, nil},
		{"given up on", &fixture{workers: 2, window: 5 * s, target: 1000, lost: map[int]time.Duration{0: 3 * s, 1: 3 * s}, change: func(r *results.Run) {
			at := 2.5
			r.State, r.StoppedS = results.Interrupted, &at
			for i := range r.Fleet {
				r.Fleet[i].State, r.Fleet[i].LostAtS = results.Abandoned, nil
			}
		}}, exitcode.Interrupted, ByTarget, []string{"interrupted; the user gave up on 2 of 2 workers"}},
		{"few connections", &fixture{window: 5 * s, achieved: 1400, threads: 1, cpu: 0.3, connections: 2}, exitcode.Valid, ByServer, []string{"limited by the server, or by the client's 2 connections to each store", "server.grpc-concurrency"}},
		{"enough connections", &fixture{window: 5 * s, workers: 3, achieved: 4200, threads: 1, cpu: 0.3, connections: 2}, exitcode.Valid, ByServer, nil},
		{"client without cores", &fixture{window: 5 * s, achieved: 1400, threads: 1, cpu: 0.5, cpuWait: 0.4, machine: 0.6}, exitcode.Valid, ByClient, []string{"wanted another 40 %", "60 % busy"}},
		{"a busy machine that does not hold it up", &fixture{window: 5 * s, achieved: 1400, threads: 1, cpu: 0.1, cpuWait: 0.1, machine: 0.99}, exitcode.Valid, ByServer, []string{"more threads"}},
		{"throttled by its limit", &fixture{window: 5 * s, achieved: 1400, threads: 1, cpu: 0.1, throttled: 0.3}, exitcode.Degraded, ByClient, []string{"worker w0 was throttled by its CPU limit from 0 s to 5 s, for 1.5 s of processor time; limited by the client, throttled by its CPU limit"}},
		{"throttled by its limit, and on target", &fixture{window: 5 * s, target: 1000, cpu: 0.1, throttled: 0.06}, exitcode.Degraded, ByClient, []string{"worker w0 was throttled"}},
		{"throttled a little", &fixture{window: 5 * s, target: 1000, cpu: 0.1, throttled: 0.02}, exitcode.Valid, ByTarget, nil},
		{"many short standstills", &fixture{window: 5 * s, target: 1000, cpu: 0.1, stalls: 200 * time.Millisecond}, exitcode.Valid, ByTarget, []string{"valid; target met; worker w0 stood still for 1.00 s in all, 20.0 ms at a time at most"}},
		{"a long standstill", &fixture{window: 5 * s, target: 1000, cpu: 0.1, stalls: 12 * s, machine: 0.9, cpuWait: 0.1}, exitcode.Degraded, ByClient, []string{"worker w0 stood still for 1.2 s", "; limited by the client"}},
		{"a long standstill on a machine that others use", &fixture{window: 5 * s, target: 1000, cpu: 0.046, stalls: 12 * s, machine: 1, cpuWait: 0.468}, exitcode.Degraded, ByUnknown, []string{"worker w0 stood still for 1.2 s", "its threads waited for 4.7 s for processors", "95.4 % of it or more with other processes", "cannot be told"}},
		{"some short standstills", &fixture{window: 5 * s, target: 1000, cpu: 0.1, stalls: 100 * time.Millisecond}, exitcode.Valid, ByTarget, nil},
		{"poisson", &fixture{window: 5 * s, target: 100, achieved: 94, change: func(r *results.Run) { r.Spec["arrival"] = "poisson" }}, exitcode.Valid, ByTarget, nil},
		{"not poisson", &fixture{window: 5 * s, target: 100, achieved: 94}, exitcode.Target, ByClient, nil},
		{"poisson, and too slow", &fixture{window: 5 * s, target: 1000, achieved: 900, change: func(r *results.Run) { r.Spec["arrival"] = "poisson" }}, exitcode.Target, ByClient, nil},
		{"server", &fixture{window: 5 * s, achieved: 1400, threads: 1, cpu: 0.3}, exitcode.Valid, ByServer, []string{"more threads"}},
		{"schedule not kept", &fixture{window: 5 * s, target: 2000, achieved: 1000, threads: 50, cpu: 0.3}, exitcode.Target, ByClient, []string{"50 % of the target of 2,000/s", "--driver stream"}},
		{"too few threads", &fixture{window: 5 * s, target: 2000, achieved: 1000, threads: 50, cpu: 0.3, queued: 0.4}, exitcode.Target, ByServer, []string{"40 % of the operations", "all 50 threads", "answers in bursts"}},
		{"errors", &fixture{window: 5 * s, achieved: 1000, result: mixed(0, 100, 0)}, exitcode.Degraded, ByUnknown, []string{"1 % of the operations failed"}},
		{"errors, allowed", &fixture{window: 5 * s, achieved: 1000, result: mixed(0, 100, 0),
			change: func(r *results.Run) { limit := 0.02; r.Limits.ErrorShare = &limit }}, exitcode.Valid, ByUnknown, nil},
		{"wrong, and more", &fixture{window: 5 * s, target: 2000, achieved: 1000, result: mixed(0, 100, 1000)}, exitcode.Wrong, ByClient, []string{"5 wrong values", "failed", "of the target"}},
		{"rows lost", &fixture{window: s, achieved: 1000, change: func(r *results.Run) {
			r.Verification = &results.Verification{Of: results.OfTable, Expected: 10, Missing: 2}
		}}, exitcode.Wrong, ByUnknown, []string{"2 missing"}},
		{"rows not read", &fixture{window: s, achieved: 1000, change: func(r *results.Run) {
			r.Verification = &results.Verification{Of: results.OfTable, Expected: 10, Unread: 2}
		}}, exitcode.Degraded, ByUnknown, []string{"not complete"}},
		{"rows verified", &fixture{window: s, achieved: 1000, change: func(r *results.Run) {
			r.Verification = &results.Verification{Of: results.OfTable, Expected: 10, Checked: 10}
		}}, exitcode.Valid, ByUnknown, nil},
		{"objective met", &fixture{window: 5 * s, target: 1000, change: func(r *results.Run) {
			r.Limits.SLO = []objective.Objective{{Kind: "READ", Time: "response", Metric: "p99", LimitUS: 5000}}
		}}, exitcode.Valid, ByTarget, nil},
		{"objective on a percentile of too few operations", &fixture{window: 5 * s, target: 100, change: func(r *results.Run) {
			r.Limits.SLO = []objective.Objective{{Kind: "READ", Time: "response", Metric: "p99_99", LimitUS: 1e9}}
		}}, exitcode.SLO, ByTarget, []string{"it is unknown whether the objective was met", "calls are too few for READ response p99.99"}},
		{"objective missed", &fixture{window: 5 * s, target: 1000, change: func(r *results.Run) {
			r.Limits.SLO = []objective.Objective{{Kind: "READ", Time: "response", Metric: "p99_9", LimitUS: 500}}
		}}, exitcode.SLO, ByTarget, []string{"READ response p99.9", "above 500 µs"}},
		{"objective met, one operation unanswered", &fixture{window: 5 * s, target: 1000, threads: 1, hang: 4999 * time.Millisecond, change: func(r *results.Run) {
			r.Limits.SLO = []objective.Objective{{Kind: "TOTAL", Time: "response", Metric: "p99", LimitUS: 5000}}
		}}, exitcode.Degraded, ByTarget, []string{"never answered"}},
		{"objective missed, by what was never answered", &fixture{window: 5 * s, target: 1000, threads: 4, hang: 4 * s, change: func(r *results.Run) {
			r.Limits.SLO = []objective.Objective{{Kind: "READ", Time: "response", Metric: "p99", LimitUS: 5000}, {Kind: "UPDATE", Time: "service", Metric: "max", LimitUS: 5_000_000}}
		}}, exitcode.Target, ByServer, []string{"no answer", "objective missed: READ response p99 is at least 94", "above 5.00 ms, with 500 that were never answered", "objective missed: UPDATE service max is at least 6.00 s"}},
		{"objective of which nobody knows", &fixture{window: 5 * s, target: 1000, threads: 4, hang: 4 * s, change: func(r *results.Run) {
			r.Limits.SLO = []objective.Objective{{Kind: "READ", Time: "response", Metric: "p99", LimitUS: 3_000_000}, {Kind: "TOTAL", Time: "service", Metric: "mean", LimitUS: 3_000_000}}
		}}, exitcode.Target, ByServer, []string{"no answer", "it is unknown whether the objective was met: READ response p99 is", "without 500 that were never answered", "TOTAL service mean"}},
		{"errors within their objective, which takes the place of the limit", &fixture{window: 5 * s, target: 1000, result: mixed(0, 100, 0), change: slo("errors < 2%", "READ errors < 3%")}, exitcode.Valid, ByTarget, []string{"valid"}},
		{"errors beyond their objective", &fixture{window: 5 * s, target: 1000, result: mixed(0, 100, 0), change: slo("errors < 0.5%")}, exitcode.SLO, ByTarget, []string{"objective missed: errors are 1 % (50 of 5,000 operations), not below 0.5 %"}},
		{"errors beyond their limit and objective", &fixture{window: 5 * s, target: 1000, result: mixed(0, 100, 0), change: func(r *results.Run) {
			limit := 0.005
			slo("errors < 0.5%")(r)
			r.Limits.ErrorShare = &limit
		}}, exitcode.Degraded, ByTarget, []string{"1 % of the operations failed (limit: 0.5 %)", "objective missed: errors are"}},
		{"errors of one kind leave the limit of all", &fixture{window: 5 * s, target: 1000, result: mixed(0, 100, 0), change: slo("READ errors < 2%")}, exitcode.Degraded, ByTarget, []string{"1 % of the operations failed (limit: 0.1 %)"}},
		{"errors, of what was answered", &fixture{window: 5 * s, target: 1000, threads: 4, hang: 4 * s, change: slo("errors < 1%")}, exitcode.Target, ByServer, []string{"no answer", "it is unknown whether the objective was met: errors are 0 % (0 of 4,000 operations) without 1,000 that were never answered"}},
		{"rate beyond its objective", &fixture{window: 5 * s, target: 1000, achieved: 970, change: slo("rate >= 98%", "rate >= 960/s")}, exitcode.SLO, ByClient, []string{"objective missed: rate is 97 % of the target (970/s of 1,000/s), below 98 % of the target"}},
		{"rate within its objective, which takes the place of the limit", &fixture{window: 5 * s, target: 1000, achieved: 970, change: slo("rate >= 95%")}, exitcode.Valid, ByClient, []string{"valid"}},
		{"rate a second", &fixture{window: 5 * s, achieved: 1000, change: slo("rate >= 1000/s", "READ rate >= 499/s")}, exitcode.Valid, ByUnknown, []string{"valid"}},
		{"rate a second, of a kind", &fixture{window: 5 * s, achieved: 1000, change: slo("READ rate >= 600/s", "SCAN rate >= 1/s")}, exitcode.SLO, ByUnknown, []string{"READ rate is 500/s, below 600/s", "SCAN rate is 0/s"}},
		{"stopped for an objective that is kept over the whole run", &fixture{window: 5 * s, target: 1000, result: mixed(0, 100, 0), change: func(r *results.Run) {
			slo("READ service p99 < 1s")(r)
			at := 5.0
			r.StoppedS, r.StopWhy, r.StopSLO = &at, "READ service p99 is 2.00 s", true
		}}, exitcode.SLO, ByTarget, []string{"stopped: READ service p99 is 2.00 s; 1 % of the operations failed"}},
		{"objectives, a worker lost", &fixture{workers: 2, window: 10 * s, target: 1000, lost: map[int]time.Duration{1: 4500 * time.Millisecond}, change: slo("errors < 1%", "rate >= 99%", "READ response p99 < 1s")}, exitcode.Degraded, ByTarget,
			[]string{"errors are 0 % (0 of 6,999 operations) of what was seen, and 1 of 2 workers lost", "unknown whether the objective was met: rate is 99.98 % of the target", "unknown whether the objective was met: READ response p99 is"}},
		{"objectives, a worker lost and tolerated", &fixture{workers: 2, window: 10 * s, target: 1000, lost: map[int]time.Duration{1: 4500 * time.Millisecond}, change: func(r *results.Run) {
			slo("errors < 1%", "READ response p99 < 1s")(r)
			r.Limits.TolerateLost = 1
		}}, exitcode.Valid, ByTarget, []string{"valid"}},
		{"objective not measured", &fixture{window: 5 * s, achieved: 1000, change: func(r *results.Run) {
			r.Limits.SLO = []objective.Objective{{Kind: "TOTAL", Time: "response", Metric: "p99", LimitUS: 500}}
		}}, exitcode.SLO, ByUnknown, []string{"was not measured"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := report(t, c.f.write(t))
			if p.Verdict.Code != c.code || p.Limit.By != c.by {
				t.Errorf("%+v, %+v, want %d, limited by %s", p.Verdict, p.Limit, c.code, c.by)
			}
			if (p.NoAnswer != nil) != strings.Contains(strings.Join(c.texts, " "), "no answer") {
				t.Errorf("no answer: %+v", p.NoAnswer)
			}
			for _, text := range c.texts {
				if !strings.Contains(p.Verdict.Text+" "+p.Limit.Why, text) {
					t.Errorf("%q is not in %q, %q", text, p.Verdict.Text, p.Limit.Why)
				}
			}
		})
	}
}

// What the client did to the latencies is noted where it decides nothing as well, and so is a worker that was lost for a time.
func TestNotes(t *testing.T) {
	t.Parallel()
	f := &fixture{workers: 2, window: 5 * time.Second, target: 1000, throttled: 0.02, stalls: 100 * time.Millisecond,
		events: []results.Event{{S: 3.5, Kind: results.WorkerBack, Worker: "w1", Text: "it answers again, and had gone on; not heard of from 1.0 s to 3.5 s"}}}
	p := report(t, f.write(t))
	want := []string{
		"Worker w0 was throttled by its CPU limit from 0 s to 5 s, for 0.1 s of processor time, of a window of 5 s: latencies contain that.",
		"Worker w0 stood still for 500 ms in all, 10.0 ms at a time at most, of a window of 5 s: latencies contain that.",
		"Worker w1 was lost and found again at 3.5 s: it answers again, and had gone on; not heard of from 1.0 s to 3.5 s.",
	}
	if !slices.Equal(p.Notes, want) || p.Verdict.Code != exitcode.Valid {
		t.Errorf("%+v, notes:\n%s", p.Verdict, strings.Join(p.Notes, "\n"))
	}
}

// A server that stands still shows in the response time, and hardly in the service time.
func TestStall(t *testing.T) {
	t.Parallel()
	f := &fixture{window: 10 * time.Second, target: 1000, wait: stall}
	p := report(t, f.write(t))
	all := p.Kinds[len(p.Kinds)-1]
	if all.Kind != AllKinds || all.ResponseUS.P999 < 900_000 || all.ServiceUS.P999 > 10_000 {
		t.Errorf("%s: response p99.9 %d µs, service p99.9 %d µs", all.Kind, all.ResponseUS.P999, all.ServiceUS.P999)
	}
}

func TestSeries(t *testing.T) {
	t.Parallel()
	f := &fixture{workers: 2, warmup: 1500 * time.Millisecond, window: 3 * time.Second, target: 1000, cpu: 0.5}
	p := report(t, f.write(t))
	if len(p.Series) != 5 {
		t.Fatalf("%d points", len(p.Series))
	}
	for i, pt := range p.Series {
		phase := "window"
		if i < 2 {
			phase = "warmup"
		}
		if pt.S != float64(i) || pt.Phase != phase || math.Abs(pt.OpsPerS-1000) > 10 || math.Abs(pt.Target-1000) > 1e-6 ||
			math.Abs(pt.CPUShare-0.5) > 1e-6 || pt.ServiceP50 == 0 || pt.ResponseP99 < pt.ServiceP50 {
			t.Errorf("point %d: %+v", i, pt)
		}
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	seed := uint64(0)
	load := func(f fixture) *Run {
		seed++
		f.seed, f.workers, f.window = seed, 2, cmp.Or(f.window, 40*time.Second)
		r, err := Load(f.write(t))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	base := fixture{achieved: 1000}
	fast := fixture{achieved: 1300, took: func(r *rand.Rand) time.Duration { return exponential(r) * 3 / 2 }}
	fast.change = func(r *results.Run) { r.Spec["readproportion"] = "1" }
	a, b := []*Run{load(base), load(base), load(base)}, []*Run{load(fast), load(fast), load(fast)}
	for _, tt := range []struct {
		name   string
		a, b   []*Run
		basis  Basis
		judged map[string]Judged // of headlines
	}{
		{"the same pair", a[:1], a[1:2], WithinRuns, map[string]Judged{"ops_per_s": Noise, "service_us_p50": Noise, "service_us_p99": Noise, "service_us_p99_9": Noise}},
		{"the same, one against several", a[:1], a[1:], BetweenRuns, map[string]Judged{"ops_per_s": Noise, "service_us_p50": Noise}},
		{"another pair", a[:1], b[:1], WithinRuns, map[string]Judged{"ops_per_s": Better, "service_us_p50": Worse, "service_us_p99": Worse}},
		{"another set", a, b, BetweenRuns, map[string]Judged{"ops_per_s": Better, "service_us_p50": Worse, "service_us_p99": Worse}},
		{"another set, the other way", b, a, BetweenRuns, map[string]Judged{"ops_per_s": Worse, "service_us_p50": Better, "service_us_p99": Better}},
		{"too short", a[:1], []*Run{load(fixture{achieved: 1000, window: 2 * time.Second})}, WithinRuns, map[string]Judged{"ops_per_s": Unknown, "service_us_p50": Unknown}},
		{"too few for a tail", a[:1], []*Run{load(fixture{achieved: 200})}, WithinRuns, map[string]Judged{"service_us_p99": Noise, "service_us_p99_9": Unknown}},
		{"errors", a[:1], []*Run{load(fixture{achieved: 1000, result: mixed(0, 10, 0)})}, WithinRuns, map[string]Judged{"ops_per_s": Unknown, "service_us_p99": Unknown}},
	} {
		c := Compare(tt.a, tt.b, DefaultSpread)
		if c.Basis != tt.basis {
			t.Errorf("%s: %s", tt.name, c.Basis)
		}
		for _, d := range c.Deltas {
			if want, ok := tt.judged[d.Metric]; ok && d.Kind == AllKinds && d.Judged != want {
				t.Errorf("%s: %s is %s, want %s (%+v)", tt.name, d.Metric, d.Judged, want, d)
			}
			if (d.Why == "") != (d.Judged != Unknown) {
				t.Errorf("%s: %+v", tt.name, d)
			}
			if d.Kind != AllKinds && d.Judged != NotJudged {
				t.Errorf("%s: only headlines are judged: %+v", tt.name, d)
			}
		}
		if c.Summary == "" {
			t.Errorf("%s: no summary", tt.name)
		}
	}
	c := Compare(a, b, DefaultSpread)
	if want := []string{"readproportion: 0.5 → 1"}; !reflect.DeepEqual(c.Differences, want) {
		t.Errorf("differences %v, want %v", c.Differences, want)
	}
	if c.Deltas[0].SpreadA == nil || *c.Deltas[0].SpreadA > 0.01 {
		t.Errorf("spread: %+v", c.Deltas[0])
	}
	if c := Compare(append(a[:2:2], b[2]), b[:2], DefaultSpread); !slices.ContainsFunc(c.Notes, func(n string) bool { return strings.Contains(n, "not of the same thing: readproportion") }) {
		t.Errorf("runs of different things: %q", c.Notes)
	}
}

// The document of three runs, byte for byte. It is what the tests of render show.
func TestGolden(t *testing.T) {
	t.Parallel()
	paced := &fixture{seed: 1, workers: 3, warmup: 2 * time.Second, window: 10 * time.Second, target: 2000, wait: stall, result: mixed(50, 200, 0), cpu: 0.3,
		lost: map[int]time.Duration{2: 9500 * time.Millisecond}, sent: sent}
	unpaced := &fixture{seed: 2, workers: 2, window: 5 * time.Second, achieved: 900, cpu: 0.9, result: quick, change: func(r *results.Run) {
		maps.Copy(r.Spec, map[string]string{"tikv.type": "txn", "tikv.clients": "1", "tikv.conncount": "4"})
	}}
	var runs []*Run
	hung := &fixture{seed: 3, window: 4 * time.Second, target: 200, threads: 2, hang: 2500 * time.Millisecond}
	for _, f := range []*fixture{paced, unpaced, hung} {
		r, err := Load(f.write(t))
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, r)
	}
	for _, r := range runs[:2] {
		r.Price(&prices.Prices{Currency: "USD", HoursPerMonth: 730, Cluster: 4, Clients: 1})
	}
	var got bytes.Buffer
	e := json.NewEncoder(&got)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(Summarize(runs...)); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "report.json", got.Bytes())
}

// docs/json.md speaks of every field.
func TestDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "docs", "json.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{Document{}, Report{}, LostWorker{}, Limit{}, Hang{}, Unanswered{}, NeverAnswered{}, KindRow{}, ErrorRow{}, ObjectiveRow{}, WorkerRow{}, Point{}, Curve{}, Latency{}, Traffic{}, Transactions{}, TransactionRow{}, CommandRow{}, PhaseRow{}, Sent{}, PerMessage{}, Fallback{}, StoreRow{}, Comparison{}, Delta{}, results.Verdict{}, results.Verification{}, results.Problem{}, results.Plan{}, results.Cluster{}, results.Event{},
		availability.Probe{}, availability.ClusterSeen{}, availability.StoreSeen{}, availability.Stall{}, availability.ReadBack{}, availability.BadWrite{}} {
		typ := reflect.TypeOf(v)
		for i := range typ.NumField() {
			if typ.Field(i).Anonymous || typ.Field(i).Tag.Get("json") == "-" {
				continue // it is in the list itself, or not in the document
			}
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if name == "" || !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("%v.%s: `%s` is not in docs/json.md", typ, typ.Field(i).Name, name)
			}
		}
	}
}

// Reports can be made anywhere: no gRPC and no TiKV comes with them.
func TestImports(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, dep := range strings.Fields(string(out)) {
		for _, bad := range []string{"google.golang.org/", "github.com/tikv/", "github.com/pingcap/"} {
			if strings.HasPrefix(dep, bad) {
				t.Errorf("it imports %s", dep)
			}
		}
	}
}

// What took longer than the histograms reach is nowhere shown as if it had been measured, and is not compared.
func TestBeyondTheRange(t *testing.T) {
	t.Parallel()
	r, err := Load((&fixture{window: 2 * time.Second, target: 1000, threads: 200, took: func(r *rand.Rand) time.Duration {
		if r.IntN(20) == 0 {
			return measure.Highest*time.Microsecond + time.Minute
		}
		return exponential(r)
	}}).write(t))
	if err != nil {
		t.Fatal(err)
	}
	p := r.Report()
	for _, text := range Contradictions(p) {
		t.Error(text)
	}
	for _, l := range []*Latency{p.total().ServiceUS, p.total().ResponseUS, p.Workers[0].ServiceUS} {
		if want := []string{"mean", "p99", "p99_9", "p99_99", "max"}; !slices.Equal(l.AtLeast, want) || MetricNamed("p99").Show(l) != "> 1 h" {
			t.Errorf("p99 is %s, at least %q", MetricNamed("p99").Show(l), l.AtLeast)
		}
	}
	beyond := 0
	for _, pt := range p.Series {
		beyond += len(pt.AtLeast)
		if hour := time.Hour.Microseconds(); pt.ServiceMax > hour || (pt.ServiceMax == hour) != slices.Contains(pt.AtLeast, "service_max_us") {
			t.Errorf("at %g s: %+v", pt.S, pt)
		}
	}
	if beyond == 0 {
		t.Error("no point of the series says that it is more than was measured")
	}
	for _, c := range p.Curves {
		if last := c.Points[len(c.Points)-1]; c.Range != time.Hour.Microseconds() || last[1] != float64(c.Range) {
			t.Errorf("curve %s %s: range %d, ends at %v", c.Kind, c.Time, c.Range, last)
		}
	}
	for _, h := range headlinesOf([]*Run{r}) {
		if why := h.tooFew(r); h.percent == 99 && !strings.Contains(why, "it is > 1 h") {
			t.Errorf("%s: %q", h.name, why)
		}
	}
	if n := r.numbers(anyKind); n["response_us_max"] != 0 || n["service_us_mean"] != 0 || n["service_us_p50"] == 0 {
		t.Errorf("numbers to compare: %v", n)
	}
	o := objective.Objective{Kind: AllKinds, Time: "service", Metric: "p99", LimitUS: 2 * time.Hour.Microseconds()}
	if text := objectiveRow(o, o.Judge(r.seen(p, o))).Found; !strings.Contains(text, "it is unknown whether the objective was met: TOTAL service p99 is > 1 h") {
		t.Errorf("%q", text)
	}
}
