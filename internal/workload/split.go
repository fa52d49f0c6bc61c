// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"math/rand/v2"
	"slices"

	"github.com/kvbench/kvbench/internal/spec"
)

// splitSample is how many records stand for all, where there are more and their numbers are hashed: a part of 1,000 is
// then within 10 % (three standard deviations) of its share, one of 100 within 3 %.
const splitSample = 1 << 20

// SplitKeys returns the bounds between n parts of the records [InsertStart, InsertStart+InsertCount) with equally many each, in the
// order of their keys: at most n-1 of them, rising, fewer if there are fewer records. Where numbers are not hashed they are exact for any
// number of records, and otherwise up to a million; beyond, a sample of a million records stands for all.
func SplitKeys(s *spec.Spec, n int) [][]byte {
	k := newKeyCodec(s)
	n = int(min(int64(n), s.InsertCount))
	if n < 2 {
		return nil
	}
	keys := make([][]byte, 0, n-1)
	if s.Key.Order == spec.Ordered {
		last := s.InsertStart + s.InsertCount - 1
		for i := 1; i < n; i++ {
			at := part(s.InsertCount, int64(n), int64(i))
			record := s.InsertStart + at
			if !k.sorts(s.InsertStart, last) {
				record = nthAsText(uint64(s.InsertStart), uint64(last), k.width, uint64(at))
			}
			keys = append(keys, k.append(nil, record))
		}
		return keys
	}
	all := make([][]byte, min(s.InsertCount, splitSample))
	random := rand.New(rand.NewPCG(1, 2)) // the same bounds every time, or a second split would make more of them
	for i := range all {
		record := int64(i)
		if s.InsertCount > splitSample {
			record = random.Int64N(s.InsertCount)
		}
		all[i] = k.append(nil, s.InsertStart+record)
	}
	slices.SortFunc(all, bytes.Compare)
	for i := 1; i < n; i++ {
		keys = append(keys, all[part(int64(len(all)), int64(n), int64(i))])
	}
	return slices.CompactFunc(keys, bytes.Equal)
}

// mostDigits is what numbers of records have at most.
const mostDigits = 19

// nthAsText returns the n-th (from 0) of the numbers first to last in the order of their decimal texts, which have at least width digits.
func nthAsText(first, last uint64, width int, n uint64) int64 {
	var powers [mostDigits + 1]uint64
	powers[0] = 1
	for i := 1; i < len(powers); i++ {
		powers[i] = 10 * powers[i-1]
	}
	// within counts the numbers whose texts have so many digits and begin with the given ones.
	within := func(prefix uint64, given, digits int) uint64 {
		from, end := prefix*powers[digits-given], (prefix+1)*powers[digits-given]
		if digits > width {
			from = max(from, powers[digits-1])
		}
		from, end = max(from, first), min(end, last+1)
		return max(end, from) - from
	}
	for prefix, given := uint64(0), 0; ; {
		if given >= width && given > 0 { // the prefix itself is the first of its kind
			if here := within(prefix, given, given); here > n {
				return int64(prefix)
			} else {
				n -= here
			}
		}
		given++
		for digit := uint64(0); ; digit++ {
			next, count := prefix*10+digit, uint64(0)
			for digits := max(given, width); digits <= mostDigits; digits++ {
				count += within(next, given, digits)
			}
			if n < count {
				prefix = next
				break
			}
			n -= count
		}
	}
}
