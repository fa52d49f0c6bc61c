// SPDX-License-Identifier: Apache-2.0

package study

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/dirlock"
	"github.com/kvbench/kvbench/internal/exitcode"
)

// fake is a fleet and a cluster.
type fake struct {
	t       *testing.T
	loads   []int // by number of data
	runs    []*Run
	stopped []string
	run     func(ctx context.Context, r *Run) (Verdict, error) // nil: all is well
	load    func() error
}

func (f *fake) Load(_ context.Context, _ string, c *Cell, _ bool) error {
	f.loads = append(f.loads, c.Data)
	if f.load != nil {
		return f.load()
	}
	return nil
}

func (f *fake) Run(ctx context.Context, r *Run) (v Verdict, err error) {
	f.runs = append(f.runs, r)
	if f.run != nil {
		v, err = f.run(ctx, r)
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(r.Out, r.ID), 0o777)
	}
	return v, err
}

func (f *fake) Stop(_ context.Context, id string) error {
	f.stopped = append(f.stopped, id)
	return nil
}

func (f *fake) Say(text string) { f.t.Log(text) }

func made(t *testing.T, text string) *Study {
	t.Helper()
	f, err := Parse("s.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p, err := f.Plan(plain{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Make(t.TempDir(), Study{Name: "s", Rules: f.Rules, Cells: p.Cells, Steps: p.Steps}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // it may be closed
	return s
}

// reopened is the study as another process finds it.
func reopened(t *testing.T, s *Study) *Study {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Continue(s.Dir())
	// A command of another test, which was started while the lock was held, holds it until it is a process of its own.
	for until := time.Now().Add(10 * time.Second); errors.Is(err, dirlock.ErrInUse) && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
		again, err = Continue(s.Dir())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = again.Close() })
	return again
}

