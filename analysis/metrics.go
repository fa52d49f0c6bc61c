// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"slices"
	"strings"

	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/units"
)

// Latency describes a distribution in microseconds.
type Latency = measure.Latency

// Metric is one of the numbers of a [Latency].
type Metric struct {
	Name string // as in JSON: "p99_9"
	Of   func(*Latency) float64

	percent float64 // 0: the mean, which is no percentile
}

// Title is the metric's name for people, as in "p99.9".
func (m Metric) Title() string { return metricTitle(m.Name) }

func metricTitle(name string) string { return strings.ReplaceAll(name, "_", ".") }

// Metrics are the numbers of a [Latency], in the order in which reports show them.
var Metrics = []Metric{
	{"mean", func(l *Latency) float64 { return l.Mean }, 0},
	{"p50", func(l *Latency) float64 { return float64(l.P50) }, 50},
	{"p90", func(l *Latency) float64 { return float64(l.P90) }, 90},
	{"p95", func(l *Latency) float64 { return float64(l.P95) }, 95},
	{"p99", func(l *Latency) float64 { return float64(l.P99) }, 99},
	{"p99_9", func(l *Latency) float64 { return float64(l.P999) }, 99.9},
	{"p99_99", func(l *Latency) float64 { return float64(l.P9999) }, 99.99},
	{"max", func(l *Latency) float64 { return float64(l.Max) }, 100},
}

// MetricNamed returns the metric with this name in JSON, which there must be.
func MetricNamed(name string) Metric {
	return Metrics[slices.IndexFunc(Metrics, func(m Metric) bool { return m.Name == name })]
}

// AtLeast shows the metric of a latency that is known from below.
func (m Metric) AtLeast(l *Latency) string {
	if slices.Contains(l.AtLeast, m.Name) {
		return m.Show(l)
	}
	return "≥ " + units.Micros(m.Of(l))
}

// Show shows the metric of a latency with its unit, and what was not measured as more than the range
// of the histograms.
func (m Metric) Show(l *Latency) string {
	switch {
	case !slices.Contains(l.AtLeast, m.Name):
		return units.Micros(m.Of(l))
	case m.Name == "mean":
		return "≥ " + units.Micros(l.Mean)
	}
	return "> " + units.Range(l.Range)
}
