// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/store"
)

// fleet makes the generators of all lanes, with one operation each.
func fleet(t testing.TB, s *spec.Spec, workers, lanes int) (gs []*Generator, places []Place) {
	t.Helper()
	for w := range workers {
		for l := range lanes {
			p := Place{w, workers, l, lanes}
			places = append(places, p)
			gs = append(gs, laneOf(t, s, p))
		}
	}
	return gs, places
}

// Any record count, part, batch size and fleet load exactly the records that were
// asked for, each once.
func TestLoadIsExact(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		records := 1 + r.IntN(3000)
		start := r.IntN(records)
		count := 1 + r.IntN(records-start)
		batch, workers, lanes := 1+r.IntN(50), 1+r.IntN(5), 1+r.IntN(4)
		name := fmt.Sprintf("records %d, from %d, %d of them, batch %d, %d workers, %d lanes", records, start, count, batch, workers, lanes)
		s := parse(t, "dotransactions", "false", "insertorder", "ordered", "fieldcount", "1",
			"recordcount", fmt.Sprint(records), "insertstart", fmt.Sprint(start), "insertcount", fmt.Sprint(count), "batch.size", fmt.Sprint(batch))
		m := newMemory()
		inserted, batches := 0, int64(0)
		gs, places := fleet(t, s, workers, lanes)
		for i, g := range gs {
			var op Operation
			for j := int64(0); m.run(g, &op, places[i].Index(j)); j++ {
				inserted += int(op.Result.Count[OK])
				batches++
			}
		}
		if len(m.rows) != count || inserted != count || batches != Batches(s) {
			t.Errorf("%s: %d rows, %d inserts, %d batches of %d", name, len(m.rows), inserted, batches, Batches(s))
		}
		for i := range count {
			if m.rows[fmt.Sprintf("usertable:user%d", start+i)] == nil {
				t.Fatalf("%s: record %d is missing", name, start+i)
			}
		}
	}
}

func TestRunEndsWithOperationCount(t *testing.T) {
	t.Parallel()
	for _, count := range []int64{1, 19, 20, 21, 1000} {
		s := parse(t, "operationcount", fmt.Sprint(count), "batch.size", "20")
		g := laneOf(t, s, Place{0, 1, 0, 1})
		var op Operation
		var n, operations int64
		for g.Begin(&op, n) {
			n++
			operations += int64(op.Size)
		}
		if operations != count || n != Batches(s) {
			t.Errorf("%d operations in %d batches, want %d in %d", operations, n, count, Batches(s))
		}
	}
	if n := Batches(parse(t, "maxexecutiontime", "5")); n != 0 {
		t.Errorf("a run by time has %d batches", n)
	}
}

// describe is everything that a generator has decided when an operation begins.
func describe(op *Operation) string {
	var b strings.Builder
	fmt.Fprint(&b, op.Index, op.Kind, op.Call.Verb, op.field)
	for _, key := range op.Call.Keys {
		fmt.Fprintf(&b, " %s", key)
	}
	for _, value := range op.Call.Values {
		fmt.Fprintf(&b, " %s", value)
	}
	if op.Kind == Scan {
		fmt.Fprint(&b, op.Call.Limit)
	}
	return b.String()
}

// The same seed gives the same operations, however many workers and lanes share them.
func TestDeterminism(t *testing.T) {
	t.Parallel()
	for _, pairs := range [][]string{
		{"readproportion", "1", "updateproportion", "1", "deleteproportion", "1", "scanproportion", "1", "readmodifywriteproportion", "1",
			"updatemode", "blind", "batch.size", "3", "readallfields", "false", "requestdistribution", "zipfian"},
		{"requestdistribution", "sequential", "batch.size", "7"},
		{"dotransactions", "false", "batch.size", "3"},
	} {
		const n = 600
		want := make(map[int64]string)
		for _, size := range [][2]int{{1, 1}, {3, 2}, {1, 7}, {5, 1}} {
			s := parse(t, append(pairs, "recordcount", "1800")...)
			gs, places := fleet(t, s, size[0], size[1])
			seen := 0
			for i, g := range gs {
				var op Operation
				for j := int64(0); places[i].Index(j) < n; j++ {
					index := places[i].Index(j)
					if !g.Begin(&op, index) {
						t.Fatal("no operation", index)
					}
					seen++
					got := describe(&op)
					if size[0]*size[1] == 1 {
						want[index] = got
					} else if want[index] != got {
						t.Fatalf("%d workers, %d lanes: operation %d is %s, was %s", size[0], size[1], index, got, want[index])
					}
				}
			}
			if seen != n {
				t.Errorf("%d workers, %d lanes have %d operations of %d", size[0], size[1], seen, n)
			}
		}
	}
}