func TestConduct(t *testing.T) {
	t.Parallel()
	s := made(t, "load: once\nrepeats: 2\nvary: {threadcount: [1, 2], fieldlength: [10, 20]}")
	f := &fake{t: t}
	if err := s.Conduct(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if len(f.runs) != 8 || len(f.loads) != 2 || f.loads[0] == f.loads[1] || s.Left() != 0 {
		t.Errorf("%d runs, loads of %v, %d left", len(f.runs), f.loads, s.Left())
	}
	if f.runs[0].Title != "s: threadcount=1 fieldlength=10" || f.runs[7].Repeat != 2 || f.runs[0].Out != s.Dir() {
		t.Errorf("%+v, %+v", f.runs[0], f.runs[7])
	}
	s = reopened(t, s)
	if err := s.Conduct(t.Context(), f); err != nil || len(f.runs) != 8 {
		t.Errorf("what is done was done again: %d runs, %v", len(f.runs), err)
	}
}

// A target that is missed, or an objective that is broken, is a result. What fails is tried again when the study is continued.
func TestFailedRunIsSurvived(t *testing.T) {
	t.Parallel()
	s := made(t, "vary: {threadcount: '1,2,3,…,5'}")
	codes := []int{exitcode.Valid, exitcode.Degraded, exitcode.Target, exitcode.SLO, exitcode.Valid}
	f := &fake{t: t}
	f.run = func(context.Context, *Run) (Verdict, error) {
		return Verdict{Code: codes[(len(f.runs)-1)%len(codes)], Text: "so it was"}, nil
	}
	if err := s.Conduct(t.Context(), f); exitcode.Of(err) != exitcode.Degraded || len(f.runs) != 5 || s.Left() != 1 {
		t.Errorf("%v after %d runs, %d left", err, len(f.runs), s.Left())
	}
	s, f.run = reopened(t, s), nil
	if err := s.Conduct(t.Context(), f); err != nil || len(f.runs) != 6 || s.Left() != 0 || f.runs[5].Cell.Title() != "threadcount=2" {
		t.Errorf("%v after %d runs, %d left", err, len(f.runs), s.Left())
	}
	if a := s.Steps[1].Attempts; len(a) != 2 || a[0].State != Failed || a[0].Why != "so it was" || a[1].State != Done {
		t.Errorf("the attempts: %+v", a)
	}
}

func TestEnds(t *testing.T) {
	t.Parallel()
	fails := func(code int) func(context.Context, *Run) (Verdict, error) {
		return func(context.Context, *Run) (Verdict, error) { return Verdict{Code: code}, nil }
	}
	s := made(t, "vary: {threadcount: '1,2,3,…,9'}\nstop: {failures: 2}")
	f := &fake{t: t, run: fails(exitcode.Degraded)}
	err := s.Conduct(t.Context(), f)
	if exitcode.Of(err) != exitcode.Degraded || len(f.runs) != 2 || !strings.Contains(s.Ended, "2 runs failed in a row") {
		t.Errorf("failures: %v after %d runs, %q", err, len(f.runs), s.Ended)
	}

	s = made(t, "vary: {threadcount: '1,2,3,…,9'}\nstop: {within: 1m}\nproperties: {maxexecutiontime: 61}")
	f = &fake{t: t}
	if err := s.Conduct(t.Context(), f); exitcode.Of(err) != exitcode.Degraded || len(f.runs) != 0 || s.Ended == "" {
		t.Errorf("within: %v after %d runs, %q", err, len(f.runs), s.Ended)
	}

	s = made(t, "vary: {threadcount: '1,2,3,…,9'}")
	f = &fake{t: t, run: fails(exitcode.Wrong)}
	if err := s.Conduct(t.Context(), f); exitcode.Of(err) != exitcode.Wrong {
		t.Errorf("wrong values: %v", err)
	}

	for _, code := range []int{exitcode.Usage, exitcode.Unreachable} {
		s = made(t, "vary: {threadcount: '1,2,3,…,9'}")
		f = &fake{t: t, run: func(context.Context, *Run) (Verdict, error) {
			return Verdict{}, exitcode.With(code, errors.New("no such fleet"))
		}}
		if err := s.Conduct(t.Context(), f); exitcode.Of(err) != code || len(f.runs) != 1 || s.Begun() {
			t.Errorf("at once: %v after %d runs", err, len(f.runs))
		}
	}

	s = made(t, "vary: {threadcount: [1, 2]}\nload: once")
	f = &fake{t: t, load: func() error { return exitcode.With(exitcode.Degraded, errors.New("half of it")) }}
	if err := s.Conduct(t.Context(), f); exitcode.Of(err) != exitcode.Degraded || len(f.runs) != 0 || len(f.loads) != 2 {
		t.Errorf("a load that failed: %v after %d runs and %d loads", err, len(f.runs), len(f.loads))
	}
}

// However often a study is interrupted or killed, and whatever fails, in the end each step was done exactly once.
func TestContinued(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	s := made(t, "repeats: 3\nvary: {threadcount: '1,2,3,…,6'}\nstop: {failures: 100}")
	done := make(map[string]int)
	broken := 0
	for range 200 {
		f := &fake{t: t}
		ctx, cancel := context.WithCancel(t.Context())
		f.run = func(ctx context.Context, r *Run) (Verdict, error) {
			switch random.IntN(8) {
			case 0:
				return Verdict{Code: exitcode.Degraded}, nil
			case 1:
				cancel()
				return Verdict{}, exitcode.With(exitcode.Interrupted, ctx.Err())
			case 2:
				panic("killed") // as far as the record is concerned
			}
			done[r.Cell.Title()]++
			return Verdict{}, nil
		}
		err := func() (err error) {
			defer func() {
				if recover() != nil {
					err = errors.New("killed")
				}
			}()
			return s.Conduct(ctx, f)
		}()
		cancel()
		broken += len(f.stopped)
		s = reopened(t, s)
		if err == nil {
			break
		}
	}
	if s.Left() != 0 || len(done) != 6 || broken == 0 {
		t.Fatalf("%d steps left, %d cells, %d runs were broken off", s.Left(), len(done), broken)
	}
	for title, n := range done {
		if n != 3 {
			t.Errorf("%s was done %d times, want 3", title, n)
		}
	}
}

// Above a value that broke an objective nothing begins, in the same repeat and of what is equal otherwise; all else is run.
func TestSkipHigher(t *testing.T) {
	t.Parallel()
	const text = "repeats: 2\nvary: {threadcount: [1, 2, 4, 8], fieldlength: [10, 20]}\nslo: errors < 1%\nstop: {skip-higher: threadcount}"
	s := made(t, text)
	f := &fake{t: t}
	broke := map[string]bool{"threadcount=2 fieldlength=10 #1": true, "threadcount=4 fieldlength=10 #2": true, "threadcount=8 fieldlength=20 #1": true}
	f.run = func(_ context.Context, r *Run) (v Verdict, err error) {
		if broke[fmt.Sprintf("%s #%d", r.Cell.Title(), r.Repeat)] {
			v.Broken = "so it was"
		}
		return v, nil
	}
	if err := s.Conduct(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	var skipped []string
	for i, step := range s.Steps {
		if step.Skipped != "" {
			skipped = append(skipped, fmt.Sprintf("%s #%d", s.Cells[step.Cell].Title(), step.Repeat))
			if len(step.Attempts) > 0 || !strings.HasPrefix(s.SkippedBy(i), "at threadcount=") || !strings.HasSuffix(s.SkippedBy(i), " so it was") {
				t.Errorf("step %d is skipped, but %+v, %q", i, step.Attempts, s.SkippedBy(i))
			}
		}
	}
	want := "threadcount=4 fieldlength=10 #1, threadcount=8 fieldlength=10 #1, threadcount=8 fieldlength=10 #2"
	if got := strings.Join(skipped, ", "); got != want || len(f.runs) != 13 || s.Left() != 0 || s.Skipped() != 3 {
		t.Errorf("skipped: %s, want %s; %d runs, %d left", got, want, len(f.runs), s.Left())
	}
	if s = reopened(t, s); s.Skipped() != 3 || s.Conduct(t.Context(), f) != nil || len(f.runs) != 13 {
		t.Errorf("what was skipped is run when the study is continued: %d runs", len(f.runs))
	}
}

// Whatever the order is, what breaks and where the study is killed: what is skipped has a lower value that broke, and of what is run
// nothing began after such.
func TestSkipHigherInAnyOrder(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 8))
	skipped := 0
	for n := range 5 {
		s := made(t, fmt.Sprintf("repeats: 2\norder: random\nseed: %d\nvary: {threadcount: '1,2,3,…,6'}\nvariants: {A: , B: }\nslo: errors < 1%%\nstop: {skip-higher: threadcount, failures: 1000}", n))
		type curve struct {
			variant string
			repeat  int
		}
		lowest := make(map[curve]float64) // value that broke
		for {
			ctx, cancel := context.WithCancel(t.Context())
			f := &fake{t: t}
			f.run = func(ctx context.Context, r *Run) (v Verdict, err error) {
				at, of := r.Cell.number("threadcount"), curve{r.Cell.Variant, r.Repeat}
				if low, ok := lowest[of]; ok && at > low {
					t.Errorf("%s #%d began, after %v had broken an objective", r.Cell.Title(), r.Repeat, low)
				}
				switch random.IntN(8) {
				case 0:
					return Verdict{Code: exitcode.Degraded, Broken: "of what failed"}, nil
				case 1:
					cancel()
					return v, exitcode.With(exitcode.Interrupted, ctx.Err())
				case 2:
					v.Broken = "so it was"
					if low, ok := lowest[of]; !ok || at < low {
						lowest[of] = at
					}
				}
				return v, nil
			}
			err := s.Conduct(ctx, f)
			cancel()
			s = reopened(t, s)
			if err == nil {
				break
			}
		}
		for _, step := range s.Steps {
			c := &s.Cells[step.Cell]
			low, ok := lowest[curve{c.Variant, step.Repeat}]
			if step.Skipped != "" {
				skipped++
				if !ok || low >= c.number("threadcount") {
					t.Errorf("%s #%d is skipped, and nothing below it broke an objective", c.Title(), step.Repeat)
				}
			} else if a := step.Last(); a == nil || a.State != Done {
				t.Errorf("%s #%d is neither done nor skipped", c.Title(), step.Repeat)
			}
		}
	}
	if skipped == 0 {
		t.Error("nothing was skipped")
	}
}

