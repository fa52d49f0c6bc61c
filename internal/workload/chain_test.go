// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/store"
)

func only(kind string) []string {
	pairs := []string{"readproportion", "0", "updateproportion", "0"}
	return append(pairs, kind+"proportion", "1")
}

func TestKindsOnALoadedStore(t *testing.T) {
	t.Parallel()
	tests := []struct {
		kind  string
		extra []string
		calls []store.Verb // of one operation
	}{
		{"read", nil, []store.Verb{store.Get}},
		{"update", nil, []store.Verb{store.Get, store.Put}},
		{"update", []string{"writeallfields", "true"}, []store.Verb{store.Get, store.Put}},
		{"update", []string{"updatemode", "blind"}, []store.Verb{store.Put}},
		{"readmodifywrite", nil, []store.Verb{store.Get, store.Put}},
		{"insert", nil, []store.Verb{store.Put}},
		{"delete", nil, []store.Verb{store.Delete}},
	}
	for _, format := range []string{"go-ycsb", "ycsb", "raw"} {
		for _, batch := range []string{"1", "7"} {
			for _, test := range tests {
				t.Run(fmt.Sprint(format, batch, test.kind, test.extra), func(t *testing.T) {
					shape := append([]string{"recordcount", "200", "batch.size", batch, "valueformat", format, "dataintegrity", "true"}, test.extra...)
					m := newMemory()
					m.load(t, shape...)
					size := len(m.rows[m.keys()[0]])
					m.calls = nil
					g := generator(t, append(only(test.kind), shape...)...)
					var op Operation
					m.run(g, &op, 3)
					if !slices.Equal(m.calls, test.calls) {
						t.Errorf("calls %v, want %v", m.calls, test.calls)
					}
					if want := int32(op.Size); op.Result.Count[OK] != want || op.Result.RPCs != int32(len(test.calls)) {
						t.Errorf("result %+v", op.Result)
					}
					for key, row := range m.rows {
						if len(row) != size {
							t.Errorf("row of %s has %d bytes, was %d", key, len(row), size)
						}
						if err := g.Check([]byte(key), row); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
	}
}

func TestUpdateChangesOneFieldOrAll(t *testing.T) {
	t.Parallel()
	for _, all := range []bool{false, true} {
		shape := []string{"recordcount", "1", "writeallfields", fmt.Sprint(all)}
		m := newMemory()
		m.load(t, shape...)
		key := m.keys()[0]
		before := bytes.Clone(m.rows[key])
		g := generator(t, append(only("update"), shape...)...)
		var op Operation
		m.run(g, &op, 0)
		if changed := changedFields(t, g, before, m.rows[key]); all && changed != 10 || !all && changed != 1 {
			t.Errorf("writeallfields=%v: %d fields changed", all, changed)
		}
	}
}

func changedFields(t *testing.T, g *Generator, a, b []byte) (n int) {
	t.Helper()
	for pos := 0; pos < len(a); {
		x, err := g.values.codec.cell(a, pos)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a[x.content:x.end], b[x.content:x.end]) {
			n++
		}
		pos = x.end
	}
	return n
}

func TestUpdateOfRowsFromAWiderTableKeepsThem(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.load(t, "recordcount", "5", "fieldcount", "20")
	want := len(m.rows[m.keys()[0]])
	g := generator(t, append(only("update"), "recordcount", "5", "fieldcount", "10")...)
	var op Operation
	for i := range int64(50) {
		m.run(g, &op, i)
	}
	for key, row := range m.rows {
		if len(row) != want {
			t.Errorf("row of %s has %d bytes, was %d", key, len(row), want)
		}
	}
}

func TestMissingRows(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"read", "update", "readmodifywrite", "scan"} {
		m := newMemory()
		g := generator(t, append(only(kind), "recordcount", "100", "batch.size", "4")...)
		var op Operation
		m.run(g, &op, 0)
		if op.Result.Count[NotFound] != 4 || op.Result.Outcome() != NotFound || len(m.rows) != 0 {
			t.Errorf("%s of an empty store: %+v, %d rows", kind, op.Result, len(m.rows))
		}
	}
	m := newMemory()
	g := generator(t, append(only("update"), "recordcount", "1", "updatemissing", "true")...)
	var op Operation
	m.run(g, &op, 0)
	if op.Result.Count[OK] != 1 || len(m.rows) != 1 {
		t.Errorf("updatemissing: %+v, %d rows", op.Result, len(m.rows))
	}
}

func TestFailedCalls(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for _, kind := range []string{"read", "update", "insert", "delete", "scan", "readmodifywrite"} {
		for _, failing := range []store.Verb{store.Get, store.Put, store.Delete, store.Scan} {
			m := newMemory()
			m.load(t, "recordcount", "100", "batch.size", "3")
			before := maps.Clone(m.rows)
			hit := false
			m.before = func(c *store.Call) {
				if c.Verb == failing {
					hit = true
					c.Class, c.Err = store.Timeout, boom
				}
			}
			g := generator(t, append(only(kind), "recordcount", "100", "batch.size", "3")...)
			var op Operation
			m.run(g, &op, 0)
			if !hit {
				continue
			}
			if op.Result.Count[Failed] != 3 || op.Result.Class != store.Timeout || !errors.Is(op.Result.Err, boom) {
				t.Errorf("%s with failing %v: %+v", kind, failing, op.Result)
			}
			if !maps.EqualFunc(before, m.rows, bytes.Equal) {
				t.Errorf("%s with failing %v changed the store", kind, failing)
			}
		}
	}
}

// A transaction that was lost to another one is made again, an update from its read on.
func TestLostTransactions(t *testing.T) {
	t.Parallel()
	shape := []string{"recordcount", "10", "batch.size", "3", "requestdistribution", "sequential", "tikv.type", "txn", "txn.retries", "2", "writeallfields", "true"}
	for _, tt := range []struct {
		kind string
		lost store.Verb
		want []store.Verb // of an attempt
	}{
		{"update", store.Put, []store.Verb{store.Get, store.Put}},
		{"update", store.Get, []store.Verb{store.Get}},
		{"readmodifywrite", store.Put, []store.Verb{store.Get, store.Put}},
		{"insert", store.Put, []store.Verb{store.Put}},
		{"delete", store.Delete, []store.Verb{store.Delete}},
	} {
		for _, failures := range []int{2, 3} {
			m := newMemory()
			m.load(t, shape...)
			n := 0
			m.before = func(c *store.Call) {
				if joined := c.Verb == store.Get || c.Verb == store.Put && tt.kind != "insert"; c.ForUpdate != joined {
					t.Errorf("%s: a %v with ForUpdate %v", tt.kind, c.Verb, c.ForUpdate)
				}
				if c.Verb == tt.lost {
					if n++; n <= failures {
						c.Class, c.Err = store.Conflict, errors.New("write conflict")
						m.rows[string(c.Keys[0])] = nil // by that other transaction
					}
				}
			}
			g := generator(t, append(only(tt.kind), shape...)...)
			var op Operation
			m.calls = nil
			m.run(g, &op, 0)
			var want []store.Verb
			for range min(failures, 2) + 1 {
				want = append(want, tt.want...)
			}
			if failures == 2 && tt.lost == store.Get {
				want = append(want, store.Put)
			}
			if !slices.Equal(m.calls, want) || op.Result.Retries != 2 {
				t.Errorf("%s lost %d times at %v: calls %v, want %v; %d retries", tt.kind, failures, tt.lost, m.calls, want, op.Result.Retries)
			}
			sum := int32(0)
			for _, n := range op.Result.Count {
				sum += n
			}
			if lost := op.Result.Count[Failed] > 0 && op.Result.Class == store.Conflict; sum != 3 || lost != (failures == 3) {
				t.Errorf("%s lost %d times at %v: %+v", tt.kind, failures, tt.lost, op.Result)
			}
		}
	}
}

// Before a lost transaction is made again, its first call waits: by chance, and longer after each loss, up to a bound.
func TestBackoff(t *testing.T) {
	t.Parallel()
	const first, retries = 8 * time.Millisecond, 12
	m := newMemory()
	g := generator(t, append(only("update"), "recordcount", "10", "tikv.type", "txn", "updatemissing", "true", "txn.backoff", first.String(), "txn.retries", fmt.Sprint(retries))...)
	longest := map[int]time.Duration{} // by the attempt
	attempt := 0
	m.before = func(c *store.Call) {
		switch {
		case c.Verb == store.Put || attempt == 0:
			if c.Delay != 0 {
				t.Fatalf("a %v waits for %v in attempt %d", c.Verb, c.Delay, attempt)
			}
		case c.Delay < 0 || c.Delay > min(first<<(attempt-1), mostBackoff*first):
			t.Fatalf("attempt %d waits for %v", attempt, c.Delay)
		}
		longest[attempt] = max(longest[attempt], c.Delay)
		if c.Verb == store.Put {
			c.Class, c.Err = store.Conflict, errors.New("write conflict")
			attempt++
		}
	}
	var op Operation
	for i := range int64(500) {
		attempt = 0
		if m.run(g, &op, i); op.Result.Retries != retries {
			t.Fatalf("%+v", op.Result)
		}
	}
	for n, bound := 1, first; n <= retries; n, bound = n+1, min(2*bound, mostBackoff*first) {
		if longest[n] < bound*9/10 { // 500 draws: not in 10^22 runs
			t.Errorf("retry %d waits for %v at most, want up to %v", n, longest[n], bound)
		}
	}
	g = generator(t, append(only("update"), "recordcount", "10", "tikv.type", "txn", "updatemissing", "true", "txn.backoff", "0s")...)
	m.before = func(c *store.Call) {
		if c.Delay != 0 {
			t.Errorf("without back-off a call waits for %v", c.Delay)
		}
		if c.Verb == store.Put {
			c.Class, c.Err = store.Conflict, errors.New("write conflict")
		}
	}
	m.run(g, &op, 0)
}

// What was locked to be updated, and is not there, is unlocked.
func TestUnlock(t *testing.T) {
	t.Parallel()
	for _, locked := range []bool{false, true} {
		m := newMemory()
		m.after = func(c *store.Call) { c.Locked = locked && c.Verb == store.Get }
		g := generator(t, append(only("update"), "recordcount", "10", "tikv.type", "txn", "txn.mode", "pessimistic")...)
		var op Operation
		m.run(g, &op, 0)
		want := []store.Verb{store.Get}
		if locked {
			want = append(want, store.Unlock)
		}
		if !slices.Equal(m.calls, want) || op.Result.Count[NotFound] != 1 {
			t.Errorf("locked %v: calls %v, %+v", locked, m.calls, op.Result)
		}
	}
}

func TestPartlyMissingBatchUpdate(t *testing.T) {
	t.Parallel()
	m := newMemory()
	shape := []string{"recordcount", "10", "batch.size", "10", "requestdistribution", "sequential"}
	m.load(t, shape...)
	gone := m.keys()[3]
	delete(m.rows, gone)
	wrong := m.keys()[5]
	m.rows[wrong] = []byte{1, 2, 3}
	g := generator(t, append(only("update"), shape...)...)
	var op Operation
	m.run(g, &op, 0)
	if c := op.Result.Count; c[OK] != 8 || c[NotFound] != 1 || c[Wrong] != 1 {
		t.Errorf("%+v", op.Result)
	}
	if _, there := m.rows[gone]; there || len(m.rows[wrong]) != 3 {
		t.Error("wrote a row that was missing or wrong")
	}
	var w *WrongValue
	if !errors.As(op.Result.Err, &w) || string(w.Key) != wrong {
		t.Errorf("error %v", op.Result.Err)
	}
}

func TestCompareAndSwap(t *testing.T) {
	t.Parallel()
	shape := []string{"recordcount", "50", "batch.size", "3", "dataintegrity", "true"}
	cas := append(append(only("update"), "updatemode", "compare-and-swap", "casretries", "4", "requestdistribution", "sequential"), shape...)
	t.Run("undisturbed", func(t *testing.T) {
		m := newMemory()
		m.load(t, shape...)
		m.calls = nil
		var op Operation
		m.run(generator(t, cas...), &op, 0)
		if op.Result.Count[OK] != 3 || len(m.calls) != 4 || op.Result.Retries != 0 {
			t.Errorf("%+v, calls %v", op.Result, m.calls)
		}
	})
	t.Run("racing", func(t *testing.T) {
		m := newMemory()
		m.load(t, shape...)
		g := generator(t, cas...)
		other := generator(t, append(slices.Clone(cas), "seed", "7")...)
		races := 0
		m.before = func(c *store.Call) {
			if c.Verb == store.CompareAndSwap && races < 3 {
				races++ // another client was faster
				key := string(c.Keys[0])
				r := newRandom(99, int64(races))
				row, err := other.values.replace(nil, m.rows[key], &r, c.Keys[0], races, &other.fields)
				if err != nil {
					t.Fatal(err)
				}
				m.rows[key] = row
			}
		}
		var op Operation
		m.run(g, &op, 0)
		if op.Result.Count[OK] != 3 || op.Result.Retries != 3 {
			t.Errorf("%+v", op.Result)
		}
		for key, row := range m.rows {
			if err := g.Check([]byte(key), row); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("lost", func(t *testing.T) {
		m := newMemory()
		m.load(t, shape...)
		m.before = func(c *store.Call) {
			if c.Verb == store.CompareAndSwap {
				key := string(c.Keys[0])
				m.rows[key] = bytes.Clone(m.rows[key])
				m.rows[key] = generator(t, shape...).values.row(nil, &random{uint64(len(m.calls))}, c.Keys[0], &lengths{high: 100})
			}
		}
		var op Operation
		m.run(generator(t, cas...), &op, 0)
		if op.Result.Count[Failed] != 3 || op.Result.Retries != 12 || !strings.Contains(op.Result.Err.Error(), "5 times") {
			t.Errorf("%+v", op.Result)
		}
	})
	t.Run("deleted meanwhile", func(t *testing.T) {
		m := newMemory()
		m.load(t, shape...)
		m.before = func(c *store.Call) {
			if c.Verb == store.CompareAndSwap {
				delete(m.rows, string(c.Keys[0]))
			}
		}
		var op Operation
		m.run(generator(t, cas...), &op, 0)
		if op.Result.Count[NotFound] != 3 {
			t.Errorf("%+v", op.Result)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		m := newMemory()
		m.load(t, shape...)
		m.before = func(c *store.Call) {
			if c.Verb == store.CompareAndSwap {
				c.Class, c.Err = store.Cancelled, errors.New("stopped")
			}
		}
		m.calls = nil
		var op Operation
		m.run(generator(t, cas...), &op, 0)
		if op.Result.Count[Failed] != 3 || len(m.calls) != 2 {
			t.Errorf("%+v, calls %v", op.Result, m.calls)
		}
	})
}

func TestScan(t *testing.T) {
	t.Parallel()
	shape := []string{"recordcount", "100", "dataintegrity", "true", "table", "t", "maxscanlength", "20", "minscanlength", "5"}
	m := newMemory()
	m.load(t, shape...)
	m.rows["t;"] = []byte("the next table")
	m.rows["s:user1"] = []byte("the table before")
	g := generator(t, append(append(only("scan"), "batch.size", "3"), shape...)...)
	m.before = func(c *store.Call) {
		if c.Limit < 5 || c.Limit > 20 || string(c.EndKey) != "t;" {
			t.Errorf("limit %d, end %q", c.Limit, c.EndKey)
		}
	}
	var op Operation
	for i := range int64(50) {
		m.run(g, &op, i)
		if op.Result.Count[OK] != 3 || op.Result.Rows < 3 {
			t.Fatalf("%+v", op.Result)
		}
	}
	m.rows[m.keys()[50]] = []byte("??")
	wrong := int32(0)
	for i := range int64(50) {
		m.run(g, &op, i)
		wrong += op.Result.Count[Wrong]
	}
	if wrong == 0 {
		t.Error("no scan noticed a wrong row")
	}
}

func TestInsertRetries(t *testing.T) {
	t.Parallel()
	m := newMemory()
	failures := 0
	m.before = func(c *store.Call) {
		if failures++; failures <= 3 {
			c.Class, c.Err = store.ServerBusy, errors.New("busy")
		}
	}
	g := generator(t, "dotransactions", "false", "recordcount", "10", "core_workload_insertion_retry_limit", "3")
	var op Operation
	m.run(g, &op, 0)
	if op.Result.Count[OK] != 1 || op.Result.Retries != 3 || len(m.calls) != 4 {
		t.Errorf("%+v", op.Result)
	}
	failures = -1000
	m.before = func(c *store.Call) { c.Class, c.Err = store.ServerBusy, errors.New("busy") }
	m.calls = nil
	m.run(g, &op, 1)
	if op.Result.Count[Failed] != 1 || len(m.calls) != 4 {
		t.Errorf("%+v after %d calls", op.Result, len(m.calls))
	}
}

func TestTTL(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.before = func(c *store.Call) {
		if c.Verb == store.Put && c.TTL != 90 {
			t.Errorf("TTL %d", c.TTL)
		}
	}
	m.load(t, "recordcount", "3", "ttl", "90", "tikv.apiversion", "V2")
	if len(m.rows) != 3 {
		t.Fatal(len(m.rows))
	}
}
