// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"math/rand/v2"
	"time"
)

// trouble is what goes wrong on a store at present. It never changes after it is set; nil means nothing.
type trouble struct {
	stalledUntil time.Time     // no command is served before
	slowBy       time.Duration // a share of commands is served this much later
	slowShare    float64
	busyShare    float64 // a share is answered with ServerIsBusy
	errorShare   float64 // a share is answered with an error that is not a region error
	errorText    string
}

// fault is what trouble does to one command.
type fault struct {
	delay time.Duration
	busy  bool
	text  string
}

// strike decides the fate of a command that arrives now.
func (d *trouble) strike(now time.Time) fault {
	var f fault
	if d == nil {
		return f
	}
	f.delay = max(0, d.stalledUntil.Sub(now))
	if chance(d.slowShare) {
		f.delay += d.slowBy
	}
	f.busy = chance(d.busyShare)
	if chance(d.errorShare) {
		f.text = d.errorText
	}
	return f
}

func chance(share float64) bool { return share > 0 && rand.Float64() < share }

// over tells that nothing is left of it.
func (d *trouble) over(now time.Time) bool {
	return !d.stalledUntil.After(now) && d.slowShare == 0 && d.busyShare == 0 && d.errorShare == 0
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
		set := &next
		if next.over(time.Now()) {
			set = nil
		}
		if s.trouble.CompareAndSwap(old, set) {
			return
		}
	}
}