func TestSeedsDiffer(t *testing.T) {
	t.Parallel()
	a, b := generator(t, "seed", "1"), generator(t, "seed", "2")
	var x, y Operation
	same := 0
	for i := range int64(200) {
		a.Begin(&x, i)
		b.Begin(&y, i)
		if bytes.Equal(x.Call.Keys[0], y.Call.Keys[0]) {
			same++
		}
	}
	if same > 10 {
		t.Errorf("%d of 200 operations are the same", same)
	}
}

// A record's content follows from seed and number: loading again with another
// batch size writes the same rows.
func TestLoadIsTheSameForAnyBatchSize(t *testing.T) {
	t.Parallel()
	a, b := newMemory(), newMemory()
	a.load(t, "recordcount", "100")
	b.load(t, "recordcount", "100", "batch.size", "7")
	for key, row := range a.rows {
		if !bytes.Equal(row, b.rows[key]) {
			t.Fatal(key)
		}
	}
}

// Inserts of a run never meet, whatever numbers of lanes the workers have.
func TestRunInsertsAreDisjoint(t *testing.T) {
	t.Parallel()
	s := parse(t, append(only("insert"), "recordcount", "10", "batch.size", "3", "insertorder", "ordered", "fieldcount", "1")...)
	seen := make(map[string]bool)
	lanes := []int{1, 4, 2}
	for w := range lanes {
		for l := range lanes[w] {
			p := Place{w, len(lanes), l, lanes[w]}
			g := laneOf(t, s, p)
			var op Operation
			for j := range int64(50) {
				g.Begin(&op, p.Index(j))
				for _, key := range op.Call.Keys {
					if seen[string(key)] {
						t.Fatalf("%s is inserted twice", key)
					}
					seen[string(key)] = true
				}
			}
		}
	}
	for i := range 10 {
		if seen[fmt.Sprintf("usertable:user%d", i)] {
			t.Errorf("loaded record %d is inserted again", i)
		}
	}
}

// Reads of a run with inserts, of which some fail and answers come in any order, touch only
// records that were loaded or acknowledged before, under every distribution.
func TestNothingIsReadBeforeItIsThere(t *testing.T) {
	t.Parallel()
	for _, law := range []string{"uniform", "sequential", "zipfian", "latest", "hotspot", "exponential"} {
		t.Run(law, func(t *testing.T) {
			t.Parallel()
			pairs := []string{"recordcount", "100", "insertproportion", "0.5", "requestdistribution", law, "fieldcount", "1", "batch.size", "2"}
			s := parse(t, pairs...)
			m := newMemory()
			m.load(t, pairs...)
			loaded := len(m.rows)
			r := rand.New(rand.NewPCG(3, 4))
			fleet, places := fleet(t, s, 2, 2)
			var inserted, fresh int
			for lane, g := range fleet {
				flying := make([]*Operation, 0, 8)
				finish := func(i int) {
					op := flying[i]
					flying = slices.Delete(flying, i, i+1)
					if op.Kind == Insert && r.IntN(10) == 0 {
						op.Call.Class, op.Call.Err = store.Timeout, errors.New("timeout")
					} else {
						m.answer(&op.Call)
					}
					for g.Continue(op) {
						m.answer(&op.Call)
					}
					if op.Kind == Insert {
						inserted += int(op.Result.Count[OK])
					} else if op.Result.Count[OK] != 2 {
						t.Fatalf("%v of %s: %+v", op.Kind, op.Call.Keys, op.Result)
					}
				}
				for j := range int64(3000) {
					for len(flying) == cap(flying) {
						finish(r.IntN(len(flying)))
					}
					op := new(Operation)
					g.Begin(op, places[lane].Index(j))
					if op.Kind == Read {
						for _, key := range op.Call.Keys {
							if m.rows[string(key)] == nil {
								t.Fatalf("reads %s, which is not there", key)
							}
						}
						if !slices.ContainsFunc(op.Call.Keys, func(key []byte) bool { return isLoaded(g, key) }) {
							fresh++
						}
					}
					flying = append(flying, op)
				}
				for len(flying) > 0 {
					finish(0)
				}
			}
			if len(m.rows) != loaded+inserted || inserted < 5000 {
				t.Errorf("%d rows after %d loaded and %d inserted", len(m.rows), loaded, inserted)
			}
			if fresh < 1000 {
				t.Errorf("only %d reads of inserted records", fresh)
			}
		})
	}
}

