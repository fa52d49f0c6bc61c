// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
)

const maxTimestamp = math.MaxUint64

// acceptTxn checks what does not depend on the region.
func (c *call) acceptTxn(ctx *kvrpcpb.Context, cmd command, keys ...[]byte) *kvrpcpb.KeyError {
	if c.fault.text != "" {
		return aborted(errors.New(c.fault.text))
	}
	want := kvrpcpb.APIVersion_V1
	if c.storage.version == V2 {
		want = kvrpcpb.APIVersion_V2
	}
	if got := ctx.GetApiVersion(); got != want || c.storage.version == V1TTL {
		return aborted(fmt.Errorf("Api version in request does not match with TiKV storage, cmd: %v, storage: %v, request: %v",
			cmd, c.storage.version, got))
	}
	for _, key := range keys {
		if c.storage.version == V2 && (len(key) < 4 || key[0] != 'x') {
			return aborted(fmt.Errorf("Key mode mismatched with the request mode, cmd: %v, storage: V2, mode: txn, key: %X", cmd, key))
		}
	}
	return nil
}

func aborted(err error) *kvrpcpb.KeyError { return &kvrpcpb.KeyError{Abort: err.Error()} }

// txnHolder is holder for keys in memcomparable form, which is the one that the bounds of regions are in.
func (c *call) txnHolder(ctx *kvrpcpb.Context, encoded ...[]byte) (*region, *errorpb.Error) {
	r, err := c.region(ctx)
	for i := 0; err == nil && i < len(encoded); i++ {
		if !r.holds(encoded[i]) {
			err = c.keyNotInRegion(r, encoded[i])
		}
	}
	return r, err
}

// holds is contains for a key in the form of the bounds that PD shows.
func (r *region) holds(bound []byte) bool {
	return bytes.Compare(bound, r.meta.StartKey) >= 0 && (len(r.meta.EndKey) == 0 || bytes.Compare(bound, r.meta.EndKey) < 0)
}

func encodeKeys(keys [][]byte) [][]byte {
	encoded := make([][]byte, len(keys))
	for i, key := range keys {
		encoded[i] = encodeKey(key)
	}
	return encoded
}

// reading is a read at a timestamp.
type reading struct {
	mvcc
	ts     uint64
	ignore []uint64 // starts of transactions whose locks do not count
	level  kvrpcpb.IsolationLevel
	access []uint64 // starts of transactions that are committed: what they put counts as if their locks were gone
	keep   func([]byte) []byte
}

func (c *call) reading(ctx *kvrpcpb.Context, ts uint64, reader pebble.Reader) reading {
	return reading{
		mvcc: mvcc{storage: c.storage, reader: reader}, ts: ts, level: ctx.GetIsolationLevel(), ignore: ctx.GetResolvedLocks(), access: ctx.GetCommittedLocks(), keep: c.keep,
	}
}

// get returns a key's value. A lock that hides it is in the error.
func (r *reading) get(key, encoded []byte) (value []byte, found bool, keyErr *kvrpcpb.KeyError) {
	if r.level == kvrpcpb.IsolationLevel_RC { // locks are not committed
		return r.committed(key, encoded)
	}
	l, err := r.lock(encoded)
	if err != nil {
		return nil, false, aborted(err)
	}
	if l != nil && r.level == kvrpcpb.IsolationLevel_RCCheckTS {
		if (l.LockType == kvrpcpb.Op_Put || l.LockType == kvrpcpb.Op_Del) && !slices.Contains(r.ignore, l.LockVersion) {
			return nil, false, conflict(r.ts, key, l.PrimaryLock, history{record: record{startTS: l.LockVersion}}, kvrpcpb.WriteConflict_RcCheckTs)
		}
		l = nil
	}
	if l != nil {
		value, found, read, keyErr := r.through(key, encoded, l)
		if read || keyErr != nil {
			return value, found, keyErr
		}
	}
	return r.committed(key, encoded)
}

// committed is get for a key whose lock does not matter.
func (r *reading) committed(key, encoded []byte) (value []byte, found bool, keyErr *kvrpcpb.KeyError) {
	if r.level == kvrpcpb.IsolationLevel_RCCheckTS {
		if keyErr := r.unchanged(key, encoded); keyErr != nil {
			return nil, false, keyErr
		}
	}
	put, found, err := r.visible(encoded, r.ts)
	if err == nil && found {
		value, err = r.value(encoded, put.startTS, r.keep)
	}
	if err != nil {
		return nil, false, aborted(err)
	}
	return value, found, nil
}

// unchanged refuses a key that has been put or deleted after the read's timestamp.
func (r *reading) unchanged(key, encoded []byte) *kvrpcpb.KeyError {
	h, ok := r.since(encoded, maxTimestamp)
	for ; ok && h.commitTS > r.ts; ok = h.next() {
		if h.record.kind == recordPut || h.record.kind == recordDelete {
			return conflict(r.ts, key, nil, h, kvrpcpb.WriteConflict_RcCheckTs)
		}
	}
	return maybeAborted(h.err)
}

