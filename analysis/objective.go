// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/units"
	"github.com/kvbench/kvbench/internal/workload"
)

// objectiveRow is what became of an objective.
func objectiveRow(p *Report, r *Run, o results.Objective) ObjectiveRow {
	row := ObjectiveRow{
		Text:  fmt.Sprintf("%s %s %s < %s", o.Kind, o.Time, metricTitle(o.Metric), units.Micros(float64(o.LimitUS))),
		Found: missed(p, r, o),
	}
	if kept := row.Found == ""; kept || strings.HasPrefix(row.Found, missedPrefix) {
		row.Kept = &kept
	}
	return row
}

// missedPrefix begins what is said of an objective that is known to be missed.
const missedPrefix = "objective missed: "

// missed says how an objective was missed, or that it cannot be told whether it was met; "" if it was met. What was
// never answered counts: it took as long as it had waited at least, and nobody knows how long at most.
func missed(p *Report, r *Run, o results.Objective) string {
	name := fmt.Sprintf("%s %s %s", o.Kind, o.Time, metricTitle(o.Metric))
	i := slices.IndexFunc(p.Kinds, func(k KindRow) bool { return k.Kind == o.Kind && k.Outcome == workload.OK.String() })
	m := slices.IndexFunc(Metrics, func(m Metric) bool { return m.Name == o.Metric })
	if i < 0 || m < 0 || o.Time == "response" && !p.Paced {
		return fmt.Sprintf("objective %s was not measured", name)
	}
	row, metric, limit := &p.Kinds[i], Metrics[m], float64(o.LimitUS)
	measured, least := row.ServiceUS, (*Latency)(nil)
	if o.Time == "response" {
		measured = row.ResponseUS
	}
	never := row.NeverAnswered
	if never != nil {
		if least = never.ServiceUS; o.Time == "response" {
			least = never.ResponseUS
		}
	}
	switch {
	case measured != nil && metric.Of(measured) > limit:
		return fmt.Sprintf(missedPrefix+"%s is %s, above %s", name, metric.Show(measured), units.Micros(limit))
	case least != nil && metric.Of(least) > limit:
		return fmt.Sprintf(missedPrefix+"%s is at least %s, above %s, with %s that were never answered", name, units.Micros(metric.Of(least)), units.Micros(limit), units.Count(never.Operations))
	case measured == nil:
		return fmt.Sprintf("objective %s was not measured", name)
	case !metric.Carried(measured):
		return fmt.Sprintf("it is unknown whether the objective was met: %s %s are too few for %s", units.Count(row.Batches), units.Plural(row.Batches, "call", "calls"), name)
	case slices.Contains(measured.AtLeast, metric.Name):
		return fmt.Sprintf("it is unknown whether the objective was met: %s is %s", name, metric.Show(measured))
	case never != nil && !metric.within(r.okOf(o), never.CutOffCalls+never.SkippedSlots, o.LimitUS):
		return fmt.Sprintf("it is unknown whether the objective was met: %s is %s without %s that were never answered", name, metric.Show(measured), units.Count(never.Operations))
	}
	return ""
}

// okOf is the distribution that an objective is about, of what was answered.
func (r *Run) okOf(o results.Objective) *hdrhistogram.Histogram {
	sum := r.fleet.sum(func(row measure.Row) bool {
		return row.Outcome() == workload.OK && (o.Kind == AllKinds || row.Kind().String() == o.Kind)
	})
	if o.Time == "response" {
		return sum.response
	}
	return sum.service
}

// within tells whether a metric is within a limit however long so many more took.
func (m Metric) within(h *hdrhistogram.Histogram, more, limit int64) bool {
	n := float64(h.TotalCount())
	percent := m.percent * (n + float64(more)) / n
	return m.percent > 0 && percent <= 100 && h.ValueAtPercentile(percent) <= limit
}