func TestInterruptedPause(t *testing.T) {
	t.Parallel()
	s := made(t, "pause: 1h\nvary: {threadcount: [1, 2]}")
	ctx, cancel := context.WithCancel(t.Context())
	f := &fake{t: t}
	f.run = func(context.Context, *Run) (Verdict, error) {
		time.AfterFunc(10*time.Millisecond, cancel)
		return Verdict{}, nil
	}
	if err := s.Conduct(ctx, f); exitcode.Of(err) != exitcode.Interrupted || s.Left() != 1 {
		t.Errorf("%v, %d left", err, s.Left())
	}
}

// One process at a time carries a study on, and what is no study is refused.
func TestOpen(t *testing.T) {
	t.Parallel()
	s := made(t, "vary: {threadcount: [1, 2]}")
	if _, err := Continue(s.Dir()); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second one: %v", err)
	}
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "is no folder of a study") {
		t.Errorf("an empty folder: %v", err)
	}
	if _, err := Make(t.TempDir(), Study{Name: "../x"}, time.Now()); err == nil {
		t.Error("a name that leads elsewhere was taken")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(`{"version":1,"rules":{"pause":"5s","stop":{"within":"0s"}},"cells":[{"properties":{"threadcount":"1"}}],"steps":[{"cell":0,"repeat":1,"attempts":[{"run_id":"a"}]}]}`)
	f.Add(`{"version":1,"cells":[{"settings":[{"key":"a"}]},{}],"steps":[{"cell":1}]}`)
	f.Add(`{"version":1,"rules":{"stop":{"skip_higher":"a"}},"cells":[{"settings":[{"key":"a","value":"1"}]},{"settings":[{"key":"a","value":"2"}]}],"steps":[{"cell":0,"attempts":[{"run_id":"r","state":"done","broken":"b"}]},{"cell":1,"skipped":"../r"}]}`)
	f.Add(`{"version":2}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := decode([]byte(text))
		if err != nil {
			return
		}
		s.Length()
		for i, step := range s.Steps { // what is read can be relied on
			s.Lower(i)
			if s.SkippedBy(i); filepath.Dir(filepath.Join("dir", step.Skipped)) != "dir" && step.Skipped != "" {
				t.Fatalf("run %q leads out of the folder", step.Skipped)
			}
			if s.Cells[step.Cell].Title(); len(s.Cells[step.Cell].Settings) != len(s.Cells[0].Settings) {
				t.Fatal("cells differ in what is varied")
			}
			for _, a := range step.Attempts {
				if filepath.Dir(filepath.Join("dir", a.RunID)) != "dir" {
					t.Fatalf("run %q leads out of the folder", a.RunID)
				}
			}
		}
	})
}
