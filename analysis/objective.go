// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/objective"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/workload"
)

// missed begins what is said of an objective that is broken.
const missed = "objective missed: "

// objectiveRow is what became of an objective.
func objectiveRow(o objective.Objective, f objective.Finding) ObjectiveRow {
	row := ObjectiveRow{Text: o.String(), Seen: f.Text, Value: f.Value, Unit: o.Unit(), Found: f.Why}
	if kept := f.State == objective.Kept; f.State != objective.Unknown {
		row.Kept = &kept
	}
	if f.State == objective.Broken {
		row.Found = missed + f.Why
	}
	return row
}

// Broken says which of the run's objectives was not kept, the first if there are several, and how; "" if none is known to be broken.
func (p *Report) Broken() string {
	for _, o := range p.Objectives {
		if o.Kept != nil && !*o.Kept {
			return strings.TrimPrefix(o.Found, missed)
		}
	}
	if p.Verdict.Code == exitcode.SLO { // stopped since one was broken for too long, and kept over all of it
		return p.Verdict.Text
	}
	return ""
}

// seen is what was seen of the operations that an objective is about.
func (r *Run) seen(p *Report, o objective.Objective) *objective.Seen {
	of := func(k workload.Kind) bool { return o.Kind == AllKinds || k.String() == o.Kind }
	sum := func(is func(measure.Row) bool) row {
		return r.fleet.sum(func(row measure.Row) bool { return of(row.Kind()) && is(row) })
	}
	ok := sum(func(row measure.Row) bool { return row.Outcome() == workload.OK })
	good := sum(answered)
	service, response, slots := r.fleet.inVain(of)
	s := &objective.Seen{
		Operations: sum(every).Operations,
		Failed:     sum(func(row measure.Row) bool { return row.Outcome() == workload.Failed }).Operations,
		Never:      (count(service) + count(slots)) * int64(max(p.Plan.Batch, 1)),
		Slack:      p.slack(),
		Answered:   ok.service,
		NeverCalls: count(service) + count(slots),
		Unseen:     unseen(p, r.record),
	}
	if p.WindowS > 0 {
		s.Rate = good.rate.operations / p.WindowS
	}
	if p.Paced {
		s.Target = p.TargetOps
	}
	inVain := []*hdrhistogram.Histogram{service}
	if o.Time == objective.Response {
		s.Answered, inVain = ok.response, []*hdrhistogram.Histogram{response, slots}
	}
	if least := merged(inVain...); least != nil {
		s.Least = merged(s.Answered, least)
	}
	return s
}

// unseen says what of a run is known not to be in its results, beyond what its user tolerates; "" if that is nothing.
func unseen(p *Report, rec *results.Run) string {
	n := len(p.WorkersLost)
	switch {
	case n > rec.Limits.TolerateLost:
		return fmt.Sprintf("%d of %d workers lost", n, p.WorkersExpected)
	case len(p.Workers) < p.WorkersExpected:
		return fmt.Sprintf("%d of %d workers never took part", p.WorkersExpected-len(p.Workers), p.WorkersExpected)
	case abandoned(p.Workers) > 0:
		return "the user gave up on workers"
	case len(p.Missing) > 0:
		return "the results are not complete"
	case rec.State == results.Preparing || rec.State == results.Running:
		return "the run was never closed"
	}
	return ""
}

// has tells whether one of the objectives is on this, of all kinds together.
func has(all []objective.Objective, metric string) bool {
	return slices.ContainsFunc(all, func(o objective.Objective) bool { return o.Kind == AllKinds && o.Metric == metric })
}
