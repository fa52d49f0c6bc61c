// SPDX-License-Identifier: Apache-2.0

// Package kit is what drivers are made of: the inbox in which a lane finds what has
// arrived, with the alarm that ends its wait; deadlines of calls in flight; a goroutine that
// makes one blocking call after another; and a counter of messages.
package kit

import (
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/store"
)

// Inbox is where a session's helpers (goroutines that wait for answers) hand what
// has arrived to the session's lane. Any number of goroutines put, one takes.
//
// It is a slice behind a mutex rather than a channel, because the lane takes
// everything there is at once: a busy lane pays one lock per turn, and nobody
// wakes it while it is not asleep. A channel would cost a lock and often a
// goroutine switch for each item, and a timer for each wait that has an end.
//
// The lane either calls Wait in a loop, or has Run call it back.
type Inbox[T any] struct {
	clk   clock.Clock
	alarm *alarm

	mu      sync.Mutex
	items   []T
	woken   bool          // Wake was called since the last Wait
	asleep  bool          // nobody takes what is here. Who takes this back wakes the lane, or takes its turn
	signal  chan struct{} // wakes the lane
	ringing time.Duration // when the alarm will ring; store.Forever: it is not set

	turn  func(items []T) (until time.Duration, more bool) // nil: the lane waits
	ended bool                                             // the last turn was the last
	fault error                                            // the last turn panicked

	taken []T // what was taken last: its memory is used again
}

// NewInbox returns an empty inbox whose waits end by clk. Close frees it.
func NewInbox[T any](clk clock.Clock) *Inbox[T] {
	b := &Inbox[T]{clk: clk, signal: make(chan struct{}, 1), ringing: store.Forever}
	b.alarm = newAlarm(b.ring)
	return b
}

// Put adds an item, and wakes the lane if it is asleep or takes its turn. It never blocks.
func (b *Inbox[T]) Put(item T) {
	b.mu.Lock()
	b.items = append(b.items, item)
	b.attend()
}

// Wake makes the current Wait, or else the next, return early.
func (b *Inbox[T]) Wake() {
	b.mu.Lock()
	b.woken = true
	wake := b.asleep
	b.asleep = false
	b.mu.Unlock()
	if wake { // who calls this may not be the one to run a lane
		b.signal <- struct{}{}
	}
}

// ring is called when the alarm goes off.
func (b *Inbox[T]) ring() {
	b.mu.Lock()
	b.ringing = store.Forever
	b.attend()
}

// attend sees to it that somebody takes what is here. b.mu is held, and is unlocked afterwards.
func (b *Inbox[T]) attend() {
	idle := b.asleep
	b.asleep = false
	if idle && b.turn != nil {
		b.takeTurns()
		return
	}
	b.mu.Unlock()
	if idle {
		b.signal <- struct{}{}
	}
}

// Run calls turn with all items, as Wait returns them, until it says that there is no more to do.
// What turn returns is when it wants to be called next if no item comes before. Turns are taken one at a time
// by whatever goroutine is there: the one that puts an item while no turn goes on, or the alarm's.
// So an item wakes nobody.
func (b *Inbox[T]) Run(turn func(items []T) (until time.Duration, more bool)) {
	b.turn, b.ended = turn, false
	for !b.ended {
		b.mu.Lock()
		b.takeTurns()
		<-b.signal
	}
	b.turn = nil
	if b.fault != nil {
		panic(b.fault)
	}
}

// takeTurns takes turns until there is nothing to do. asleep has been taken back for that. b.mu is held,
// and is unlocked afterwards.
func (b *Inbox[T]) takeTurns() {
	defer func() {
		if p := recover(); p != nil {
			b.fault = store.Panic{Value: p, Stack: debug.Stack()}
			b.end()
		}
	}()
	for {
		b.items, b.taken, b.woken = b.taken[:0], b.items, false
		b.mu.Unlock()
		until, more := b.turn(b.taken)
		clear(b.taken) // lets go of what it pointed to
		if !more {
			b.end()
			return
		}
		b.mu.Lock()
		if len(b.items) == 0 && !b.woken && b.setAlarm(until) {
			b.asleep = true
			b.mu.Unlock()
			return
		}
	}
}

// end makes Run return. Nobody takes a turn any more.
func (b *Inbox[T]) end() {
	b.ended = true
	b.signal <- struct{}{}
}

// setAlarm makes the alarm ring at until or, if it is set for an earlier moment, then. False: it is until.
func (b *Inbox[T]) setAlarm(until time.Duration) bool {
	if until >= b.ringing {
		return true
	}
	now := b.clk.Now()
	if until <= now {
		return false
	}
	b.ringing = until
	b.alarm.set(until - now)
	return true
}

// Wait returns all items in the order in which they were put. It waits until
// there is one, or it is until, or Wake was called; then what it returns may be
// empty. The slice is valid until the next Wait. woken tells whether Wake was
// called since the last Wait.
func (b *Inbox[T]) Wait(until time.Duration) (items []T, woken bool) {
	clear(b.taken) // lets go of what it pointed to
	for yielded := false; ; {
		var now time.Duration
		if until != store.Forever {
			now = b.clk.Now()
		}
		b.mu.Lock()
		if len(b.items) > 0 || b.woken || until <= now {
			b.items, b.taken = b.taken[:0], b.items
			woken, b.woken = b.woken, false
			b.mu.Unlock()
			return b.taken, woken
		}
		if !yielded {
			// Whoever is about to put something does it now, which is cheaper than to
			// fall asleep and be woken for the first of many.
			yielded = true
			b.mu.Unlock()
			runtime.Gosched()
			continue
		}
		b.asleep = true
		// An alarm that is set for an earlier moment stays: to wake once in vain is
		// cheaper than to set it at every wait, as a moving timeout would have it.
		set := until < b.ringing
		if set {
			b.ringing = until
		}
		b.mu.Unlock()
		if set {
			b.alarm.set(until - now)
		}
		<-b.signal
	}
}

// Close frees the alarm. Nobody may be in Wait.
func (b *Inbox[T]) Close() error { return b.alarm.close() }
