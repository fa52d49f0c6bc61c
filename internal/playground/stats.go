// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"fmt"
	"maps"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/peer"
)

// storeStats counts what a store was asked. Counting costs a few atomic adds, a lock that few want at a time, and two readings of the clock per message, none per command.
type storeStats struct {
	batched  [256]atomic.Uint64 // commands that came in BatchCommands messages
	unary    [256]atomic.Uint64
	served   [256]served // both, by the time that it took to answer, as far as threads have handed it over
	threads  [grpcThreads]thread
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

const (
	grpcThreads = 5           // of a store, each of which serves its part of the connections: TiKV's server.grpc-concurrency by default
	countsKept  = time.Second // threads keep for so long what they have counted, and until the next answer
)

// thread is one of those that serve connections. As in TiKV, it keeps what it has counted, and hands it over with its first answer a second
// or more after it did last: after the last answer of all, the counts of up to a second stay away.
type thread struct {
	mu     sync.Mutex
	handed time.Time
	kept   [256]struct {
		commands uint64
		took     time.Duration // all together
	}
}

// thread is the one that serves the connection of a call. Connections go to threads in turn.
func (s *storeStats) thread(ctx context.Context) *thread {
	var turn turnAddr
	if p, ok := peer.FromContext(ctx); ok {
		turn, _ = p.Addr.(turnAddr)
	}
	return &s.threads[turn.accepted%grpcThreads]
}

// answered counts commands of a message that arrived at a moment and have all been answered at another.
func (s *storeStats) answered(t *thread, slots []*slot, arrived, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	eachKind(slots, func(cmd command, n int) {
		t.kept[cmd].commands += uint64(n)
		t.kept[cmd].took += time.Duration(n) * now.Sub(arrived)
	})
	if now.Sub(t.handed) < countsKept {
		return
	}
	for cmd := range t.kept {
		if k := &t.kept[cmd]; k.commands > 0 {
			s.served[cmd].commands.Add(k.commands)
			s.served[cmd].nanoseconds.Add(int64(k.took))
			k.commands, k.took = 0, 0
		}
	}
	t.handed = now
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
