// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/control"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/store/memory"
)

// reached is a fleet of those that answer.
func reached(t *testing.T, ps ...*process) *Fleet {
	t.Helper()
	var addresses []Address
	for _, p := range ps {
		addresses = append(addresses, Address{Name: p.address})
	}
	f, err := Reach(t.Context(), addresses, Options{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// TestAttach leads a detached run to its end, from another machine's folder.
func TestAttach(t *testing.T) {
	t.Parallel()
	db := &memory.DB{Delay: time.Millisecond}
	f, ps := trio(t, db)
	if _, err := f.Run(t.Context(), Job{RunID: "led", Spec: properties(t, nil), Out: t.TempDir(), Detach: true}); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	var shown bool
	s, err := reached(t, ps[2], ps[0], ps[1]).Attach(t.Context(), Job{RunID: "led", Out: out, Progress: func(s *Snapshot) {
		shown = shown || s.Stage == Measuring && s.Elapsed > 0 && s.Elapsed < s.Length
	}})
	if err != nil {
		t.Fatal(err)
	}
	if !shown {
		t.Error("it was not seen going on")
	}
	for i, m := range s.Run.Fleet {
		if m.State != results.Finished || m.Index != i || m.Name != ps[i].cfg.Name || m.Address != ps[i].address || slots(t, s.Dir, m.Name) != 400 {
			t.Errorf("%+v", m)
		}
	}
	if e := events(t, s.Dir); len(e["attach"]) != 1 || len(e["worker-finished"]) != 3 {
		t.Errorf("events %v", e)
	}
	// Again, when it is over and a worker has another process.
	ps[1].restart()
	for _, again := range []string{out, t.TempDir()} {
		s, err = reached(t, ps...).Attach(t.Context(), Job{RunID: "led", Out: again})
		if err != nil || s.Run.State != results.Finished || slots(t, s.Dir, "w1") != 400 {
			t.Errorf("%v, %+v", err, s)
		}
	}
}

// TestLeave: a detached run that is led can be left, and goes on; it can be led again, into the same folder and to its end. One that has a
// lease is not left.
func TestLeave(t *testing.T) {
	t.Parallel()
	f, ps := trio(t, &memory.DB{Delay: time.Millisecond})
	if _, err := f.Run(t.Context(), Job{RunID: "led", Spec: properties(t, map[string]string{"maxexecutiontime": "600"}), Out: t.TempDir(), Detach: true}); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	left := make(chan struct{})
	leave := sync.OnceFunc(func() { close(left) })
	s, err := reached(t, ps...).Attach(t.Context(), Job{RunID: "led", Out: out, Leave: left, Progress: func(s *Snapshot) {
		if !s.Alone {
			t.Error("it is not said to go on when it is left")
		}
		if s.Total.Operations > 0 {
			leave()
		}
	}})
	if !errors.Is(err, ErrLeft) || s.Run.State != results.Running {
		t.Fatalf("%v, %+v", err, s)
	}
	if e := events(t, s.Dir); len(e["leave"]) != 1 || len(e["stop"]) != 0 || len(e["worker-lost"]) != 0 {
		t.Errorf("events %v", e)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	s, err = reached(t, ps...).Attach(ctx, Job{RunID: "led", Out: out, Leave: make(chan struct{}), Progress: func(s *Snapshot) {
		if s.Total.Operations > 0 { // it went on
			interrupt()
		}
	}})
	if exitcode.Of(err) != exitcode.Interrupted || s.Run.State != results.Interrupted {
		t.Errorf("%v, %+v", err, s)
	}
	for _, m := range s.Run.Fleet {
		if m.State != results.Finished {
			t.Errorf("%+v", m)
		}
	}
}

// TestAttachToAPart: of a run's workers one does not answer, one is not given, and one goes on. It is stopped.
func TestAttachToAPart(t *testing.T) {
	t.Parallel()
	f, ps := trio(t, &memory.DB{Delay: time.Millisecond})
	if _, err := f.Run(t.Context(), Job{RunID: "led", Spec: properties(t, map[string]string{"maxexecutiontime": "600"}), Out: t.TempDir(), Detach: true}); err != nil {
		t.Fatal(err)
	}
	ps[1].cutOff()
	part := reached(t, ps[:2]...)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var once sync.Once
	s, err := part.Attach(ctx, Job{RunID: "led", Out: t.TempDir(), Progress: func(s *Snapshot) {
		if s.Workers[0].Operations > 0 && s.Workers[1].State == results.Lost {
			once.Do(interrupt)
		}
	}})
	if exitcode.Of(err) != exitcode.Interrupted {
		t.Errorf("%v", err)
	}
	states := []results.State{results.Finished, results.Lost, results.Lost}
	for i, m := range s.Run.Fleet {
		if m.State != states[i] {
			t.Errorf("%+v", m)
		}
	}
	if m := s.Run.Fleet[2]; !strings.Contains(m.Reason, "not among the workers") {
		t.Errorf("%+v", m)
	}
}

func TestAttachToNothing(t *testing.T) {
	t.Parallel()
	p := newProcess(t, "w0", &memory.DB{}, control.Security{}, quiet)
	for _, id := range []string{"unknown", "../x", ""} {
		s, err := reached(t, p).Attach(t.Context(), Job{RunID: id, Out: t.TempDir()})
		if code := exitcode.Of(err); s != nil || code != exitcode.Unreachable && code != exitcode.Usage {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// TestAllConnectionsBreak: all workers at once are out of reach for longer than others would
// be waited for. They go on, and so does the run.
func TestAllConnectionsBreak(t *testing.T) {
	t.Parallel()
	f, ps := trio(t, &memory.DB{Delay: time.Millisecond})
	var cut, open sync.Once
	var opened sync.WaitGroup
	var warned strings.Builder
	s, err := f.Run(t.Context(), Job{
		Spec: properties(t, map[string]string{"maxexecutiontime": "6"}), Out: t.TempDir(), LostAfter: 500 * time.Millisecond, Rejoin: 100 * time.Millisecond,
		Warn: func(text string) { warned.WriteString(text) },
		Progress: func(s *Snapshot) {
			if s.Elapsed < time.Second {
				return
			}
			cut.Do(func() {
				for _, p := range ps {
					p.cutOff()
				}
			})
			for _, w := range s.Workers {
				if w.State != results.Lost {
					return
				}
			}
			open.Do(func() {
				opened.Go(func() {
					time.Sleep(time.Second) // as others would not be waited for
					for _, p := range ps {
						p.listen()
					}
				})
			})
		},
	})
	opened.Wait()
	if err != nil {
		t.Errorf("%v", err)
	}
	if e := events(t, s.Dir); len(e["worker-lost"]) != 3 || len(e["worker-back"]) != 3 || len(e["worker-finished"]) != 3 {
		t.Errorf("events %v", e)
	}
	if !strings.Contains(warned.String(), "for all 3 workers to come back") {
		t.Errorf("it was said: %q", warned.String())
	}
}

// TestStopOnLoss: with more workers lost than are tolerated, the others stop.
func TestStopOnLoss(t *testing.T) {
	t.Parallel()
	f, ps := trio(t, &memory.DB{Delay: time.Millisecond})
	var once sync.Once
	s, err := f.Run(t.Context(), Job{
		Spec: properties(t, map[string]string{"maxexecutiontime": "600"}), Out: t.TempDir(), LostAfter: time.Second, Lease: 3 * time.Second,
		Limits: results.Limits{StopOnLoss: true},
		Progress: func(s *Snapshot) {
			if s.Workers[1].Operations > 0 {
				once.Do(ps[1].cutOff)
			}
		},
	})
	if exitcode.Of(err) != exitcode.Degraded || !strings.Contains(err.Error(), "w1 at ") {
		t.Errorf("%v", err)
	}
	if s.Run.StopWhy != "w1 lost, and --on-loss=stop" || s.Run.StoppedS == nil || s.Run.State != results.Finished {
		t.Errorf("%+v", s.Run)
	}
	if e := events(t, s.Dir); len(e["stop"]) != 1 || len(e["worker-finished"]) != 2 {
		t.Errorf("events %v", e)
	}
}
