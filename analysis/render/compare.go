// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/internal/units"
)

// title shows a metric's name: "service p99.9" for "service_us_p99_9".
func title(metric string) string {
	if metric == "ops_per_s" {
		return "rate"
	}
	return strings.NewReplacer("_us_", " ", "_", ".").Replace(metric)
}

// writeComparison writes a comparison for people, for terminals if colour is set.
func writeComparison(w io.Writer, c *analysis.Comparison, colour bool) error {
	t := &text{colour: colour}
	t.line("%s", t.paint(bold, fmt.Sprintf("A  %s\nB  %s", printable(c.A), printable(c.B))))
	for _, d := range c.Differences {
		t.line("differs  %s", printable(d))
	}
	t.line("")
	rows := [][]string{{"operation", "metric", "A", "B", "change", "noise", "judged"}}
	colours := []string{bold}
	for _, d := range c.Deltas {
		show := units.Micros
		if d.Metric == "ops_per_s" {
			show = units.Rate
		}
		noise := ""
		if d.Noise != nil {
			noise = fmt.Sprintf("± %.1f %%", 100**d.Noise)
		}
		rows = append(rows, []string{d.Kind, title(d.Metric), show(d.A), show(d.B),
			fmt.Sprintf("%+.1f %%", 100*d.Change), noise, string(d.Judged)})
		colours = append(colours, map[analysis.Judged]string{analysis.Better: green, analysis.Worse: red}[d.Judged])
	}
	t.table(rows, 2, 6, colours...)
	for _, n := range c.Notes {
		t.line("%s", t.paint(yellow, "note: "+n))
	}
	_, err := io.WriteString(w, t.String())
	return err
}
