// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
)

// The rules of this file are those of TiKV's transactions: Percolator with pessimistic locks, async commit and one-phase commit. Each
// command holds the latches of its keys while it looks at them and until its changes are made.

// physical is the part of a timestamp that is a time, in milliseconds since 1970.
func physical(ts uint64) uint64 { return ts >> 18 }

// atomically runs a command on keys in memcomparable form that no other command changes meanwhile, and commits what it changed.
func (c *call) atomically(encoded [][]byte, do func(*mvcc) *kvrpcpb.KeyError) *kvrpcpb.KeyError {
	defer c.storage.txn.latches.take(encoded...)()
	m := &mvcc{storage: c.storage, reader: c.storage.db, loses: c.loses}
	keyErr := do(m)
	if keyErr == nil {
		if err := m.commit(); err != nil {
			keyErr = aborted(err)
		}
	}
	if err := m.close(); err != nil && keyErr == nil {
		keyErr = aborted(err)
	}
	return keyErr
}

// eachKey is atomically for a command that does the same to every key.
func (c *call) eachKey(encoded [][]byte, do func(m *mvcc, i int) *kvrpcpb.KeyError) *kvrpcpb.KeyError {
	return c.atomically(encoded, func(m *mvcc) *kvrpcpb.KeyError {
		for i := range encoded {
			if keyErr := do(m, i); keyErr != nil {
				return keyErr
			}
		}
		return nil
	})
}

// enterTxn checks a command that changes keys, and returns these in memcomparable form.
func (c *call) enterTxn(ctx *kvrpcpb.Context, cmd command, keys ...[]byte) ([][]byte, *errorpb.Error, *kvrpcpb.KeyError) {
	if keyErr := c.acceptTxn(ctx, cmd, keys...); keyErr != nil {
		return nil, nil, keyErr
	}
	encoded := encodeKeys(keys)
	_, regionErr := c.txnHolder(ctx, encoded...)
	return encoded, regionErr, nil
}

func mutated(mutations []*kvrpcpb.Mutation) [][]byte {
	keys := make([][]byte, len(mutations))
	for i, m := range mutations {
		keys[i] = m.Key
	}
	return keys
}

// errorsOf is the list of errors that some responses have, of at most one.
func errorsOf(keyErr *kvrpcpb.KeyError) []*kvrpcpb.KeyError {
	if keyErr == nil {
		return nil
	}
	return []*kvrpcpb.KeyError{keyErr}
}

func (c *call) kvPrewrite(req *kvrpcpb.PrewriteRequest, resp *kvrpcpb.PrewriteResponse) {
	keys := mutated(req.Mutations)
	encoded, regionErr, keyErr := c.enterTxn(req.Context, cmdPrewrite, keys...)
	size := 0
	for _, m := range req.Mutations {
		size += len(m.Key) + len(m.Value)
		if keyErr == nil && len(m.Key) > maxKeySize {
			keyErr = aborted(checkKeySize(m.Key))
		}
	}
	if keyErr == nil && req.AssertionLevel != kvrpcpb.AssertionLevel_Off {
		keyErr = aborted(errors.New("the playground does not check assertions"))
	}
	if keyErr == nil && regionErr == nil {
		regionErr = c.checkEntry(c.routes.byID[req.Context.GetRegionId()], size)
	}
	if resp.RegionError, resp.Errors = regionErr, errorsOf(keyErr); regionErr != nil || keyErr != nil {
		return
	}
	p := prewriting{req: req, resp: resp, encoded: encoded, shared: &c.storage.txn}
	if keyErr := c.atomically(encoded, p.run); keyErr != nil {
		*resp = kvrpcpb.PrewriteResponse{Errors: errorsOf(keyErr)}
		if keyErr.Locked != nil {
			resp.Errors = p.blocked
		}
	}
}

// prewriting is one prewrite.
type prewriting struct {
	*mvcc
	req     *kvrpcpb.PrewriteRequest
	resp    *kvrpcpb.PrewriteResponse
	encoded [][]byte
	shared  *transactions

	fresh    []freshLock
	blocked  []*kvrpcpb.KeyError // all the locks of others that are in the way
	promised uint64              // the largest commit timestamp that an earlier attempt has promised
	earlier  bool                // an earlier attempt has locked some of the keys
	broken   bool                // and promises no commit timestamp for one of them
}

// freshLock is a lock that is to be written.
type freshLock struct {
	*kvrpcpb.Mutation
	encoded []byte
	own     *kvrpcpb.LockInfo // the transaction's pessimistic lock, whose place it takes; or nil
}

