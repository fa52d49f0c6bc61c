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

// thread is one virtual thread: a goroutine that makes one call after another.
// The lane owns it while it has no call and gives calls up; the goroutine owns the call in between.
type thread struct {
	index  int
	client *cluster.Client
	work   chan *store.Call

	call   *store.Call // in flight; nil: none. The lane's
	gaveUp store.Class // why the lane gave the call up; OK: it did not

	// One context serves call after call until one is cancelled: a context with
	// a deadline for each call would cost a timer and several allocations, and when it
	// expired, client-go would take the store for dead and leave it alone for a second.
	ctx    context.Context
	cancel context.CancelFunc
	trace  cluster.Trace

	err  error    // of the call, as client-go returned it
	ttls []uint64 // of a batch: one for each key, as client-go wants it
}

func newThread(index int, client *cluster.Client) *thread {
	t := &thread{index: index, client: client, work: make(chan *store.Call, 1)}
	t.renew()
	return t
}

func (t *thread) renew() {
	t.ctx, t.cancel = context.WithCancel(t.trace.Context(context.Background()))
}

// start is called by the lane.
func (t *thread) start(c *store.Call) {
	if t.gaveUp != store.OK {
		t.renew()
		t.gaveUp = store.OK
	}
	t.call = c
	t.work <- c
}

// giveUp is called by the lane while a call is in flight, or just back.
func (t *thread) giveUp(why store.Class) {
	if t.gaveUp == store.OK {
		t.gaveUp = why
		t.cancel()
	}
}

// stop ends the goroutine, which must have no call.
func (t *thread) stop() {
	t.cancel()
	close(t.work)
}

// run is the goroutine.
func (t *thread) run(clk clock.Clock, inbox *store.Inbox[*thread]) {
	for c := range t.work {
		t.trace.Reset()
		t.err = t.do(c)
		c.End = clk.Now()
		inbox.Put(t)
	}
}

// finish is called by the lane when the call has come back.
func (t *thread) finish(timeout time.Duration) *store.Call {
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
func (t *thread) do(c *store.Call) (err error) {
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
func (t *thread) ttlOf(c *store.Call) []uint64 {
	if c.TTL == 0 {
		return nil
	}
	t.ttls = t.ttls[:0]
	for range c.Keys {
		t.ttls = append(t.ttls, c.TTL)
	}
	return t.ttls
}

func (t *thread) scan(c *store.Call) (err error) {
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

func (t *thread) swap(c *store.Call) error {
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
