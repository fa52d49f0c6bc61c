// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"io"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/internal/units"
)

// writeComparison writes a comparison for people.
func writeComparison(w io.Writer, c *analysis.Comparison, style Style) error {
	t := &text{style: style}
	summary := map[bool]string{true: red, false: bold}[c.Worse()]
	t.prose("", summary, printable(c.Summary))
	t.prose("A  ", "", printable(c.A))
	t.prose("B  ", "", printable(c.B))
	for _, d := range c.Differences {
		t.prose("differs  ", "", printable(d))
	}
	t.line("")
	t.judged(c)
	if c.Value != nil {
		colour := map[analysis.Judged]string{analysis.Better: green, analysis.Worse: red}[c.Value.Judged]
		t.prose("price for performance  ", colour, printable(c.Value.Text()))
	}
	t.line("")
	t.notJudged(c)
	for _, n := range c.Notes {
		t.remark(yellow, "note: "+printable(n))
	}
	_, err := io.WriteString(w, t.printed())
	return err
}

// judged writes the headlines.
func (t *text) judged(c *analysis.Comparison) {
	rows, colours := [][]string{{"metric", "judged", "A", "B", "change", "noise", "p"}}, []string{bold}
	spread := c.Basis == analysis.BetweenRuns
	if spread {
		rows[0] = append(rows[0], "spread of A", "of B")
	}
	var unknown []string
	for _, d := range c.Deltas {
		if d.Judged == analysis.NotJudged {
			continue
		}
		row := []string{analysis.Title(d.Metric), string(d.Judged), shown(d.Metric, d.A), shown(d.Metric, d.B), "", "", ""}
		if d.A > 0 && d.B > 0 {
			row[4] = signedPercent(d.Change)
		}
		if d.Noise != nil {
			row[5], row[6] = d.NoiseText(), fmt.Sprintf("%.3f", *d.P)
		}
		if spread {
			row = append(row, percentOrNone(d.SpreadA), percentOrNone(d.SpreadB))
		}
		rows = append(rows, row)
		colours = append(colours, map[analysis.Judged]string{analysis.Better: green, analysis.Worse: red}[d.Judged])
		if d.Why != "" {
			unknown = append(unknown, analysis.Title(d.Metric)+" is unknown: "+printable(d.Why))
		}
	}
	t.table(rows, 2, 1, colours...)
	for _, u := range unknown {
		t.prose("", "", u)
	}
}

// notJudged writes the other metrics.
func (t *text) notJudged(c *analysis.Comparison) {
	rows := [][]string{{"not judged", "metric", "A", "B", "change"}}
	kind := ""
	for _, d := range c.Deltas {
		if d.Judged != analysis.NotJudged {
			continue
		}
		first := d.Kind
		if first == kind {
			first = ""
		}
		kind = d.Kind
		rows = append(rows, []string{first, analysis.Title(d.Metric), shown(d.Metric, d.A), shown(d.Metric, d.B), signedPercent(d.Change)})
	}
	t.table(rows, 2, 1)
}

// shown shows a value of a metric.
func shown(metric string, v float64) string {
	switch {
	case v == 0:
		return ""
	case metric == "ops_per_s":
		return units.Rate(v)
	}
	return units.Micros(v)
}

func signedPercent(share float64) string { return fmt.Sprintf("%+.1f %%", 100*share) }

func percentOrNone(share *float64) string {
	if share == nil {
		return ""
	}
	return units.Percent(*share)
}
