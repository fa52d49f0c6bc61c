// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"slices"
	"sort"

	"github.com/kvbench/kvbench/internal/spec"
)

// known are the keys of records that were loaded, in order: those that a scan of their range must find. It is all
// of them in tables of up to mostKnown records, and in those whose keys sort as the numbers of their records; else it is a sample.
type known struct {
	keys [][]byte

	// Where keys sort as numbers, none is kept: they are made of the records from first on.
	codec        *keyCodec
	first, count int64
	buf          []byte
}

const mostKnown = 1 << 16

// newKnown returns the keys to look for in scans; nil where no scans are made, or all rows are counted, or
// where updates create rows, so that one that is found later need not have been there before.
func newKnown(s *spec.Spec, keys *keyCodec) *known {
	p := &s.Proportions
	creates := p.Update > 0 && (s.UpdateMode == spec.Blind || s.UpdateMissing) || p.ReadModifyWrite > 0 && s.UpdateMissing
	if p.Scan == 0 || s.Phase != spec.Run || s.Row.Format == spec.Balance || creates {
		return nil
	}
	if s.Key.Order != spec.Hashed && keys.sorts(s.InsertStart, s.InsertStart+s.InsertCount-1) {
		return &known{codec: keys, first: s.InsertStart, count: s.InsertCount}
	}
	n := min(s.InsertCount, mostKnown)
	k := &known{keys: make([][]byte, n)}
	for i := range n {
		k.keys[i] = keys.append(nil, s.InsertStart+part(s.InsertCount, n, i))
	}
	slices.SortFunc(k.keys, bytes.Compare)
	return k
}

// from returns the place of the first key that is not before another.
func (k *known) from(key []byte) int64 {
	if k.codec == nil {
		i, _ := slices.BinarySearchFunc(k.keys, key, bytes.Compare)
		return int64(i)
	}
	return int64(sort.Search(int(k.count), func(i int) bool {
		k.buf = k.codec.append(k.buf[:0], k.first+int64(i))
		return bytes.Compare(k.buf, key) >= 0
	}))
}

// at returns the key in a place, until the next call; false after the last one.
func (k *known) at(i int64) ([]byte, bool) {
	if k.codec == nil {
		if i >= int64(len(k.keys)) {
			return nil, false
		}
		return k.keys[i], true
	}
	if i >= k.count {
		return nil, false
	}
	k.buf = k.codec.append(k.buf[:0], k.first+i)
	return k.buf, true
}

// leftOut returns the keys, a few at most, that the answer to a scan lacks: those from its
// start up to the last one that it found, or to the table's end if it found fewer than its limit.
func (k *known) leftOut(start []byte, found [][]byte, limit int) (lacking [][]byte) {
	for i := k.from(start); ; i++ {
		key, ok := k.at(i)
		if !ok {
			return lacking
		}
		for len(found) > 0 && bytes.Compare(found[0], key) < 0 {
			found, limit = found[1:], limit-1
		}
		switch {
		case len(found) == 0 && limit <= 0, len(lacking) == mostLeftOut:
			return lacking
		case len(found) == 0 || !bytes.Equal(found[0], key):
			lacking = append(lacking, bytes.Clone(key))
		}
	}
}

// mostLeftOut bounds how many keys of a scan are looked into.
const mostLeftOut = 16

// mostAbsent bounds how often a lane looks for rows that turn out not to be there at
// all: a table that was not loaded is no reason to double the load on the store.
const mostAbsent = 100
