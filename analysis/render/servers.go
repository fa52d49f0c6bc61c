// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/internal/units"
)

// servers writes what the stores said of themselves.
func (t *text) servers(s *analysis.Servers) {
	if s == nil {
		return
	}
	t.line("")
	if head, rows := serverTable(s); len(rows) > 0 {
		table, _ := t.fit(append([][]string{head}, rows...), "regions", "memory MB", "cache hits", "stalls")
		t.table(table, 1, 0)
	}
	if s.Counted != nil {
		t.prose("", "", s.Counted.Text)
	}
	for _, f := range s.Findings {
		t.remark(yellow, "stores: "+printable(f.Text))
	}
	for i := range s.Stores {
		if row := &s.Stores[i]; row.Readings == 0 && row.Failed > 0 {
			t.remark(yellow, fmt.Sprintf("store %s told nothing of itself: %s", printable(row.Store), printable(row.Why)))
		}
	}
}

// serverTable shows the stores that told something, with a dash for what they did not tell.
func serverTable(s *analysis.Servers) (head []string, rows [][]string) {
	head = []string{"store", "requests", "mean", "cores used", "stalls", "cache hits", "memory MB", "leaders", "regions"}
	show := func(v *float64, how func(float64) string) string {
		if v == nil {
			return "–"
		}
		return how(*v)
	}
	whole := func(v float64) string { return units.Count(int64(v)) }
	for i := range s.Stores {
		r := &s.Stores[i]
		if r.Readings < 2 {
			continue
		}
		rows = append(rows, []string{printable(r.Store), show(r.Requests, units.Rate), show(r.ServiceUS, units.Micros), show(r.CPU, units.Number),
			show(r.StallS, units.Seconds), show(r.CacheHits, units.Percent), show(r.Memory, func(v float64) string { return whole(v / 1e6) }),
			show(r.Leaders, whole), show(r.Regions, whole)})
	}
	return head, rows
}