func (p *prewriting) run(m *mvcc) *kvrpcpb.KeyError {
	p.mvcc = m
	for i, mutation := range p.req.Mutations {
		keyErr := p.check(mutation, p.encoded[i], p.action(i))
		if keyErr != nil && keyErr.Locked == nil {
			f, err := m.fateOf(p.encoded[i], p.req.StartVersion)
			if err != nil {
				return aborted(err)
			}
			if !f.committed() {
				return keyErr
			}
			// An earlier attempt, whose answer was lost, has committed.
			p.answer(f.commitTS)
			return nil
		}
		if keyErr != nil {
			p.blocked = append(p.blocked, keyErr)
		}
	}
	if len(p.blocked) > 0 {
		return p.blocked[0]
	}
	return p.write()
}

func (p *prewriting) answer(commitTS uint64) {
	if p.req.TryOnePc {
		p.resp.OnePcCommitTs = commitTS
	} else if p.req.UseAsyncCommit {
		p.resp.MinCommitTs = commitTS
	}
}

func (p *prewriting) action(i int) kvrpcpb.PrewriteRequest_PessimisticAction {
	if i < len(p.req.PessimisticActions) {
		return p.req.PessimisticActions[i]
	}
	return kvrpcpb.PrewriteRequest_SKIP_PESSIMISTIC_CHECK
}

// check decides whether a key may be prewritten, and adds it to the fresh locks if it has to be.
func (p *prewriting) check(mutation *kvrpcpb.Mutation, encoded []byte, action kvrpcpb.PrewriteRequest_PessimisticAction) *kvrpcpb.KeyError {
	demanded := p.req.ForUpdateTs > 0 && action == kvrpcpb.PrewriteRequest_DO_PESSIMISTIC_CHECK
	l, err := p.lock(encoded)
	switch {
	case err != nil:
		return aborted(err)
	case l != nil && l.LockVersion != p.req.StartVersion:
		if demanded {
			return p.lockNotFound(mutation.Key)
		}
		if p.req.ForUpdateTs > 0 {
			l.LockTtl = 0 // tells the client to resolve it whatever its age: who has pessimistic locks does not wait for those of others
		}
		return locked(mutation.Key, l)
	case l != nil && l.LockType != kvrpcpb.Op_PessimisticLock:
		p.earlier = true
		p.broken = p.broken || !l.UseAsyncCommit
		p.promised = max(p.promised, l.MinCommitTs)
		return nil
	}
	put := false // whether the key has a value
	if l == nil || !demanded {
		var keyErr *kvrpcpb.KeyError
		if put, keyErr = p.newest(mutation, encoded, action, demanded); keyErr != nil {
			return keyErr
		}
	}
	switch mutation.Op {
	case kvrpcpb.Op_Insert, kvrpcpb.Op_CheckNotExists:
		if put {
			return &kvrpcpb.KeyError{AlreadyExist: &kvrpcpb.AlreadyExist{Key: mutation.Key}}
		}
	case kvrpcpb.Op_Put, kvrpcpb.Op_Del, kvrpcpb.Op_Lock:
	default:
		return aborted(fmt.Errorf("operation %v cannot be prewritten", mutation.Op))
	}
	if mutation.Op == kvrpcpb.Op_CheckNotExists {
		p.shared.seen(p.req.StartVersion) // it was a read
		return nil
	}
	p.fresh = append(p.fresh, freshLock{mutation, encoded, l})
	return nil
}

// newest looks at what was done to a key that the transaction has not locked, or that it need not have locked, and tells whether the
// key has a value.
func (p *prewriting) newest(
	mutation *kvrpcpb.Mutation, encoded []byte, action kvrpcpb.PrewriteRequest_PessimisticAction, demanded bool,
) (put bool, keyErr *kvrpcpb.KeyError) {
	start, forUpdate := p.req.StartVersion, p.req.ForUpdateTs
	unchecked := forUpdate > 0 && action == kvrpcpb.PrewriteRequest_SKIP_PESSIMISTIC_CHECK && !p.req.Context.GetIsRetryRequest()
	h, ok := p.since(encoded, maxTimestamp)
	for ; ok; ok = h.next() {
		r := h.record
		switch {
		case unchecked:
		case demanded && h.commitTS >= start:
			return false, p.lockNotFound(mutation.Key) // it was lost, and somebody else was here
		case r.rollsBack(h.commitTS, start):
			return false, p.conflict(mutation.Key, h, kvrpcpb.WriteConflict_SelfRolledBack)
		case forUpdate == 0 && h.commitTS > start:
			return false, p.conflict(mutation.Key, h, kvrpcpb.WriteConflict_Optimistic)
		case forUpdate > 0 && action == kvrpcpb.PrewriteRequest_DO_CONSTRAINT_CHECK && h.commitTS > start:
			return false, p.conflict(mutation.Key, h, kvrpcpb.WriteConflict_LazyUniquenessCheck)
		case forUpdate > 0 && h.commitTS > forUpdate && r.kind != recordRollback:
			return false, p.lockNotFound(mutation.Key)
		}
		switch r.kind {
		case recordPut:
			return true, nil
		case recordDelete:
			return false, nil
		}
	}
	if h.err != nil {
		return false, aborted(h.err)
	}
	return false, nil
}

