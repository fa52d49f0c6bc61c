// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kvbench/kvbench/internal/control"
	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/dirlock"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/spec"
)

// WorkerStatus is what one worker says of itself.
type WorkerStatus struct {
	Name, Address string
	Version       string
	Run           *workerpb.RunStatus // active or last; nil: none
	Totals        *workerpb.Totals    // of that run
	Kept          []*workerpb.KeptRun // journals on its disk, the newest first
	Err           error               // it does not answer
}

const verbTimeout = 5 * time.Second

// Status asks every worker how it is, in the order in which they were named. It renews
// no lease. The error names those that do not answer; they are in the list as well.
func (f *Fleet) Status(ctx context.Context) ([]WorkerStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, verbTimeout)
	defer cancel()
	all := make([]WorkerStatus, len(f.members)+len(f.absent))
	for _, m := range slices.Concat(f.members, f.absent) {
		all[m.index] = WorkerStatus{Name: m.name, Address: m.address, Version: m.hello.GetVersion(), Err: m.failed}
	}
	errs := f.each(ctx, func(ctx context.Context, m *member) error {
		all[m.index].Err = all[m.index].ask(ctx, m)
		return all[m.index].Err
	})
	for i := range all {
		if all[i].Err != nil {
			all[i].Err = failure(all[i].Err)
		}
	}
	return all, f.partly(errs)
}

func (s *WorkerStatus) ask(ctx context.Context, m *member) error {
	hello, err := m.client.Hello(ctx, &workerpb.HelloRequest{})
	if err != nil {
		return err
	}
	if s.Run = hello.GetRun(); s.Run != nil {
		resp, err := m.client.Status(ctx, &workerpb.StatusRequest{RunId: s.Run.GetRunId()})
		if err != nil {
			return err
		}
		s.Run, s.Totals = resp.GetRun(), resp.GetTotals()
	}
	kept, err := m.client.ListRuns(ctx, &workerpb.ListRunsRequest{})
	s.Kept = kept.GetRuns()
	return err
}

// Stop ends a run wherever it is active, gives calls in flight so long, and
// returns how many workers have stopped it. It is an error if none runs it, and one of
// code [exitcode.Degraded] if some cannot be told.
func (f *Fleet) Stop(ctx context.Context, runID string, grace time.Duration) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, grace+verbTimeout)
	defer cancel()
	return f.whoRuns(ctx, runID, func(ctx context.Context, m *member) error {
		_, err := m.client.Stop(ctx, &workerpb.StopRequest{RunId: runID, GraceNanos: int64(grace)})
		return err
	})
}

// retargetLead is how far ahead a new target begins: all workers must have heard of it.
const retargetLead = time.Second

// SetTarget changes the target of a run that is active, in operations a second over
// the fleet, on all of its workers at one moment of the run's clock, which it returns.
// An error of code [exitcode.Degraded] names those that cannot be told.
func (f *Fleet) SetTarget(ctx context.Context, runID string, target float64) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, verbTimeout)
	defer cancel()
	runID, now, err := f.Clock(ctx, runID)
	if err != nil {
		return 0, err
	}
	at := now + retargetLead
	_, err = f.whoRuns(ctx, runID, func(ctx context.Context, m *member) error {
		_, err := m.client.SetTarget(ctx, &workerpb.SetTargetRequest{RunId: runID, Target: target, AtNanos: int64(at)})
		return err
	})
	return at, err
}

// Clock returns the id of a run that goes on, which is the only one if none is named, and
// what its clock shows.
func (f *Fleet) Clock(ctx context.Context, runID string) (id string, now time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, verbTimeout)
	defer cancel()
	var mu sync.Mutex
	clocks := make(map[string]time.Duration) // of runs that go on
	over := ""
	_, err = f.whoRuns(ctx, runID, func(ctx context.Context, m *member) error {
		resp, err := m.client.Status(ctx, &workerpb.StatusRequest{RunId: runID})
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		run := resp.GetRun()
		if run.GetState() == workerpb.State_STATE_FINISHED {
			over = run.GetRunId()
			return nil
		}
		clocks[run.GetRunId()] = max(clocks[run.GetRunId()], time.Duration(run.GetElapsedNanos()))
		return nil
	})
	if err != nil && exitcode.Of(err) != exitcode.Degraded {
		return "", 0, err
	}
	ids := slices.Sorted(maps.Keys(clocks))
	switch len(ids) {
	case 0:
		return "", 0, exitcode.With(exitcode.Usage, fmt.Errorf("run %s is over", over))
	case 1:
		return ids[0], clocks[ids[0]], nil
	}
	return "", 0, exitcode.With(exitcode.Usage, fmt.Errorf("the workers have several runs, %s: name one", strings.Join(ids, ", ")))
}

