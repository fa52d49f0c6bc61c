// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"fmt"
	"maps"
	"math/bits"
	"sync"
	"sync/atomic"
)

// storeStats counts what a store was asked. Counting costs a few atomic adds per message, none per command.
type storeStats struct {
	batched  [256]atomic.Uint64 // commands that came in BatchCommands messages
	unary    [256]atomic.Uint64
	messages atomic.Uint64
	sizes    [messageSizes]atomic.Uint64 // messages by commands, in powers of two

	mu       sync.Mutex
	refusals map[string]uint64 // region errors by type
}

func (s *storeStats) message(slots []*slot) {
	s.messages.Add(1)
	s.sizes[min(bits.Len(uint(len(slots))), messageSizes-1)].Add(1)
	for len(slots) > 0 {
		n := 1
		for n < len(slots) && slots[n].cmd == slots[0].cmd {
			n++
		}
		s.batched[slots[0].cmd].Add(uint64(n))
		slots = slots[n:]
	}
}

func (s *storeStats) refused(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusals == nil {
		s.refusals = map[string]uint64{}
	}
	s.refusals[kind]++
}

// messageSizes is the number of buckets for the sizes of messages.
const messageSizes = 17

// sizeBucket names the bucket of messages by their number of commands: "0", "1", "2-3", "4-7", and so on.
func sizeBucket(i int) string {
	if i < 2 {
		return fmt.Sprint(i)
	}
	if i == messageSizes-1 {
		return fmt.Sprintf("%d+", 1<<(i-1))
	}
	return fmt.Sprintf("%d-%d", 1<<(i-1), 1<<i-1)
}

func (s *storeStats) refusedByType() map[string]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := make(map[string]uint64, len(s.refusals))
	maps.Copy(counts, s.refusals)
	return counts
}
