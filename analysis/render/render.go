// SPDX-License-Identifier: Apache-2.0

// Package render shows documents and comparisons as text, Markdown, JSON, CSV or HTML.
package render

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kvbench/kvbench/analysis"
)

// Format is one of the forms in which reports are shown.
type Format string

// The formats.
const (
	Text     Format = "text"
	Markdown Format = "markdown"
	JSON     Format = "json"
	CSV      Format = "csv"
	HTML     Format = "html"

	JUnit       Format = "junit"       // verdict and objectives as tests
	OpenMetrics Format = "openmetrics" // gauges
	Benchstat   Format = "benchstat"   // results of Go benchmarks
	HGRM        Format = "hgrm"        // percentile spectra
)

// The formats that a document has, those of a report, which is made of a document or of the distributions themselves,
// and those of a comparison.
var (
	Documents   = []Format{Text, Markdown, JSON, CSV, HTML, JUnit, OpenMetrics, Benchstat}
	Reports     = append(Documents[:len(Documents):len(Documents)], HGRM)
	Comparisons = []Format{Text, JSON}
)

// ParseFormat returns that of some formats which has this name.
func ParseFormat(name string, of []Format) (Format, error) {
	if f := Format(name); slices.Contains(of, f) {
		return f, nil
	}
	return "", fmt.Errorf("format %q is none of %s", name, List(of))
}

// List names formats, as in "text, json".
func List(of []Format) string {
	names := make([]string, len(of))
	for i, f := range of {
		names[i] = string(f)
	}
	return strings.Join(names, ", ")
}

// Document writes a document in a format; style is for text alone.
func Document(w io.Writer, d *analysis.Document, f Format, style Style) error {
	switch f {
	case JSON:
		return writeJSON(w, d)
	case CSV:
		return writeCSV(w, d)
	case Markdown:
		return writeMarkdown(w, d)
	case HTML:
		return writeHTML(w, d)
	case JUnit:
		return writeJUnit(w, d)
	case OpenMetrics:
		return writeOpenMetrics(w, d)
	case Benchstat:
		return writeBenchstat(w, d)
	}
	return writeText(w, d, style)
}

// Comparison writes a comparison in a format; style is for text alone.
func Comparison(w io.Writer, c *analysis.Comparison, f Format, style Style) error {
	if f == JSON {
		return writeJSON(w, c)
	}
	return writeComparison(w, c, style)
}