// Annotate notes on all workers of a run that goes on that something happened at a moment of the
// run's clock, and returns how many noted it. An error of code [exitcode.Degraded] names those that could not.
func (f *Fleet) Annotate(ctx context.Context, runID string, at time.Duration, text string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, verbTimeout)
	defer cancel()
	return f.whoRuns(ctx, runID, func(ctx context.Context, m *member) error {
		_, err := m.client.Annotate(ctx, &workerpb.AnnotateRequest{RunId: runID, AtNanos: int64(at), Text: text})
		return err
	})
}

// Collect copies what the workers keep of a run into out, in which the run's
// directory may be from before, and returns that directory. If it is not there, the
// run's record is the one that the workers were given at the start. Workers that do
// not have the run are passed over; it is an error if none has it. An error of code
// [exitcode.Degraded] comes with the directory, and names those that could not be asked,
// or that are not in the fleet.
// It refuses a directory that another process writes into. With fresh it copies all anew;
// what workers that do not answer have measured stays as it is there.
func (f *Fleet) Collect(ctx context.Context, runID, out string, fresh bool) (string, error) {
	dir, record, lock, err := f.folder(ctx, runID, out, fresh)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	_, partly := f.whoRuns(ctx, runID, func(ctx context.Context, m *member) error {
		list, err := m.client.ListRuns(ctx, &workerpb.ListRunsRequest{})
		if err != nil {
			return err
		}
		for _, k := range list.GetRuns() {
			if k.GetRunId() != runID {
				continue
			}
			path, err := results.WorkerDir(dir, k.GetName())
			if err != nil {
				return err
			}
			return m.copyJournal(ctx, runID, path, fresh, mostBytes(longest(record)))
		}
		return status.Error(codes.NotFound, "it has no journal of the run")
	})
	if partly != nil && exitcode.Of(partly) != exitcode.Degraded {
		return "", partly
	}
	if err := settle(record, dir); err != nil {
		return "", err
	}
	if err := results.WriteRun(dir, record); err != nil {
		return "", err
	}
	if unasked := f.unasked(record); len(unasked) > 0 {
		partly = exitcode.With(exitcode.Degraded, errors.Join(partly,
			fmt.Errorf("not among these workers, and not collected to the end: %s", strings.Join(unasked, ", "))))
	}
	return dir, partly
}

// unasked names the workers of a run that are not of this fleet, and of which there is not all: a pod
// that has not come back, or one that the user has not named.
func (f *Fleet) unasked(record *results.Run) (names []string) {
	for _, w := range record.Fleet {
		asked := func(m *member) bool { return m.name == w.Name || m.address == w.Address }
		if w.State != results.Finished && !slices.ContainsFunc(slices.Concat(f.members, f.absent), asked) {
			names = append(names, w.Name)
		}
	}
	return names
}

// folder returns the folder in out of a run that the workers have, locked, and what its record
// says. If there is none, or one that cannot be read and may be replaced, it makes one of
// the record that the workers were given at the start.
func (f *Fleet) folder(ctx context.Context, runID, out string, replace bool) (dir string, record *results.Run, lock *os.File, err error) {
	if err := results.CheckName(runID); err != nil {
		return "", nil, nil, exitcode.With(exitcode.Usage, fmt.Errorf("run: %w", err))
	}
	dir = filepath.Join(out, runID)
	record, err = results.ReadRun(dir)
	lost := errors.Is(err, fs.ErrNotExist) || err != nil && replace
	if lost {
		if record, err = f.record(ctx, runID); err == nil {
			err = os.MkdirAll(dir, 0o777)
		}
	}
	if err != nil {
		return "", nil, nil, err
	}
	lock, err = dirlock.Take(dir)
	if errors.Is(err, dirlock.ErrInUse) {
		err = exitcode.With(exitcode.Usage, fmt.Errorf("another kvbench writes into %s: wait until its run has ended, or use another folder with --out", dir))
	}
	if err != nil {
		return "", nil, nil, err
	}
	if lost {
		err = results.WriteRun(dir, record)
	} else { // as it is now that nobody else writes it
		record, err = results.ReadRun(dir)
	}
	if err != nil {
		lock.Close()
		return "", nil, nil, err
	}
	return dir, record, lock, nil
}

// longest is how long a run has taken at most, whose end need not be known here. An hour is for
// clocks that differ, and what comes after the time of a run.
func longest(record *results.Run) time.Duration {
	if record.WindowS > 0 {
		return results.Duration(record.WarmupS+record.WindowS+record.GraceS) + time.Hour
	}
	return time.Since(record.Start) + time.Hour
}

