// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
)

// transactions is what transactional commands share while they run. As all stores share one database, so they share this: moved
// leaders need not hand anything over.
type transactions struct {
	latches  latches
	maxTS    atomic.Uint64 // the latest timestamp that was read at
	waits    lockWaits
	resolved resolved
}

// latches let commands that change the same keys run one after another.
type latches struct {
	seed   maphash.Seed
	shards [latchShards]latch
}

type latch struct{ sync.RWMutex }

// pass waits until it is free, and leaves it so.
func (l *latch) pass() {
	l.RLock()
	defer l.RUnlock()
}

const latchShards = 256

func (l *latches) shard(key []byte) int { return int(maphash.Bytes(l.seed, key) % latchShards) }

// take waits until the keys are free, and returns what frees them again.
func (l *latches) take(keys ...[]byte) (free func()) {
	if len(keys) == 1 {
		mu := &l.shards[l.shard(keys[0])]
		mu.Lock()
		return mu.Unlock
	}
	shards := make([]int, len(keys))
	for i, key := range keys {
		shards[i] = l.shard(key)
	}
	slices.Sort(shards)
	shards = slices.Compact(shards)
	for _, i := range shards {
		l.shards[i].Lock()
	}
	return func() {
		for _, i := range shards {
			l.shards[i].Unlock()
		}
	}
}

// pass waits until commands that hold a key now have let it go; without keys, until those that hold any have.
func (l *latches) pass(keys ...[]byte) {
	for _, key := range keys {
		l.shards[l.shard(key)].pass()
	}
	if len(keys) > 0 {
		return
	}
	for i := range l.shards {
		l.shards[i].pass()
	}
}

// readAt readies a read at ts. A commit whose timestamp the stores choose (async commit, one phase) is later than every read before it:
// it takes its timestamp while it holds its keys, so that one that has not heard of this read is over when readAt returns.
func (t *transactions) readAt(ts uint64, keys ...[]byte) {
	t.seen(ts)
	t.latches.pass(keys...)
}

func (t *transactions) seen(ts uint64) {
	for {
		now := t.maxTS.Load()
		if ts <= now || ts == maxTimestamp || t.maxTS.CompareAndSwap(now, ts) {
			return
		}
	}
}
