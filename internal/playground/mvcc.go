// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/tikv/client-go/v2/util/codec"
)

// Transactional data lies in three columns, as in TiKV (Percolator's). Keys are in memcomparable form, which no other key begins with:
//
//	lock     key            → who is about to write the key (a LockInfo)
//	write    key, ^commitTS → what a transaction did to the key, and its start (a record)
//	default  key, ^startTS  → the value that it put
//
// Timestamps are inverted, so that newer versions come first. There is no garbage collection: versions stay.

// record is what a transaction did to a key.
type record struct {
	kind    byte
	startTS uint64
	flags   byte
}

const (
	recordPut      = 'P'
	recordDelete   = 'D'
	recordLock     = 'L' // locked, and left as it was
	recordRollback = 'R' // will never be written by the transaction with this start

	flagOverlapped = 1 // besides, the transaction whose start is this commit timestamp is rolled back
	flagProtected  = 2 // a rollback that later ones do not replace

	recordSize = 10
	tsSize     = 8
)

func (r record) encode() []byte {
	b := binary.BigEndian.AppendUint64([]byte{r.kind}, r.startTS)
	return append(b, r.flags)
}

func decodeRecord(b []byte) (record, error) {
	if len(b) != recordSize {
		return record{}, fmt.Errorf("not a record of a transaction: %X", b)
	}
	return record{kind: b[0], startTS: binary.BigEndian.Uint64(b[1:]), flags: b[9]}, nil
}

// rollsBack tells whether the record at commitTS says that the transaction with this start is rolled back.
func (r record) rollsBack(commitTS, startTS uint64) bool {
	return commitTS == startTS && (r.kind == recordRollback || r.flags&flagOverlapped != 0)
}

// recordKind is the kind of record that a lock becomes.
func recordKind(op kvrpcpb.Op) byte {
	switch op {
	case kvrpcpb.Op_Put:
		return recordPut
	case kvrpcpb.Op_Del:
		return recordDelete
	default:
		return recordLock
	}
}

func encodeKey(key []byte) []byte { return codec.EncodeBytes(nil, key) }

func decodeKey(encoded []byte) ([]byte, error) {
	rest, key, err := codec.DecodeBytes(encoded, nil)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("not a key of a transaction: %X", encoded)
	}
	return key, err
}

func storedLock(encoded []byte) []byte {
	return append(append(make([]byte, 0, 1+len(encoded)), familyLock), encoded...)
}

func storedVersion(family byte, encoded []byte, ts uint64) []byte {
	b := append(make([]byte, 0, 1+len(encoded)+tsSize), family)
	return binary.BigEndian.AppendUint64(append(b, encoded...), ^ts)
}

// versionOf takes a stored key with a timestamp apart.
func versionOf(stored []byte) (encoded []byte, ts uint64) {
	n := len(stored) - tsSize
	if n < 1 {
		return nil, 0
	}
	return stored[1:n], ^binary.BigEndian.Uint64(stored[n:])
}

// mvcc reads and changes transactional data: what one command does. Its changes are made together, by commit.
type mvcc struct {
	storage  *storage
	reader   pebble.Reader
	iter     *pebble.Iterator // of the write column, once it is needed
	batch    *pebble.Batch    // nil while nothing is changed
	released [][]byte         // keys whose locks go
	loses    func() bool      // whether the record of a committed key is lost; of who commits
}

// close gives back what the reads took, and drops what was not committed.
func (m *mvcc) close() error {
	var err error
	if m.iter != nil {
		err = m.iter.Close()
	}
	if m.batch != nil {
		err = errors.Join(err, m.batch.Close())
	}
	m.iter, m.batch = nil, nil
	return err
}

// commit makes the changes, and wakes whoever waits for a lock that is gone.
func (m *mvcc) commit() error {
	if m.batch == nil {
		return nil
	}
	if err := m.storage.commit(m.batch); err != nil {
		return err
	}
	m.storage.txn.waits.wake(m.released)
	return nil
}

func (m *mvcc) changes() *pebble.Batch {
	if m.batch == nil {
		m.batch = m.storage.db.NewBatch()
	}
	return m.batch
}

// lock returns the lock on a key, or nil.
func (m *mvcc) lock(encoded []byte) (*kvrpcpb.LockInfo, error) {
	stored, closer, err := m.reader.Get(storedLock(encoded))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	return decodeLock(stored)
}

func decodeLock(stored []byte) (*kvrpcpb.LockInfo, error) {
	l := &kvrpcpb.LockInfo{}
	if err := l.Unmarshal(stored); err != nil {
		return nil, fmt.Errorf("not a lock of a transaction: %w", err)
	}
	return l, nil
}

func (m *mvcc) putLock(encoded []byte, l *kvrpcpb.LockInfo) error {
	l.Key = nil // it is where the lock lies
	stored, err := l.Marshal()
	if err != nil {
		return err
	}
	return m.changes().Set(storedLock(encoded), stored, nil)
}

func (m *mvcc) dropLock(encoded []byte) error {
	m.released = append(m.released, encoded)
	return m.changes().Delete(storedLock(encoded), nil)
}

func (m *mvcc) putRecord(encoded []byte, commitTS uint64, r record) error {
	return m.changes().Set(storedVersion(familyWrite, encoded, commitTS), r.encode(), nil)
}

func (m *mvcc) putValue(encoded []byte, startTS uint64, value []byte) error {
	return m.changes().Set(storedVersion(familyDefault, encoded, startTS), value, nil)
}

// history walks over what was done to a key, newest first.
type history struct {
	encoded  []byte
	iter     *pebble.Iterator
	commitTS uint64
	record   record
	err      error
}

