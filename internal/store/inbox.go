// SPDX-License-Identifier: Apache-2.0

package store

import (
	"sync"
	"time"

	"github.com/kvbench/kvbench/internal/clock"
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
	timer *time.Timer   // ends waits
	alarm *alarm        // makes the timer precise
	rings time.Duration // when the alarm does

	mu     sync.Mutex
	items  []T
	woken  bool          // Wake was called since the last Wait
	asleep bool          // the lane waits for signal
	signal chan struct{} // one element for each time that asleep was taken back

	taken []T // what the last Wait returned: its memory is used again
}

// NewInbox returns an empty inbox whose waits end by clk. Close frees it.
func NewInbox[T any](clk clock.Clock) *Inbox[T] {
	b := &Inbox[T]{clk: clk, timer: time.NewTimer(0), alarm: newAlarm(), signal: make(chan struct{}, 1)}
	b.timer.Stop()
	return b
}

// Put adds an item and wakes the lane if it is asleep. It never blocks.
func (b *Inbox[T]) Put(item T) {
	b.mu.Lock()
	b.items = append(b.items, item)
	b.unlockAndWake()
}

// Wake makes the current Wait, or else the next, return early.
func (b *Inbox[T]) Wake() {
	b.mu.Lock()
	b.woken = true
	b.unlockAndWake()
}

func (b *Inbox[T]) unlockAndWake() {
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
	for {
		var now time.Duration
		if until != Forever {
			now = b.clk.Now()
		}
		b.mu.Lock()
		if len(b.items) > 0 || b.woken || until <= now {
			b.items, b.taken = b.taken[:0], b.items
			woken, b.woken = b.woken, false
			b.mu.Unlock()
			return b.taken, woken
		}
		b.asleep = true
		b.mu.Unlock()
		if until == Forever {
			<-b.signal
		} else {
			b.sleep(now, until)
		}
	}
}

// sleep returns when the lane has been woken, or at until.
func (b *Inbox[T]) sleep(now, until time.Duration) {
	b.timer.Reset(until - now)
	if until != b.rings {
		b.alarm.set(until - now)
		b.rings = until
	}
	select {
	case <-b.signal:
	case <-b.timer.C:
		b.mu.Lock()
		b.unlockAndWake()
		<-b.signal
	}
}

// Close frees the inbox. Nobody may be in Wait.
func (b *Inbox[T]) Close() error { return b.alarm.close() }
