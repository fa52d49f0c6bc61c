// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"math/rand/v2"
	"time"
)

// trouble is what goes wrong on a store at present, and what else delays its commands. It never changes after it is set; nil means nothing.
type trouble struct {
	stalledUntil time.Time     // no command is served before
	slowBy       time.Duration // a share of commands is served this much later
	slowShare    float64
	busyShare    float64 // a share is answered with ServerIsBusy
	errorShare   float64 // a share is answered with an error that is not a region error
	errorText    string
	silent       [silentFaults]*silent
	queue        *queue // nil: commands are served as they come

	replaced chan struct{} // closed when something else is true
}

// fault is what trouble does to one command, besides a stall.
type fault struct {
	delay time.Duration // from its arrival until it is served
	busy  bool
	text  string
}

// strike decides the fate of a command that arrives now, a stall apart. What is refused as busy does not queue; neither do Empty
// commands, with which clients ask whether a store is well.
func (d *trouble) strike(cmd command, now time.Time) fault {
	var f fault
	if d == nil {
		return f
	}
	if chance(d.slowShare) {
		f.delay = d.slowBy
	}
	f.busy = chance(d.busyShare)
	if chance(d.errorShare) {
		f.text = d.errorText
	}
	if d.queue != nil && !f.busy && cmd != cmdEmpty {
		from := now
		if d.stalled(now) {
			from = d.stalledUntil
		}
		f.delay += d.queue.take(from).Sub(now)
	}
	return f
}

// stalled tells whether commands wait for the end of a stall.
func (d *trouble) stalled(now time.Time) bool { return d != nil && d.stalledUntil.After(now) }

func chance(share float64) bool { return share > 0 && rand.Float64() < share }

// disturbs tells whether anything goes wrong; a queue is none of that.
func (d *trouble) disturbs(now time.Time) bool {
	return d.stalled(now) || d.slowShare > 0 || d.busyShare > 0 || d.errorShare > 0 || d.silent != [silentFaults]*silent{}
}

// disturb changes what goes wrong on a store.
func (s *store) disturb(change func(*trouble)) {
	for {
		old := s.trouble.Load()
		var next trouble
		if old != nil {
			next = *old
		}
		change(&next)
		next.replaced = make(chan struct{})
		set := &next
		if !next.disturbs(time.Now()) && next.queue == nil {
			set = nil
		}
		if s.trouble.CompareAndSwap(old, set) {
			if old != nil {
				close(old.replaced)
			}
			return
		}
	}
}

// hold waits until due, and on until no stall is left; the end of a stall before its time ends the wait.
func (s *store) hold(ctx context.Context, due time.Time) error {
	for {
		until, replaced := due, (<-chan struct{})(nil)
		if d := s.trouble.Load(); d != nil && d.stalledUntil.After(due) {
			until, replaced = d.stalledUntil, d.replaced
		}
		left := time.Until(until)
		if left <= 0 {
			return ctx.Err()
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-replaced:
		case <-ctx.Done():
		}
		timer.Stop()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
