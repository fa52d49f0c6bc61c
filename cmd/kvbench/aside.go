// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/kvbench/kvbench/internal/coordinator"
	"github.com/kvbench/kvbench/internal/exitcode"
)

// aside is something done beside a run, when its clock shows a moment.
type aside struct {
	at   time.Duration
	text string // of the event that the run gets then
	do   func(context.Context) error
}

// begin watches a job's clock, and does what is to be done. ended is to be called when the run is over: it waits for that
// to end, and returns its error.
func (a *aside) begin(ctx context.Context, fleet *coordinator.Fleet, job *coordinator.Job) (ended func() error) {
	if a == nil {
		return func() error { return nil }
	}
	ctx, cancel := context.WithCancel(ctx)
	var (
		mu    sync.Mutex
		timer *time.Timer
		over  bool
		done  = make(chan error, 1)
	)
	show, warn := job.Progress, job.Warn
	job.Progress = func(s *coordinator.Snapshot) {
		if show != nil {
			show(s)
		}
		mu.Lock()
		defer mu.Unlock()
		if timer == nil && !over && (s.Stage == coordinator.WarmingUp || s.Stage == coordinator.Measuring) {
			id := s.RunID
			timer = time.AfterFunc(a.at-s.Elapsed, func() {
				if _, err := fleet.Annotate(ctx, id, a.at, a.text); err != nil {
					warn("the event could not be noted: " + err.Error())
				}
				done <- a.do(ctx)
			})
		}
	}
	return func() error {
		defer cancel()
		mu.Lock()
		over = true
		begun := timer != nil && !timer.Stop()
		mu.Unlock()
		if begun {
			return <-done
		}
		return exitcode.With(exitcode.Degraded, fmt.Errorf("the run ended before %v, when %q was to be done", a.at, a.text))
	}
}
