// SPDX-License-Identifier: Apache-2.0

package txnkv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	tikverr "github.com/tikv/client-go/v2/error"
	"github.com/tikv/client-go/v2/kv"
	"github.com/tikv/client-go/v2/oracle"
	client "github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/txnkv/transaction"
	"github.com/tikv/client-go/v2/txnkv/txnsnapshot"
	"github.com/tikv/client-go/v2/util"

	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/store/tikv"
)

// caller makes calls as transactions. It implements [kit.Caller].
type caller struct {
	client  *tikv.TxnClient
	options Options
	trace   tikv.Trace
	held    *held

	// What client-go tells of a call.
	waits  util.ExecDetails
	commit *util.CommitDetails // nil: there was no commit

	phases [store.Phases]time.Duration // of the call
}

// Context implements [kit.Caller].
func (r *caller) Context(ctx context.Context) context.Context {
	ctx = context.WithValue(ctx, util.ExecDetailsKey, &r.waits)
	return context.WithValue(r.trace.Context(ctx), util.CommitDetailCtxKey, &r.commit)
}

// Do implements [kit.Caller]. ctx is from Context.
func (r *caller) Do(ctx context.Context, c *store.Call) {
	r.trace.Reset()
	atomic.StoreInt64(&r.waits.BackoffDuration, 0)
	r.commit, r.phases = nil, [store.Phases]time.Duration{}
	c.Found, c.FoundKeys, c.Swapped, c.Snapshot, c.Locked = c.Found[:0], c.FoundKeys[:0], false, 0, false
	if c.Cost != nil && !(c.ForUpdate && c.Verb != store.Get) { // one that goes on was counted when it began
		c.Cost.Transactions++
	}
	began := time.Now()
	err := pause(ctx, c.Delay)
	if c.Delay > 0 {
		r.took(store.Pause, began)
	}
	if err == nil {
		err = r.do(ctx, c)
	}
	c.RPCs, c.Class, c.Err = r.trace.RPCs(), tikv.Classify(err), err
	if c.Cost != nil {
		r.phases[store.Backoff] = min(time.Since(began), time.Duration(atomic.LoadInt64(&r.waits.BackoffDuration)))
		r.trace.AddTo(c.Cost)
		for phase, took := range r.phases {
			c.Cost.Phases[phase] += took
		}
	}
}

// pause waits, until ctx ends at most.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// took counts the time since a moment to a phase.
func (r *caller) took(phase store.Phase, began time.Time) { r.phases[phase] += time.Since(began) }

func (r *caller) do(ctx context.Context, c *store.Call) error {
	switch c.Verb {
	case store.Get:
		if c.ForUpdate {
			return r.getForUpdate(ctx, c)
		}
		snapshot, err := r.snapshot(ctx, c)
		if err != nil {
			return err
		}
		defer r.took(store.Reading, time.Now())
		return get(ctx, snapshot, c)
	case store.Scan:
		snapshot, err := r.snapshot(ctx, c)
		if err != nil {
			return err
		}
		r.client.ScansHeed(ctx, snapshot)
		defer r.took(store.Reading, time.Now())
		return scan(snapshot, c)
	case store.Put, store.Delete:
		return r.write(ctx, c)
	case store.Unlock:
		return r.held.take(c).Rollback()
	}
	return fmt.Errorf("transactions know no %v", c.Verb)
}

// snapshot returns the data that a call reads.
func (r *caller) snapshot(ctx context.Context, c *store.Call) (*txnsnapshot.KVSnapshot, error) {
	stale := c.Relaxed && r.options.Staleness > 0
	timestamp := r.client.Timestamp
	if stale {
		timestamp = func(ctx context.Context) (uint64, error) { return r.client.Ago(ctx, r.options.Staleness) }
	} else {
		defer r.took(store.BeginTimestamp, time.Now())
	}
	ts, err := timestamp(ctx)
	if err != nil {
		return nil, err
	}
	c.Snapshot = ts
	snapshot := r.client.GetSnapshot(ts)
	snapshot.SetPriority(r.options.Priority)
	snapshot.SetReplicaRead(r.options.Replicas)
	if c.Relaxed {
		snapshot.SetIsolationLevel(r.options.Isolation)
	}
	if stale {
		snapshot.SetReadReplicaScope(oracle.GlobalTxnScope) // what one replica does not have yet, its leader is asked for
		snapshot.SetIsStalenessReadOnly(true)
	}
	return snapshot, nil
}

// get fills in what a snapshot holds.
func get(ctx context.Context, snapshot *txnsnapshot.KVSnapshot, c *store.Call) error {
	if len(c.Keys) == 1 {
		value, err := snapshot.Get(ctx, c.Keys[0])
		if err != nil && !tikverr.IsErrNotFound(err) {
			return err
		}
		c.Found = append(c.Found, value)
		return nil
	}
	found, err := snapshot.BatchGet(ctx, c.Keys)
	if err != nil {
		return err
	}
	for _, key := range c.Keys {
		c.Found = append(c.Found, found[string(key)])
	}
	return nil
}

