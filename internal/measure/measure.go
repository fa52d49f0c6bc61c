// SPDX-License-Identifier: Apache-2.0

// Package measure counts what a worker's lanes see. Every lane records into a
// shard of its own, so that recording locks, allocates and shares nothing; once
// a second the lane exchanges its shard for a clean one, and a collector merges
// what the lanes handed in to one [Interval] of the worker.
//
// Only histograms are ever merged; percentiles are taken from the merged ones.
package measure

import (
	"time"

	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/workload"
)

// Config says which operations of a run are measured, and how.
type Config struct {
	// Paced is set when a schedule gives every operation a slot. Without one
	// there is no response time and no lag.
	Paced bool
	// Warmup is when the measured window begins, on the run's clock.
	Warmup time.Duration
	// Window is the window's length; 0 is a run that ends by count.
	Window time.Duration
	// Waiting is set if intervals are to tell for how long has waited what is not answered at their ends.
	Waiting bool
}

// measured tells whether an operation whose slot is t belongs to the window.
func (c *Config) measured(t time.Duration) bool {
	return t >= c.Warmup && (c.Window == 0 || t < c.Warmup+c.Window)
}

// boundary returns the first end of an interval after t: whole seconds of the
// run's clock, and the window's two ends.
func (c *Config) boundary(t time.Duration) time.Duration {
	next := t.Truncate(time.Second) + time.Second
	for _, edge := range [...]time.Duration{c.Warmup, c.Warmup + c.Window} {
		if t < edge && edge < next {
			next = edge
		}
	}
	return next
}

// Sample is one completed operation, or batch of operations. Times are on the
// run's clock.
type Sample struct {
	Kind   workload.Kind
	Result *workload.Result
	Slot   time.Duration // when it was due; Start when the run is unpaced
	Start  time.Duration // when its first call was submitted
	End    time.Duration // when its last answer arrived
	Seen   time.Duration // when the lane took that answer
}

// Cell is what was measured of one [Row].
type Cell struct {
	Operations int64 // keys
	Batches    int64 // client calls (chains of them, for an update): the samples of the histograms
	RPCs       int64 // requests sent for the batches
	Retries    int64 // calls of the batches that were made again
	Service    *Histogram
	Response   *Histogram // nil when unpaced
	Texts      []string   // the first few distinct error texts
}

// Set is everything measured of one class of operations: those of the window,
// or those outside of it.
type Set struct {
	Cells   [Rows]Cell
	Costs   [workload.Kinds]Cost  // of transactions
	Started [workload.Kinds]int64 // operations started
	Lag     *Histogram            // slot to start; nil when unpaced
	Lane    *Histogram            // answer arrived to answer taken by the lane
	Deviations

	Waits // of what was never answered, and so is not in the histograms of the cells: until it was given up

	ScannedRows int64 // that scans returned
}

// Cost is what the transactions of a kind of operation have cost, whatever their outcome.
type Cost struct {
	CostCounts
	Phases [store.Phases]*Histogram // of a batch, all its transactions together; those that it had no part of are not in it
}

// CostCounts are what is counted of transactions.
type CostCounts struct {
	Batches      int64 // of which it is known
	Transactions int64 // that they were, those that were made again included
	Timestamps   int64 // asked of PD
	Commands     [store.CommandKinds + 1]int64
}

// Add adds o.
func (c *CostCounts) Add(o *CostCounts) {
	c.Batches += o.Batches
	c.Transactions += o.Transactions
	c.Timestamps += o.Timestamps
	for kind, n := range o.Commands {
		c.Commands[kind] += n
	}
}

// Waits is for how long has waited what was not answered, by call. Waited is of calls that were started, by kind; WaitedSlots is of
// slots that were not, since they were due: of which kind they would have been is not known.
type Waits struct {
	Waited      [workload.Kinds]Waited
	WaitedSlots *Histogram
}

// Waited is for how long calls have waited.
type Waited struct {
	Service  *Histogram // since they were started
	Response *Histogram // since they were due; nil when unpaced
}

// Deviations counts what did not go as the schedule and the histograms want it.
type Deviations struct {
	Queued  int64 // operations that were due while all threads had one
	Skipped int64 // slots given up because the schedule was too far behind
	Blocked int64 // of the skipped slots, those that were due while all threads had an operation
	CutOff  int64 // operations still in flight when the grace period ended
	Clamped int64 // calls of which a time lies outside of the histograms' range
}

// Add adds o.
func (l *Deviations) Add(o Deviations) {
	l.Queued += o.Queued
	l.Skipped += o.Skipped
	l.Blocked += o.Blocked
	l.CutOff += o.CutOff
	l.Clamped += o.Clamped
}

// Empty tells whether nothing at all was recorded.
func (s *Set) Empty() bool {
	if s.Lag != nil || s.Lane != nil || s.Skipped != 0 || s.CutOff != 0 {
		return false
	}
	for _, n := range s.Started {
		if n != 0 {
			return false
		}
	}
	for i := range s.Cells {
		if s.Cells[i].Batches != 0 {
			return false
		}
	}
	return true
}

// Interval is what one worker measured between two moments of the run's clock.
// A sample belongs to the interval in which its lane took it; Window holds those
// whose slot lies in the measured window, Warmup all others.
type Interval struct {
	Start, End     time.Duration
	Window, Warmup Set
	Answers        Answers

	InFlight   time.Duration // how long threads had a call in flight, all together
	Unanswered Unanswered    // at the end of the interval
	Waiting    Waits         // of the window, until the end of the interval, if [Config.Waiting] asks for it
	Stall      Stall
}

// Answers is when the first and the last answer of an interval arrived, on the run's clock, whatever
// the operation; zero if none did. What a store itself says is an answer, an error that is the client's is none.
type Answers struct{ First, Last time.Duration }

// add takes up what another lane was answered.
func (a *Answers) add(o Answers) {
	if o.Last == 0 {
		return
	}
	if a.Last == 0 || o.First < a.First {
		a.First = o.First
	}
	a.Last = max(a.Last, o.Last)
}

// Unanswered are the calls that are in flight at a moment.
type Unanswered struct {
	Calls  int64
	Oldest time.Duration // how long ago the first of them was started
}

// add takes up what another lane has in flight.
func (u *Unanswered) add(o Unanswered) {
	u.Calls += o.Calls
	u.Oldest = max(u.Oldest, o.Oldest)
}

// Stall is for how long a lane's loop did not come round beside its planned waits: the process
// was stopped, its machine paused, its share of the processor used up, or there was none free.
type Stall struct {
	Total   time.Duration // of all that began in an interval and were worth a word
	Longest time.Duration
	At      time.Duration // when the longest began
}

// add takes up what another lane saw. They stand still at the same time when the process
// does, so the worst counts.
func (s *Stall) add(o Stall) {
	s.Total = max(s.Total, o.Total)
	if o.Longest > s.Longest {
		s.Longest, s.At = o.Longest, o.At
	}
}
