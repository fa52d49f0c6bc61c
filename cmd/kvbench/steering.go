// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/kvbench/kvbench/internal/coordinator"
	"github.com/kvbench/kvbench/internal/units"
)

// steering does to a run what a person at the keyboard asks for.
type steering struct {
	interrupts chan<- os.Signal
	fleet      *coordinator.Fleet
	say        func(string)

	factors chan float64  // targets asked for
	left    chan struct{} // closed once the run is to be left
	leave   func()        // closes it, once
	cancel  context.CancelFunc
	done    sync.WaitGroup

	mu     sync.Mutex
	run    string
	target float64 // of the fleet now, operations a second; 0: not known, or unpaced
}

func newSteering(a *app, fleet *coordinator.Fleet) *steering {
	ctx, cancel := context.WithCancel(context.Background())
	s := &steering{interrupts: a.interrupts, fleet: fleet, factors: make(chan float64, 1), left: make(chan struct{}), cancel: cancel}
	s.leave = sync.OnceFunc(func() { close(s.left) })
	s.done.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case factor := <-s.factors:
				s.retarget(ctx, factor)
			}
		}
	})
	return s
}

// see takes up what is known of the run.
func (s *steering) see(snapshot *coordinator.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run, s.target = snapshot.RunID, snapshot.Total.Target
}

// stop is an interrupt, as if it came from outside.
func (s *steering) stop() {
	select {
	case s.interrupts <- os.Interrupt:
	default: // two are waiting already
	}
}

// scale asks for another target.
func (s *steering) scale(factor float64) {
	select {
	case s.factors <- factor:
	default: // the last one is being told to the workers
	}
}

func (s *steering) retarget(ctx context.Context, factor float64) {
	s.mu.Lock()
	run, target := s.run, s.target*factor
	s.mu.Unlock()
	if target == 0 {
		s.say("the run has no target that could be changed")
		return
	}
	at, err := s.fleet.SetTarget(ctx, run, target)
	if err != nil {
		s.say(fmt.Sprintf("the target stays: %v", err))
		return
	}
	s.say(fmt.Sprintf("target %s from %s on", units.Rate(target), units.Seconds(at.Seconds())))
}

func (s *steering) close() {
	s.cancel()
	s.done.Wait()
}
