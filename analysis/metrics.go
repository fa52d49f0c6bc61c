// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kvbench/kvbench/internal/measure"
)

// Latency describes a distribution in microseconds.
type Latency = measure.Latency

// Metric is one of the numbers of a [Latency].
type Metric = measure.Metric

// Metrics are the numbers of a [Latency], in the order in which reports show them.
var Metrics = measure.Metrics

// MetricsOf are the numbers that a report shows of a latency.
func MetricsOf(p *Report) []Metric { return MetricsAt(p.Percentiles) }

// MetricsAt are [Metrics] or, if there are any, those of percentiles that were asked for.
func MetricsAt(percentiles []float64) []Metric {
	if len(percentiles) == 0 {
		return Metrics
	}
	shown := []Metric{MetricNamed("mean")}
	for _, percent := range percentiles {
		shown = append(shown, percentile(percent))
	}
	return append(shown, MetricNamed("max"))
}

// percentile is the metric of a percentile, one of [Metrics] or another.
func percentile(percent float64) Metric {
	name := measure.PercentileName(percent)
	if m, ok := measure.MetricNamed(name); ok {
		return m
	}
	return Metric{Name: name, Of: func(l *Latency) float64 { return float64(l.Percentiles[name]) }, Percent: percent}
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

// MetricNamed returns the metric with this name in JSON, which there must be.
func MetricNamed(name string) Metric {
	m, ok := measure.MetricNamed(name)
	if !ok {
		panic("no metric " + name)
	}
	return m
}
