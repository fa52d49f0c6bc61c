// SPDX-License-Identifier: Apache-2.0

package store

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// Small messages are counted exactly, large ones at most 2 % too small.
func TestMessageSizes(t *testing.T) {
	t.Parallel()
	for n := 1; n <= maxSize; n++ {
		i := sizeIndex(n)
		if i < 0 || i >= sizes {
			t.Fatalf("%d commands: index %d of %d", n, i, sizes)
		}
		at := sizeAt(i)
		if n <= 128 && at != n || at > n || float64(n-at) > 0.02*float64(n) {
			t.Fatalf("%d commands are counted as %d", n, at)
		}
	}
	if at := sizeAt(sizeIndex(10 * maxSize)); at != maxSize {
		t.Errorf("more than can be counted is counted as %d", at)
	}
}

func TestMessages(t *testing.T) {
	t.Parallel()
	var m Messages
	for _, n := range []int{1, 1, 5, 128, 1} {
		m.Sent(n)
	}
	tr := Traffic{Store: "a", Detours: map[string]int64{"x": 1}}
	m.AddTo(&tr)
	want := Traffic{Store: "a", Messages: 5, Commands: 136, Sizes: map[int]int64{1: 3, 5: 1, 128: 1}, Detours: map[string]int64{"x": 1}}
	if !reflect.DeepEqual(tr, want) {
		t.Errorf("counted %+v, want %+v", tr, want)
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	var m Messages
	if n := testing.AllocsPerRun(100, func() { m.Sent(7) }); n > 0 {
		t.Errorf("%v allocations per message", n)
	}
}

// What was counted between two looks, added to the first, is the second.
func TestTrafficSince(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	more := func(from Traffic) Traffic {
		from.Add(&Traffic{
			Messages: rng.Int64N(9), Commands: rng.Int64N(99), Unsent: rng.Int64N(3), Breaks: rng.Int64N(2),
			Sizes:   map[int]int64{rng.IntN(4): rng.Int64N(5), rng.IntN(4): rng.Int64N(5)},
			Detours: map[string]int64{"abc"[rng.IntN(3):]: rng.Int64N(3)},
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
