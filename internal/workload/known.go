// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"slices"

	"github.com/kvbench/kvbench/internal/spec"
)

// known are keys of records that were loaded, in order: those that a scan of their range
// must find. It has all of them in tables of up to mostKnown records, and else a sample.
type known [][]byte

const mostKnown = 1 << 16

// newKnown returns the keys to look for in scans; none where no scans are made, or
// where updates create rows, so that one that is found later need not have been there before.
func newKnown(s *spec.Spec, keys *keyCodec) known {
	p := &s.Proportions
	creates := p.Update > 0 && (s.UpdateMode == spec.Blind || s.UpdateMissing) || p.ReadModifyWrite > 0 && s.UpdateMissing
	if p.Scan == 0 || s.Phase != spec.Run || creates {
		return nil
	}
	n := min(s.InsertCount, mostKnown)
	k := make(known, n)
	for i := range n {
		k[i] = keys.append(nil, s.InsertStart+part(s.InsertCount, n, i))
	}
	slices.SortFunc(k, bytes.Compare)
	return k
}

// leftOut returns the keys, a few at most, that the answer to a scan lacks: those from its
// start up to the last one that it found, or to the table's end if it found fewer than its limit.
func (k known) leftOut(start []byte, found [][]byte, limit int) (lacking [][]byte) {
	i, _ := slices.BinarySearchFunc(k, start, bytes.Compare)
	for _, key := range k[i:] {
		for len(found) > 0 && bytes.Compare(found[0], key) < 0 {
			found, limit = found[1:], limit-1
		}
		switch {
		case len(found) == 0 && limit <= 0, len(lacking) == mostLeftOut:
			return lacking
		case len(found) == 0 || !bytes.Equal(found[0], key):
			lacking = append(lacking, key)
		}
	}
	return lacking
}

// mostLeftOut bounds how many keys of a scan are looked into.
const mostLeftOut = 16

// mostAbsent bounds how often a lane looks for rows that turn out not to be there at
// all: a table that was not loaded is no reason to double the load on the store.
const mostAbsent = 100