// through decides what a lock means to this read: nothing (read is false), what it will become, or that its transaction has to be
// asked for first.
func (r *reading) through(key, encoded []byte, l *kvrpcpb.LockInfo) (value []byte, found, read bool, keyErr *kvrpcpb.KeyError) {
	switch {
	case l.LockVersion > r.ts || l.LockType == kvrpcpb.Op_Lock || l.LockType == kvrpcpb.Op_PessimisticLock,
		l.MinCommitTs > r.ts,
		slices.Contains(r.ignore, l.LockVersion),
		// The newest value is asked for, and a transaction whose first key this is has not committed.
		r.ts == maxTimestamp && bytes.Equal(l.PrimaryLock, key) && !l.UseAsyncCommit:
		return nil, false, false, nil
	case !slices.Contains(r.access, l.LockVersion):
		return nil, false, false, locked(key, l)
	case l.LockType == kvrpcpb.Op_Del:
		return nil, false, true, nil
	}
	value, err := r.value(encoded, l.LockVersion, r.keep)
	if err != nil {
		return nil, false, false, aborted(err)
	}
	return value, true, true, nil
}

// locked says who holds a key.
func locked(key []byte, l *kvrpcpb.LockInfo) *kvrpcpb.KeyError {
	l.Key = bytes.Clone(key)
	return &kvrpcpb.KeyError{Locked: l}
}

func (c *call) kvGet(req *kvrpcpb.GetRequest, resp *kvrpcpb.GetResponse) {
	if resp.Error = c.acceptTxn(req.Context, cmdGet, req.Key); resp.Error != nil {
		return
	}
	encoded := encodeKey(req.Key)
	if resp.RegionError = c.readable(req.Context, req.Version, encoded); resp.RegionError != nil {
		return
	}
	r := c.reading(req.Context, req.Version, c.storage.db)
	value, found, keyErr := r.get(req.Key, encoded)
	if err := r.close(); err != nil && keyErr == nil {
		keyErr = aborted(err)
	}
	resp.Value, resp.NotFound, resp.Error = value, !found && keyErr == nil, keyErr
}

func (c *call) kvBatchGet(req *kvrpcpb.BatchGetRequest, resp *kvrpcpb.BatchGetResponse) {
	if resp.Error = c.acceptTxn(req.Context, cmdBatchGet, req.Keys...); resp.Error != nil {
		return
	}
	encoded := encodeKeys(req.Keys)
	if resp.RegionError = c.readable(req.Context, req.Version, encoded...); resp.RegionError != nil || len(encoded) == 0 {
		return
	}
	r := c.reading(req.Context, req.Version, c.storage.db)
	for i, key := range req.Keys {
		value, found, keyErr := r.get(key, encoded[i])
		if found || keyErr != nil {
			resp.Pairs = append(resp.Pairs, &kvrpcpb.KvPair{Key: key, Value: value, Error: keyErr})
		}
	}
	if err := r.close(); err != nil {
		resp.Pairs, resp.Error = nil, aborted(err)
	}
}

func (c *call) kvScan(req *kvrpcpb.ScanRequest, resp *kvrpcpb.ScanResponse) {
	resp.Error = c.acceptTxn(req.Context, cmdScan)
	if resp.Error == nil && req.SampleStep > 0 {
		resp.Error = aborted(errors.New("the playground does not sample scans"))
	}
	if resp.Error != nil {
		return
	}
	r, regionErr := c.region(req.Context)
	from, to := encodeBound(req.StartKey), encodeBound(req.EndKey)
	if regionErr == nil && !(r.holds(from) || bytes.Equal(from, r.meta.EndKey) || req.Reverse && len(from) == 0) {
		regionErr = c.keyNotInRegion(r, from)
	}
	if regionErr == nil {
		regionErr = c.awaitRead(r, req.Context, req.Version)
	}
	if resp.RegionError = regionErr; regionErr != nil || req.Limit == 0 {
		return
	}
	if err := c.scanTxn(req, resp, r.clip(from, to, req.Reverse)); err != nil {
		resp.Pairs, resp.Error = nil, aborted(err)
	}
}

// encodeBound is encodeKey for a bound of a range, of which an empty one stands for none.
func encodeBound(key []byte) []byte {
	if len(key) == 0 {
		return nil
	}
	return encodeKey(key)
}

