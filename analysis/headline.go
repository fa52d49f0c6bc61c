// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"math"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kvbench/kvbench/analysis/stats"
	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/units"
	"github.com/kvbench/kvbench/internal/workload"
)

// rateMetric is the name of the rate, the only metric of which more is better.
const rateMetric = "ops_per_s"

// numbers are the metrics of a run, of some kinds of operations, by their names. What was not measured is not there.
type numbers map[string]float64

// metricNames are the names of all metrics, in the order in which they are shown.
func metricNames() []string {
	names := []string{rateMetric}
	for _, latency := range []string{latencyMetric(results.Service, ""), latencyMetric(results.Response, ""), unknownTime} {
		for _, m := range Metrics {
			names = append(names, latency+m.Name)
		}
	}
	return names
}

func latencyMetric(q results.Quantity, name string) string {
	if q == results.Response {
		return "response_us_" + name
	}
	return "service_us_" + name
}

// numbers are those of the answered operations of some kinds.
func (r *Run) numbers(is func(workload.Kind) bool) numbers {
	n, row := make(numbers), r.answeredOf(is)
	if s := r.window.seconds(); s > 0 && row.rate.operations > 0 {
		n[rateMetric] = row.rate.operations / s
	}
	for q, h := range map[results.Quantity]*hdrhistogram.Histogram{results.Service: row.service, results.Response: row.response} {
		if l := measure.LatencyOf(h); l != nil {
			for _, m := range Metrics {
				if !slices.Contains(l.AtLeast, m.Name) {
					n[latencyMetric(q, m.Name)] = m.Of(l)
				}
			}
		}
	}
	return n
}

// answeredOf sums up what was answered of some kinds.
func (r *Run) answeredOf(is func(workload.Kind) bool) row {
	return r.fleet.sum(func(row measure.Row) bool { return answered(row) && is(row.Kind()) })
}

func anyKind(workload.Kind) bool { return true }

// latency is that of all answered operations.
func (r *Run) latency(q results.Quantity) *hdrhistogram.Histogram {
	row := r.answeredOf(anyKind)
	if q == results.Response {
		return row.response
	}
	return row.service
}

// headline is a metric of all answered operations that is judged: the rate, or a percentile of a latency.
type headline struct {
	name     string
	quantity results.Quantity
	percent  float64 // 0: the rate
}

// headlinesOf are those of some runs: few, so that little is found by chance. Latency is the response time where
// all have one, since that is what a user of the database would have felt.
func headlinesOf(runs []*Run) []headline {
	q := results.Response
	for _, r := range runs {
		if !r.record.Paced {
			q = results.Service
		}
	}
	return headlinesAt(q, latencyMetric(q, ""))
}

// headlinesAt are those with a latency whose names begin so.
func headlinesAt(q results.Quantity, latency string) []headline {
	return []headline{{name: rateMetric}, {latency + "p50", q, 50}, {latency + "p99", q, 99}, {latency + "p99_9", q, 99.9}}
}

const (
	// minBeyond is how many operations must lie beyond a percentile, and minMoments in how many
	// moments of the run, for it to be more than a few operations' luck.
	minBeyond  = 10
	minMoments = 10
	// minEffective is how many independent values a run must be worth for how it varied within itself to say something.
	minEffective = 15
)

// tooFew says that a run has no such metric, or one of too few operations.
func (h headline) tooFew(r *Run) string {
	if h.percent == 0 {
		if r.answeredOf(anyKind).rate.operations == 0 {
			return fmt.Sprintf("run %s has none", r.record.RunID)
		}
		return ""
	}
	merged := r.latency(h.quantity)
	if merged == nil || merged.TotalCount() == 0 {
		return fmt.Sprintf("run %s has none", r.record.RunID)
	}
	n := merged.TotalCount()
	if beyond := math.Round(float64(n) * (1 - h.percent/100)); beyond < minBeyond {
		return fmt.Sprintf("run %s has %s operations, of which %s lie beyond it; it takes %d", r.record.RunID, units.Count(n), units.Count(int64(beyond)), minBeyond)
	}
	if beyond, reach := measure.Reach(merged); merged.ValueAtPercentile(h.percent) >= beyond {
		return fmt.Sprintf("in run %s it is > %s, which is where the histograms end", r.record.RunID, units.Range(reach))
	}
	if never := r.fleet.never(); 10*float64(never) > float64(n)*(1-h.percent/100) {
		return fmt.Sprintf("in run %s %s %s due and never answered, and no latency contains them", r.record.RunID, units.Count(never), units.Plural(never, "call was", "calls were"))
	}
	return ""
}

