// SPDX-License-Identifier: Apache-2.0

package render

import (
	_ "embed"
	"html/template"
	"io"
	"maps"
	"slices"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/internal/units"
)

//go:embed report.html
var page string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"charts":    charts,
	"gap":       gap,
	"count":     units.Count,
	"number":    units.Number,
	"rate":      units.Rate,
	"percent":   units.Percent,
	"seconds":   units.Seconds,
	"megabytes": units.Megabytes,
	"signed":    signed,
	"micros":    units.Micros,
	"values":    values,
	"latencies": func(r *analysis.Report) (rows []latencyRow) {
		for i := range r.Kinds {
			rows = append(rows, latencyRows(&r.Kinds[i], analysis.Metrics)...)
		}
		return rows
	},
	"headline":  headline,
	"answered":  func(r *analysis.Report) string { return answered(r, units.Rate(r.OpsPerS)) },
	"sharing":   func(t *analysis.Traffic) string { return sharing(&t.Sent) },
	"fallbacks": func(t *analysis.Traffic) string { return fallbacks(&t.Sent) },
	"keys":      func(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) },
}).Parse(page))

// writeHTML writes one page that needs nothing else: style and charts are in it.
func writeHTML(w io.Writer, d *analysis.Document) error { return pageTemplate.Execute(w, d) }

// values shows the metrics of a latency, in the order of the table's columns.
func values(l *analysis.Latency) []string {
	var shown []string
	for _, m := range analysis.Metrics {
		if l == nil {
			shown = append(shown, "")
		} else {
			shown = append(shown, cell(m, l, analysis.Metric.Show))
		}
	}
	return shown
}