// clip returns the part of a range, in the form of the bounds, that lies in the region. An empty high is without end.
func (r *region) clip(from, to []byte, reverse bool) (s scanRange) {
	s.from, s.to, s.reverse = from, to, reverse
	if reverse {
		s.from, s.to = to, from
	}
	if bytes.Compare(s.from, r.meta.StartKey) < 0 {
		s.from = r.meta.StartKey
	}
	if end := r.meta.EndKey; len(end) > 0 && (len(s.to) == 0 || bytes.Compare(s.to, end) > 0) {
		s.to = end
	}
	return s
}

// scanTxn walks over [from, to), from the high end if it is reversed.
func (c *call) scanTxn(req *kvrpcpb.ScanRequest, resp *kvrpcpb.ScanResponse, s scanRange) (err error) {
	snapshot := c.storage.db.NewSnapshot() // locks and records as of one moment
	r := c.reading(req.Context, req.Version, snapshot)
	keys := keyWalk{reverse: s.reverse}
	defer func() { err = errors.Join(err, keys.close(), r.close(), snapshot.Close()) }()
	if err := keys.open(snapshot, s); err != nil {
		return err
	}
	for encoded := keys.first(); encoded != nil; encoded = keys.after(encoded) {
		key, err := decodeKey(encoded)
		if err != nil {
			return err
		}
		read := r.committed
		if keys.locked {
			read = r.get
		}
		value, found, keyErr := read(key, encoded)
		switch {
		case keyErr != nil && keyErr.Abort != "":
			return errors.New(keyErr.Abort)
		case keyErr != nil:
			resp.Pairs = append(resp.Pairs, &kvrpcpb.KvPair{Error: keyErr})
		case !found || c.swallows():
			continue
		case req.KeyOnly:
			resp.Pairs = append(resp.Pairs, &kvrpcpb.KvPair{Key: key})
		default:
			resp.Pairs = append(resp.Pairs, &kvrpcpb.KvPair{Key: key, Value: value})
		}
		if len(resp.Pairs) == int(req.Limit) {
			return nil
		}
	}
	return keys.err()
}

// keyWalk walks over the keys that are locked or have been written, each once.
type keyWalk struct {
	locks, records *pebble.Iterator
	reverse        bool
	locked         bool // the current key is
}

func (w *keyWalk) open(reader pebble.Reader, s scanRange) (err error) {
	bounds := func(family byte) *pebble.IterOptions {
		opts := &pebble.IterOptions{LowerBound: append([]byte{family}, s.from...), UpperBound: familyEnd(family)}
		if len(s.to) > 0 {
			opts.UpperBound = append([]byte{family}, s.to...)
		}
		if bytes.Compare(opts.LowerBound, opts.UpperBound) > 0 {
			opts.UpperBound = opts.LowerBound
		}
		return opts
	}
	if w.locks, err = reader.NewIter(bounds(familyLock)); err == nil {
		w.records, err = reader.NewIter(bounds(familyWrite))
	}
	return err
}

func (w *keyWalk) close() (err error) {
	for _, it := range []*pebble.Iterator{w.locks, w.records} {
		if it != nil {
			err = errors.Join(err, it.Close())
		}
	}
	return err
}

func (w *keyWalk) err() error { return errors.Join(w.locks.Error(), w.records.Error()) }

func (w *keyWalk) first() []byte {
	if w.reverse {
		w.locks.Last()
		w.records.Last()
	} else {
		w.locks.First()
		w.records.First()
	}
	return w.nearer()
}

// after leaves a key, with all its versions, behind.
func (w *keyWalk) after(encoded []byte) []byte {
	if w.reverse {
		w.locks.SeekLT(storedLock(encoded))
		w.records.SeekLT(storedVersion(familyWrite, encoded, maxTimestamp))
		return w.nearer()
	}
	if w.locks.Valid() && bytes.Equal(w.locks.Key()[1:], encoded) {
		w.locks.Next()
	}
	for range versionsStepped {
		if !w.records.Valid() {
			return w.nearer()
		}
		if at, _ := versionOf(w.records.Key()); !bytes.Equal(at, encoded) {
			return w.nearer()
		}
		w.records.Next()
	}
	// No other key begins with this one, and the oldest version of all has the timestamp 0.
	w.records.SeekGE(append(storedVersion(familyWrite, encoded, 0), 0))
	return w.nearer()
}

// versionsStepped is how many versions of a key are stepped over before the next key is looked for.
const versionsStepped = 8

// nearer returns the nearer one of the keys that the two iterators are at, in a copy; nil at the end.
func (w *keyWalk) nearer() []byte {
	var lock, recorded []byte
	if w.locks.Valid() {
		lock = w.locks.Key()[1:]
	}
	if w.records.Valid() {
		recorded, _ = versionOf(w.records.Key())
	}
	nearer := recorded
	if recorded == nil || lock != nil && (bytes.Compare(lock, recorded) < 0) != w.reverse {
		nearer = lock
	}
	w.locked = lock != nil && bytes.Equal(lock, nearer)
	return bytes.Clone(nearer)
}