func isLoaded(g *Generator, key []byte) bool {
	for i := range g.spec.Records {
		if bytes.Equal(g.Key(nil, i), key) {
			return true
		}
	}
	return false
}

// The memory of inserts is bits above the first hole, and next to nothing without holes.
func TestInsertsMemory(t *testing.T) {
	t.Parallel()
	i := newInserts(0, Place{0, 1, 0, 1})
	for range int64(1_000_000) {
		m := i.take()
		if m >= 50 { // 50 in flight
			i.acknowledge(m - 50)
		}
	}
	if len(i.acked) > 4 {
		t.Errorf("%d words for 50 inserts in flight", len(i.acked))
	}
	if m, ok := i.nearest(1 << 50); !ok || m != 999_949 {
		t.Errorf("nearest %d, %v", m, ok)
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	for range 50 {
		i := newInserts(100, Place{1, 3, 1, 2})
		acked := make(map[int64]bool)
		for _, m := range r.Perm(400) {
			if r.IntN(3) > 0 {
				i.acknowledge(int64(m))
				acked[int64(m)] = true
			}
			n := int64(r.IntN(3000))
			want := n / 6
			for want >= 0 && !acked[want] {
				want--
			}
			if got, ok := i.nearest(n); ok != (want >= 0) || ok && got != want {
				t.Fatalf("nearest(%d) is %d, %v; want %d", n, got, ok, want)
			}
		}
	}
}

func TestNewRefusesPlacesOutside(t *testing.T) {
	t.Parallel()
	s := parse(t)
	for _, p := range []Place{{}, {1, 1, 0, 1}, {0, 1, 2, 2}, {-1, 1, 0, 1}} {
		if _, err := New(s, p); err == nil {
			t.Errorf("%+v", p)
		}
	}
	if _, err := New(&spec.Spec{}, Place{0, 1, 0, 1}); err == nil {
		t.Error("an empty specification is taken")
	}
}

// instant answers calls without allocating: every key is there.
type instant struct {
	rows  map[string][]byte
	found [][]byte
	row   []byte
}

func (i *instant) answer(c *store.Call) {
	c.RPCs, c.Class, c.Swapped = 1, store.OK, true
	if c.Verb == store.Get {
		i.found = i.found[:0]
		for _, key := range c.Keys {
			row := i.row
			if i.rows != nil {
				row = i.rows[string(key)]
			}
			i.found = append(i.found, row)
		}
		c.Found = i.found
	}
}

func steadyCases() [][]string {
	var cases [][]string
	for _, kind := range []string{"read", "update", "insert", "delete", "readmodifywrite"} {
		for _, batch := range []string{"1", "20"} {
			for _, integrity := range []string{"false", "true"} {
				cases = append(cases, append(only(kind), "batch.size", batch, "dataintegrity", integrity))
			}
		}
	}
	return append(cases,
		append(only("update"), "updatemode", "compare-and-swap"),
		append(only("update"), "updatemode", "blind"),
		append(only("read"), "requestdistribution", "zipfian"),
		append(only("read"), "requestdistribution", "latest"),
		append(only("read"), "dataintegrity", "true", "integrityformat", "go-ycsb"),
		append(only("update"), "valueformat", "ycsb"),
		append(only("update"), "valueformat", "raw"),
		[]string{"dotransactions", "false", "batch.size", "20"},
	)
}

func steady(t testing.TB, pairs []string) (step func()) {
	pairs = append(pairs, "recordcount", "1000000000")
	g := generator(t, pairs...)
	m := &instant{row: newRow(generator(t, append(pairs, "dataintegrity", "false")...), []byte("k"), 1)}
	if g.spec.Integrity { // rows must be right, so keep those of a small table
		pairs = append(pairs, "recordcount", "500")
		store := newMemory()
		store.load(t, pairs...)
		g, m = generator(t, pairs...), &instant{rows: store.rows}
	}
	var op Operation
	index := int64(0)
	return func() {
		if !g.Begin(&op, index) {
			t.Fatal("the sequence has ended")
		}
		index++
		for {
			m.answer(&op.Call)
			if !g.Continue(&op) {
				break
			}
		}
		if op.Result.Outcome() != OK {
			t.Fatal(op.Result.Err)
		}
	}
}

func TestNoAllocationPerOperation(t *testing.T) {
	for _, pairs := range steadyCases() {
		step := steady(t, pairs)
		for range 300 {
			step()
		}
		// Acknowledgements of inserts move along in words of 64.
		if n := testing.AllocsPerRun(300, step); n != 0 {
			t.Errorf("%v: %v allocations per operation", pairs, n)
		}
	}
}

func BenchmarkOperation(b *testing.B) {
	for _, pairs := range steadyCases() {
		b.Run(cmp.Or(strings.Join(pairs[4:], " "), "load"), func(b *testing.B) {
			step := steady(b, pairs)
			b.ReportAllocs()
			for b.Loop() {
				step()
			}
		})
	}
}

// Under another salt all values are others, and everything else is the same.
func TestSalt(t *testing.T) {
	t.Parallel()
	s := parse(t, "readproportion", "0.2", "updateproportion", "0.5", "insertproportion", "0.3", "updatemode", "blind",
		"fieldcount", "3", "fieldlength", "14", "fieldlengthdistribution", "uniform", "minfieldlength", "14", "dataintegrity", "true", "batch.size", "3")
	place := Place{0, 1, 0, 1}
	plain, same, salted := laneOf(t, s, place), laneOf(t, s, place), laneOf(t, s, place)
	same.Salt(0)
	salted.Salt(0x9000_0000_0000_0001)
	for index := range int64(200) {
		var a, b, c Operation
		if !plain.Begin(&a, index) || !same.Begin(&b, index) || !salted.Begin(&c, index) {
			t.Fatal("the sequence has an end")
		}
		if a.Kind != c.Kind || !slices.EqualFunc(a.keys, c.keys, bytes.Equal) || !slices.EqualFunc(a.values, b.values, bytes.Equal) {
			t.Fatalf("operation %d: %v of %q, with salt %v of %q", index, a.Kind, a.keys, c.Kind, c.keys)
		}
		for i, value := range c.values {
			if bytes.Equal(value, a.values[i]) || len(value) != len(a.values[i]) {
				t.Errorf("operation %d: %q, with salt %q", index, a.values[i], value)
			}
			if err := plain.Check(c.keys[i], value); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestLetters(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		want  int
		pairs []string
	}{
		{100, nil}, // an update changes a field
		{1000, []string{"writeallfields", "true"}},
		{1000, []string{"updatemode", "blind"}},
		{94, []string{"dataintegrity", "true"}},
		{0, []string{"dataintegrity", "true", "integrityformat", "go-ycsb"}},
		{0, []string{"compressibility", "1"}},
		{50, []string{"compressibility", "0.5"}},
		{7, []string{"fieldlengthdistribution", "uniform", "minfieldlength", "7"}},
		{0, []string{"fieldlength", "6", "dataintegrity", "true"}},
	} {
		if got := generator(t, append(test.pairs, "updateproportion", "1")...).Letters(); got != test.want {
			t.Errorf("%v: %d letters, want %d", test.pairs, got, test.want)
		}
	}
}
