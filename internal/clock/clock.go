// SPDX-License-Identifier: Apache-2.0

// Package clock provides the time that a run is measured with: a monotonic
// duration since the run's epoch. Schedules, calls and histograms all speak it,
// so that a step of the wall clock changes nothing and a test can drive it by hand.
package clock

import "time"

// Clock tells the time since its epoch. Now never goes backwards.
type Clock interface {
	Now() time.Duration
}

// Real is the machine's monotonic clock, counted from its epoch.
type Real struct{ epoch time.Time }

// Since returns a clock whose zero is epoch, which must carry a monotonic
// reading (as time.Now and sums with it do). It may lie in the future: until
// then Now is negative.
func Since(epoch time.Time) Real { return Real{epoch} }

// Now implements [Clock].
func (c Real) Now() time.Duration { return time.Since(c.epoch) }

// Manual is a clock that stands still until it is moved. The zero value is
// ready. It is for one goroutine.
type Manual struct{ now time.Duration }

// Now implements [Clock].
func (c *Manual) Now() time.Duration { return c.now }

// Set moves the clock to t, unless that lies in the past.
func (c *Manual) Set(t time.Duration) { c.now = max(c.now, t) }
