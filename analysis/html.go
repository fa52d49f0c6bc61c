// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	_ "embed"
	"html/template"
	"io"
	"maps"
	"slices"
)

//go:embed report.html
var page string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"charts":    charts,
	"gap":       gap,
	"count":     count,
	"number":    number,
	"rate":      rate,
	"percent":   percent,
	"seconds":   seconds,
	"megabytes": megabytes,
	"signed":    signed,
	"micros":    Micros,
	"values":    values,
	"headline":  (*Report).headline,
	"sharing":   func(t *Traffic) string { return t.sharing() },
	"detours":   func(t *Traffic) string { return t.detours() },
	"keys":      func(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) },
}).Parse(page))

// HTML writes one page that needs nothing else: style and charts are in it.
func HTML(w io.Writer, d *Document) error { return pageTemplate.Execute(w, d) }

// values shows the metrics of a latency, in the order of the table's columns.
func values(l *Latency) []string {
	var shown []string
	for _, m := range metrics {
		if l == nil {
			shown = append(shown, "")
		} else {
			shown = append(shown, Micros(m.of(l)))
		}
	}
	return shown
}
