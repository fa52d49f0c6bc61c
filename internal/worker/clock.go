// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"sync/atomic"
	"time"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/lane"
	"github.com/kvbench/kvbench/internal/workload"
)

// runClock is the run's clock. Sessions are opened with it before the start
// has been agreed on: until then it counts from the preparation, and at Start,
// when nothing is in flight, it is set once.
type runClock struct{ c atomic.Pointer[clock.Real] }

func (r *runClock) set(zero time.Time) {
	c := clock.Since(zero)
	r.c.Store(&c)
}

// Now implements [clock.Clock].
func (r *runClock) Now() time.Duration { return r.c.Load().Now() }

// firstStart is a lane's source that notes how late the first operation begins.
type firstStart struct {
	lane.Source
	clock *runClock
	due   time.Duration
	late  *atomic.Int64
	noted bool
}

func (f *firstStart) Begin(op *workload.Operation, index int64) bool {
	if !f.noted {
		f.noted = true
		f.late.Store(int64(max(0, f.clock.Now()-f.due)))
	}
	return f.Source.Begin(op, index)
}
