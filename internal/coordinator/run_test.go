// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"iter"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/control"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/store/memory"
)

// trio is three workers on one database.
func trio(t *testing.T, db *memory.DB) (*Fleet, []*process) {
	t.Helper()
	var ps []*process
	for _, name := range []string{"w0", "w1", "w2"} {
		ps = append(ps, newProcess(t, name, db, control.Security{}, quiet))
	}
	return fleetOf(t, control.Security{}, ps...), ps
}

// slots counts the slots in a worker's copied journal: operations, and what was
// skipped because the machine was too busy at the end.
func slots(t *testing.T, dir, name string) (n int64) {
	t.Helper()
	for iv := range intervals(t, dir, name) {
		n += iv.Started + iv.Skipped
	}
	return n
}

// operations counts what has ended in a worker's copied journal.
func operations(t *testing.T, dir, name string) (n int64) {
	t.Helper()
	for iv := range intervals(t, dir, name) {
		n += iv.OK + iv.Missing + iv.Wrong + iv.Failed
	}
	return n
}

func intervals(t *testing.T, dir, name string) iter.Seq[*results.Interval] {
	return func(yield func(*results.Interval) bool) {
		t.Helper()
		j, err := results.OpenJournal(filepath.Join(dir, name), func(err error) { t.Errorf("%s: %v", name, err) })
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		for iv, err := range j.All() {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if !yield(iv) {
				return
			}
		}
	}
}

func events(t *testing.T, dir string) map[string][]string {
	t.Helper()
	found := make(map[string][]string)
	for e, err := range results.Events(dir) {
		if err != nil {
			t.Fatal(err)
		}
		found[e.Kind] = append(found[e.Kind], e.Worker+" "+e.Text)
	}
	return found
}

