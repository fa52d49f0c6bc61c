// SPDX-License-Identifier: Apache-2.0

// Package lane is the engine: a lane joins schedule, generator, driver and
// recorder in one loop. In each turn it takes what has completed and records it, and starts what
// is due while a virtual thread is free; then it waits for the next completion or
// the next slot. A worker runs a lane per core, or fewer if it has few threads; a lane owns everything that it
// touches and shares nothing, so nothing is locked, and the same loop runs in
// tests on a manual clock against a fake driver, reproducibly.
package lane

import (
	"sync/atomic"
	"time"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/pace"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/workload"
)

// Source makes operations; [workload.Generator] is the one that counts.
type Source interface {
	// Begin makes operation index ready to submit. It returns false when the
	// index lies beyond the end of the work.
	Begin(op *workload.Operation, index int64) bool
	// Continue judges the call that has completed. True: op.Call is the next
	// one of its chain. False: op.Result is final.
	Continue(op *workload.Operation) bool
}

// Config is what a lane is made of. All of it belongs to the lane from then on.
type Config struct {
	Clock    clock.Clock
	Source   Source
	Session  store.Session
	Recorder *measure.Recorder
	Pacer    *pace.Pacer   // nil: start whenever a thread is free
	Share    pace.Share    // the operation indexes of this lane
	Threads  int           // most operations in flight
	Warmup   time.Duration // what is due before does not count towards the source's end
	End      time.Duration // start nothing at or after; 0: until the source ends
	Grace    time.Duration // what is in flight at the end may take so long
}

// Lane runs the operations of its share. Run is for one goroutine, though a [store.Runner] takes the lane's turns
// in others; the other methods may be called from any.
type Lane struct {
	cfg       Config
	ops       []workload.Operation
	slots     []time.Duration // by thread: the intended start of its operation
	starts    []time.Duration // by thread: when its first call started
	free      []int           // idle threads, the last used on top: its buffers are warm
	index     int64           // of the next operation
	queue     queue           // of operations that are due, for a free thread
	round     time.Duration   // when the next turn comes, at the latest
	ended     bool            // the source has ended
	end       time.Duration   // start nothing that is due from here on
	last      time.Duration   // start nothing from here on
	expires   time.Duration   // give up what is in flight
	cancelled bool            // what is in flight has been given up
	gaveUp    time.Duration   // when slots were skipped
	skip      pace.Skip       // counts them

	stop     atomic.Pointer[stop]
	retarget atomic.Pointer[pace.Profile]
}

// coalescing is the least that a lane sleeps until the next slot when several are due in
// that time. They start together, that much late at most: a lane that woke
// every few microseconds would spend a wake-up, a message and a system call on each,
// and have no time left when it needs it (docs/performance.md has the figures).
const coalescing = 50 * time.Microsecond

// patience is the longest that a lane waits without looking at the clock, so that it sees that its
// process stood still, whatever it waits for.
const patience = 100 * time.Millisecond

// idle is the start of a thread that has no operation.
const idle = store.Forever

type stop struct{ grace time.Duration }

// New returns a lane that is ready to run.
func New(cfg Config) *Lane {
	l := &Lane{
		cfg:    cfg,
		ops:    make([]workload.Operation, cfg.Threads),
		slots:  make([]time.Duration, cfg.Threads),
		starts: make([]time.Duration, cfg.Threads),
		free:   make([]int, cfg.Threads),
		index:  cfg.Share.First,
		end:    store.Forever,
	}
	l.skip = l.skipped
	cfg.Recorder.Observe(l.unanswered)
	for i := range l.ops {
		l.starts[i] = idle
		l.ops[i].Call.Owner = i
		l.free[i] = cfg.Threads - 1 - i
	}
	if cfg.End > 0 {
		l.end = cfg.End
	}
	l.expires = saturate(l.end, cfg.Grace)
	l.last = l.end
	if cfg.Pacer != nil { // what is due in time may start a little late, here as anywhere
		l.last = saturate(l.end, min(pace.Slack, cfg.Grace))
	}
	return l
}

// Stop makes the lane start nothing more and gives what is in flight so long to
// complete. A second call may shorten the time.
func (l *Lane) Stop(grace time.Duration) {
	l.stop.Store(&stop{grace})
	l.cfg.Session.Wake()
}

// Retarget changes the target of a paced lane.
func (l *Lane) Retarget(p pace.Profile) {
	l.retarget.Store(&p)
	l.cfg.Session.Wake()
}

// Run runs the lane until its end, and returns when nothing is in flight.
func (l *Lane) Run() {
	l.round = max(0, l.cfg.Clock.Now())
	if s, ok := l.cfg.Session.(store.Runner); ok {
		s.Run(l.turn)
	} else {
		for until, more := l.turn(nil); more; until, more = l.turn(l.cfg.Session.Wait(until)) {
		}
	}
	if l.cfg.Pacer != nil && !l.ended {
		l.gaveUp = l.last
		l.queue.remain()
		l.cfg.Pacer.Owed(l.end, l.skip)
	}
	l.cfg.Recorder.Finish(l.cfg.Clock.Now())
}