func (p *prewriting) lockNotFound(key []byte) *kvrpcpb.KeyError {
	return aborted(fmt.Errorf("PessimisticLockNotFound: start_ts %d, key %X", p.req.StartVersion, key))
}

func (p *prewriting) conflict(key []byte, h history, why kvrpcpb.WriteConflict_Reason) *kvrpcpb.KeyError {
	return conflict(p.req.StartVersion, key, p.req.PrimaryLock, h, why)
}

func conflict(startTS uint64, key, primary []byte, h history, why kvrpcpb.WriteConflict_Reason) *kvrpcpb.KeyError {
	return &kvrpcpb.KeyError{Conflict: &kvrpcpb.WriteConflict{
		StartTs: startTS, ConflictTs: h.record.startTS, ConflictCommitTs: h.commitTS, Key: key, Primary: primary, Reason: why,
	}}
}

// write locks the keys, or commits them at once.
func (p *prewriting) write() *kvrpcpb.KeyError {
	commitTS := max(p.shared.maxTS.Load(), p.req.StartVersion, p.req.ForUpdateTs) + 1
	commitTS = max(commitTS, p.req.MinCommitTs)
	for _, f := range p.fresh {
		if f.own != nil {
			commitTS = max(commitTS, f.own.MinCommitTs)
		}
	}
	inTime := p.req.MaxCommitTs == 0 || commitTS <= p.req.MaxCommitTs
	onePhase := p.req.TryOnePc && inTime && !p.earlier
	async := p.req.UseAsyncCommit && inTime && !onePhase && !p.req.TryOnePc
	for _, f := range p.fresh {
		l := p.lockFor(f)
		if async {
			l.UseAsyncCommit, l.MinCommitTs = true, commitTS
			if bytes.Equal(f.Key, p.req.PrimaryLock) {
				l.Secondaries = p.req.Secondaries
			}
		}
		var err error
		if l.LockType == kvrpcpb.Op_Put {
			err = p.putValue(f.encoded, l.LockVersion, f.Value)
		}
		switch {
		case err != nil:
		case onePhase:
			err = p.commitAtOnce(f, l, commitTS)
		default:
			err = p.putLock(f.encoded, l)
		}
		if err != nil {
			return aborted(err)
		}
	}
	switch {
	case onePhase:
		p.resp.OnePcCommitTs = commitTS
	case async && !p.broken:
		p.resp.MinCommitTs = max(commitTS, p.promised)
	}
	return nil
}

func (p *prewriting) lockFor(f freshLock) *kvrpcpb.LockInfo {
	l := &kvrpcpb.LockInfo{
		PrimaryLock: p.req.PrimaryLock, LockVersion: p.req.StartVersion, LockTtl: p.req.LockTtl, TxnSize: p.req.TxnSize,
		LockType: f.Op, LockForUpdateTs: p.req.ForUpdateTs, MinCommitTs: p.req.MinCommitTs,
	}
	if l.LockType == kvrpcpb.Op_Insert {
		l.LockType = kvrpcpb.Op_Put
	}
	if f.own != nil { // both may have been moved on since
		l.LockTtl, l.MinCommitTs = max(l.LockTtl, f.own.LockTtl), max(l.MinCommitTs, f.own.MinCommitTs)
	}
	return l
}

// commitAtOnce writes the record of a key that was never prewritten.
func (p *prewriting) commitAtOnce(f freshLock, l *kvrpcpb.LockInfo, commitTS uint64) error {
	r := record{kind: recordKind(l.LockType), startTS: l.LockVersion}
	err := errors.Join(p.keepRollback(f.encoded, commitTS, &r), p.putCommitted(f.encoded, commitTS, r))
	if f.own != nil {
		err = errors.Join(err, p.dropLock(f.encoded))
	}
	return err
}