// nothingLeft checks that all drivers and sessions are closed.
func nothingLeft(t *testing.T, db *memory.DB) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for db.Opened.Load() != 0 {
		if time.Now().After(deadline) {
			t.Fatalf("%d drivers and sessions are still open", db.Opened.Load())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	db := &memory.DB{Delay: time.Millisecond}
	f, _ := trio(t, db)
	var snapshots atomic.Int64
	var whole atomic.Int64 // snapshots in which all three workers are
	s, err := f.Run(t.Context(), Job{
		Spec: properties(t, map[string]string{"warmuptime": "1"}), Out: t.TempDir(),
		Versions: map[string]string{"kvbench": "test"},
		Progress: func(s *Snapshot) {
			snapshots.Add(1)
			// Of a worker that did not report in time nothing is known: its share of the target
			// and its histograms are not in the sum.
			t := s.Total
			if t.Service != nil && t.Response != nil && t.Service.TotalCount() > 0 && t.Response.TotalCount() > 0 && math.Abs(t.Target-600) < 1 {
				whole.Add(1)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, db)
	run, err := results.ReadRun(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if run.State != results.Finished || run.WarmupS != 1 || run.WindowS != 2 || !run.Paced || run.Target != 600 || run.Plan.Workers != 3 {
		t.Errorf("run.json: %+v", run)
	}
	var all int64
	for i, m := range run.Fleet {
		if m.State != results.Finished || m.Index != i || m.LostAtS != nil {
			t.Errorf("worker %+v", m)
		}
		if m.StartSkewUS < 0 || m.StartSkewUS > 500_000 || m.ClockErrorUS <= 0 {
			t.Errorf("worker %s: skew %v µs, clock error %v µs", m.Name, m.StartSkewUS, m.ClockErrorUS)
		}
		w, err := results.ReadWorker(filepath.Join(s.Dir, m.Name))
		if err != nil || w.State != results.Finished {
			t.Errorf("%s: %v, state %s", m.Name, err, w.State)
		}
		// The starts are one moment: clocks agree on it within the error of their comparison.
		if d := w.Start.Sub(run.Start).Abs(); d > 100*time.Millisecond {
			t.Errorf("%s starts %v off", m.Name, d)
		}
		if n := slots(t, s.Dir, m.Name); n != 600 {
			t.Errorf("%s has %d slots, want 600", m.Name, n)
		}
		all += operations(t, s.Dir, m.Name)
	}
	if got := db.Gets.Load() - 3; got != all { // without the probes
		t.Errorf("the database saw %d operations, the journals have %d", got, all)
	}
	if n := snapshots.Load(); n < 4 {
		t.Errorf("%d snapshots", n)
	}
	if whole.Load() == 0 {
		t.Error("no snapshot has the whole target, and latencies")
	}
	if e := events(t, s.Dir); len(e["start"]) != 1 || len(e["worker-finished"]) != 3 {
		t.Errorf("events %v", e)
	}
}

func TestLoadIsExact(t *testing.T) {
	t.Parallel()
	db := &memory.DB{}
	f, _ := trio(t, db)
	load := map[string]string{"dotransactions": "false", "recordcount": "10007", "batch.size": "20", "target": "0", "insertorder": "ordered"}
	s, err := f.Run(t.Context(), Job{Spec: properties(t, load), Out: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if db.Keys() != 10007 || db.Puts.Load() != 10007 || s.Run.Phase != "load" {
		t.Errorf("%d keys of %d puts in phase %s", db.Keys(), db.Puts.Load(), s.Run.Phase)
	}
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	for _, stalled := range []bool{false, true} {
		db := &memory.DB{Delay: time.Millisecond}
		f, _ := trio(t, db)
		ctx, interrupt := context.WithCancel(t.Context())
		var once sync.Once
		var at time.Time
		s, err := f.Run(ctx, Job{
			Spec: properties(t, map[string]string{"maxexecutiontime": "600", "grace": "60"}), Out: t.TempDir(),
			Progress: func(s *Snapshot) {
				if s.Elapsed > time.Second && s.Workers[0].Operations >= 100 {
					once.Do(func() { db.Stalled.Store(stalled); at = time.Now(); interrupt() })
				}
			},
		})
		interrupt()
		// A second of grace, and the journals; what a loaded machine adds is not ours.
		if took := time.Since(at); took > 10*time.Second {
			t.Errorf("stalled %v: it took %v", stalled, took)
		}
		if exitcode.Of(err) != exitcode.Interrupted {
			t.Errorf("stalled %v: %v", stalled, err)
		}
		nothingLeft(t, db)
		if s.Run.State != results.Interrupted || s.Run.StoppedS == nil || *s.Run.StoppedS < 1 {
			t.Errorf("run.json: state %s", s.Run.State)
		}
		if n := operations(t, s.Dir, "w0"); n < 100 {
			t.Errorf("stalled %v: %d operations are kept", stalled, n)
		}
	}
}

func TestInterruptBeforeTheStart(t *testing.T) {
	t.Parallel()
	db := &memory.DB{Down: true}
	f, _ := trio(t, db)
	ctx, interrupt := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer interrupt()
	out := t.TempDir()
	s, err := f.Run(ctx, Job{Spec: properties(t, nil), Out: out})
	if s != nil || exitcode.Of(err) != exitcode.Interrupted {
		t.Errorf("%v %v", s, err)
	}
	nothingLeft(t, db)
	if left, _ := os.ReadDir(out); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestGiveUp(t *testing.T) {
	t.Parallel()
	db := &memory.DB{Delay: time.Millisecond}
	f, ps := trio(t, db)
	abandon := make(chan struct{})
	var once sync.Once
	s, err := f.Run(t.Context(), Job{
		Spec: properties(t, map[string]string{"maxexecutiontime": "600"}), Out: t.TempDir(), Abandon: abandon, Lease: 3 * time.Second,
		Progress: func(s *Snapshot) {
			if s.Elapsed > time.Second {
				once.Do(func() { close(abandon) })
			}
		},
	})
	if exitcode.Of(err) != exitcode.Interrupted || s.Run.State != results.Interrupted {
		t.Errorf("%v, state %s", err, s.Run.State)
	}
	nothingLeft(t, db) // by their leases
	f2 := fleetOf(t, control.Security{}, ps...)
	all, err := f2.Status(t.Context())
	if err != nil {
		t.Error(err)
	}
	for _, w := range all {
		if w.Err != nil || !strings.Contains(w.Run.GetError(), "silent") {
			t.Errorf("%s: %v, %q", w.Name, w.Err, w.Run.GetError())
		}
	}
}

func TestClusterIsNotThere(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes the worker's whole patience of 10 s")
	}
	db := &memory.DB{Down: true}
	f, _ := trio(t, db)
	begin := time.Now()
	out := t.TempDir()
	s, err := f.Run(t.Context(), Job{Spec: properties(t, nil), Out: out})
	if took := time.Since(begin); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
	if s != nil || exitcode.Of(err) != exitcode.Unreachable || strings.Count(err.Error(), "\n") > 0 || !strings.Contains(err.Error(), "all 3 workers: the cluster at PD 10.9.8.7:2379") {
		t.Errorf("%v", err)
	}
	nothingLeft(t, db)
	if left, _ := os.ReadDir(out); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestSecondCoordinator(t *testing.T) {
	t.Parallel()
	db := &memory.DB{Delay: time.Millisecond}
	f, ps := trio(t, db)
	var second error
	var once sync.Once
	_, err := f.Run(t.Context(), Job{
		RunID: "first", Spec: properties(t, nil), Out: t.TempDir(),
		Progress: func(s *Snapshot) {
			if s.Elapsed > 0 {
				once.Do(func() {
					_, second = fleetOf(t, control.Security{}, ps[1:]...).Run(t.Context(), Job{Spec: properties(t, nil), Out: t.TempDir()})
				})
			}
		},
	})
	if err != nil {
		t.Errorf("the first: %v", err)
	}
	if exitcode.Of(second) != exitcode.Unreachable || !strings.Contains(second.Error(), "busy with run first since") {
		t.Errorf("the second: %v", second)
	}
}

func TestOneWorkerCannotStart(t *testing.T) {
	t.Parallel()
	db := &memory.DB{}
	good, bad := newProcess(t, "good", db, control.Security{}, quiet), newProcess(t, "bad", db, control.Security{}, quiet)
	f := fleetOf(t, control.Security{}, good, bad)
	// Its journal cannot be made.
	if err := os.RemoveAll(bad.cfg.Data); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bad.cfg.Data, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := f.Run(t.Context(), Job{Spec: properties(t, nil), Out: t.TempDir()})
	if s != nil || exitcode.Of(err) != exitcode.Unreachable || !strings.HasPrefix(err.Error(), "bad: ") {
		t.Errorf("%v", err)
	}
	nothingLeft(t, db)
	if n := db.Gets.Load(); n > 2 {
		t.Errorf("%d operations were done", n)
	}
}

// TestLostWorker cuts a worker off mid-run for good.
func TestLostWorker(t *testing.T) {
	t.Parallel()
	db := &memory.DB{Delay: time.Millisecond}
	f, ps := trio(t, db)
	var cut sync.Once
	shown := false
	s, err := f.Run(t.Context(), Job{
		Spec: properties(t, map[string]string{"maxexecutiontime": "12"}), Out: t.TempDir(),
		LostAfter: time.Second, Rejoin: time.Second, Lease: 6 * time.Second,
		Progress: func(s *Snapshot) {
			if s.Workers[1].Operations > 300 { // two seconds have been heard of, so that one is copied
				cut.Do(ps[1].cutOff)
			}
			shown = shown || s.Stage == Measuring && s.Workers[1].State == results.Lost
		},
	})
	if exitcode.Of(err) != exitcode.Degraded || !strings.Contains(err.Error(), "w1 at ") {
		t.Errorf("%v", err)
	}
	if !shown {
		t.Error("progress did not show the loss during the run")
	}
	for _, m := range s.Run.Fleet {
		switch {
		case m.Name != "w1":
			if m.State != results.Finished || slots(t, s.Dir, m.Name) != 2400 {
				t.Errorf("%+v", m)
			}
		case m.State != results.Lost || m.LostAtS == nil || *m.LostAtS < 1 || *m.LostAtS > 11:
			t.Errorf("%+v", m)
		default:
			if n := operations(t, s.Dir, "w1"); n < 100 || n >= 2400 {
				t.Errorf("%d operations of the lost worker are kept", n)
			}
		}
	}
	if e := events(t, s.Dir); len(e["worker-lost"]) != 1 {
		t.Errorf("events %v", e)
	}
}

// TestWorkerComesBack cuts a worker off for a while; it goes on meanwhile.
func TestWorkerComesBack(t *testing.T) {
	t.Parallel()
	db := &memory.DB{Delay: time.Millisecond}
	f, ps := trio(t, db)
	var cut, open sync.Once
	s, err := f.Run(t.Context(), Job{
		Spec: properties(t, map[string]string{"maxexecutiontime": "10"}), Out: t.TempDir(), LostAfter: time.Second,
		Progress: func(s *Snapshot) {
			if s.Elapsed > time.Second {
				cut.Do(ps[1].cutOff)
			}
			if s.Workers[1].State == results.Lost {
				open.Do(ps[1].listen)
			}
		},
	})
	if err != nil {
		t.Errorf("%v", err)
	}
	for _, m := range s.Run.Fleet {
		if m.State != results.Finished || m.LostAtS != nil || slots(t, s.Dir, m.Name) != 2000 {
			t.Errorf("%+v", m)
		}
	}
	if e := events(t, s.Dir); len(e["worker-lost"]) != 1 || len(e["worker-back"]) != 1 {
		t.Errorf("events %v", e)
	}
}

// TestWorkerIsRestarted replaces a worker mid-run, as a pod's controller does.
func TestWorkerIsRestarted(t *testing.T) {
	t.Parallel()
	db := &memory.DB{Delay: time.Millisecond}
	f, ps := trio(t, db)
	var once sync.Once
	s, err := f.Run(t.Context(), Job{
		Spec: properties(t, map[string]string{"maxexecutiontime": "4"}), Out: t.TempDir(),
		Progress: func(s *Snapshot) {
			if s.Elapsed > 1500*time.Millisecond {
				once.Do(ps[1].restart)
			}
		},
	})
	if exitcode.Of(err) != exitcode.Degraded || !strings.Contains(err.Error(), "w1 at ") {
		t.Errorf("%v", err)
	}
	if m := s.Run.Fleet[1]; m.State != results.Lost || m.Reason != "it was restarted" {
		t.Errorf("%+v", m)
	}
	want, err := os.ReadFile(filepath.Join(ps[1].cfg.Data, s.RunID, "w1", results.SecondsFile))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(s.Dir, "w1", results.SecondsFile))
	if err != nil || string(got) != string(want) {
		t.Errorf("the journal was not copied to its end: %d of %d bytes, %v", len(got), len(want), err)
	}
}

func TestWorkerIsShutDown(t *testing.T) {
	t.Parallel()
	db := &memory.DB{Delay: time.Millisecond}
	f, ps := trio(t, db)
	var once sync.Once
	s, err := f.Run(t.Context(), Job{
		Spec: properties(t, nil), Out: t.TempDir(), Limits: results.Limits{TolerateLost: 1},
		Progress: func(s *Snapshot) {
			if s.Elapsed > time.Second {
				once.Do(func() { ps[2].worker.Close(time.Second) })
			}
		},
	})
	if err != nil { // one lost worker is tolerated
		t.Errorf("%v", err)
	}
	if m := s.Run.Fleet[2]; m.State != results.Lost || m.Reason != "it was shut down" || m.LostAtS == nil {
		t.Errorf("%+v", m)
	}
}

// TestDialer reaches a worker through a connection that somebody else makes.
func TestDialer(t *testing.T) {
	t.Parallel()
	p := newProcess(t, "pod-0", &memory.DB{}, control.Security{}, quiet)
	var dialled atomic.Int64
	f, err := Connect(t.Context(), []Address{{Name: "pod-0", Dial: func(ctx context.Context, address string) (net.Conn, error) {
		dialled.Add(1)
		if address != "pod-0" {
			t.Errorf("dialled %q", address)
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", p.address)
	}}}, Options{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if dialled.Load() != 1 {
		t.Errorf("dialled %d times", dialled.Load())
	}
}
