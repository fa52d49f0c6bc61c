// SPDX-License-Identifier: Apache-2.0

package render

import (
	"github.com/kvbench/kvbench/analysis"
)

// objectiveTable is the table of objectives as text, its header first, and a class for each row behind it; none if there are no
// objectives.
func objectiveTable(r *analysis.Report) (table [][]string, classes []string) {
	if len(r.Objectives) == 0 {
		return nil, nil
	}
	table = [][]string{{"objective", "result", "seen"}}
	for _, o := range r.Objectives {
		result, class := "unknown", "warn"
		if o.Kept != nil && *o.Kept {
			result, class = "kept", "good"
		} else if o.Kept != nil {
			result, class = "missed", "bad"
		}
		seen := none
		if o.Seen != "" {
			seen = printable(o.Seen)
		}
		table, classes = append(table, []string{printable(o.Text), result, seen}), append(classes, class)
	}
	return table, classes
}

// objectives writes what became of each. Why is in the verdict.
func (t *text) objectives(r *analysis.Report) {
	table, classes := objectiveTable(r)
	if table == nil {
		return
	}
	colours := []string{bold}
	for _, c := range classes {
		colours = append(colours, map[string]string{"good": green, "warn": yellow, "bad": red}[c])
	}
	table, _ = t.fit(table, "seen")
	t.line("")
	t.table(table, len(table[0]), 0, colours...)
}

func objectiveGrid(r *analysis.Report) *grid {
	table, classes := objectiveTable(r)
	return &grid{Caption: "Objectives", Head: table[0], Rows: table[1:], Left: 3, Classes: classes}
}