// copyJournal completes the copy of a worker's journal in dir, or replaces it by a fresh
// one once that is complete.
func (m *member) copyJournal(ctx context.Context, runID, dir string, fresh bool, most int64) error {
	to := dir
	if fresh {
		to += ".fresh"
		if err := os.RemoveAll(to); err != nil {
			return err
		}
	}
	j, err := openJournal(runID, to)
	if err != nil {
		return err
	}
	j.most = most
	switch differ, err := j.complete(ctx, m.client); {
	case status.Code(err) == codes.OutOfRange:
		return fmt.Errorf("%w: --fresh copies it anew", failure(err))
	case err != nil:
		return err
	case len(differ) > 0:
		return fmt.Errorf("the copy of %s in %s differs from the worker's journal: --fresh copies it anew", strings.Join(differ, ", "), to)
	case !fresh:
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(to, dir)
}

// record asks the workers for the record of a run that they were given when it started.
func (f *Fleet) record(ctx context.Context, runID string) (*results.Run, error) {
	ctx, cancel := context.WithTimeout(ctx, verbTimeout)
	defer cancel()
	var mu sync.Mutex
	var text []byte
	if _, err := f.whoRuns(ctx, runID, func(ctx context.Context, m *member) error {
		resp, err := m.client.Record(ctx, &workerpb.RecordRequest{RunId: runID})
		mu.Lock()
		defer mu.Unlock()
		if text == nil {
			text = resp.GetRecord()
		}
		return err
	}); err != nil && exitcode.Of(err) != exitcode.Degraded {
		return nil, err
	}
	if len(text) == 0 {
		return nil, exitcode.With(exitcode.Usage, fmt.Errorf("the workers were not given %s of run %s: give with --out the results directory that it was started with", results.RunFile, runID))
	}
	var record *results.Run
	text, err := control.Decompress(text, results.MaxRunBytes)
	if err == nil {
		record, err = results.ParseRun(text)
	}
	if err == nil && record.RunID != runID {
		err = fmt.Errorf("it is that of run %q", record.RunID)
	}
	if err != nil {
		return nil, fmt.Errorf("the record of run %s that the workers keep cannot be used: %w", runID, err)
	}
	return record, nil
}

// settle judges those workers of a run that nobody has watched to their end, or that could
// not be copied, by what their journals say: one that is complete is of a worker that did its part.
func settle(record *results.Run, dir string) error {
	open, settled := false, false
	for i := range record.Fleet {
		m := &record.Fleet[i]
		if m.State == results.Finished {
			continue
		}
		path, err := results.WorkerDir(dir, m.Name)
		if err != nil {
			return err
		}
		w, err := results.ReadWorker(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && w.State != results.Finished {
			open = open || m.State == results.Running
			continue
		}
		if err != nil {
			return err
		}
		switch end := w.EndS; w.Ended {
		case results.ByStop:
			if record.StoppedS == nil {
				record.StoppedS = &end
			}
			fallthrough
		case results.ByDuration, results.ByOperations:
			m.State, m.Reason, m.LostAtS, settled = results.Finished, "", nil, true
		default:
			if m.State == results.Running {
				m.State, m.Reason, m.LostAtS = results.Failed, w.Reason, &end
			}
		}
	}
	if open || record.State != results.Running && !settled {
		return nil
	}
	if record.State == results.Running || record.State == results.Failed {
		record.State = results.Finished
		if record.StoppedS != nil && record.StopWhy == "" {
			record.State = results.Interrupted
		}
	}
	if record.Phase != spec.Verify.String() {
		return nil
	}
	s, err := spec.ParseMap(record.Spec)
	if err == nil {
		record.Verification, err = verified(s, record, dir)
	}
	return err
}

// whoRuns calls do for all members, passes over those that do not know the run, and
// returns how many have done it. An error of code [exitcode.Degraded] names the others.
func (f *Fleet) whoRuns(ctx context.Context, runID string, do func(context.Context, *member) error) (int, error) {
	errs := f.each(ctx, do)
	done := len(f.members) - len(errs)
	for name, err := range errs {
		if status.Code(err) == codes.NotFound {
			delete(errs, name)
		}
	}
	switch {
	case done > 0:
		return done, f.partly(errs)
	case len(errs) > 0:
		return 0, failures(errs, len(f.members))
	}
	return 0, errors.Join(
		exitcode.With(exitcode.Unreachable, fmt.Errorf("none of the %d workers knows run %s", f.Size(), runID)),
		f.failed(f.absent))
}

// partly is what a verb that has done its work says of those that had no part in
// it: members by name, and the absent; nil if there are none.
func (f *Fleet) partly(errs map[string]error) error {
	all := maps.Clone(errs)
	for _, m := range f.absent {
		all[m.name] = m.failed
	}
	if len(all) == 0 {
		return nil
	}
	n := len(f.members) + len(f.absent)
	return &exitcode.Error{Code: exitcode.Degraded, Err: fmt.Errorf("%d of %d workers had no part in this:\n%w", len(all), n, failures(all, n))}
}
