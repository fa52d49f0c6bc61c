// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"slices"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/store/kit"
	"github.com/kvbench/kvbench/internal/store/tikv"
)

// maxFallbacks is how many fallbacks of one lane are under way at a time; others
// wait. There are never more of them than there are parts of calls in flight.
const maxFallbacks = 128

// fallback is a part's way through rawkv.
type fallback struct {
	part   *part
	call   store.Call
	thread *kit.Thread // nil: it waits for one
}

// fallbacks is the pool of goroutines for fallbacks.
type fallbacks struct {
	client *tikv.Client
	clk    clock.Clock
	inbox  *kit.Inbox[event]
	limit  int

	threads []*kit.Thread
	byIndex []*fallback // what each thread does
	free    []*kit.Thread
	waiting []*fallback
}

// fallback sends a part through rawkv.
func (s *session) fallback(p *part, cause Cause) {
	f := p.flight
	s.counts.fallback(p, cause)
	if p.link != nil && cause == NoAnswer {
		p.link.stray++
	}
	s.attempts.Remove(p.slot)
	s.renew(p)
	c := f.call
	d := &fallback{part: p}
	d.call = store.Call{Verb: c.Verb, TTL: c.TTL, Start: c.Start}
	switch c.Verb {
	case store.Scan:
		d.call.Keys, d.call.EndKey = c.Keys, c.EndKey
		d.call.Limit, d.call.Reverse, d.call.KeyOnly = c.Limit-len(c.FoundKeys), c.Reverse, c.KeyOnly
		if p.command == cmdRawScan {
			d.call.Keys = [][]byte{slices.Clone(f.scanFrom)}
		}
	case store.CompareAndSwap:
		d.call.Keys, d.call.Values, d.call.Previous, d.call.MustNotExist = c.Keys, c.Values, c.Previous, c.MustNotExist
	default:
		for _, i := range p.keys {
			d.call.Keys = append(d.call.Keys, c.Keys[i])
			if c.Verb == store.Put {
				d.call.Values = append(d.call.Values, c.Values[i])
			}
		}
	}
	p.fallback = d
	s.fallbacks.start(d)
}

func (ds *fallbacks) start(d *fallback) {
	if len(ds.free) == 0 && len(ds.threads) < ds.limit {
		t := kit.NewThread(len(ds.threads), tikv.NewCaller(ds.client), ds.clk, func(t *kit.Thread) {
			ds.inbox.Put(event{kind: fallbackDone, thread: t})
		})
		ds.threads = append(ds.threads, t)
		ds.byIndex = append(ds.byIndex, nil)
		ds.free = append(ds.free, t)
	}
	n := len(ds.free)
	if n == 0 {
		ds.waiting = append(ds.waiting, d)
		return
	}
	d.thread, ds.free = ds.free[n-1], ds.free[:n-1]
	ds.byIndex[d.thread.Index] = d
	d.thread.Start(&d.call)
}

// returned takes the fallback that a thread has come back from, and lets the next one start.
func (ds *fallbacks) returned(t *kit.Thread) *fallback {
	d := ds.byIndex[t.Index]
	ds.byIndex[t.Index] = nil
	ds.free = append(ds.free, t)
	if len(ds.waiting) > 0 {
		next := ds.waiting[0]
		ds.waiting = slices.Delete(ds.waiting, 0, 1)
		ds.start(next)
	}
	return d
}

// cancel gives a fallback up. True: it will return soon; false: it had not started, and never will.
func (ds *fallbacks) cancel(d *fallback, why store.Class) bool {
	if d.thread != nil {
		d.thread.GiveUp(why)
		return true
	}
	if i := slices.Index(ds.waiting, d); i >= 0 {
		ds.waiting = slices.Delete(ds.waiting, i, i+1)
	}
	return false
}

func (ds *fallbacks) close() {
	for _, t := range ds.threads {
		t.Stop()
	}
}

// returned joins what a fallback brought back with the rest of its call.
func (s *session) returned(t *kit.Thread) {
	found := t.Finish(s.config.Timeout)
	d := s.fallbacks.returned(t)
	p, c := d.part, d.part.flight.call
	c.RPCs += found.RPCs
	p.flight.ended(found.End)
	if found.Class != store.OK {
		p.flight.fail(found.Class, found.Err)
	}
	switch {
	case found.Class != store.OK:
	case c.Verb == store.Get:
		for i, at := range p.keys {
			c.Found[at] = found.Found[i]
		}
	case c.Verb == store.Scan:
		c.FoundKeys = append(c.FoundKeys, found.FoundKeys...)
		c.Found = append(c.Found, found.Found...)
	case c.Verb == store.CompareAndSwap:
		c.Found, c.Swapped = append(c.Found, found.Found...), found.Swapped
	}
	p.link = nil
	s.finish(p)
}
