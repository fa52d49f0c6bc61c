// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestReplaced(t *testing.T) {
	t.Parallel()
	type step struct {
		value      uint64
		start, end int64 // end 0: only begun
	}
	tests := []struct {
		name  string
		steps []step
		want  map[uint64]bool // values that the key may hold
	}{
		{"one", []step{{1, 10, 20}}, map[uint64]bool{1: true, 2: false}},
		{"one after the other", []step{{1, 10, 20}, {2, 21, 30}}, map[uint64]bool{1: false, 2: true}},
		{"at the same time", []step{{1, 10, 20}, {2, 15, 30}}, map[uint64]bool{1: true, 2: true}},
		{"touching", []step{{1, 10, 20}, {2, 20, 30}}, map[uint64]bool{1: true, 2: true}},
		{"not acknowledged", []step{{1, 10, 0}, {2, 20, 30}}, map[uint64]bool{1: true, 2: true}},
		{"overlapping, then replaced", []step{{1, 10, 20}, {2, 15, 30}, {3, 40, 50}}, map[uint64]bool{1: false, 2: false, 3: true}},
		{"answers taken in the other order", []step{{2, 21, 30}, {1, 10, 20}}, map[uint64]bool{1: false, 2: true}},
		{"deleted", []step{{1, 10, 20}, {None, 21, 30}}, map[uint64]bool{1: false, None: true}},
		{"the same value again", []step{{1, 10, 20}, {2, 21, 30}, {1, 31, 40}}, map[uint64]bool{1: true, 2: false}},
	}
	for _, test := range tests {
		l := New(1000)
		key := []byte("k")
		for _, s := range test.steps {
			l.Begin(key, s.value)
		}
		for _, s := range test.steps {
			if s.end > 0 {
				l.Acknowledge(key, s.value, Span{s.start, s.end})
			}
		}
		for value, want := range test.want {
			if _, mine, followed := l.Wrote(key, value); mine != want || !followed {
				t.Errorf("%s: value %d: %v, want %v", test.name, value, mine, want)
			}
		}
	}
}

// Whatever a register holds that takes each write at some moment between its start
// and its end is a value that the ledger knows; and when the last writes do not
// overlap, nothing else is.
func TestNoFalseClaims(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 7))
		type op struct {
			value             uint64
			start, apply, end int64
			known             bool
		}
		var ops []op
		for i := range 1 + r.IntN(12) {
			o := op{value: uint64(i + 1), start: r.Int64N(100), known: r.IntN(5) > 0}
			o.end = o.start + 1 + r.Int64N(30)
			o.apply = o.start + r.Int64N(o.end-o.start+1)
			if !o.known && r.IntN(2) == 0 {
				o.apply = 500 + r.Int64N(10) // long after
			}
			ops = append(ops, o)
		}
		// The register: the applied write that comes last.
		holds := slices.MaxFunc(ops, func(a, b op) int { return int(a.apply - b.apply) })
		// What the worker sees, in order of time.
		type event struct {
			at    int64
			begin bool
			op    op
		}
		var events []event
		for _, o := range ops {
			events = append(events, event{o.start, true, o})
			if o.known {
				events = append(events, event{o.end, false, o})
			}
		}
		slices.SortStableFunc(events, func(a, b event) int { return int(a.at - b.at) })
		l := New(100)
		for _, e := range events {
			if e.begin {
				l.Begin([]byte("k"), e.op.value)
			} else {
				l.Acknowledge([]byte("k"), e.op.value, Span{e.op.start, e.op.end})
			}
		}
		if _, mine, _ := l.Wrote([]byte("k"), holds.value); !mine {
			t.Fatalf("seed %d: %+v holds %d, which would be called lost", seed, ops, holds.value)
		}
		for _, o := range ops {
			replaced := slices.ContainsFunc(ops, func(p op) bool { return o.known && p.known && o.end < p.start })
			if _, mine, _ := l.Wrote([]byte("k"), o.value); mine == replaced {
				t.Fatalf("seed %d: %+v: value %d known %v, replaced %v", seed, ops, o.value, mine, replaced)
			}
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	l := New(6400)
	key := func(i int) []byte { return fmt.Appendf(nil, "key%d", i) }
	for i := range 100_000 {
		l.Begin(key(i), uint64(i+1))
		l.Acknowledge(key(i), uint64(i+1), Span{int64(i), int64(i) + 1})
	}
	kept := 0
	var f float64
	for part := range Parts {
		for k := range l.Keys(part) {
			if k.Hash%Parts != uint64(part) || !Follows(k.Hash, l.Level(part)) {
				t.Fatalf("key %s is in part %d at level %d", k.Key, part, l.Level(part))
			}
			kept++
		}
		f += math.Exp2(-float64(l.Level(part))) / Parts
	}
	if kept > 6400 || kept < 1600 || f < 1.0/64 || f > 1.0/8 {
		t.Errorf("%d keys are kept, a fraction of %v", kept, f)
	}
	for i := range 100_000 {
		_, mine, followed := l.Wrote(key(i), uint64(i+1))
		if mine != followed {
			t.Fatalf("key %d: mine %v, followed %v", i, mine, followed)
		}
	}
}

func TestTooManyUnknownWrites(t *testing.T) {
	t.Parallel()
	l := New(100)
	for i := range uint64(mostWrites + 1) {
		l.Begin([]byte("k"), i+1)
	}
	l.Acknowledge([]byte("k"), mostWrites+1, Span{10, 20})
	if _, mine, followed := l.Wrote([]byte("k"), 1); mine || followed {
		t.Error("something is said of a key whose writes were not all kept")
	}
	untracked := 0
	for part := range Parts {
		for k := range l.Keys(part) {
			t.Errorf("%s is to be read back", k.Key)
		}
		untracked += len(l.Untracked(part))
	}
	if untracked != 1 {
		t.Errorf("%d keys are told to be untracked, want 1", untracked)
	}
}

func BenchmarkWrite(b *testing.B) {
	l := New(1_000_000)
	keys := make([][]byte, 1<<16)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "usertable:user%019d", i)
	}
	for i := 0; b.Loop(); i++ {
		k := keys[i%len(keys)]
		l.Begin(k, uint64(i+1))
		l.Acknowledge(k, uint64(i+1), Span{int64(2 * i), int64(2*i + 1)})
	}
}
