// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/objective"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/workload"
)

// AllKinds is the name of all kinds together.
const AllKinds = objective.AllKinds

// Summarize reports on runs.
func Summarize(runs ...*Run) *Document { return SummarizeAt(nil, runs...) }

// SummarizeAt reports on runs, with percentiles that were asked for.
func SummarizeAt(percentiles []float64, runs ...*Run) *Document {
	d := &Document{Version: DocumentVersion, Runs: []*Report{}}
	for _, r := range runs {
		d.Runs = append(d.Runs, r.Report(percentiles...))
	}
	return d
}

// Report computes what a run's results say, with percentiles that were asked for, and judges it.
func (r *Run) Report(percentiles ...float64) *Report {
	rec, seconds := r.record, r.window.seconds()
	rate := func(n float64) float64 {
		if seconds <= 0 {
			return 0
		}
		return n / seconds
	}
	good, all := r.fleet.sum(answered), r.fleet.sum(every)
	p := &Report{
		RunID: rec.RunID, Phase: rec.Phase, State: rec.State, Start: rec.Start,
		WarmupS: rec.WarmupS, WindowS: max(0, seconds), WindowAt: r.window.from.Seconds(), Paced: rec.Paced,
		Workload: workloadOf(rec), Spec: rec.Spec, Plan: rec.Plan, Versions: rec.Versions, Command: rec.Command, Label: rec.Label, Note: rec.Note, Cluster: rec.Cluster,

		WorkersExpected: max(rec.Plan.Workers, len(r.workers)),
		WorkersLost:     []LostWorker{},

		TargetOps:  rec.Target,
		MeasuredS:  max(0, (r.window.finish - r.window.begin).Seconds()),
		Operations: good.Operations,
		Rated:      good.rate.operations,
		OpsPerS:    rate(good.rate.operations),
		BatchesPS:  rate(all.rate.batches),
		RPCsPerS:   rate(all.rate.rpcs),
		Scanned:    r.fleet.scanned,
		ErrorsPerS: rate(all.rate.operations - good.rate.operations),

		Verification: rec.Verification,
		Probe:        r.probe,

		Percentiles: percentiles,

		Errors:      r.errorRows(),
		Queued:      r.fleet.deviations.Queued,
		Skipped:     r.fleet.deviations.Skipped,
		Blocked:     r.fleet.deviations.Blocked,
		CutOff:      r.fleet.deviations.CutOff,
		Clamped:     r.fleet.deviations.Clamped,
		LagUS:       measure.LatencyOf(r.fleet.lag.HDR()),
		LaneDelayUS: measure.LatencyOf(r.fleet.lane.HDR()),
		CPUS:        r.cpuSeconds(),

		Events:   r.withStalls(withMoves(r.events, r.moves())),
		Notes:    append([]string{}, r.window.notes...),
		Warnings: append(append([]string{}, rec.Warnings...), r.warnings...),
		Missing:  append([]string{}, r.missing...),
		Series:   append([]Point{}, r.series...),
		Curves:   []Curve{},
		Detail:   r.detail,
	}
	if rec.Phase == results.Probing {
		return r.probeReport(p)
	}
	if due := r.due(); due > 0 && seconds > 0 && rec.Paced {
		// The workers' shares add up to it but for rounding.
		p.TargetOps = math.Round(due/seconds*1e6) / 1e6
	}
	p.Traffic = r.fleet.sent(rate)
	p.Transactions = r.transactions()
	p.Servers = r.serversReport()
	if r.fleet.inFlight > 0 {
		p.InFlight = rate(r.fleet.inFlight)
	} else if all.service != nil { // results of earlier versions: Little's law, which knows nothing of what was never answered
		p.InFlight = p.BatchesPS * all.service.Mean() / 1e6
	}
	if good.Operations > 0 && rate(good.rate.operations) > 0 {
		p.CPUPerOpUS = p.CPUS * 1e6 / good.rate.operations
	}
	if r.fleet.kinds() > 1 {
		p.addCurves(AllKinds, &good)
	}
	for k := range workload.Kind(workload.Kinds) {
		for o := range workload.Outcome(workload.Outcomes) {
			sum := r.fleet.sum(func(row measure.Row) bool { return row.Kind() == k && row.Outcome() == o })
			row := kindRow(k.String(), o.String(), &sum, rate, percentiles)
			if o == workload.OK && r.fleet.started[k] > 0 { // of slots that were skipped it is not known which kind they would have been
				row.NeverAnswered = r.fleet.neverAnswered(&sum, func(of workload.Kind) bool { return of == k }, rec.Plan.Batch, percentiles)
			}
			if sum.Operations > 0 || row.NeverAnswered != nil {
				p.Kinds = append(p.Kinds, row)
			}
		}
		sum := r.fleet.sum(func(row measure.Row) bool { return row.Kind() == k && answered(row) })
		p.addCurves(k.String(), &sum)
	}
	ok := r.fleet.sum(func(row measure.Row) bool { return row.Outcome() == workload.OK })
	total := kindRow(AllKinds, workload.OK.String(), &ok, rate, percentiles)
	total.NeverAnswered = r.fleet.neverAnswered(&ok, anyKind, rec.Plan.Batch, percentiles)
	p.Kinds = append(p.Kinds, total)
	for i, w := range r.workers {
		p.addWorker(w, r.byWorker[i], rate)
	}
	p.settleMachines(r)
	p.InFlight = min(p.InFlight, float64(p.Threads))
	p.Unanswered = r.fleet.unanswered()
	p.noteUnanswered()
	p.noteMisses()
	p.noteClocks()
	p.noteStandstills()
	p.noteFoundAgain()
	if text := skewed(p); text != "" {
		p.Notes = append(p.Notes, "Skewed load: "+text+".")
	}
	p.Ended = r.ended()
	if all.service != nil && rec.Phase != "verify" {
		p.NoAnswer = r.noAnswer(p.BatchesPS, time.Duration(all.service.ValueAtPercentile(50))*time.Microsecond)
	}
	p.Events = r.course.withEvents(p.Events)
	p.Disturbances = r.disturbances(p)
	p.Hang = r.hang(&all, p.NoAnswer)
	p.Limit = limitOf(p, r)
	p.Verdict = judge(p, r)
	p.Cost = newCost(p, r.prices)
	return p
}