func (c *call) kvCommit(req *kvrpcpb.CommitRequest, resp *kvrpcpb.CommitResponse) {
	encoded, regionErr, keyErr := c.enterTxn(req.Context, cmdCommit, req.Keys...)
	if resp.RegionError, resp.Error = regionErr, keyErr; regionErr != nil || keyErr != nil {
		return
	}
	if req.CommitVersion <= req.StartVersion {
		resp.Error = aborted(fmt.Errorf("Invalid transaction tso with start_ts:%d,commit_ts:%d", req.StartVersion, req.CommitVersion))
		return
	}
	resp.Error = c.eachKey(encoded, func(m *mvcc, i int) *kvrpcpb.KeyError {
		return commitOne(m, req.Keys[i], encoded[i], req.StartVersion, req.CommitVersion)
	})
	if resp.Error == nil {
		resp.CommitVersion = req.CommitVersion
	}
}

// commitOne commits a key, which may have been done before.
func commitOne(m *mvcc, key, encoded []byte, startTS, commitTS uint64) *kvrpcpb.KeyError {
	l, err := m.lock(encoded)
	switch {
	case err != nil:
	case l != nil && l.LockVersion == startTS && commitTS < l.MinCommitTs:
		return &kvrpcpb.KeyError{CommitTsExpired: &kvrpcpb.CommitTsExpired{
			StartTs: startTS, AttemptedCommitTs: commitTS, Key: key, MinCommitTs: l.MinCommitTs,
		}}
	case l != nil && l.LockVersion == startTS:
		err = m.commitKey(encoded, l, commitTS)
	default:
		var f fate
		if f, err = m.fateOf(encoded, startTS); err == nil && !f.committed() {
			return &kvrpcpb.KeyError{Retryable: fmt.Sprintf("TxnLockNotFound: start_ts %d, commit_ts %d, key %X", startTS, commitTS, key)}
		}
	}
	if err != nil {
		return aborted(err)
	}
	return nil
}

func (c *call) kvBatchRollback(req *kvrpcpb.BatchRollbackRequest, resp *kvrpcpb.BatchRollbackResponse) {
	encoded, regionErr, keyErr := c.enterTxn(req.Context, cmdBatchRollback, req.Keys...)
	if resp.RegionError, resp.Error = regionErr, keyErr; regionErr != nil || keyErr != nil {
		return
	}
	resp.Error = c.eachKey(encoded, func(m *mvcc, i int) *kvrpcpb.KeyError {
		f, keyErr := rollBackOne(m, encoded[i], req.StartVersion, false)
		if keyErr == nil && f.committed() {
			keyErr = aborted(fmt.Errorf("Committed: start_ts %d, commit_ts %d, key %X", req.StartVersion, f.commitTS, req.Keys[i]))
		}
		return keyErr
	})
}

// rollBackOne rolls a key back, unless it was committed or rolled back before: then it returns that.
func rollBackOne(m *mvcc, encoded []byte, startTS uint64, protected bool) (fate, *kvrpcpb.KeyError) {
	l, err := m.lock(encoded)
	if err == nil && l != nil && l.LockVersion == startTS {
		err = m.rollBackLock(encoded, l, protected)
		return fate{}, maybeAborted(err)
	}
	var f fate
	if err == nil {
		f, err = m.fateOf(encoded, startTS)
	}
	switch {
	case err != nil:
	case !f.known:
		err = m.putRollback(encoded, startTS, f.overlapped, protected)
	case protected && f.rolledBack() && f.record.kind == recordRollback && f.record.flags&flagProtected == 0:
		err = m.putRollback(encoded, startTS, nil, true)
	}
	return f, maybeAborted(err)
}

func maybeAborted(err error) *kvrpcpb.KeyError {
	if err == nil {
		return nil
	}
	return aborted(err)
}

func (c *call) kvCleanup(req *kvrpcpb.CleanupRequest, resp *kvrpcpb.CleanupResponse) {
	encoded, regionErr, keyErr := c.enterTxn(req.Context, cmdCleanup, req.Key)
	if resp.RegionError, resp.Error = regionErr, keyErr; regionErr != nil || keyErr != nil {
		return
	}
	resp.Error = c.atomically(encoded, func(m *mvcc) *kvrpcpb.KeyError {
		l, err := m.lock(encoded[0])
		if err != nil {
			return aborted(err)
		}
		if l != nil && l.LockVersion == req.StartVersion && req.CurrentTs > 0 && !expired(l, req.CurrentTs) {
			return locked(req.Key, l)
		}
		f, keyErr := rollBackOne(m, encoded[0], req.StartVersion, true)
		resp.CommitVersion = f.commitTS
		return keyErr
	})
}

