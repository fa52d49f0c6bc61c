// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/internal/store"
)

// TestScanThatLeavesOut: a row that a scan has left out and that is there makes the scan wrong, at the table's end
// as well; a row that is not there does not, and neither do rows that a run has inserted.
func TestScanThatLeavesOut(t *testing.T) {
	t.Parallel()
	for order, more := range map[string][]string{
		"hashed":            nil,
		"ordered":           {"insertorder", "ordered"},
		"ordered, of width": {"insertorder", "ordered", "zeropadding", "4"}, // whose keys sort as numbers
	} {
		shape := append([]string{"recordcount", "100", "table", "t", "maxscanlength", "20", "minscanlength", "5"}, more...)
		m := newMemory()
		m.load(t, shape...)
		m.rows["t;"] = []byte("the next table")
		m.rows["t:user5555"] = []byte("inserted since")
		g := generator(t, append(append(only("scan"), "batch.size", "3"), shape...)...)
		r := rand.New(rand.NewPCG(1, 2))
		swallow := 0
		m.after = func(c *store.Call) {
			if c.Verb != store.Scan || r.IntN(4) > 0 || len(c.Found) == 0 {
				return
			}
			i := r.IntN(len(c.Found))
			if string(c.FoundKeys[i]) == "t:user5555" || i == len(c.Found)-1 && len(c.Found) == c.Limit {
				return // it may be one row fewer
			}
			c.Found = append(c.Found[:i:i], c.Found[i+1:]...)
			c.FoundKeys = append(c.FoundKeys[:i:i], c.FoundKeys[i+1:]...)
			swallow++
		}
		var op Operation
		wrong := 0
		for i := range int64(300) {
			m.run(g, &op, i)
			if n := op.Result.Count; n[OK]+n[Wrong] != 3 {
				t.Fatalf("%s: %+v", order, op.Result)
			}
			wrong += int(op.Result.Count[Wrong])
			if err := op.Result.Err; err != nil && !strings.Contains(err.Error(), "left it out") {
				t.Error(err)
			}
		}
		if wrong != swallow || swallow < 50 {
			t.Errorf("%s: %d scans are wrong, want %d", order, wrong, swallow)
		}

		// Rows that are gone, or were never there.
		m.after = nil
		for i := range int64(100) {
			if i%3 == 0 {
				delete(m.rows, string(g.Key(nil, i)))
			}
		}
		m.calls = nil
		for i := range int64(300) {
			m.run(g, &op, i)
			if op.Result.Count[Wrong] > 0 {
				t.Fatalf("%s: %+v", order, op.Result)
			}
		}
		looks := 0
		for _, verb := range m.calls {
			if verb == store.Get {
				looks++
			}
		}
		if looks != mostAbsent {
			t.Errorf("%s: %d looks for rows that are not there, want %d", order, looks, mostAbsent)
		}
	}
	// An update may create what a scan did not find.
	creating := generator(t, "scanproportion", "0.5", "readproportion", "0", "updateproportion", "0.5", "updatemode", "blind")
	if creating.known != nil {
		t.Error("scans are checked for rows that updates create")
	}
}

// TestKnownOfLargeTables: where keys sort as numbers no row can be left out unseen, however large the table is.
func TestKnownOfLargeTables(t *testing.T) {
	t.Parallel()
	for _, more := range [][]string{{"zeropadding", "9"}, {"keyformat", "hex"}, {"insertstart", "1000000", "insertcount", "500000"}} {
		g := generator(t, append(append(only("scan"), "recordcount", "1500000", "insertorder", "ordered"), more...)...)
		if g.known == nil || g.known.codec == nil {
			t.Fatalf("%v: the keys are not known by their numbers", more)
		}
		const limit = 50
		for _, record := range []int64{1_000_000, 1_234_567, 1_499_990} {
			var found [][]byte
			for i := record; i < min(record+limit, g.known.first+g.known.count); i++ {
				found = append(found, g.Key(nil, i))
			}
			start := found[0]
			if lacking := g.known.leftOut(start, found, limit); len(lacking) > 0 {
				t.Errorf("%v: a whole scan from %s lacks %q", more, start, lacking)
			}
			lost := found[7]
			if lacking := g.known.leftOut(start, slices.Delete(slices.Clone(found), 7, 8), limit); len(lacking) == 0 || !bytes.Equal(lacking[0], lost) {
				t.Errorf("%v: a scan from %s without %s lacks %q", more, start, lost, lacking)
			}
		}
	}
}
