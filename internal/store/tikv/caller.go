// SPDX-License-Identifier: Apache-2.0

package tikv

import (
	"context"
	"errors"
	"fmt"

	"github.com/tikv/client-go/v2/rawkv"

	"github.com/kvbench/kvbench/internal/store"
)

// Caller makes calls through rawkv. It implements [kit.Caller].
type Caller struct {
	client *Client
	trace  Trace
	ttls   []uint64 // of a batch: one for each key, as client-go wants it
}

// NewCaller returns a caller for one goroutine.
func NewCaller(client *Client) *Caller { return &Caller{client: client} }

// Context implements [kit.Caller]. The context ends with ctx and has none of its values.
func (r *Caller) Context(ctx context.Context) context.Context {
	return &followed{Context: ctx, done: ctx.Done(), trace: &r.trace}
}

// followed is [Trace.Context] at less cost. client-go asks the context of a raw call for a dozen values that it does not
// have; to look for them context by context, in memory that is in no cache, took 2 % of a read's CPU with 800 threads.
type followed struct {
	context.Context
	done  <-chan struct{}
	trace *Trace
}

// Done implements [context.Context].
func (f *followed) Done() <-chan struct{} { return f.done }

// Value implements [context.Context].
func (f *followed) Value(key any) any {
	if key == (traceKey{}) {
		return f.trace
	}
	return nil
}

// AfterFunc is what package context looks for in contexts of other packages; without it, every
// context below would have a goroutine.
func (f *followed) AfterFunc(end func()) (stop func() bool) { return context.AfterFunc(f.Context, end) }

// Do implements [kit.Caller]. ctx is from Context.
func (r *Caller) Do(ctx context.Context, c *store.Call) {
	r.trace.Reset()
	err := r.do(ctx, c)
	c.RPCs = r.trace.RPCs()
	if text := r.trace.StoreError(); text != "" {
		c.Class, c.Err = store.RawError, errors.New(text)
		return
	}
	c.Class, c.Err = Classify(err), err
}

// do makes a call and fills in what was found. The batch forms of rawkv are not
// atomic: when one part fails, others may have been written.
func (r *Caller) do(ctx context.Context, c *store.Call) (err error) {
	c.Found, c.FoundKeys, c.Swapped = c.Found[:0], c.FoundKeys[:0], false
	switch c.Verb {
	case store.Get:
		if len(c.Keys) > 1 {
			c.Found, err = r.client.BatchGet(ctx, c.Keys)
			return err
		}
		value, err := r.client.Get(ctx, c.Keys[0])
		c.Found = append(c.Found, value)
		return err
	case store.Put:
		if len(c.Keys) > 1 {
			return r.client.BatchPutWithTTL(ctx, c.Keys, c.Values, r.ttlOf(c))
		}
		return r.client.PutWithTTL(ctx, c.Keys[0], c.Values[0], c.TTL)
	case store.Delete:
		if len(c.Keys) > 1 {
			return r.client.BatchDelete(ctx, c.Keys)
		}
		return r.client.Delete(ctx, c.Keys[0])
	case store.Scan:
		return r.scan(ctx, c)
	case store.CompareAndSwap:
		return r.swap(ctx, c)
	}
	return fmt.Errorf("no such verb: %d", c.Verb)
}

// ttlOf returns the TTL of a batch put once for each key.
func (r *Caller) ttlOf(c *store.Call) []uint64 {
	if c.TTL == 0 {
		return nil
	}
	r.ttls = r.ttls[:0]
	for range c.Keys {
		r.ttls = append(r.ttls, c.TTL)
	}
	return r.ttls
}

func (r *Caller) scan(ctx context.Context, c *store.Call) (err error) {
	var options []rawkv.RawOption
	if c.KeyOnly {
		options = append(options, rawkv.ScanKeyOnly())
	}
	if c.Reverse {
		c.FoundKeys, c.Found, err = r.client.ReverseScan(ctx, c.Keys[0], c.EndKey, c.Limit, options...)
	} else {
		c.FoundKeys, c.Found, err = r.client.Scan(ctx, c.Keys[0], c.EndKey, c.Limit, options...)
	}
	return err
}

func (r *Caller) swap(ctx context.Context, c *store.Call) error {
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
	value, swapped, err := r.client.Atomic.CompareAndSwap(ctx, c.Keys[0], previous, c.Values[0])
	c.Found, c.Swapped = append(c.Found, value), swapped
	return err
}
