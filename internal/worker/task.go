// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/lane"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/workload"
)

// task is what the engine of a run is used for: operations, a load, a verification.
// Its methods are called in this order.
type task interface {
	// before looks at what the store holds and tells the coordinator. An error, a
	// [refusal] as well, ends the run before it has begun.
	before(t *table, found *workerpb.PrepareResponse) error
	// source makes the operations of a lane.
	source(p workload.Place) (lane.Source, error)
	// beside is what goes on while the lanes run. It returns once ended is closed.
	beside(ended <-chan struct{})
	// after is what is left when the lanes have ended, in whatever way, and adds to how
	// the run's record ends. With an error the run has failed. Once the run is released
	// nobody waits for it any more.
	after(r *run, end *results.End) error
}

func newTask(e *engine) task {
	switch s := e.spec; {
	case e.asking:
		return recallTask{runTask{e}}
	case s.Phase == spec.Load:
		return &loadTask{engine: e}
	case s.Phase == spec.Verify:
		return &verifyTask{engine: e}
	case s.VerifyWrites && e.lease > 0: // a detached run has nobody who would read back
		return newFollowedTask(e)
	default:
		return runTask{e}
	}
}

// recallTask only says what is remembered of the table. It is never started.
type recallTask struct{ runTask }

func (k recallTask) before(t *table, found *workerpb.PrepareResponse) error {
	m, err := t.manifest()
	if err != nil {
		return err
	}
	loaded, err := m.Records()
	if err != nil {
		return refusal{err}
	}
	if loaded.Count > 0 {
		found.Loaded = &workerpb.Range{Start: loaded.Start, Count: loaded.Count}
	}
	return nil
}
