// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/dgryski/go-farm"
	"github.com/pingcap/kvproto/pkg/deadlock"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
)

// maxLockWait is for how long a pessimistic lock is waited for at a store; clients ask again (TiKV's wait-for-lock-timeout).
const maxLockWait = time.Second

// lateWake is how long after a lock is gone those are woken that it was not given to (TiKV's wake-up-delay-duration).
const lateWake = 20 * time.Millisecond

// lockWaits are the transactions that wait for a lock of another one, and so who waits for whom.
type lockWaits struct {
	mu     sync.Mutex
	byKey  map[string][]*lockWait
	byWait map[uint64][]*lockWait // by the start of the one that waits
}

type lockWait struct {
	startTS, holderTS uint64
	key               string
	userKey           []byte
	gone              chan struct{} // closed when the lock may be free
	passed            chan struct{} // closed when it may be, and an older transaction comes first
	isPassed          bool
}

// add lets a transaction wait for the holder of a key, unless that one waits, itself or by others, for this one. It must be called while
// the key's latch is held: no wake is missed then.
func (w *lockWaits) add(startTS, holderTS uint64, encoded, userKey []byte) (*lockWait, *kvrpcpb.Deadlock) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wait := &lockWait{startTS: startTS, holderTS: holderTS, key: string(encoded), userKey: userKey, gone: make(chan struct{}), passed: make(chan struct{})}
	if chain := w.path(holderTS, startTS, map[uint64]bool{}); chain != nil {
		last := chain[len(chain)-1] // waits for a key that this transaction holds
		d := &kvrpcpb.Deadlock{LockTs: holderTS, LockKey: userKey, DeadlockKeyHash: farm.Fingerprint64(last.userKey)}
		for _, edge := range append(chain, wait) {
			d.WaitChain = append(d.WaitChain, &deadlock.WaitForEntry{
				Txn: edge.startTS, WaitForTxn: edge.holderTS, Key: edge.userKey, KeyHash: farm.Fingerprint64(edge.userKey),
			})
		}
		return nil, d
	}
	if w.byKey == nil {
		w.byKey, w.byWait = map[string][]*lockWait{}, map[uint64][]*lockWait{}
	}
	w.byKey[wait.key] = append(w.byKey[wait.key], wait)
	w.byWait[startTS] = append(w.byWait[startTS], wait)
	return wait, nil
}

// path returns the waits that lead from one transaction to another.
func (w *lockWaits) path(from, to uint64, visited map[uint64]bool) []*lockWait {
	visited[from] = true
	for _, edge := range w.byWait[from] {
		if edge.holderTS == to {
			return []*lockWait{edge}
		}
		if visited[edge.holderTS] {
			continue
		}
		if rest := w.path(edge.holderTS, to, visited); rest != nil {
			return append([]*lockWait{edge}, rest...)
		}
	}
	return nil
}

// end takes a wait out that nobody woke.
func (w *lockWaits) end(wait *lockWait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(wait)
}

func (w *lockWaits) remove(wait *lockWait) {
	is := func(other *lockWait) bool { return other == wait }
	if w.byKey[wait.key] = slices.DeleteFunc(w.byKey[wait.key], is); len(w.byKey[wait.key]) == 0 {
		delete(w.byKey, wait.key)
	}
	if w.byWait[wait.startTS] = slices.DeleteFunc(w.byWait[wait.startTS], is); len(w.byWait[wait.startTS]) == 0 {
		delete(w.byWait, wait.startTS)
	}
}

// wake wakes the oldest transaction that waits for each of the keys whose locks are gone, and lets the others know.
func (w *lockWaits) wake(keys [][]byte) {
	if len(keys) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range keys {
		waits := w.byKey[string(key)]
		if len(waits) == 0 {
			continue
		}
		oldest := slices.MinFunc(waits, func(a, b *lockWait) int { return cmp.Compare(a.startTS, b.startTS) })
		for _, wait := range waits {
			if wait != oldest && !wait.isPassed {
				wait.isPassed = true
				close(wait.passed)
			}
		}
		w.remove(oldest)
		close(oldest.gone)
	}
}
