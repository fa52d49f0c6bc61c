// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"fmt"
	"maps"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// storeStats counts what a store was asked. Counting costs a few atomic adds and two readings of the clock per message, none per command.
type storeStats struct {
	batched  [256]atomic.Uint64 // commands that came in BatchCommands messages
	unary    [256]atomic.Uint64
	served   [256]served // both, by the time that it took to answer
	messages atomic.Uint64
	sizes    [messageSizes]atomic.Uint64 // messages by commands, in powers of two
	silent   [silentFaults]atomic.Uint64 // writes and rows that fell to silent faults

	mu       sync.Mutex
	refusals map[string]uint64 // region errors by type
}

func (s *storeStats) message(slots []*slot) {
	s.messages.Add(1)
	s.sizes[min(bits.Len(uint(len(slots))), messageSizes-1)].Add(1)
	eachKind(slots, func(cmd command, n int) { s.batched[cmd].Add(uint64(n)) })
}

// answered counts commands of a message that were served in took, each.
func (s *storeStats) answered(slots []*slot, took time.Duration) {
	eachKind(slots, func(cmd command, n int) { s.served[cmd].add(n, took) })
}

// eachKind calls do for each series of commands of one kind.
func eachKind(slots []*slot, do func(cmd command, n int)) {
	for len(slots) > 0 {
		n := 1
		for n < len(slots) && slots[n].cmd == slots[0].cmd {
			n++
		}
		do(slots[0].cmd, n)
		slots = slots[n:]
	}
}

// served counts commands of one kind and adds up their durations.
type served struct {
	commands    atomic.Uint64
	nanoseconds atomic.Int64
}

func (s *served) add(n int, took time.Duration) {
	s.commands.Add(uint64(n))
	s.nanoseconds.Add(int64(n) * int64(took))
}

func (s *served) load() (commands uint64, took time.Duration) {
	return s.commands.Load(), time.Duration(s.nanoseconds.Load())
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
