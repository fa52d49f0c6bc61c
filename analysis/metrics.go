// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"slices"
	"strconv"
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

// Percent says which percentile the metric is: 100 the maximum, 0 the mean, which is none.
func (m Metric) Percent() float64 { return m.percent }

// Known tells whether the metric is a number: the samples carry it, and it lies within the histograms' range.
func (m Metric) Known(l *Latency) bool { return m.Carried(l) && !slices.Contains(l.AtLeast, m.Name) }

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

// MetricsOf are the numbers that a report shows of a latency: [Metrics], or those that it was asked for.
func MetricsOf(p *Report) []Metric {
	if len(p.Percentiles) == 0 {
		return Metrics
	}
	shown := []Metric{MetricNamed("mean")}
	for _, percent := range p.Percentiles {
		shown = append(shown, percentile(percent))
	}
	return append(shown, MetricNamed("max"))
}

// percentile is the metric of a percentile, one of [Metrics] or another.
func percentile(percent float64) Metric {
	name := measure.PercentileName(percent)
	if i := slices.IndexFunc(Metrics, func(m Metric) bool { return m.Name == name }); i >= 0 {
		return Metrics[i]
	}
	return Metric{name, func(l *Latency) float64 { return float64(l.Percentiles[name]) }, percent}
}

// maxPercentiles bounds how many a report can be asked for.
const maxPercentiles = 20

// ParsePercentiles reads "50,75,99.9": percentiles between 0 and 100, in ascending order.
func ParsePercentiles(text string) ([]float64, error) {
	var all []float64
	for _, word := range strings.Split(text, ",") {
		word = strings.TrimPrefix(strings.TrimSpace(word), "p")
		percent, err := strconv.ParseFloat(word, 64)
		if err != nil || !(percent > 0 && percent < 100) {
			return nil, fmt.Errorf("%q is no percentile: want numbers between 0 and 100, as in 50,99,99.9", word)
		}
		all = append(all, percent)
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) > maxPercentiles {
		return nil, fmt.Errorf("%d percentiles, and a report shows %d at most", len(all), maxPercentiles)
	}
	return all, nil
}

// Carried tells whether the samples carry the metric: what they do not is no more than their largest value, and is not
// shown as a number.
func (m Metric) Carried(l *Latency) bool { return !slices.Contains(l.TooFew, m.Name) }

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
