// SPDX-License-Identifier: Apache-2.0

package study

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/results"
)

// Runner does what a study consists of. Its methods are called one after the other.
type Runner interface {
	// Load makes the records of a cell be there: again, if they are to be written whether or not they are there. out is the
	// folder that gets the load's own.
	Load(ctx context.Context, out string, c *Cell, again bool) error
	// Run does a run, and tells its verdict, as [exitcode] has it. An error without a verdict is why there is none.
	Run(ctx context.Context, r *Run) (Verdict, error)
	// Stop ends a run that was broken off, if a worker still has it.
	Stop(ctx context.Context, runID string) error
	// Say tells the user how the study goes.
	Say(text string)
}

// Verdict is that of a run.
type Verdict struct {
	Code   int
	Text   string
	Broken string // the first objective that was not kept, and how; "": none
}

// Run is a run to do.
type Run struct {
	ID     string
	Out    string // folder that gets the run's
	Title  string
	Repeat int
	Cell   *Cell
	Limits results.Limits

	// During is what is done when the run's clock shows At; nil: nothing. Text is the event's.
	During func(context.Context) error
	At     time.Duration
	Text   string
}

// Conduct does all steps that are not done. What fails is kept as failed, and the study goes on, until too
// many have failed in a row. An [exitcode.Error] says that steps are left, failed, or found something wrong; it is
// [exitcode.Interrupted] when ctx has ended.
func (s *Study) Conduct(ctx context.Context, r Runner) error {
	c := &conduct{Study: s, runner: r, began: time.Now(), loaded: make(map[int]bool)}
	s.Ended = ""
	if err := c.stopBroken(ctx); err != nil {
		return err
	}
	for i := range s.Steps {
		if s.Steps[i].Done() {
			continue
		}
		if c.skip(i) {
			continue
		}
		if s.Ended = c.over(i); s.Ended != "" {
			break
		}
		if err := c.step(ctx, i); err != nil {
			return errors.Join(err, s.save())
		}
	}
	if err := s.save(); err != nil {
		return err
	}
	return s.verdict()
}

// conduct is a study while it is carried out.
type conduct struct {
	*Study
	runner Runner
	began  time.Time
	loaded map[int]bool // by number of data

	tried, failures int // steps; the latter since one was done
}

// stopBroken ends the runs that were broken off with their process.
func (c *conduct) stopBroken(ctx context.Context) error {
	for i := range c.Steps {
		a := c.Steps[i].Last()
		if a == nil || a.State != Running {
			continue
		}
		if err := c.runner.Stop(ctx, a.RunID); err != nil {
			return err
		}
		a.State, a.Code, a.Why = Interrupted, exitcode.Interrupted, "it was broken off with its process"
		c.runner.Say(fmt.Sprintf("run %d of %d: %s, repeat %d: run %s was broken off with its process, and counts nowhere", i+1, len(c.Steps),
			c.Cells[c.Steps[i].Cell].Title(), c.Steps[i].Repeat, a.RunID))
	}
	return c.save()
}

// skip tells whether a step is not to be made, since an objective was broken at a lower value, and notes that.
func (c *conduct) skip(i int) bool {
	run, cell := c.Lower(i)
	if run == nil {
		return false
	}
	step := &c.Steps[i]
	step.Skipped = run.RunID
	c.runner.Say(fmt.Sprintf("run %d of %d: %s, repeat %d of %d: skipped, since %s broke an objective", i+1, len(c.Steps),
		c.Cells[step.Cell].Title(), step.Repeat, c.Rules.Repeats, cell.Title()))
	return true
}

// over says why the next step does not begin; nothing if it does.
func (c *conduct) over(next int) string {
	if c.failures >= c.Rules.Stop.Failures {
		return fmt.Sprintf("%d runs failed in a row", c.failures)
	}
	within := time.Duration(c.Rules.Stop.Within)
	if length := c.Cells[c.Steps[next].Cell].Length(); within > 0 && time.Since(c.began)+length > within {
		return fmt.Sprintf("the next run would not end within %v", within)
	}
	return ""
}

