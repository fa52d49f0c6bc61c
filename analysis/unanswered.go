// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/units"
	"github.com/kvbench/kvbench/internal/workload"
)

// Unanswered are the calls that were in flight when the window ended.
type Unanswered struct {
	Calls   int64   `json:"calls"`
	OldestS float64 `json:"oldest_s"` // how long the first of them had been in flight
}

// NeverAnswered is what the latencies of a kind do not contain: calls that were cut off, and slots that were
// skipped. Of which kind those would have been is not known; they are taken to be as what was started.
//
// With them, each as long as it had waited when it was given up, a latency is at least as in ServiceUS and
// ResponseUS. A slot that was skipped has no service time.
type NeverAnswered struct {
	CutOffCalls  int64    `json:"cut_off_calls"`
	SkippedSlots int64    `json:"skipped_slots"`
	Operations   int64    `json:"operations"`
	OldestS      float64  `json:"oldest_s"` // had waited so long, since it was due
	ServiceUS    *Latency `json:"service_us,omitempty"`
	ResponseUS   *Latency `json:"response_us,omitempty"`
}

// Hang is what the database owed when the run ended: calls that were given up after they had waited for
// longer than can be explained by what others took.
type Hang struct {
	Calls   int64   `json:"calls"`
	SinceS  float64 `json:"since_s"`  // when the first of them was started, on the run's clock
	OldestS float64 `json:"oldest_s"` // for how long it had waited when it was given up
}

// waited is how long calls that were never answered had waited when they were given up.
type waited struct {
	service, response measure.Sum
	any               bool          // there are such calls
	since             time.Duration // when the first of them was started
}

func (w *waited) merge(o *waited) {
	if o.any && (!w.any || o.since < w.since) {
		w.any, w.since = true, o.since
	}
	w.service.Merge(&o.service)
	w.response.Merge(&o.response)
}

// began notes since when calls have waited that an interval tells of: they are given up when the
// grace period is over, and with it the last interval.
func (w *waited) began(end time.Duration, h *results.Histogram) {
	since := max(0, end-time.Duration(h.Max())*time.Microsecond)
	if !w.any || since < w.since {
		w.any, w.since = true, since
	}
}

// unanswered is what was in flight at the end of the window; nil if that is nothing, or not known.
func (t *totals) unanswered() *Unanswered {
	if t.atEnd.Calls == 0 {
		return nil
	}
	return &Unanswered{t.atEnd.Calls, t.atEnd.Oldest.Seconds()}
}

// inVain is for how long had waited what never was answered, of the kinds that match: calls that were cut off, since they were started and
// since they were due, and slots that were skipped, of which it is not known which kind they would have been.
func (t *totals) inVain(of func(workload.Kind) bool) (service, response, slots *hdrhistogram.Histogram) {
	var calls waited
	var started, all int64
	for k := range workload.Kind(workload.Kinds) {
		all += t.started[k]
		if of(k) {
			started += t.started[k]
			calls.merge(&t.waited[k])
		}
	}
	return calls.service.HDR(), calls.response.HDR(), scaled(t.slots.HDR(), started, all)
}

// neverAnswered tells what the latencies of answered calls, of one kind or of all, do not contain; nil if that is nothing.
func (t *totals) neverAnswered(row *row, of func(workload.Kind) bool, batch int, percentiles []float64) *NeverAnswered {
	service, response, slots := t.inVain(of)
	n := &NeverAnswered{CutOffCalls: count(service), SkippedSlots: count(slots)}
	if n.CutOffCalls+n.SkippedSlots == 0 {
		return nil
	}
	n.Operations = (n.CutOffCalls + n.SkippedSlots) * int64(max(batch, 1))
	for _, h := range []*hdrhistogram.Histogram{service, response, slots} {
		if count(h) > 0 {
			n.OldestS = max(n.OldestS, float64(h.Max())/1e6)
		}
	}
	if n.CutOffCalls > 0 {
		n.ServiceUS = measure.LatencyOf(merged(row.service, service), percentiles...)
	}
	if count(response)+count(slots) > 0 {
		n.ResponseUS = measure.LatencyOf(merged(row.response, response, slots), percentiles...)
	}
	return n
}

// never is how many calls were never answered: those that were cut off, and the slots that were skipped.
func (t *totals) never() int64 {
	n := t.slots.Count()
	for k := range t.waited {
		n += t.waited[k].service.Count()
	}
	return n
}

func count(h *hdrhistogram.Histogram) int64 {
	if h == nil {
		return 0
	}
	return h.TotalCount()
}

// merged returns a new histogram of all that several hold; nil if there are none.
func merged(all ...*hdrhistogram.Histogram) (sum *hdrhistogram.Histogram) {
	for _, h := range all {
		mergeHDR(&sum, h)
	}
	return sum
}

