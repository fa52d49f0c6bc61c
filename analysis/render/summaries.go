// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"io"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/units"
)

// leastOfSummaries are the columns of a list of runs that go first where the page is too narrow for all.
var leastOfSummaries = []string{"note", "target", "workload", "fleet"}

// Summaries writes a list of runs for people, in the order given.
func Summaries(w io.Writer, all []*analysis.Summary, style Style) error {
	t := &text{style: style}
	rows, colours := [][]string{{"run", "when", "what", "workload", "fleet", "target", "per s", "p99", "code", "label", "note"}}, []string{bold}
	for _, s := range all {
		target, p99 := "", ""
		if s.Target > 0 {
			target = units.Rate(s.Target)
		}
		if k := s.Total(); k != nil {
			if l := k.ResponseUS; l != nil {
				p99 = shownOf("p99", l)
			} else if l := k.ServiceUS; l != nil {
				p99 = shownOf("p99", l)
			}
		}
		rows = append(rows, []string{printable(s.RunID), s.Start.UTC().Format("2006-01-02 15:04"), printable(s.Phase), printable(s.Workload), fmt.Sprintf("%d × %d", s.Workers, s.Threads),
			target, units.Number(s.OpsPerS), p99, fmt.Sprint(s.Verdict.Code), printable(s.Label), printable(s.Note)})
		colour := ""
		if s.Verdict.Code != exitcode.Valid {
			colour = red
		}
		colours = append(colours, colour)
	}
	rows, _ = t.fit(rows, leastOfSummaries...)
	left := 3
	if rows[0][3] == "workload" {
		left = 4
	}
	t.table(rows, left, 0, colours...)
	_, err := io.WriteString(w, t.printed())
	return err
}