func every(measure.Row) bool { return true }

func kindRow(kind, outcome string, sum *row, rate func(float64) float64, percentiles []float64) KindRow {
	return KindRow{
		Kind: kind, Outcome: outcome,
		Operations: sum.Operations, OpsPerS: rate(sum.rate.operations),
		Batches: sum.Batches, RPCs: sum.RPCs, Retries: sum.Retries,
		ServiceUS: measure.LatencyOf(sum.service, percentiles...), ResponseUS: measure.LatencyOf(sum.response, percentiles...),
	}
}

// errorRows lists what failed, the most frequent first.
func (r *Run) errorRows() []ErrorRow {
	rows := []ErrorRow{}
	for i := range r.fleet.rows {
		row, n := measure.Row(i), r.fleet.rows[i].Operations
		if answered(row) || n == 0 {
			continue
		}
		e := ErrorRow{Kind: row.Kind().String(), Class: results.ClassOf(row), Count: n}
		e.Texts = append([]string{}, r.fleet.texts[errorKey{e.Kind, e.Class}]...)
		if len(e.Texts) > 0 {
			e.FirstText = e.Texts[0]
		}
		rows = append(rows, e)
	}
	slices.SortStableFunc(rows, func(a, b ErrorRow) int { return cmp.Compare(b.Count, a.Count) })
	return rows
}

// settleMachines says how many connections the fleet has, and how much of each worker's machine others used.
func (p *Report) settleMachines(r *Run) {
	own := make(map[string]float64) // processor time of the fleet's processes on a machine, in seconds
	counted := make(map[string]bool)
	for i, w := range r.workers {
		if process := w.process(); !counted[process] {
			counted[process] = true
			own[w.machine()] += r.byWorker[i].cpu.Seconds()
		}
		if w.info.Connections == 0 {
			p.Connections = -1 // unknown, of all
		} else if p.Connections >= 0 {
			p.Connections += w.info.Connections
		}
	}
	p.Connections = max(p.Connections, 0)
	for i := range p.Workers {
		// The machine has at least as many processors as the worker may use, so that the fleet's processes use
		// at most this share of it, and others the rest at least.
		if w := &p.Workers[i]; w.Cores > 0 && p.WindowS > 0 {
			w.OthersShare = max(0, w.MachineShare-own[r.workers[i].machine()]/(p.WindowS*float64(w.Cores)))
		}
	}
}

// process names the process that the worker was in: workers may share one.
func (w *worker) process() string { return cmp.Or(w.info.Host["process"], w.member.Name) }

// machine names the machine that the worker ran on.
func (w *worker) machine() string {
	_, host, _ := strings.Cut(w.info.Host["process"], "@")
	return cmp.Or(host, w.member.Name)
}

// cpuSeconds is what the fleet's processes used. Workers that share a process
// each see all of it; it counts once.
func (r *Run) cpuSeconds() float64 {
	processes := make(map[string]float64)
	for i, w := range r.workers {
		id := w.process()
		processes[id] = max(processes[id], r.byWorker[i].cpu.Seconds())
	}
	sum := 0.0
	for _, id := range slices.Sorted(maps.Keys(processes)) {
		sum += processes[id]
	}
	return sum
}

