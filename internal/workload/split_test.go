// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
)

// The bounds are where sorting all keys says they are, whatever the keys look like.
func TestSplitKeysAreQuantiles(t *testing.T) {
	t.Parallel()
	for _, c := range [][]string{
		{"insertorder", "hashed"},
		{"insertorder", "hashed", "keyhash", "ycsb"},
		{"insertorder", "hashed", "keyhash", "mix"},
		{"insertorder", "hashed", "keyformat", "hex"},
		{"insertorder", "ordered"},
		{"insertorder", "ordered", "zeropadding", "12"},
		{"insertorder", "ordered", "zeropadding", "3"},
		{"insertorder", "ordered", "keyformat", "hex"},
		{"insertorder", "ordered", "insertstart", "97", "insertcount", "1004"},
		{"insertorder", "ordered", "insertstart", "9", "insertcount", "2"},
		{"insertorder", "ordered", "keylength", "30"},
	} {
		for _, n := range []int{1, 2, 7, 100, 5000} {
			s := parse(t, append([]string{"dotransactions", "false", "recordcount", "2345"}, c...)...)
			codec := newKeyCodec(s)
			var all [][]byte
			for i := range s.InsertCount {
				all = append(all, codec.append(nil, s.InsertStart+i))
			}
			slices.SortFunc(all, bytes.Compare)
			keys := SplitKeys(s, n)
			parts := min(n, len(all))
			if len(keys) != parts-1 {
				t.Fatalf("%v: %d bounds between %d parts", c, len(keys), parts)
			}
			before := 0
			for i, key := range append(keys, codec.end()) {
				end, _ := slices.BinarySearchFunc(all, key, bytes.Compare)
				if size, even := end-before, len(all)/parts; size != even && size != even+1 {
					t.Errorf("%v, part %d of %d has %d of %d records", c, i, parts, size, len(all))
				}
				before = end
			}
		}
	}
}

// Of more records than are looked at, parts are nearly even.
func TestSplitKeysOfMany(t *testing.T) {
	t.Parallel()
	s := parse(t, "dotransactions", "false", "recordcount", "2000000")
	keys := SplitKeys(s, 50)
	codec := newKeyCodec(s)
	sizes := make([]int, len(keys)+1)
	for i := range s.InsertCount / 7 {
		at, found := slices.BinarySearchFunc(keys, codec.append(nil, i*7), bytes.Compare)
		if found {
			at++
		}
		sizes[at]++
	}
	for i, size := range sizes {
		if even := int(s.InsertCount / 7 / 50); size < even*19/20 || size > even*21/20 {
			t.Errorf("part %d has %d records, an even one %d", i, size, even)
		}
	}
}

func TestNthAsText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		first, last uint64
		width       int
	}{{0, 0, 1}, {0, 1234, 1}, {5, 5, 1}, {98, 1003, 1}, {0, 120, 2}, {1, 99, 0}} {
		var texts []string
		for n := c.first; n <= c.last; n++ {
			texts = append(texts, fmt.Sprintf("%0*d", c.width, n))
		}
		slices.Sort(texts)
		for i, text := range texts {
			if got := fmt.Sprintf("%0*d", c.width, nthAsText(c.first, c.last, c.width, uint64(i))); got != text {
				t.Fatalf("%+v: number %d is %s, not %s", c, i, text, got)
			}
		}
	}
	if got := nthAsText(0, 1<<60, 1, 1<<60); got != 999999999999999999 {
		t.Errorf("the last of many: %d", got)
	}
}
