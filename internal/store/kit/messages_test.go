// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"reflect"
	"testing"

	"github.com/kvbench/kvbench/internal/store"
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
		m.Sent(n, &Kinds{store.RawPut: int32(n)})
	}
	tr := store.Traffic{Store: "a", Fallbacks: map[string]int64{"x": 1}}
	m.AddTo(&tr)
	want := store.Traffic{Store: "a", Messages: 5, Commands: 136, Sizes: map[int]int64{1: 3, 5: 1, 128: 1}, Kinds: map[string]int64{"raw_put": 136}, Fallbacks: map[string]int64{"x": 1}}
	if !reflect.DeepEqual(tr, want) {
		t.Errorf("counted %+v, want %+v", tr, want)
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	var m Messages
	if n := testing.AllocsPerRun(100, func() { m.Sent(7, &Kinds{store.RawGet: 3, store.RawScan: 4}) }); n > 0 {
		t.Errorf("%v allocations per message", n)
	}
}
