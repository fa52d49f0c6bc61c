// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/internal/store"
)

// keyShapes are properties of keys of every kind.
var keyShapes = [][]string{
	{},
	{"insertorder", "ordered"},
	{"insertorder", "ordered", "zeropadding", "12"},
	{"keyhash", "ycsb"},
	{"keyhash", "mix", "keyformat", "hex"},
	{"keylength", "40"},
	{"insertstart", "1700"},
}

// sweepAll has all lanes of a fleet read a table.
func sweepAll(t *testing.T, m *memory, workers, lanes int, pairs ...string) (*Findings, [Outcomes]int64) {
	t.Helper()
	s := parse(t, pairs...)
	bounds, err := Slices(s)
	if err != nil {
		t.Fatal(err)
	}
	for i := range bounds[1:] {
		if bytes.Compare(bounds[i], bounds[i+1]) >= 0 {
			t.Fatalf("bounds %q, %q", bounds[i], bounds[i+1])
		}
	}
	all := &Findings{}
	var counts [Outcomes]int64
	for w := range workers {
		for l := range lanes {
			place := Place{w, workers, l, lanes}
			sweep, err := NewSweep(s, place, bounds)
			if err != nil {
				t.Fatal(err)
			}
			var op Operation
			for j := int64(0); sweep.Begin(&op, place.Index(j)); j++ {
				for m.answer(&op.Call); sweep.Continue(&op); m.answer(&op.Call) {
				}
				for o, n := range op.Result.Count {
					counts[o] += int64(n)
				}
			}
			all.Add(sweep.Findings())
		}
	}
	return all, counts
}

func TestSweepSeesEveryRowOnce(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"scan", "get"} {
		for _, shape := range keyShapes {
			for _, fleet := range [][2]int{{1, 1}, {3, 2}} {
				pairs := append([]string{"recordcount", "3001", "dataintegrity", "true", "fieldcount", "1", "fieldlength", "1500"}, shape...)
				m := newMemory()
				m.load(t, pairs...)
				f, counts := sweepAll(t, m, fleet[0], fleet[1], append(pairs, "verify", way)...)
				want := int64(len(m.rows))
				if f.Rows != want || f.Expected != want || f.Missing+f.Wrong+f.Unexpected+f.Unread != 0 || f.FoundSum != f.ExpectedSum || counts[OK] != want {
					t.Errorf("%s of %v by %v: %+v, outcomes %v, want %d rows", way, shape, fleet, f, counts, want)
				}
			}
		}
	}
}

func TestSweepFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	pairs := []string{"recordcount", "2000", "dataintegrity", "true", "fieldcount", "1", "fieldlength", "50"}
	m := newMemory()
	m.load(t, pairs...)
	keys := m.keys()
	delete(m.rows, keys[3])
	m.rows[keys[5]][20] ^= 1
	m.rows["usertable:other1234567890123456"] = m.rows[keys[7]]
	m.rows["usertable:user99999999999999999999"] = m.rows[keys[7]] // could be a record's, from its looks
	m.rows["usertable:"] = nil
	m.rows["usertablf"] = nil // of no table
	m.rows["usertable9"] = nil
	f, counts := sweepAll(t, m, 2, 2, append(pairs, "verify", "scan")...)
	if f.Rows != 2002 || f.Wrong != 2 || f.Unexpected != 2 || f.FoundSum == f.ExpectedSum || counts[Wrong] != 4 {
		t.Errorf("by scan: %+v, outcomes %v", f, counts)
	}
	f, counts = sweepAll(t, m, 2, 2, append(pairs, "verify", "get")...)
	if f.Rows != 1999 || f.Missing != 1 || f.Wrong != 1 || counts[NotFound] != 1 || counts[Wrong] != 1 {
		t.Errorf("by get: %+v, outcomes %v", f, counts)
	}
	if text := fmt.Sprint(f.Problems); !strings.Contains(text, keys[3]) || !strings.Contains(text, keys[5]) {
		t.Errorf("problems %s", text)
	}
}

func TestSweepRetriesAndCountsWhatItCannotRead(t *testing.T) {
	t.Parallel()
	pairs := []string{"recordcount", "2000"}
	m := newMemory()
	m.load(t, pairs...)
	calls := 0
	m.before = func(c *store.Call) {
		if calls++; calls%3 != 0 {
			c.Class, c.Err = store.ServerBusy, errors.New("busy")
		}
	}
	f, counts := sweepAll(t, m, 1, 1, append(pairs, "verify", "scan")...)
	if f.Rows != 2000 || f.Unread != 0 || counts[Failed] != 0 {
		t.Errorf("busy two times of three: %+v, outcomes %v", f, counts)
	}
	m.before = func(c *store.Call) { c.Class, c.Err = store.ServerBusy, errors.New("busy") }
	f, counts = sweepAll(t, m, 1, 1, append(pairs, "verify", "scan")...)
	if f.Rows != 0 || f.Unread == 0 || counts[Failed] != f.Unread {
		t.Errorf("always busy: %+v, outcomes %v", f, counts)
	}
}

func TestPossibleKeys(t *testing.T) {
	t.Parallel()
	for _, shape := range keyShapes {
		g := generator(t, append([]string{"recordcount", "3000"}, shape...)...)
		for n := range int64(3000) {
			if key := g.Key(nil, n); !g.keys.possible(key) {
				t.Fatalf("%v: %q", shape, key)
			}
		}
		for _, key := range []string{"", "usertable:", "usertable:user", "usertable:user12x4567890123456", "usertable:user123456789012345678901234567890123456789012345"} {
			if g.keys.possible([]byte(key)) {
				t.Errorf("%v: %q is no key", shape, key)
			}
		}
	}
}

// Slices of many consecutive hashed keys, which go-ycsb's hash crowds together, hold
// about as many records each.
func TestSlicesAreEven(t *testing.T) {
	t.Parallel()
	s := parse(t, "recordcount", "50000", "verify", "scan")
	bounds, err := Slices(s)
	if err != nil {
		t.Fatal(err)
	}
	g := laneOf(t, s, Place{0, 1, 0, 1})
	counts := make([]int, len(bounds)-1)
	for n := range int64(50000) {
		key := g.Key(nil, n)
		for i := range counts {
			if bytes.Compare(key, bounds[i+1]) < 0 {
				counts[i]++
				break
			}
		}
	}
	for i, n := range counts {
		if len(counts) < 90 || n > 5*50000/len(counts) {
			t.Errorf("slice %d of %d has %d records", i, len(counts), n)
		}
	}
}
