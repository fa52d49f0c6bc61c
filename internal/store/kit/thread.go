// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/store"
)

// Caller makes calls through a client library that blocks its caller. It serves one goroutine.
type Caller interface {
	// Context returns the context of calls to come, which ends with ctx.
	Context(ctx context.Context) context.Context
	// Do makes a call and fills in the answer, except for its end.
	Do(ctx context.Context, c *store.Call)
}

// Thread is a goroutine that makes one call after another through a [Caller]. It
// belongs to one lane, which alone calls its methods.
type Thread struct {
	Index  int // its owner's number for it
	caller Caller
	ended  chan struct{}

	// Most often a thread is given its next call while it hands in the one before, and need not
	// wait: then that costs two atomic additions, where a channel would cost its lock twice.
	work atomic.Int32  // calls to make; -1: the goroutine waits
	wake chan struct{} // ends that

	call   *store.Call // in flight, or to make; nil: none
	gaveUp store.Class // why the call was given up; OK: it was not

	// One context serves call after call until one is cancelled. A context with a
	// deadline for each call would cost a timer and several allocations, and when it
	// expired, client-go would take the store for dead and leave it alone for a second.
	ctx    context.Context
	cancel context.CancelFunc
}

// NewThread starts a thread, which stamps calls with the time by clk and passes
// itself to done, in its own goroutine, when its call has come back.
func NewThread(index int, caller Caller, clk clock.Clock, done func(*Thread)) *Thread {
	t := &Thread{Index: index, caller: caller, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	t.renew()
	go t.run(clk, done)
	return t
}

func (t *Thread) renew() {
	ctx, cancel := context.WithCancel(context.Background())
	t.ctx, t.cancel = t.caller.Context(ctx), cancel
}

// Start makes a call. The thread must have none.
func (t *Thread) Start(c *store.Call) {
	if t.gaveUp != store.OK {
		t.renew()
		t.gaveUp = store.OK
	}
	t.give(c)
}

// give hands the goroutine its next call; nil: it has made the last one.
func (t *Thread) give(c *store.Call) {
	t.call = c
	if t.work.Add(1) == 0 {
		t.wake <- struct{}{}
	}
}

// take returns what was given, and waits for it.
func (t *Thread) take() *store.Call {
	if t.work.Add(-1) < 0 {
		<-t.wake
	}
	return t.call
}

// GiveUp cancels the call in flight, if there is one. It comes back soon, in class why
// unless it has been answered just now.
func (t *Thread) GiveUp(why store.Class) {
	if t.call != nil && t.gaveUp == store.OK {
		t.gaveUp = why
		t.cancel()
	}
}

// Stop ends the thread, which must have no call.
func (t *Thread) Stop() {
	t.cancel()
	t.give(nil)
	<-t.ended
}

func (t *Thread) run(clk clock.Clock, done func(*Thread)) {
	defer close(t.ended)
	for c := t.take(); c != nil; c = t.take() {
		t.caller.Do(t.ctx, c)
		c.End = clk.Now()
		done(t)
	}
}

// Finish takes the call that has come back. One that was given up and has no answer gets the
// class for which it was; timeout is for the error's text.
func (t *Thread) Finish(timeout time.Duration) *store.Call {
	c := t.call
	t.call = nil
	switch {
	case c.Class.Answered(), t.gaveUp == store.OK:
	case t.gaveUp == store.Timeout:
		c.Class, c.Err = store.Timeout, fmt.Errorf("no answer within %v: %w", timeout, c.Err)
	default:
		c.Class = t.gaveUp
	}
	return c
}
