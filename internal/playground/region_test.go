// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestSplitsAndMergesCoverEveryKey splits and merges at random, with the bounds of both API versions.
func TestSplitsAndMergesCoverEveryKey(t *testing.T) {
	for _, memcomparable := range []bool{false, true} {
		random := rand.New(rand.NewPCG(5, 6))
		topology := &topology{bounds: boundCodec{memcomparable}, save: func(*routes, uint64) error { return nil }, nextID: 4}
		if err := topology.bootstrap([]uint64{1, 2, 3}, nil); err != nil {
			t.Fatal(err)
		}
		randomKey := func() []byte {
			k := make([]byte, random.IntN(12))
			for i := range k {
				k[i] = byte(random.IntN(4)) * 85
			}
			return k
		}
		for range 500 {
			before := topology.routes.Load()
			if random.IntN(3) == 0 && len(before.ordered) > 1 {
				_, _ = topology.merge(randomKey()) // the last region has no neighbour
			} else {
				_, _, _ = topology.split([][]byte{randomKey(), randomKey(), randomKey()}) // there may be borders already
			}
			after := topology.routes.Load()
			if err := after.check(3); err != nil {
				t.Fatal(err)
			}
			for _, r := range after.ordered {
				if old := before.byID[r.id()]; old != nil && old != r && r.version() <= old.version() {
					t.Fatalf("region %d changed, but not its version", r.id())
				}
			}
			for range 20 {
				k := randomKey()
				r := after.find(k)
				if !r.contains(k) || after.indexOfBound(topology.bounds.encode(k)) != after.index(k) {
					t.Fatalf("key %x is looked for in region [%x, %x)", k, r.start, r.end)
				}
				if start, ok := topology.bounds.decode(r.meta.StartKey); !ok || !bytes.Equal(start, r.start) {
					t.Fatalf("bound %x does not stand for %x", r.meta.StartKey, r.start)
				}
			}
		}
	}
}
