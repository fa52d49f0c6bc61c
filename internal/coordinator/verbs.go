// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/worker"
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

const verbTimeout = 10 * time.Second

// Status asks every worker how it is. It renews no lease.
func (f *Fleet) Status(ctx context.Context) []WorkerStatus {
	ctx, cancel := context.WithTimeout(ctx, verbTimeout)
	defer cancel()
	all := make([]WorkerStatus, len(f.members))
	var wg sync.WaitGroup
	for i, m := range f.members {
		wg.Go(func() {
			all[i] = WorkerStatus{Name: m.name, Address: m.address, Version: m.hello.GetVersion()}
			if err := all[i].ask(ctx, m); err != nil {
				all[i].Err = failure(err)
			}
		})
	}
	wg.Wait()
	return all
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
// returns how many workers have stopped it. It is an error if none runs it.
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
func (f *Fleet) SetTarget(ctx context.Context, runID string, target float64) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, verbTimeout)
	defer cancel()
	var mu sync.Mutex
	var now time.Duration
	if _, err := f.whoRuns(ctx, runID, func(ctx context.Context, m *member) error {
		resp, err := m.client.Status(ctx, &workerpb.StatusRequest{RunId: runID})
		mu.Lock()
		defer mu.Unlock()
		now = max(now, time.Duration(resp.GetRun().GetElapsedNanos()))
		return err
	}); err != nil {
		return 0, err
	}
	at := now + retargetLead
	_, err := f.whoRuns(ctx, runID, func(ctx context.Context, m *member) error {
		_, err := m.client.SetTarget(ctx, &workerpb.SetTargetRequest{RunId: runID, Target: target, AtNanos: int64(at)})
		return err
	})
	return at, err
}

// Collect copies what the workers keep of a run into out, in which the run's
// directory may be from before, and returns that directory. Workers that do not
// have the run are passed over; it is an error if none has it.
func (f *Fleet) Collect(ctx context.Context, runID, out string) (string, error) {
	if err := results.CheckName(runID); err != nil {
		return "", exitcode.With(exitcode.Usage, fmt.Errorf("run: %w", err))
	}
	dir := filepath.Join(out, runID)
	record, err := results.ReadRun(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", exitcode.With(exitcode.Usage, fmt.Errorf("%s is not there: give with --out the results directory that the run was started with", filepath.Join(dir, results.RunFile)))
	}
	if err != nil {
		return "", err
	}
	_, err = f.whoRuns(ctx, runID, func(ctx context.Context, m *member) error {
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
			j, err := openJournal(runID, path)
			if err != nil {
				return err
			}
			return j.pull(ctx, m.client)
		}
		return status.Error(codes.NotFound, "it has no journal of the run")
	})
	if err != nil {
		return dir, err
	}
	if err := settle(record, dir); err != nil {
		return dir, err
	}
	return dir, results.WriteRun(dir, record)
}

// settle judges those workers of a run that nobody has watched to their end, by
// what their journals say.
func settle(record *results.Run, dir string) error {
	open := false
	for i := range record.Fleet {
		m := &record.Fleet[i]
		if m.State != results.Running {
			continue
		}
		path, err := results.WorkerDir(dir, m.Name)
		if err != nil {
			return err
		}
		w, err := results.ReadWorker(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && w.State != results.Finished {
			open = true
			continue
		}
		if err != nil {
			return err
		}
		switch end := w.EndS; w.Reason {
		case "":
			m.State = results.Finished
		case worker.Stopped:
			m.State, record.StoppedS = results.Finished, &end
		default:
			m.State, m.Reason, m.LostAtS = results.Failed, w.Reason, &end
		}
	}
	switch {
	case open || record.State != results.Running:
	case record.StoppedS != nil:
		record.State = results.Interrupted
	default:
		record.State = results.Finished
	}
	return nil
}

// whoRuns calls do for all members, passes over those that do not know the run, and
// returns how many do.
func (f *Fleet) whoRuns(ctx context.Context, runID string, do func(context.Context, *member) error) (int, error) {
	var mu sync.Mutex
	known := 0
	err := f.all(ctx, func(ctx context.Context, m *member) error {
		err := do(ctx, m)
		if status.Code(err) == codes.NotFound {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		known++
		return err
	})
	if err == nil && known == 0 {
		err = exitcode.With(exitcode.Unreachable, fmt.Errorf("none of the %d workers knows run %s", f.Size(), runID))
	}
	return known, err
}
