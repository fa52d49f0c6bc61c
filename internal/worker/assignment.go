// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/objective"
	"github.com/kvbench/kvbench/internal/pace"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/spec"
)

// assignment is a worker's part of a run, checked.
type assignment struct {
	id      string
	name    string // of the worker in this run
	worker  int
	workers int
	lease   time.Duration // 0: detached
	asking  bool          // it is only asked what is remembered of the table
	spec    *spec.Spec
	watched []*workerpb.Watched // of which its coordinator follows more than progress
	profile pace.Profile        // of the fleet; zero if unpaced
}

func parseAssignment(req *workerpb.PrepareRequest) (*assignment, error) {
	a := &assignment{
		id:      req.GetRunId(),
		name:    req.GetName(),
		worker:  int(req.GetWorker()),
		workers: int(req.GetWorkers()),
		lease:   time.Duration(req.GetLeaseNanos()),
		asking:  req.GetRecallOnly(),
		watched: req.GetWatched(),
	}
	var errs []error
	if err := results.CheckName(a.id); err != nil {
		errs = append(errs, fmt.Errorf("run: %w", err))
	}
	if err := results.CheckName(a.name); err != nil {
		errs = append(errs, fmt.Errorf("worker: %w", err))
	}
	if a.worker < 0 || a.worker >= a.workers {
		errs = append(errs, fmt.Errorf("worker %d of %d: want one of 0 to %d", a.worker, a.workers, a.workers-1))
	}
	if n := len(a.watched); n > objective.Most {
		errs = append(errs, fmt.Errorf("%d kinds and times are to be watched: want %d at most", n, objective.Most))
	}
	if a.lease < 0 {
		errs = append(errs, fmt.Errorf("lease %v: want 0, for none, or more", a.lease))
	}
	var err error
	if a.spec, err = spec.ParseMap(req.GetProperties()); err != nil {
		return nil, errors.Join(append(errs, err)...)
	}
	if a.spec.Paced() {
		if a.profile, err = a.spec.Profile(); err != nil {
			errs = append(errs, err)
		}
	}
	return a, errors.Join(errs...)
}

// end is when to start nothing more, on the run's clock; 0 if the run ends by count.
func (a *assignment) end() time.Duration {
	if a.spec.Duration == 0 {
		return 0
	}
	return a.spec.Warmup + a.spec.Duration
}