// turn takes what has completed, starts what is due, and returns when the next turn must come
// at the latest. False: the lane has ended.
func (l *Lane) turn(completed []*store.Call) (until time.Duration, more bool) {
	now := l.cfg.Clock.Now()
	for _, c := range completed {
		l.complete(c, now)
	}
	if len(completed) > 1 { // one takes no time worth looking at the clock for
		now = l.cfg.Clock.Now()
	}
	if late := now - l.round; late > pace.Slack {
		l.cfg.Recorder.Stalled(l.round, late)
	}
	l.takeRequests(now)
	if now >= l.cfg.Recorder.Next() {
		l.cfg.Recorder.Tick(now)
	}
	next := l.start(now)
	if len(l.free) == len(l.ops) && l.over(now) {
		return 0, false
	}
	if now >= l.expires && !l.cancelled {
		l.cfg.Session.Cancel()
		l.cancelled = true
	}
	until = min(next, l.cfg.Recorder.Next())
	if !l.cancelled {
		until = min(until, l.expires)
	}
	until = min(until, now+patience)
	l.round = max(until, now, 0)
	return until, true
}

// takeRequests takes up what other goroutines have asked for.
func (l *Lane) takeRequests(now time.Duration) {
	if l.stop.Load() != nil {
		s := l.stop.Swap(nil)
		l.end, l.last = min(l.end, now), min(l.last, now)
		l.expires = min(l.expires, saturate(now, s.grace))
	}
	if l.retarget.Load() != nil && l.cfg.Pacer != nil {
		l.cfg.Pacer.Retarget(*l.retarget.Swap(nil))
	}
}

// SourceEnded tells whether the lane has ended because its source has, and not at a time.
// Run must have returned.
func (l *Lane) SourceEnded() bool { return l.ended }

// over tells whether there is nothing more to start.
func (l *Lane) over(now time.Duration) bool {
	switch {
	case l.ended || now >= l.last:
		return true
	case now < l.end:
		return false
	}
	return l.cfg.Pacer == nil || l.cfg.Pacer.Due() >= l.end
}

// start starts what is due, while threads are free, and returns when to look
// again if nothing completes before.
func (l *Lane) start(now time.Duration) time.Duration {
	for !l.over(now) {
		if now < 0 {
			return 0 // the start
		}
		if len(l.free) == 0 {
			return l.last
		}
		due := now
		if p := l.cfg.Pacer; p != nil {
			l.gaveUp = now
			p.Miss(now, l.skip)
			if due = p.Due(); due >= l.end {
				return l.end
			}
			if ready := p.Ready(); ready > now {
				if due > now {
					l.queue.empty()
				}
				if p.Gap() <= coalescing/2 {
					ready = max(ready, now+coalescing)
				}
				return min(ready, l.last)
			}
		}
		thread := l.free[len(l.free)-1]
		op := &l.ops[thread]
		op.WarmUp = due < l.cfg.Warmup
		if !l.cfg.Source.Begin(op, l.index) {
			l.ended = true
			break
		}
		l.index += l.cfg.Share.Step
		l.free = l.free[:len(l.free)-1]
		if l.cfg.Pacer != nil {
			l.cfg.Pacer.Take(now)
		}
		l.slots[thread], l.starts[thread] = due, now
		l.cfg.Recorder.Submitted(now)
		l.cfg.Recorder.Started(op.Kind, due, op.Size)
		if l.queue.held(due) {
			l.cfg.Recorder.Queued(due, op.Size)
		}
		if len(l.free) == 0 {
			l.queue.full(now)
		}
		op.Call.Start = now
		l.cfg.Session.Submit(&op.Call)
		if len(l.free) > 0 {
			now = l.cfg.Clock.Now()
		}
	}
	return store.Forever
}

// complete takes a call that has come back: its operation goes on, or is recorded.
func (l *Lane) complete(c *store.Call, now time.Duration) {
	thread := c.Owner
	op := &l.ops[thread]
	end := c.End
	more := l.cfg.Source.Continue(op)
	if more && !l.cancelled {
		op.Call.Start = now
		l.cfg.Session.Submit(&op.Call)
		return
	}
	if len(l.free) == 0 {
		l.queue.free(now)
	}
	l.free = append(l.free, thread)
	slot, start := l.slots[thread], l.starts[thread]
	l.starts[thread] = idle
	l.cfg.Recorder.Answered(end, now)
	if more || op.Result.Class == store.Cancelled {
		l.cfg.Recorder.CutOff(op.Kind, slot, start, now, op.Size)
		return
	}
	l.cfg.Recorder.Record(&measure.Sample{
		Kind:   op.Kind,
		Result: &op.Result,
		Slot:   slot,
		Start:  start,
		End:    end,
		Seen:   now,
	})
}

// unanswered tells what was in flight at a moment that has just passed.
func (l *Lane) unanswered(at time.Duration) (u measure.Unanswered) {
	waits := l.cfg.Recorder.Waits()
	for thread, start := range l.starts {
		if start < at {
			u.Calls++
			u.Oldest = max(u.Oldest, at-start)
			if waits {
				l.cfg.Recorder.Waiting(l.ops[thread].Kind, l.slots[thread], start, at)
			}
		}
	}
	if waits && l.cfg.Pacer != nil {
		l.cfg.Pacer.Behind(min(at, l.end), func(due time.Duration, slots int64) { l.cfg.Recorder.WaitingSlots(due, at, slots) })
	}
	return u
}

// skipped counts slots that are given up, of which the last was due at due.
func (l *Lane) skipped(due time.Duration, slots int64) {
	l.cfg.Recorder.Skipped(due, max(0, l.gaveUp-due), slots, l.queue.held(due))
}

// saturate adds without passing the end of time.
func saturate(t, d time.Duration) time.Duration {
	if t > store.Forever-d {
		return store.Forever
	}
	return t + d
}
