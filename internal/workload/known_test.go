// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/internal/store"
)

// TestScanThatLeavesOut: a row that a scan has left out and that is there makes the scan wrong, at the table's end
// as well; a row that is not there does not, and neither do rows that a run has inserted.
func TestScanThatLeavesOut(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"hashed", "ordered"} {
		shape := []string{"recordcount", "100", "table", "t", "maxscanlength", "20", "minscanlength", "5", "insertorder", order}
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