func (p *Report) addWorker(w *worker, t *totals, rate func(float64) float64) {
	good, all := t.sum(answered), t.sum(every)
	row := WorkerRow{
		Name: w.member.Name, State: results.Finished,
		Operations: good.Operations, OpsPerS: rate(good.rate.operations),
		Errors:    all.Operations - good.Operations,
		ServiceUS: measure.LatencyOf(good.service), ResponseUS: measure.LatencyOf(good.response),
		LagUS: measure.LatencyOf(t.lag.HDR()), LaneDelayUS: measure.LatencyOf(t.lane.HDR()),
		Skipped: t.deviations.Skipped,
		CPUS:    t.cpu.Seconds(), CPUShare: t.cpuShare(), CPUShareMax: t.busiest, Cores: t.cores, OneCoreS: t.oneCore,
		Driver: w.info.Driver, Lanes: w.info.Lanes, Tuning: w.info.Tuning,
		StalledS: t.stall.Total.Seconds(), StallMaxS: t.stall.Longest.Seconds(), StallAtS: t.stall.At.Seconds(), ThrottledS: t.denied.Seconds(), ThrottledAtS: t.deniedIn.from.Seconds(), ThrottledToS: t.deniedIn.to.Seconds(),
		CPUWaitS: t.cpuWait.Seconds(), MachineShare: rate(t.machine),
		GCPauseS: t.gcPause.Seconds(), SchedP99US: t.schedP99.Microseconds(), RSSBytes: t.rss,
		ClockOffsetUS: w.member.ClockOffsetUS, ClockErrorUS: w.member.ClockErrorUS, StartSkewUS: w.member.StartSkewUS,
		EndS: w.end.Seconds(), Reason: cmp.Or(w.member.Reason, w.info.Reason),
	}
	p.MaxStartSkewUS = max(p.MaxStartSkewUS, math.Abs(w.member.StartSkewUS))
	if w.info.Threads > 0 {
		p.Threads += w.info.Threads
	} else {
		p.Threads += p.Plan.Threads
	}
	switch {
	case w.member.State == results.Abandoned:
		row.State = results.Abandoned
	case w.lost:
		row.State = results.Lost
		if w.member.State == results.Failed {
			row.State = results.Failed
		}
		lost := LostWorker{Name: row.Name, AtS: row.EndS, Reason: row.Reason}
		if w.member.LostAtS != nil {
			lost.AtS = *w.member.LostAtS
		}
		if !w.journal {
			lost.Reason = cmp.Or(lost.Reason, "no journal of it is here")
		}
		p.WorkersLost = append(p.WorkersLost, lost)
	default:
		p.WorkersFinished++
	}
	p.Workers = append(p.Workers, row)
}

// noteMissShare is from which share of misses on a report says what they mean: most are a sign
// of keys that were never loaded, and a miss is cheaper than a hit.
const noteMissShare = 0.01

func (p *Report) noteMisses() {
	missed, all := p.misses()
	if all > 0 && float64(missed) >= noteMissShare*float64(all) {
		p.Notes = append(p.Notes, fmt.Sprintf("%.1f %% of the operations found no value. Misses cost the database less than hits: load the keys first (kvbench load), with the same recordcount.", 100*float64(missed)/float64(all)))
	}
}

// curve are the percentiles of a curve: evenly spaced in the logarithm of what is above.
var curve = func() []float64 {
	var q []float64
	for i := 0; i <= 50; i++ {
		q = append(q, 100*(1-math.Pow(10, -float64(i)/10)))
	}
	return q
}()

func (p *Report) addCurves(kind string, sum *row) {
	for _, c := range []struct {
		time string
		h    *hdrhistogram.Histogram
	}{{"service", sum.service}, {"response", sum.response}} {
		if c.h == nil {
			continue
		}
		drawn := Curve{Kind: kind, Time: c.time, Points: [][2]float64{}}
		beyond, reach := measure.Reach(c.h)
		for i, us := range c.h.ValueAtPercentilesSlice(curve) {
			// Where a step holds less than one operation, the curve is at its end.
			if i > 0 && (100-curve[i])/100*float64(c.h.TotalCount()) < 1 {
				break
			}
			if us >= beyond {
				us, drawn.Range = reach, reach
			}
			drawn.Points = append(drawn.Points, [2]float64{math.Round(curve[i]*1e5) / 1e5, float64(us)})
		}
		p.Curves = append(p.Curves, drawn)
	}
}