func scan(snapshot *txnsnapshot.KVSnapshot, c *store.Call) error {
	const leastPage, mostPage = 2, 1024 // rows of a request; client-go takes 1 for its default, 256
	snapshot.SetKeyOnly(c.KeyOnly)
	snapshot.SetScanBatchSize(min(max(leastPage, c.Limit), mostPage))
	from, to := c.Keys[0], c.EndKey
	if !c.Reverse && len(to) > 0 && bytes.Compare(from, to) >= 0 {
		return nil
	}
	open := func() (rows, error) { return snapshot.Iter(from, to) }
	if c.Reverse {
		open = func() (rows, error) { return snapshot.IterReverse(from) }
	}
	it, err := open()
	if err != nil {
		return err
	}
	defer it.Close()
	for it.Valid() && !(c.Reverse && bytes.Compare(it.Key(), to) < 0) {
		c.FoundKeys, c.Found = append(c.FoundKeys, it.Key()), append(c.Found, it.Value())
		if len(c.Found) == c.Limit {
			return nil
		}
		if err := it.Next(); err != nil {
			return err
		}
	}
	return nil
}

// rows is client-go's iterator.
type rows interface {
	Valid() bool
	Key() []byte
	Value() []byte
	Next() error
	Close()
}

// begin begins a transaction that will write.
func (r *caller) begin(ctx context.Context) (*transaction.KVTxn, error) {
	began := time.Now()
	ts, err := r.client.Timestamp(ctx)
	r.took(store.BeginTimestamp, began)
	if err != nil {
		return nil, err
	}
	txn, err := r.client.Begin(client.WithStartTS(ts))
	if err != nil {
		return nil, err
	}
	txn.SetPessimistic(r.options.Pessimistic)
	txn.SetEnableAsyncCommit(r.options.AsyncCommit)
	txn.SetEnable1PC(r.options.OnePhase)
	txn.SetCausalConsistency(r.options.Causal)
	txn.SetPriority(r.options.Priority)
	return txn, nil
}

// getForUpdate begins the transaction that a Put for update will end.
func (r *caller) getForUpdate(ctx context.Context, c *store.Call) error {
	txn, err := r.begin(ctx)
	if err != nil {
		return err
	}
	if !r.options.Pessimistic {
		c.Slot = txn
		defer r.took(store.Reading, time.Now())
		return get(ctx, txn.GetSnapshot(), c)
	}
	locks, err := r.lock(ctx, txn, c.Keys, true)
	if err != nil {
		return errors.Join(err, txn.Rollback())
	}
	for _, key := range c.Keys {
		value := locks.Values[string(key)]
		if !value.Exists {
			value.Value = nil
		}
		c.Found = append(c.Found, value.Value)
	}
	c.Slot, c.Locked = txn, true
	r.held.add(txn)
	return nil
}

// lock locks keys as they are by then. Others may have written them while it waited: as TiDB does, the transaction, which has read nothing
// but what it locks, asks again as of now, and so keeps its age, by which those who wait are served.
func (r *caller) lock(ctx context.Context, txn *transaction.KVTxn, keys [][]byte, values bool) (*kv.LockCtx, error) {
	wait := r.options.LockWait.Milliseconds()
	if wait == 0 {
		wait = kv.LockNoWait
	}
	own := make([][]byte, len(keys)) // what is rolled back is so in the background, when the call may have other keys
	for i, key := range keys {
		own[i] = bytes.Clone(key)
	}
	start, waited := time.Now(), r.trace.Waited()
	defer func() {
		waited = r.trace.Waited() - waited
		r.phases[store.BeginTimestamp] += waited
		r.phases[store.Locking] += time.Since(start) - waited
	}()
	for at := txn.StartTS(); ; {
		locks := kv.NewLockCtx(at, wait, start)
		if values {
			locks.InitReturnValues(len(keys))
		}
		err := txn.LockKeys(ctx, locks, own...)
		if tikv.Classify(err) != store.Conflict || time.Since(start) >= r.options.LockWait {
			return locks, err
		}
		if at, err = r.client.Timestamp(ctx); err != nil {
			return nil, err
		}
	}
}

// write commits a transaction: the one that has read what is written, if that was for update.
func (r *caller) write(ctx context.Context, c *store.Call) (err error) {
	if c.TTL != 0 {
		return errors.New("transactions know no time to live")
	}
	var txn *transaction.KVTxn
	if c.ForUpdate {
		txn = r.held.take(c)
	} else if txn, err = r.begin(ctx); err != nil {
		return err
	}
	for i, key := range c.Keys {
		if c.Verb == store.Delete {
			err = txn.Delete(key)
		} else {
			err = txn.Set(key, c.Values[i])
		}
		if err != nil {
			return errors.Join(err, txn.Rollback())
		}
	}
	if r.options.Pessimistic && !c.ForUpdate {
		if _, err := r.lock(ctx, txn, c.Keys, false); err != nil {
			return errors.Join(err, txn.Rollback())
		}
	}
	waited := r.trace.Waited()
	err = txn.Commit(ctx)
	r.phases[store.CommitTimestamp] = r.trace.Waited() - waited
	if r.commit != nil {
		r.phases[store.Prewriting], r.phases[store.Committing] = r.commit.PrewriteTime, r.commit.CommitTime
	}
	return err
}

// held are transactions that hold locks while none of their calls is in flight.
type held struct {
	mu  sync.Mutex
	all map[*transaction.KVTxn]struct{}
}

func (h *held) add(txn *transaction.KVTxn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all[txn] = struct{}{}
}

// take returns the transaction of a call that has read for update.
func (h *held) take(c *store.Call) *transaction.KVTxn {
	txn := c.Slot.(*transaction.KVTxn)
	c.Slot = nil
	if txn.IsPessimistic() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.all, txn)
	}
	return txn
}

// rollBack ends those whose calls will not come: the run has ended.
func (h *held) rollBack() (err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for txn := range h.all {
		err = errors.Join(err, txn.Rollback())
	}
	clear(h.all)
	return err
}