// scaled returns part/whole of a histogram; of each value, as of the sum, as near as whole numbers allow.
func scaled(h *hdrhistogram.Histogram, part, whole int64) *hdrhistogram.Histogram {
	if h == nil || part == whole {
		return h
	}
	if part == 0 {
		return nil
	}
	packed := hdrhistogram.NewPacked(measure.Lowest, h.HighestTrackableValue(), measure.Digits)
	packed.MergeFrom(h)
	out := empty(h.HighestTrackableValue())
	share, sum, given := float64(part)/float64(whole), int64(0), int64(0)
	packed.ForEachBucket(func(v, n int64) bool {
		sum += n
		if due := int64(math.Round(share * float64(sum))); due > given {
			_ = out.RecordValues(v, due-given) // fails only beyond the range, which is the same
			given = due
		}
		return true
	})
	return out
}

// What makes a call that was given up more than the noise of a tail.
const (
	hangLeast = time.Second
	hangP99   = 3   // times the p99 of the answered calls
	hangMax   = 1.5 // times the longest of them
)

// hang finds out whether the database had hung when the run ended; nil if not.
func (r *Run) hang(all *row, silence *NoAnswer) *Hang {
	var w waited
	for k := range r.fleet.waited {
		w.merge(&r.fleet.waited[k])
	}
	if w.service.Count() == 0 {
		return nil
	}
	oldest := float64(w.service.HDR().Max())
	if oldest < float64(hangLeast.Microseconds()) {
		return nil
	}
	if count(all.service) > 0 {
		beyond := oldest > hangP99*float64(all.service.ValueAtPercentile(99)) && oldest > hangMax*float64(all.service.Max())
		// That nothing at all was answered for the rest of the window is no tail either.
		silent := silence != nil && silence.AtS+silence.S >= r.window.to.Seconds()-0.001
		if !beyond && !silent {
			return nil
		}
	}
	return &Hang{Calls: w.service.Count(), SinceS: w.since.Seconds(), OldestS: oldest / 1e6}
}

// text says what was never answered.
func (h *Hang) text() string {
	what, which := "call", "sent"
	if h.Calls > 1 {
		what, which = "calls", "the first, sent"
	}
	return fmt.Sprintf("the stores never answered %s %s; %s at %s, had waited %s when it was given up", units.Count(h.Calls), what, which, units.Seconds(h.SinceS), units.Seconds(h.OldestS))
}

// unansweredText says that the stores did not answer, where that is what a run was limited by; "" if it is not.
func unansweredText(p *Report) string {
	blocked := ""
	if n := p.Blocked * int64(max(p.Plan.Batch, 1)); n > 0 {
		blocked = fmt.Sprintf("; %s %s due and never started, for all %d %s waited", units.Count(n), units.Plural(n, "operation was", "operations were"), p.Threads, units.Plural(int64(p.Threads), "thread", "threads"))
	}
	silence := ""
	if n := p.NoAnswer; n != nil {
		silence = fmt.Sprintf("the stores answered nothing for %s from %s on", units.Seconds(n.S), units.Seconds(n.AtS))
	}
	switch {
	case p.Hang != nil && silence != "":
		return p.Hang.text() + "; " + silence + blocked
	case p.Hang != nil && p.queued() >= shortShare:
		return p.Hang.text() + blocked
	case silence == "":
		return ""
	case p.Paced && p.TargetOps > 0:
		if short := (1 - p.OpsPerS/p.TargetOps) * p.WindowS; short > 2*p.NoAnswer.S {
			return ""
		}
	case p.NoAnswer.S < silentShare*p.WindowS:
		return ""
	}
	return silence + blocked
}

// silentShare is for which share of an unpaced window nothing must have been answered for that to be its limit.
const silentShare = 0.2

// noteUnanswered says what had no answer when the window ended, if that is more than the calls of the moment, and
// what latencies do not contain.
func (p *Report) noteUnanswered() {
	if u := p.Unanswered; u != nil && u.OldestS >= hangLeast.Seconds() {
		p.Notes = append(p.Notes, fmt.Sprintf("When the window ended %s %s unanswered, the first of them for %s.", units.Count(u.Calls), units.Plural(u.Calls, "call was", "calls were"), units.Seconds(u.OldestS)))
	}
	all := p.total().NeverAnswered
	if all == nil {
		return
	}
	text := "Latencies do not contain what was never answered: "
	if n := all.CutOffCalls; n > 0 {
		text += fmt.Sprintf("%s %s cut off at the end", units.Count(n), units.Plural(n, "call", "calls"))
		if all.SkippedSlots > 0 {
			text += ", "
		}
	}
	if n := all.SkippedSlots; n > 0 {
		text += fmt.Sprintf("%s %s that %s due and never started", units.Count(n), units.Plural(n, "slot", "slots"), units.Plural(n, "was", "were"))
	}
	text += fmt.Sprintf(". With them, each as long as it had waited at least (up to %s), they are at least as in the rows with ≥.", units.Seconds(all.OldestS))
	p.Notes = append(p.Notes, text)
}

// total is the row of all kinds, which every report has.
func (p *Report) total() *KindRow { return &p.Kinds[len(p.Kinds)-1] }
