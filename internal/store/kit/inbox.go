// SPDX-License-Identifier: Apache-2.0

// Package kit is what drivers are made of: the inbox in which a lane finds what has
// arrived, with the alarm that ends its wait; deadlines of calls in flight; a goroutine that
// makes one blocking call after another; and a counter of messages.
package kit

import (
	"runtime"
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
type Inbox[T any] struct {
	clk   clock.Clock
	alarm *alarm

	mu      sync.Mutex
	items   []T
	woken   bool          // Wake was called since the last Wait
	asleep  bool          // the lane waits for signal
	signal  chan struct{} // one element for each time that asleep was taken back
	ringing time.Duration // when the alarm will ring; store.Forever: it is not set

	taken []T // what the last Wait returned: its memory is used again
}

// NewInbox returns an empty inbox whose waits end by clk. Close frees it.
func NewInbox[T any](clk clock.Clock) *Inbox[T] {
	b := &Inbox[T]{clk: clk, signal: make(chan struct{}, 1), ringing: store.Forever}
	b.alarm = newAlarm(b.ring)
	return b
}

// Put adds an item and wakes the lane if it is asleep. It never blocks.
func (b *Inbox[T]) Put(item T) {
	b.mu.Lock()
	b.items = append(b.items, item)
	wake := b.asleep
	b.asleep = false
	b.mu.Unlock()
	if wake {
		b.signal <- struct{}{}
	}
}

// Wake makes the current Wait, or else the next, return early.
func (b *Inbox[T]) Wake() {
	b.mu.Lock()
	b.woken = true
	wake := b.asleep
	b.asleep = false
	b.mu.Unlock()
	if wake {
		b.signal <- struct{}{}
	}
}

// ring is called when the alarm goes off.
func (b *Inbox[T]) ring() {
	b.mu.Lock()
	b.ringing = store.Forever
	wake := b.asleep
	b.asleep = false
	b.mu.Unlock()
	if wake {
		b.signal <- struct{}{}
	}
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
