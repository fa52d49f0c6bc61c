// SPDX-License-Identifier: Apache-2.0

package store

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// What was counted between two looks, added to the first, is the second.
func TestTrafficSince(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	more := func(from Traffic) Traffic {
		from.Add(&Traffic{
			Messages: rng.Int64N(9), Commands: rng.Int64N(99), Unsent: rng.Int64N(3), Breaks: rng.Int64N(2),
			Sizes:     map[int]int64{rng.IntN(4): rng.Int64N(5), rng.IntN(4): rng.Int64N(5)},
			Fallbacks: map[string]int64{"abc"[rng.IntN(3):]: rng.Int64N(3)},
		})
		return from
	}
	for range 200 {
		before := Traffic{Store: "s"}
		before = more(more(before))
		var after Traffic
		after.Store = "s"
		after.Add(&before)
		after = more(after)
		d := after.Since(&before)
		before.Add(&d)
		if !reflect.DeepEqual(before, after) {
			t.Fatalf("%+v is not %+v", before, after)
		}
		if none := after.Since(&after); !none.Empty() || !reflect.DeepEqual(none.Sizes, map[int]int64{}) {
			t.Fatalf("nothing is %+v", none)
		}
	}
}
