// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"math"

	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/workload"
)

// Contradictions lists what cannot be in a report of any run, whatever the run did: a number above its
// bound, sums that are not their total, a valid verdict on results of which something is missing. Tests ask it
// of every report that they make; it is empty, or this package is wrong.
func Contradictions(p *Report) (found []string) {
	must := func(ok bool, format string, args ...any) {
		if !ok {
			found = append(found, fmt.Sprintf(format, args...))
		}
	}
	const tiny = 1e-6 // of rounding
	same := func(a, b float64) bool { return math.Abs(a-b) <= tiny*max(1, math.Abs(a), math.Abs(b)) }

	must(p.InFlight <= float64(p.Threads)*(1+tiny), "%g of %d threads in flight", p.InFlight, p.Threads)
	must(same(p.OpsPerS*p.WindowS, p.Rated) || p.WindowS == 0, "%g/s in %g s are not %g operations", p.OpsPerS, p.WindowS, p.Rated)
	must(p.Rated <= float64(p.Operations)*(1+tiny), "rates over %g of %d operations", p.Rated, p.Operations)
	must(p.WindowS <= p.MeasuredS+tiny, "rates over %g s of %g s", p.WindowS, p.MeasuredS)
	if n := p.NoAnswer; n != nil {
		must(n.S <= p.WindowS+tiny && n.AtS >= p.WindowAt-tiny && n.AtS+n.S <= p.WindowAt+p.WindowS+tiny, "no answer for %g s at %g s, in %g s from %g s on", n.S, n.AtS, p.WindowS, p.WindowAt)
	}

	if u := p.Unanswered; u != nil {
		must(u.Calls <= int64(p.Threads), "%d of %d threads had a call when the window ended", u.Calls, p.Threads)
	}
	var answered, ok, bad, totalOK, cut, skipped, kinds int64
	var rate, batches float64
	for _, k := range p.Kinds {
		for time, l := range map[string]*Latency{"service": k.ServiceUS, "response": k.ResponseUS} {
			for _, text := range disordered(l) {
				must(false, "%s %s %s time: %s", k.Kind, k.Outcome, time, text)
			}
		}
		if n := k.NeverAnswered; n != nil {
			must(k.Outcome == workload.OK.String(), "%s %s was never answered", k.Kind, k.Outcome)
			for time, l := range map[string][2]*Latency{"service": {k.ServiceUS, n.ServiceUS}, "response": {k.ResponseUS, n.ResponseUS}} {
				for _, text := range disordered(l[1]) {
					must(false, "%s %s time with what was never answered: %s", k.Kind, time, text)
				}
				must(l[0] == nil || l[1] == nil || l[0].Max <= l[1].Max, "%s %s time: more than the maximum with what was never answered", k.Kind, time)
			}
			sign := int64(1)
			if k.Kind == AllKinds {
				sign = -1
			}
			cut += sign * n.CutOffCalls
			skipped += sign * n.SkippedSlots
			kinds++
		}
		must((k.Batches > 0) == (k.ServiceUS != nil) || len(p.Missing) > 0, "%s %s: %d batches, latency %v", k.Kind, k.Outcome, k.Batches, k.ServiceUS)
		must(p.Paced || k.ResponseUS == nil, "%s %s has a response time, and nothing was due", k.Kind, k.Outcome)
		switch {
		case k.Kind == AllKinds:
			totalOK = k.Operations
			continue
		case k.Outcome == workload.OK.String():
			ok += k.Operations
			answered += k.Operations
			rate += k.OpsPerS
		case k.Outcome == workload.NotFound.String():
			answered += k.Operations
			rate += k.OpsPerS
		default:
			bad += k.Operations
		}
		batches += float64(k.Batches)
	}
	must(cut == 0, "calls that were cut off by kind sum to %d more than all", cut)
	must(max(skipped, -skipped) <= kinds || kinds == 1, "slots that were skipped by kind sum to %d more than all", skipped) // each is rounded, and where nothing was started there is the sum alone
	must(p.Hang == nil || p.Verdict.Code != exitcode.Valid, "valid, and the stores owe an answer")
	must(answered == p.Operations, "operations by kind sum to %d, and are %d", answered, p.Operations)
	must(same(rate, p.OpsPerS), "rates by kind sum to %g/s, and are %g/s", rate, p.OpsPerS)
	must(ok == totalOK, "operations that went well sum to %d, and are %d", ok, totalOK)
	must(p.BatchesPS*p.WindowS <= batches*(1+tiny)+tiny, "%g batches a second for %g s, of %g batches", p.BatchesPS, p.WindowS, batches)
	var errors int64
	for _, e := range p.Errors {
		errors += e.Count
	}
	must(errors == bad, "errors by class sum to %d, by outcome to %d", errors, bad)

	var operations, failed int64
	rate = 0
	for i := range p.Workers {
		w := &p.Workers[i]
		operations += w.Operations
		failed += w.Errors
		rate += w.OpsPerS
		must(w.CPUShare <= 1+tiny && w.CPUShareMax <= 1+tiny && w.CPUS <= p.WindowS*float64(w.Cores)*(1+tiny)+tiny,
			"%s used %g s of processor time, %g and at most %g of its %d cores for %g s", w.Name, w.CPUS, w.CPUShare, w.CPUShareMax, w.Cores, p.WindowS)
		must(w.ThrottledS == 0 || w.ThrottledAtS < w.ThrottledToS, "%s was throttled for %g s, from %g to %g s", w.Name, w.ThrottledS, w.ThrottledAtS, w.ThrottledToS)
		must(w.OthersShare <= w.MachineShare+tiny && w.MachineShare <= 1+tiny, "others used %g of a machine of which %g was used", w.OthersShare, w.MachineShare)
		for _, l := range []*Latency{w.ServiceUS, w.ResponseUS, w.LagUS, w.LaneDelayUS} {
			for _, text := range disordered(l) {
				must(false, "%s: %s", w.Name, text)
			}
		}
	}
	must(operations == p.Operations, "operations by worker sum to %d, and are %d", operations, p.Operations)
	must(failed == bad, "errors by worker sum to %d, and are %d", failed, bad)
	must(same(rate, p.OpsPerS), "rates by worker sum to %g/s, and are %g/s", rate, p.OpsPerS)
	must(p.WorkersFinished+len(p.WorkersLost)+abandoned(p.Workers) == len(p.Workers), "%d workers: %d finished, %d lost", len(p.Workers), p.WorkersFinished, len(p.WorkersLost))

	if t := p.Traffic; t != nil && len(t.Stores) > 0 {
		commands := 0.0
		for i := range t.Stores {
			commands += t.Stores[i].CommandsPS
		}
		must(commands <= t.CommandsPS*(1+tiny)+tiny, "commands by store sum to %g/s, of %g/s", commands, t.CommandsPS)
	}
	if p.Verdict.Code == exitcode.Valid {
		must(len(p.Missing) == 0, "valid, and missing: %q", p.Missing)
		must(len(p.Workers) == p.WorkersExpected, "valid, with %d of %d workers", len(p.Workers), p.WorkersExpected)
		must(p.Operations+bad > 0, "valid, and nothing was measured")
		must(p.Ended.By != EndUnknown, "valid, and nothing says what ended it")
	}
	must(p.Limit.By != ByTarget || p.Paced && p.OpsPerS > 0, "the target was met, with %g/s of %g/s", p.OpsPerS, p.TargetOps)
	return found
}

// disordered says where the numbers of a latency are not in their order.
func disordered(l *Latency) (found []string) {
	if l == nil {
		return nil
	}
	quantiles := Metrics[1:] // the first is the mean
	for i := 1; i < len(quantiles); i++ {
		if a, b := quantiles[i-1], quantiles[i]; a.Of(l) > b.Of(l) {
			found = append(found, fmt.Sprintf("%s is %g, %s is %g", a.Title(), a.Of(l), b.Title(), b.Of(l)))
		}
	}
	if most := float64(l.Max); l.Mean > most || l.Mean < 0 {
		found = append(found, fmt.Sprintf("mean is %g, max is %g", l.Mean, most))
	}
	return found
}
