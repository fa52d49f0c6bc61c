// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"slices"

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
		table, _ := t.fit(append([][]string{head}, rows...), "append", "apply", "stored", "too busy", "regions", "write", "memory", "compaction", "cache hits", "stalls")
		t.table(table, 1, 0)
	}
	if s.Counted != nil {
		t.prose("", "", s.Counted.Text)
	}
	for _, f := range s.Findings {
		t.remark(yellow, "cluster: "+printable(f.Text))
	}
	for _, text := range silent(s) {
		t.remark(yellow, text)
	}
}

// silent says of the stores that told nothing why they did not.
func silent(s *analysis.Servers) (texts []string) {
	told := false
	for i := range s.Stores {
		row := &s.Stores[i]
		told = told || row.Readings >= 2 || row.Failed > 0
		if row.Readings == 0 && row.Failed > 0 {
			texts = append(texts, fmt.Sprintf("store %s told nothing of itself: %s", printable(row.Store), printable(row.Why)))
		}
	}
	if !told && len(s.Stores) > 0 {
		texts = append(texts, "the stores' own figures were read less than twice in the measured time: run for longer, or read them more often (tikv.servermetrics)")
	}
	if p := s.PD; p != nil && p.Readings == 0 && p.Failed > 0 {
		texts = append(texts, fmt.Sprintf("PD at %s told nothing of itself: %s", printable(p.Address), printable(p.Why)))
	}
	return texts
}

// serverGrid is the table of the stores; nil if none told anything.
func serverGrid(s *analysis.Servers) *grid {
	head, rows := serverTable(s)
	if len(rows) == 0 {
		return nil
	}
	return &grid{Caption: "The stores' own figures", Left: 1, Head: head, Rows: rows}
}

// serverTable shows the stores that told something, with a dash for what they did not tell. What none told is left out.
func serverTable(s *analysis.Servers) (head []string, rows [][]string) {
	var told []*analysis.ServerRow
	for i := range s.Stores {
		if s.Stores[i].Readings >= 2 {
			told = append(told, &s.Stores[i])
			rows = append(rows, []string{printable(s.Stores[i].Store)})
		}
	}
	head = []string{"store"}
	for _, column := range serverColumns {
		if !slices.ContainsFunc(told, func(r *analysis.ServerRow) bool { return column.of(r) != nil }) {
			continue
		}
		head = append(head, column.name)
		for i, r := range told {
			text := none
			if v := column.of(r); v != nil {
				text = column.show(*v)
			}
			if column.limit != nil && column.limit(r) != nil {
				text += " of " + column.show(*column.limit(r))
			}
			rows[i] = append(rows[i], text)
		}
	}
	return head, rows
}

var serverColumns = []struct {
	name      string
	of, limit func(*analysis.ServerRow) *float64
	show      func(float64) string
}{
	{name: "requests", of: func(r *analysis.ServerRow) *float64 { return r.Requests }, show: units.Rate},
	{name: "mean", of: func(r *analysis.ServerRow) *float64 { return r.ServiceUS }, show: units.Micros},
	{name: "cores used", of: func(r *analysis.ServerRow) *float64 { return r.CPU }, limit: func(r *analysis.ServerRow) *float64 { return r.Cores }, show: units.Number},
	{name: "write", of: func(r *analysis.ServerRow) *float64 { return r.WriteUS }, show: units.Micros},
	{name: "append", of: func(r *analysis.ServerRow) *float64 { return r.AppendUS }, show: units.Micros},
	{name: "apply", of: func(r *analysis.ServerRow) *float64 { return r.ApplyUS }, show: units.Micros},
	{name: "stalls", of: func(r *analysis.ServerRow) *float64 { return r.StallS }, show: units.Seconds},
	{name: "too busy", of: func(r *analysis.ServerRow) *float64 { return r.TooBusy }, show: units.Grouped},
	{name: "compaction", of: func(r *analysis.ServerRow) *float64 { return r.Pending }, show: units.Bytes},
	{name: "cache hits", of: func(r *analysis.ServerRow) *float64 { return r.CacheHits }, show: units.Percent},
	{name: "memory", of: func(r *analysis.ServerRow) *float64 { return r.Memory }, show: units.Bytes},
	{name: "stored", of: func(r *analysis.ServerRow) *float64 { return r.Stored }, show: units.Bytes},
	{name: "leaders", of: func(r *analysis.ServerRow) *float64 { return r.Leaders }, show: units.Grouped},
	{name: "regions", of: func(r *analysis.ServerRow) *float64 { return r.Regions }, show: units.Grouped},
}