// finest is the smallest difference of a metric that can be told, at a value of it.
func finest(metric string, value float64) float64 {
	if metric == rateMetric {
		return resolution * value
	}
	return max(resolution*value, 1) // µs
}

// logarithm is what is known of that of a headline in one run.
type logarithm struct {
	stats.Estimate
	unknown string // why nothing is
}

// within estimates the headlines of a run from how it varied within itself. What one of them shows of
// how long the run remembers holds for all: a tail of few operations hides it.
func (r *Run) within(headlines []headline) []logarithm {
	all, least, totals := make([]logarithm, len(headlines)), math.Inf(1), r.numbers(anyKind)
	for i, h := range headlines {
		l := &all[i]
		if l.unknown = h.tooFew(r); l.unknown != "" {
			continue
		}
		var effective float64
		if h.percent == 0 {
			l.Estimate, effective = stats.Total(r.blocks.rates())
			l.Variance /= l.Value * l.Value
		} else {
			l.Estimate, effective, l.unknown = h.percentile(r)
		}
		least = min(least, effective)
		value := totals[h.name]
		unit := finest(h.name, value) / value
		l.Value, l.Variance = math.Log(value), max(l.Variance, unit*unit)
	}
	if least < minEffective {
		for i := range all {
			all[i].unknown = fmt.Sprintf("run %s is too short for how slowly it varies: it is worth %.1f independent values, and it takes %d", r.record.RunID, least, minEffective)
		}
	}
	return all
}

// percentile estimates the variance of the logarithm of a percentile (Woodruff 1952): how sure is the share
// of the operations that took longer, and how far is the percentile from those of shares that could as well be right?
func (h headline) percentile(r *Run) (e stats.Estimate, effective float64, why string) {
	merged := r.latency(h.quantity)
	beyond, total := r.blocks.beyond(h.quantity, merged.ValueAtPercentile(h.percent))
	var sumBeyond, squares, sum float64
	for i, n := range beyond {
		sumBeyond += n
		squares += n * n
		sum += total[i]
	}
	if sum == 0 {
		return e, 0, ""
	}
	for i := range beyond {
		beyond[i] -= total[i] * sumBeyond / sum // more than its share
	}
	e, effective = stats.Total(beyond)
	off := 100 * math.Sqrt(e.Variance) / sum // percentage points
	low, high := merged.ValueAtPercentile(max(0, h.percent-off)), merged.ValueAtPercentile(min(100, h.percent+off))
	switch {
	case squares > 0 && sumBeyond*sumBeyond/squares < minMoments:
		why = fmt.Sprintf("in run %s it comes from a few moments", r.record.RunID)
	case h.percent+off >= 100-100*minBeyond/2/sum:
		why = fmt.Sprintf("in run %s it cannot be told from the maximum", r.record.RunID)
	}
	sigma := math.Log(float64(max(high, 1))/float64(max(low, 1))) / 2
	e.Variance = sigma * sigma
	return e, effective, why
}

// rates returns the operations of every block.
func (b *blocks) rates() []float64 {
	rates := make([]float64, len(b.all))
	for i := range b.all {
		for _, n := range b.all[i].operations {
			rates[i] += n
		}
	}
	return rates
}

// beyond returns how many operations of every block took longer than a value, and how many there are.
func (b *blocks) beyond(q results.Quantity, value int64) (beyond, total []float64) {
	beyond, total = make([]float64, len(b.all)), make([]float64, len(b.all))
	for i := range b.all {
		for k := range b.all[i].latencies {
			h := b.all[i].latencies[k][q]
			if h == nil {
				continue
			}
			h.Each(func(v, n int64) {
				total[i] += float64(n)
				if v > value {
					beyond[i] += float64(n)
				}
			})
		}
	}
	return beyond, total
}
