// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/store/kit"
)

// Cause is why a command did not take the fast path.
type Cause uint8

// The causes.
const (
	UnknownRegion Cause = iota // client-go has not looked it up yet
	NotLeader                  // the region has another leader
	EpochNotMatch              // the region was split, merged or moved
	RegionNotFound
	Busy             // ServerIsBusy
	RegionError      // any other error of a region
	NoStream         // the store cannot be reached, or takes no more
	BrokenStream     // the stream ended before the answer came
	NoAnswer         // not within the 30 s that client-go waits too
	Unsupported      // compare-and-swap and descending scans have no fast path
	Causes       int = int(Unsupported) + 1
)

// String returns the cause's name as it stands in results.
func (c Cause) String() string {
	return [...]string{
		"unknown_region", "not_leader", "epoch_not_match", "region_not_found", "busy", "region_error",
		"no_stream", "broken_stream", "no_answer", "unsupported",
	}[c]
}

// counters are one session's: written by its lane, read by anybody.
type counters struct {
	fallbackCounters // of parts that have no route

	mu     sync.Mutex
	stores []*storeCounters
}

// storeCounters count what one session has to do with one store.
type storeCounters struct {
	address  string
	messages kit.Messages
	breaks   atomic.Int64
	fallbackCounters
}

type fallbackCounters struct {
	fallbacks [Causes]atomic.Int64
	unsent    atomic.Int64 // how many of them had not been sent before
}

func newCounters() *counters { return new(counters) }

func (c *counters) store(address string) *storeCounters {
	s := &storeCounters{address: address}
	c.mu.Lock()
	c.stores = append(c.stores, s)
	c.mu.Unlock()
	return s
}

// fallback counts a fallback of a part.
func (c *counters) fallback(p *part, cause Cause) {
	d := &c.fallbackCounters
	if p.route != nil {
		d = &p.route.connection.count.fallbackCounters
	}
	d.fallbacks[cause].Add(1)
	if p.link == nil {
		d.unsent.Add(1)
	}
}

func (d *fallbackCounters) addTo(t *store.Traffic) {
	for i := range d.fallbacks {
		if n := d.fallbacks[i].Load(); n > 0 {
			if t.Fallbacks == nil {
				t.Fallbacks = make(map[string]int64)
			}
			t.Fallbacks[Cause(i).String()] += n
		}
	}
	t.Unsent += d.unsent.Load()
}

// addTo adds what was counted to traffic, which is sorted by store.
func (c *counters) addTo(traffic []store.Traffic) []store.Traffic {
	of := func(address string) *store.Traffic {
		at, found := slices.BinarySearchFunc(traffic, address, func(t store.Traffic, address string) int {
			return cmp.Compare(t.Store, address)
		})
		if !found {
			traffic = slices.Insert(traffic, at, store.Traffic{Store: address})
		}
		return &traffic[at]
	}
	c.fallbackCounters.addTo(of(""))
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.stores {
		t := of(s.address)
		s.messages.AddTo(t)
		s.fallbackCounters.addTo(t)
		t.Breaks += s.breaks.Load()
	}
	return traffic
}