// expired tells whether a lock's time to live is over.
func expired(l *kvrpcpb.LockInfo, now uint64) bool {
	return physical(l.LockVersion)+l.LockTtl < physical(now)
}

func (c *call) kvPessimisticRollback(req *kvrpcpb.PessimisticRollbackRequest, resp *kvrpcpb.PessimisticRollbackResponse) {
	encoded, regionErr, keyErr := c.enterTxn(req.Context, cmdPessimisticRollback, req.Keys...)
	if resp.RegionError, resp.Errors = regionErr, errorsOf(keyErr); regionErr != nil || keyErr != nil {
		return
	}
	resp.Errors = errorsOf(c.eachKey(encoded, func(m *mvcc, i int) *kvrpcpb.KeyError {
		l, err := m.lock(encoded[i])
		if err == nil && l != nil && l.LockType == kvrpcpb.Op_PessimisticLock && l.LockVersion == req.StartVersion && l.LockForUpdateTs <= req.ForUpdateTs {
			err = m.dropLock(encoded[i])
		}
		return maybeAborted(err)
	}))
}

func (c *call) kvTxnHeartBeat(req *kvrpcpb.TxnHeartBeatRequest, resp *kvrpcpb.TxnHeartBeatResponse) {
	encoded, regionErr, keyErr := c.enterTxn(req.Context, cmdTxnHeartBeat, req.PrimaryLock)
	if resp.RegionError, resp.Error = regionErr, keyErr; regionErr != nil || keyErr != nil {
		return
	}
	resp.Error = c.atomically(encoded, func(m *mvcc) *kvrpcpb.KeyError {
		l, err := m.lock(encoded[0])
		if err == nil && (l == nil || l.LockVersion != req.StartVersion) {
			return txnNotFound(req.StartVersion, req.PrimaryLock)
		}
		if err == nil {
			l.LockTtl = max(l.LockTtl, req.AdviseLockTtl)
			resp.LockTtl = l.LockTtl
			err = m.putLock(encoded[0], l)
		}
		return maybeAborted(err)
	})
}

func txnNotFound(startTS uint64, primary []byte) *kvrpcpb.KeyError {
	return &kvrpcpb.KeyError{TxnNotFound: &kvrpcpb.TxnNotFound{StartTs: startTS, PrimaryKey: primary}}
}

func (c *call) kvCheckTxnStatus(req *kvrpcpb.CheckTxnStatusRequest, resp *kvrpcpb.CheckTxnStatusResponse) {
	encoded, regionErr, keyErr := c.enterTxn(req.Context, cmdCheckTxnStatus, req.PrimaryKey)
	if resp.RegionError, resp.Error = regionErr, keyErr; regionErr != nil || keyErr != nil {
		return
	}
	c.storage.txn.seen(req.LockTs)
	c.storage.txn.seen(req.CallerStartTs)
	c.storage.txn.seen(req.CurrentTs)
	resp.Error = c.atomically(encoded, func(m *mvcc) *kvrpcpb.KeyError {
		l, err := m.lock(encoded[0])
		if err != nil {
			return aborted(err)
		}
		if l != nil && l.LockVersion == req.LockTs {
			return maybeAborted(checkHeld(m, encoded[0], l, req, resp))
		}
		return checkGone(m, encoded[0], req, resp)
	})
}

// checkHeld is the status of a transaction whose first key is locked. One that has outlived its time is rolled back.
func checkHeld(m *mvcc, encoded []byte, l *kvrpcpb.LockInfo, req *kvrpcpb.CheckTxnStatusRequest, resp *kvrpcpb.CheckTxnStatusResponse) error {
	switch {
	case l.UseAsyncCommit && !req.ForceSyncCommit:
		// Its other keys decide; the client asks for them.
	case expired(l, req.CurrentTs) && req.ResolvingPessimisticLock && l.LockType == kvrpcpb.Op_PessimisticLock:
		resp.Action = kvrpcpb.Action_TTLExpirePessimisticRollback
		return m.dropLock(encoded)
	case expired(l, req.CurrentTs):
		resp.Action = kvrpcpb.Action_TTLExpireRollback
		return m.rollBackLock(encoded, l, true)
	default:
		if l.MinCommitTs > 0 && req.CallerStartTs != maxTimestamp && req.CallerStartTs >= l.MinCommitTs {
			// The reader need not wait: the transaction will commit after it.
			l.MinCommitTs = max(req.CallerStartTs+1, req.CurrentTs)
			if err := m.putLock(encoded, l); err != nil {
				return err
			}
		}
		if req.CallerStartTs == maxTimestamp || req.CallerStartTs > 0 && l.MinCommitTs > req.CallerStartTs {
			resp.Action = kvrpcpb.Action_MinCommitTSPushed
		}
	}
	l.Key = req.PrimaryKey
	resp.LockTtl, resp.LockInfo = l.LockTtl, l
	return nil
}

