// SPDX-License-Identifier: Apache-2.0

package rawkv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tikv/client-go/v2/rawkv"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/store/cluster"
)

// Thread is a goroutine that makes one call after another through rawkv. It
// belongs to one lane, which alone calls its methods.
type Thread struct {
	Index  int // its owner's number for it
	client *cluster.Client
	work   chan *store.Call
	ended  chan struct{}

	call   *store.Call // in flight; nil: none
	gaveUp store.Class // why the call was given up; OK: it was not

	// One context serves call after call until one is cancelled: a context with
	// a deadline for each call would cost a timer and several allocations, and when it
	// expired, client-go would take the store for dead and leave it alone for a second.
	ctx    context.Context
	cancel context.CancelFunc
	trace  cluster.Trace

	err  error    // of the call, as client-go returned it
	ttls []uint64 // of a batch: one for each key, as client-go wants it
}

// NewThread starts a thread, which stamps calls with the time by clk and passes
// itself to done, in its own goroutine, when its call has come back.
func NewThread(index int, client *cluster.Client, clk clock.Clock, done func(*Thread)) *Thread {
	t := &Thread{Index: index, client: client, work: make(chan *store.Call, 1), ended: make(chan struct{})}
	t.renew()
	go t.run(clk, done)
	return t
}

func (t *Thread) renew() {
	t.ctx, t.cancel = context.WithCancel(t.trace.Context(context.Background()))
}

// Start makes a call. The thread must have none.
func (t *Thread) Start(c *store.Call) {
	if t.gaveUp != store.OK {
		t.renew()
		t.gaveUp = store.OK
	}
	t.call = c
	t.work <- c
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
	close(t.work)
	<-t.ended
}

func (t *Thread) run(clk clock.Clock, done func(*Thread)) {
	defer close(t.ended)
	for c := range t.work {
		t.trace.Reset()
		t.err = t.do(c)
		c.End = clk.Now()
		done(t)
	}
}

// Finish takes the call that has come back, and judges how it ended. timeout is for the error's text.
func (t *Thread) Finish(timeout time.Duration) *store.Call {
	c := t.call
	t.call = nil
	c.RPCs = t.trace.RPCs()
	c.Class, c.Err = store.OK, nil
	if text := t.trace.StoreError(); text != "" {
		c.Class, c.Err = store.RawError, errors.New(text)
		return c
	}
	switch {
	case t.err == nil:
	case t.gaveUp == store.Timeout:
		c.Class, c.Err = store.Timeout, fmt.Errorf("no answer within %v: %w", timeout, t.err)
	case t.gaveUp != store.OK:
		c.Class, c.Err = t.gaveUp, t.err
	default:
		c.Class, c.Err = cluster.Classify(t.err), t.err
	}
	return c
}

// do makes a call and fills in what was found. The batch forms of rawkv are not
// atomic: when one part fails, others may have been written.
func (t *Thread) do(c *store.Call) (err error) {
	c.Found, c.FoundKeys, c.Swapped = c.Found[:0], c.FoundKeys[:0], false
	switch c.Verb {
	case store.Get:
		if len(c.Keys) > 1 {
			c.Found, err = t.client.BatchGet(t.ctx, c.Keys)
			return err
		}
		value, err := t.client.Get(t.ctx, c.Keys[0])
		c.Found = append(c.Found, value)
		return err
	case store.Put:
		if len(c.Keys) > 1 {
			return t.client.BatchPutWithTTL(t.ctx, c.Keys, c.Values, t.ttlOf(c))
		}
		return t.client.PutWithTTL(t.ctx, c.Keys[0], c.Values[0], c.TTL)
	case store.Delete:
		if len(c.Keys) > 1 {
			return t.client.BatchDelete(t.ctx, c.Keys)
		}
		return t.client.Delete(t.ctx, c.Keys[0])
	case store.Scan:
		return t.scan(c)
	case store.CompareAndSwap:
		return t.swap(c)
	}
	return fmt.Errorf("no such verb: %d", c.Verb)
}

// ttlOf returns the TTL of a batch put once for each key.
func (t *Thread) ttlOf(c *store.Call) []uint64 {
	if c.TTL == 0 {
		return nil
	}
	t.ttls = t.ttls[:0]
	for range c.Keys {
		t.ttls = append(t.ttls, c.TTL)
	}
	return t.ttls
}

func (t *Thread) scan(c *store.Call) (err error) {
	var options []rawkv.RawOption
	if c.KeyOnly {
		options = append(options, rawkv.ScanKeyOnly())
	}
	if c.Reverse {
		c.FoundKeys, c.Found, err = t.client.ReverseScan(t.ctx, c.Keys[0], c.EndKey, c.Limit, options...)
	} else {
		c.FoundKeys, c.Found, err = t.client.Scan(t.ctx, c.Keys[0], c.EndKey, c.Limit, options...)
	}
	return err
}

func (t *Thread) swap(c *store.Call) error {
	if c.TTL != 0 {
		return errors.New("client-go cannot send a TTL with compare-and-swap")
	}
	previous := c.Previous
	switch {
	case c.MustNotExist:
		previous = nil
	case previous == nil:
		previous = []byte{} // nil would mean that there must be none
	}
	value, swapped, err := t.client.Atomic.CompareAndSwap(t.ctx, c.Keys[0], previous, c.Values[0])
	c.Found, c.Swapped = append(c.Found, value), swapped
	return err
}
