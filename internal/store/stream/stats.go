// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"cmp"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
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

// SizeBuckets is the number of classes of message sizes: one command, 2, 3–4, 5–8 and so on by powers of
// two; the last one is open.
const SizeBuckets = 12

// bucket returns the class of a message of n commands.
func bucket(n int) int { return min(bits.Len(uint(n-1)), SizeBuckets-1) }

// Stats counts what a driver sent.
type Stats struct {
	Stores  []StoreStats  // by address
	Detours [Causes]int64 // commands, or parts of batches, that went through rawkv
}

// StoreStats counts what went to one store by the fast path.
type StoreStats struct {
	Address  string
	Messages int64
	Commands int64
	Sizes    [SizeBuckets]int64 // messages by the number of their commands
	Breaks   int64              // streams that broke
}

// Total returns the sums over all stores.
func (s *Stats) Total() StoreStats {
	var t StoreStats
	for i := range s.Stores {
		t.add(&s.Stores[i])
	}
	return t
}

func (s *StoreStats) add(o *StoreStats) {
	s.Messages += o.Messages
	s.Commands += o.Commands
	s.Breaks += o.Breaks
	for i, n := range o.Sizes {
		s.Sizes[i] += n
	}
}

// counters are one session's: written by its lane, read by anybody.
type counters struct {
	detours [Causes]atomic.Int64

	mu     sync.Mutex
	stores []*storeCounters
}

type storeCounters struct {
	address                    string
	messages, commands, breaks atomic.Int64
	sizes                      [SizeBuckets]atomic.Int64
}

func newCounters() *counters { return new(counters) }

func (c *counters) store(address string) *storeCounters {
	s := &storeCounters{address: address}
	c.mu.Lock()
	c.stores = append(c.stores, s)
	c.mu.Unlock()
	return s
}

func (s *storeCounters) sent(commands int) {
	s.messages.Add(1)
	s.commands.Add(int64(commands))
	s.sizes[bucket(commands)].Add(1)
}

// addTo adds c to stats.
func (c *counters) addTo(stats *Stats) {
	for i := range c.detours {
		stats.Detours[i] += c.detours[i].Load()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.stores {
		is := StoreStats{Messages: s.messages.Load(), Commands: s.commands.Load(), Breaks: s.breaks.Load()}
		for i := range s.sizes {
			is.Sizes[i] = s.sizes[i].Load()
		}
		at, found := slices.BinarySearchFunc(stats.Stores, s.address, func(s StoreStats, address string) int {
			return cmp.Compare(s.Address, address)
		})
		if !found {
			stats.Stores = slices.Insert(stats.Stores, at, StoreStats{Address: s.address})
		}
		stats.Stores[at].add(&is)
	}
}