// checkGone is the status of a transaction whose first key is not locked by it.
func checkGone(m *mvcc, encoded []byte, req *kvrpcpb.CheckTxnStatusRequest, resp *kvrpcpb.CheckTxnStatusResponse) *kvrpcpb.KeyError {
	f, err := m.fateOf(encoded, req.LockTs)
	switch {
	case err != nil:
		return aborted(err)
	case f.known:
		resp.CommitVersion = f.commitTS
		return nil
	case !req.RollbackIfNotExist:
		return txnNotFound(req.LockTs, req.PrimaryKey)
	case req.ResolvingPessimisticLock:
		resp.Action = kvrpcpb.Action_LockNotExistDoNothing
		return nil
	}
	resp.Action = kvrpcpb.Action_LockNotExistRollback
	return maybeAborted(m.putRollback(encoded, req.LockTs, f.overlapped, true))
}

func (c *call) kvCheckSecondaryLocks(req *kvrpcpb.CheckSecondaryLocksRequest, resp *kvrpcpb.CheckSecondaryLocksResponse) {
	encoded, regionErr, keyErr := c.enterTxn(req.Context, cmdCheckSecondaryLocks, req.Keys...)
	if resp.RegionError, resp.Error = regionErr, keyErr; regionErr != nil || keyErr != nil {
		return
	}
	c.storage.txn.seen(req.StartVersion)
	resp.Error = c.atomically(encoded, func(m *mvcc) *kvrpcpb.KeyError {
		for i, key := range req.Keys {
			l, err := m.lock(encoded[i])
			if err != nil {
				return aborted(err)
			}
			if l != nil && l.LockVersion == req.StartVersion && l.LockType != kvrpcpb.Op_PessimisticLock {
				l.Key = key
				resp.Locks = append(resp.Locks, l)
				continue
			}
			// This key decides the fate of all: committed, or, from now on, never.
			f, keyErr := rollBackOne(m, encoded[i], req.StartVersion, true)
			resp.Locks, resp.CommitTs = nil, f.commitTS
			return keyErr
		}
		return nil
	})
	if resp.Error != nil {
		resp.Locks = nil
	}
}

func (c *call) kvResolveLock(req *kvrpcpb.ResolveLockRequest, resp *kvrpcpb.ResolveLockResponse) {
	encoded, regionErr, keyErr := c.enterTxn(req.Context, cmdResolveLock, req.Keys...)
	if resp.RegionError, resp.Error = regionErr, keyErr; regionErr != nil || keyErr != nil {
		return
	}
	fates := map[uint64]uint64{} // commit timestamps, 0 for rolled back, by start
	for _, t := range req.TxnInfos {
		fates[t.Txn] = t.Status
	}
	if len(req.TxnInfos) == 0 {
		fates[req.StartVersion] = req.CommitVersion
	}
	if len(req.Keys) == 0 {
		held, err := c.locksIn(c.routes.byID[req.Context.GetRegionId()], scanRange{}, func(l *kvrpcpb.LockInfo) bool {
			_, ok := fates[l.LockVersion]
			return ok
		}, 0)
		if err != nil {
			resp.Error = aborted(err)
			return
		}
		for _, l := range held {
			encoded = append(encoded, encodeKey(l.Key))
		}
	}
	resp.Error = c.eachKey(encoded, func(m *mvcc, i int) *kvrpcpb.KeyError {
		startTS := req.StartVersion
		if len(req.Keys) == 0 {
			l, err := m.lock(encoded[i])
			if err != nil {
				return aborted(err)
			}
			if l == nil {
				return nil // somebody was faster
			}
			startTS = l.LockVersion
		}
		commitTS, ok := fates[startTS]
		if !ok {
			return nil
		}
		if commitTS == 0 {
			_, keyErr := rollBackOne(m, encoded[i], startTS, false)
			return keyErr
		}
		return commitOne(m, nil, encoded[i], startTS, commitTS)
	})
}

