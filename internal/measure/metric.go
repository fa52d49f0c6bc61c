// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kvbench/kvbench/internal/units"
)

// Metric is one of the numbers of a [Latency].
type Metric struct {
	Name    string                 // as in JSON: "p99_9"
	Of      func(*Latency) float64 // in microseconds
	Percent float64                // which percentile it is: 100 the maximum, 0 the mean, which is none
}

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

// MetricNamed returns the metric with this name in JSON; false if there is none.
func MetricNamed(name string) (Metric, bool) {
	i := slices.IndexFunc(Metrics, func(m Metric) bool { return m.Name == name })
	if i < 0 {
		return Metric{}, false
	}
	return Metrics[i], true
}

// Title is the metric's name for people, as in "p99.9".
func (m Metric) Title() string { return strings.ReplaceAll(m.Name, "_", ".") }

// Carried tells whether the samples carry the metric: what they do not is no more than their largest value, and is not
// shown as a number.
func (m Metric) Carried(l *Latency) bool { return !slices.Contains(l.TooFew, m.Name) }

// Floor is what the metric is at least, in microseconds: itself, or, if the samples do not carry it, the highest of the lower percentiles
// that they do; 0: nothing is known of it.
func (m Metric) Floor(l *Latency) (us float64) {
	if m.Carried(l) {
		return m.Of(l)
	}
	for _, lower := range Metrics {
		if 0 < lower.Percent && lower.Percent < m.Percent && lower.Carried(l) {
			us = lower.Of(l)
		}
	}
	return us
}

// Known tells whether the metric is a number: the samples carry it, and it lies within the histograms' range.
func (m Metric) Known(l *Latency) bool { return m.Carried(l) && !slices.Contains(l.AtLeast, m.Name) }

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

// AtLeast shows the metric of a latency that is known from below.
func (m Metric) AtLeast(l *Latency) string {
	if slices.Contains(l.AtLeast, m.Name) {
		return m.Show(l)
	}
	return "≥ " + units.Micros(m.Of(l))
}

// Within tells whether a metric is within a limit in microseconds, however long so many more calls took.
func (m Metric) Within(h *hdrhistogram.Histogram, more, limit int64) bool {
	n := float64(h.TotalCount())
	percent := m.Percent * (n + float64(more)) / n
	return m.Percent > 0 && percent <= 100 && h.ValueAtPercentile(percent) <= limit
}