// since starts at the newest record that is not newer than ts. Only one history at a time can be walked.
func (m *mvcc) since(encoded []byte, ts uint64) (history, bool) {
	h := history{encoded: encoded}
	if m.iter == nil {
		opts := &pebble.IterOptions{LowerBound: []byte{familyWrite}, UpperBound: familyEnd(familyWrite)}
		if m.iter, h.err = m.reader.NewIter(opts); h.err != nil {
			return h, false
		}
	}
	h.iter = m.iter
	return h, h.take(h.iter.SeekGE(storedVersion(familyWrite, encoded, ts)))
}

func (h *history) next() bool { return h.err == nil && h.take(h.iter.Next()) }

func (h *history) take(valid bool) bool {
	if !valid {
		h.err = h.iter.Error()
		return false
	}
	var encoded []byte
	if encoded, h.commitTS = versionOf(h.iter.Key()); !bytes.Equal(encoded, h.encoded) {
		return false
	}
	h.record, h.err = decodeRecord(h.iter.Value())
	return h.err == nil
}

// visible returns the record that says what a reader at ts finds: a put, or nothing.
func (m *mvcc) visible(encoded []byte, ts uint64) (put record, found bool, err error) {
	h, ok := m.since(encoded, ts)
	for ; ok; ok = h.next() {
		switch h.record.kind {
		case recordPut:
			return h.record, true, nil
		case recordDelete:
			return record{}, false, nil
		}
	}
	return record{}, false, h.err
}

// value passes the value that a transaction put to keep, which must copy it.
func (m *mvcc) value(encoded []byte, startTS uint64, keep func([]byte) []byte) ([]byte, error) {
	stored, closer, err := m.reader.Get(storedVersion(familyDefault, encoded, startTS))
	if err != nil {
		return nil, fmt.Errorf("value of the transaction that started at %d: %w", startTS, err)
	}
	defer closer.Close()
	return keep(stored), nil
}

// fate is what has become of a transaction at one of its keys.
type fate struct {
	known      bool
	commitTS   uint64 // 0: rolled back
	record     record
	overlapped *record // unknown: what another transaction wrote with this start as its commit timestamp
}

func (f fate) committed() bool  { return f.known && f.commitTS > 0 }
func (f fate) rolledBack() bool { return f.known && f.commitTS == 0 }

// fateOf looks for what the transaction with this start left at a key besides a lock.
func (m *mvcc) fateOf(encoded []byte, startTS uint64) (fate, error) {
	h, ok := m.since(encoded, math.MaxUint64)
	for ; ok && h.commitTS >= startTS; ok = h.next() {
		switch {
		case h.record.rollsBack(h.commitTS, startTS):
			return fate{known: true, record: h.record}, nil
		case h.record.startTS == startTS:
			return fate{known: true, commitTS: h.commitTS, record: h.record}, nil
		case h.commitTS == startTS:
			r := h.record
			return fate{overlapped: &r}, nil
		}
	}
	return fate{}, h.err
}

// commitKey turns a lock into a record.
func (m *mvcc) commitKey(encoded []byte, l *kvrpcpb.LockInfo, commitTS uint64) error {
	r := record{kind: recordKind(l.LockType), startTS: l.LockVersion}
	if l.UseAsyncCommit { // no timestamp of PD's: another transaction may have started, and been rolled back, at the same one
		if err := m.keepRollback(encoded, commitTS, &r); err != nil {
			return err
		}
	}
	return errors.Join(m.putCommitted(encoded, commitTS, r), m.dropLock(encoded))
}

// putCommitted is putRecord for what a transaction has written, which a silent fault may lose.
func (m *mvcc) putCommitted(encoded []byte, commitTS uint64, r record) error {
	if r.kind != recordLock && m.loses() {
		return nil
	}
	return m.putRecord(encoded, commitTS, r)
}

// keepRollback lets a record remember the rollback that it is about to take the place of.
func (m *mvcc) keepRollback(encoded []byte, commitTS uint64, r *record) error {
	h, ok := m.since(encoded, commitTS)
	if ok && h.record.rollsBack(h.commitTS, commitTS) {
		r.flags |= flagOverlapped
	}
	return h.err
}

// rollBackLock removes a lock with what it was for, and leaves a record of that.
func (m *mvcc) rollBackLock(encoded []byte, l *kvrpcpb.LockInfo, protected bool) error {
	if l.LockType == kvrpcpb.Op_Put {
		if err := m.changes().Delete(storedVersion(familyDefault, encoded, l.LockVersion), nil); err != nil {
			return err
		}
	}
	f, err := m.fateOf(encoded, l.LockVersion)
	if err != nil {
		return err
	}
	protected = protected || l.LockForUpdateTs > 0 && bytes.Equal(encodeKey(l.PrimaryLock), encoded)
	return errors.Join(m.dropLock(encoded), m.putRollback(encoded, l.LockVersion, f.overlapped, protected))
}

// putRollback records that a transaction is rolled back. An older rollback that is not protected goes, as in TiKV: keys that are fought
// over would otherwise gather them.
func (m *mvcc) putRollback(encoded []byte, startTS uint64, overlapped *record, protected bool) error {
	if overlapped != nil {
		overlapped.flags |= flagOverlapped
		return m.putRecord(encoded, startTS, *overlapped)
	}
	r := record{kind: recordRollback, startTS: startTS}
	if protected {
		r.flags = flagProtected
	}
	if err := m.putRecord(encoded, startTS, r); err != nil {
		return err
	}
	h, ok := m.since(encoded, startTS-1)
	if ok && h.record.kind == recordRollback && h.record.flags&flagProtected == 0 {
		return m.changes().Delete(storedVersion(familyWrite, encoded, h.commitTS), nil)
	}
	return h.err
}