// step does one step. An error ends the study.
func (c *conduct) step(ctx context.Context, i int) error {
	step := &c.Steps[i]
	cell := &c.Cells[step.Cell]
	if c.tried > 0 {
		if err := sleep(ctx, time.Duration(c.Rules.Pause)); err != nil {
			return interrupted()
		}
	}
	a := Attempt{RunID: results.NewRunID(time.Now()), State: Running, Start: time.Now()}
	step.Attempts = append(step.Attempts, a)
	if err := c.save(); err != nil {
		return err
	}
	c.runner.Say(fmt.Sprintf("run %d of %d: %s, repeat %d of %d", i+1, len(c.Steps), cell.Title(), step.Repeat, c.Rules.Repeats))
	v, err := c.attempt(ctx, i, a.RunID)
	last := step.Last()
	last.End, last.Code, last.Why = time.Now(), v.Code, v.Text
	if err != nil {
		last.Code, last.Why = exitcode.Of(err), err.Error()
	}
	switch {
	case ctx.Err() != nil || last.Code == exitcode.Interrupted:
		last.State = Interrupted
		return interrupted()
	case err != nil || v.Code != exitcode.Valid && v.Code != exitcode.Target && v.Code != exitcode.SLO:
		last.State = Failed
		c.failures++
		c.runner.Say(fmt.Sprintf("run %d of %d failed: %s", i+1, len(c.Steps), last.Why))
	default:
		last.State, last.Broken = Done, v.Broken
		c.failures = 0
	}
	c.tried++
	// What is wrong with flags or addresses is wrong with every step.
	if c.tried == 1 && err != nil && (last.Code == exitcode.Usage || last.Code == exitcode.Unreachable) {
		return err
	}
	return c.save()
}

// attempt loads what is to be loaded, and runs a cell between its hooks.
func (c *conduct) attempt(ctx context.Context, i int, runID string) (v Verdict, err error) {
	step := c.Steps[i]
	cell := &c.Cells[step.Cell]
	if c.Rules.Load == Each || c.Rules.Load == Once && !c.loaded[cell.Data] {
		if err := c.runner.Load(ctx, c.dir, cell, c.Rules.Load == Each); err != nil {
			return v, exitcode.With(exitcode.Of(err), fmt.Errorf("load: %w", err))
		}
		c.loaded[cell.Data] = true
	}
	run := &Run{ID: runID, Out: c.dir, Title: c.Name + ": " + cell.Title(), Repeat: step.Repeat, Cell: cell, Limits: c.Limits}
	hooks := c.Rules.Hooks
	if err := c.hook(ctx, hooks.Before, "before", run); err != nil {
		return v, err
	}
	if h := hooks.During; h != nil {
		run.At, run.Text = time.Duration(h.At), h.Text
		if run.Text == "" {
			run.Text = "hook: " + firstLine(h.Command, results.MaxAnnotation-len("hook: "))
		}
		run.During = func(ctx context.Context) error { return c.hook(ctx, h, "during", run) }
	}
	v, err = c.runner.Run(ctx, run)
	if ctx.Err() != nil {
		return v, err // who interrupts wants no more commands
	}
	if failed := c.hook(ctx, hooks.After, "after", run); failed != nil {
		// The run is what it is; the next one may not be.
		c.runner.Say(failed.Error())
	}
	return v, err
}

// hook runs a command, and keeps its output in the study's folder.
func (c *conduct) hook(ctx context.Context, h *Hook, when string, run *Run) error {
	if h == nil {
		return nil
	}
	dir := filepath.Join(c.dir, "hooks")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	environment := []string{
		"KVBENCH_STUDY=" + c.dir,
		"KVBENCH_RUN=" + run.ID,
		"KVBENCH_RESULTS=" + c.RunDir(run.ID),
		"KVBENCH_CELL=" + run.Cell.Title(),
		"KVBENCH_VARIANT=" + run.Cell.Variant,
		"KVBENCH_REPEAT=" + strconv.Itoa(run.Repeat),
	}
	if s, err := run.Cell.Spec(); err == nil {
		environment = append(environment, "KVBENCH_PD="+strings.Join(s.TiKV.PD, ","))
	}
	if err := h.run(ctx, filepath.Join(dir, run.ID+"-"+when+".txt"), environment); err != nil {
		return exitcode.With(exitcode.Degraded, fmt.Errorf("the command %s the run: %w", when, err))
	}
	return nil
}

// verdict is that of a study that is over.
func (s *Study) verdict() error {
	failed, wrong := 0, 0
	for i := range s.Steps {
		if a := s.Steps[i].Last(); a != nil && a.State == Failed && !s.Steps[i].Done() {
			failed++
			if a.Code == exitcode.Wrong {
				wrong++
			}
		}
	}
	left := s.Left() - failed
	switch {
	case wrong > 0:
		return exitcode.With(exitcode.Wrong, fmt.Errorf("%d of %d runs found wrong values", wrong, len(s.Steps)))
	case s.Ended != "":
		return exitcode.With(exitcode.Degraded, fmt.Errorf("the study has ended: %s; %d of %d runs failed, %d are left", s.Ended, failed, len(s.Steps), left))
	case failed > 0:
		return exitcode.With(exitcode.Degraded, fmt.Errorf("%d of %d runs failed", failed, len(s.Steps)))
	}
	return nil
}

func interrupted() error {
	return exitcode.With(exitcode.Interrupted, errors.New("interrupted"))
}

// sleep waits, unless ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// firstLine is that of a text, of at most so many bytes.
func firstLine(text string, most int) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	for len(line) > most {
		runes := []rune(line)
		line = string(runes[:len(runes)-1])
	}
	return line
}