// locksIn returns locks in a part of a region, which s is in the form of its bounds, at most limit of them (0: all).
func (c *call) locksIn(r *region, s scanRange, want func(*kvrpcpb.LockInfo) bool, limit uint32) (held []*kvrpcpb.LockInfo, err error) {
	var walk keyWalk
	defer func() { err = errors.Join(err, walk.close()) }()
	if err := walk.open(c.storage.db, r.clip(s.from, s.to, false)); err != nil {
		return nil, err
	}
	it := walk.locks
	for ok := it.First(); ok; ok = it.Next() {
		l, err := decodeLock(it.Value())
		if err == nil && want(l) {
			l.Key, err = decodeKey(it.Key()[1:])
			held = append(held, l)
		}
		if err != nil {
			return nil, err
		}
		if limit > 0 && len(held) == int(limit) {
			break
		}
	}
	return held, it.Error()
}

func (c *call) kvScanLock(req *kvrpcpb.ScanLockRequest, resp *kvrpcpb.ScanLockResponse) {
	if resp.Error = c.acceptTxn(req.Context, cmdScanLock); resp.Error != nil {
		return
	}
	r, regionErr := c.region(req.Context)
	if resp.RegionError = regionErr; regionErr != nil {
		return
	}
	c.storage.txn.readAt(req.MaxVersion)
	held, err := c.locksIn(r, scanRange{from: encodeBound(req.StartKey), to: encodeBound(req.EndKey)}, func(l *kvrpcpb.LockInfo) bool {
		return l.LockVersion <= req.MaxVersion && l.LockType != kvrpcpb.Op_PessimisticLock
	}, req.Limit)
	resp.Locks, resp.Error = held, maybeAborted(err)
}

// kvDeleteRange removes all versions of all keys in a range, and their locks, whoever holds them.
func (c *call) kvDeleteRange(req *kvrpcpb.DeleteRangeRequest, resp *kvrpcpb.DeleteRangeResponse) {
	if keyErr := c.acceptTxn(req.Context, cmdDeleteRange); keyErr != nil {
		resp.Error = keyErr.Abort
		return
	}
	r, regionErr := c.region(req.Context)
	if resp.RegionError = regionErr; regionErr != nil || req.NotifyOnly {
		return
	}
	s := r.clip(encodeBound(req.StartKey), encodeBound(req.EndKey), false)
	b := c.storage.db.NewBatch()
	var err error
	for _, family := range []byte{familyDefault, familyLock, familyWrite} {
		end := familyEnd(family)
		if len(s.to) > 0 {
			end = append([]byte{family}, s.to...)
		}
		if start := append([]byte{family}, s.from...); bytes.Compare(start, end) < 0 {
			err = errors.Join(err, b.DeleteRange(start, end, nil))
		}
	}
	if err == nil {
		err = c.storage.commit(b)
	}
	if err = errors.Join(err, b.Close()); err != nil {
		resp.Error = err.Error()
	}
}

func (c *call) kvPessimisticLock(req *kvrpcpb.PessimisticLockRequest, resp *kvrpcpb.PessimisticLockResponse) {
	keys := mutated(req.Mutations)
	encoded, regionErr, keyErr := c.enterTxn(req.Context, cmdPessimisticLock, keys...)
	if keyErr == nil && req.WakeUpMode != kvrpcpb.PessimisticLockWakeUpMode_WakeUpModeNormal {
		keyErr = aborted(errors.New("the playground has no aggressive locking"))
	}
	if resp.RegionError, resp.Errors = regionErr, errorsOf(keyErr); regionErr != nil || keyErr != nil {
		return
	}
	patience := maxLockWait
	if req.WaitTimeout < 0 {
		patience = 0
	} else if req.WaitTimeout > 0 && req.WaitTimeout < maxLockWait.Milliseconds() {
		patience = time.Duration(req.WaitTimeout) * time.Millisecond
	}
	until := time.Now().Add(patience)
	for {
		p := pessimisticLocking{req: req, waits: &c.storage.txn.waits, patient: time.Until(until) > 0}
		if slices.ContainsFunc(req.Mutations, func(m *kvrpcpb.Mutation) bool { return m.Assertion == kvrpcpb.Assertion_NotExist }) {
			c.storage.txn.seen(req.ForUpdateTs) // that a key does not exist is a read
		}
		keyErr := c.atomically(encoded, func(m *mvcc) *kvrpcpb.KeyError { return p.run(m, encoded, c.keep) })
		if p.wait != nil && c.await(p.wait, until) {
			continue
		}
		resp.Errors, resp.Values, resp.NotFounds = errorsOf(keyErr), p.values, p.notFounds
		return
	}
}

// await waits until a lock may be gone, and tells whether it is so.
func (c *call) await(wait *lockWait, until time.Time) bool {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	passed := false
	select {
	case <-wait.gone:
		return true
	case <-wait.passed:
		passed = true
	case <-timer.C:
	case <-c.done:
	}
	if passed {
		timer.Reset(min(lateWake, time.Until(until)))
		select {
		case <-wait.gone:
			return true
		case <-timer.C:
		case <-c.done:
			passed = false
		}
	}
	c.storage.txn.waits.end(wait)
	return passed
}

// pessimisticLocking is one attempt to lock all keys of a request.
type pessimisticLocking struct {
	req     *kvrpcpb.PessimisticLockRequest
	waits   *lockWaits
	patient bool      // to wait for somebody else's lock
	wait    *lockWait // for the lock that is in the way

	values    [][]byte
	notFounds []bool
}

func (p *pessimisticLocking) run(m *mvcc, encoded [][]byte, keep func([]byte) []byte) *kvrpcpb.KeyError {
	for i, mutation := range p.req.Mutations {
		put, found, keyErr := p.lockOne(m, mutation, encoded[i])
		if keyErr != nil {
			return keyErr
		}
		if !p.req.ReturnValues && !p.req.CheckExistence {
			continue
		}
		var value []byte
		if found && p.req.ReturnValues {
			var err error
			if value, err = m.value(encoded[i], put.startTS, keep); err != nil {
				return aborted(err)
			}
		}
		if p.req.ReturnValues {
			p.values = append(p.values, value)
		}
		p.notFounds = append(p.notFounds, !found)
	}
	return nil
}

// lockOne locks a key, and returns the record of its value, if that was looked for.
func (p *pessimisticLocking) lockOne(m *mvcc, mutation *kvrpcpb.Mutation, encoded []byte) (put record, found bool, keyErr *kvrpcpb.KeyError) {
	req, key := p.req, mutation.Key
	l, err := m.lock(encoded)
	switch {
	case err != nil:
		return record{}, false, aborted(err)
	case l != nil && l.LockVersion != req.StartVersion:
		if p.patient {
			wait, dead := p.waits.add(req.StartVersion, l.LockVersion, encoded, key)
			if dead != nil {
				return record{}, false, &kvrpcpb.KeyError{Deadlock: dead}
			}
			p.wait = wait
		}
		return record{}, false, locked(key, l)
	case l != nil && l.LockType != kvrpcpb.Op_PessimisticLock:
		return record{}, false, aborted(fmt.Errorf("LockTypeNotMatch: start_ts %d, key %X, pessimistic: false", req.StartVersion, key))
	}
	if l == nil {
		if keyErr := p.newest(m, key, encoded); keyErr != nil {
			return record{}, false, keyErr
		}
	}
	if put, found, err = m.visible(encoded, maxTimestamp); err != nil {
		return record{}, false, aborted(err)
	}
	if l == nil && found && mutation.Assertion == kvrpcpb.Assertion_NotExist {
		return record{}, false, &kvrpcpb.KeyError{AlreadyExist: &kvrpcpb.AlreadyExist{Key: key}}
	}
	if !found && req.LockOnlyIfExists {
		return put, found, nil
	}
	next := &kvrpcpb.LockInfo{
		PrimaryLock: req.PrimaryLock, LockVersion: req.StartVersion, LockTtl: req.LockTtl, LockType: kvrpcpb.Op_PessimisticLock,
		LockForUpdateTs: req.ForUpdateTs, MinCommitTs: req.MinCommitTs,
	}
	if l != nil {
		next.LockForUpdateTs, next.MinCommitTs = max(next.LockForUpdateTs, l.LockForUpdateTs), max(next.MinCommitTs, l.MinCommitTs)
		next.LockTtl = max(next.LockTtl, l.LockTtl)
	}
	return put, found, maybeAborted(m.putLock(encoded, next))
}

// newest refuses a key that was written after the time for which it is to be locked, and a transaction that was rolled back.
func (p *pessimisticLocking) newest(m *mvcc, key, encoded []byte) *kvrpcpb.KeyError {
	h, ok := m.since(encoded, maxTimestamp)
	for first := true; ok && (first || h.commitTS >= p.req.StartVersion); ok, first = h.next(), false {
		switch {
		case first && h.commitTS > p.req.ForUpdateTs:
			return conflict(p.req.StartVersion, key, p.req.PrimaryLock, h, kvrpcpb.WriteConflict_PessimisticRetry)
		case h.record.rollsBack(h.commitTS, p.req.StartVersion):
			return aborted(fmt.Errorf("PessimisticLockRolledBack: start_ts %d, key %X", p.req.StartVersion, key))
		}
	}
	return maybeAborted(h.err)
}
