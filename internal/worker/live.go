// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/objective"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/workload"
)

// live is what a coordinator sees of a run while it goes on: the totals, and the
// last intervals in a few numbers.
type live struct {
	watched []*workerpb.Watched // of which intervals have parts

	started [workload.Kinds]int64 // operations of the window so far; add's own

	mu        sync.Mutex
	totals    workerpb.Totals
	intervals []*workerpb.Interval
}

// liveIntervals is how many are kept: a coordinator that was away for so long
// shows a gap. The journal has none.
const liveIntervals = 60

// add takes up an interval, which may be changed afterwards.
func (v *live) add(iv *measure.Interval, target float64, sent []store.Traffic, warmUp bool) {
	p := &workerpb.Interval{
		FromNanos: int64(iv.Start),
		ToNanos:   int64(iv.End),
		Totals:    totals(iv),
		Target:    target,
		Service:   merged(func(_ measure.Row, c *measure.Cell) *measure.Histogram { return c.Service }, &iv.Window, &iv.Warmup),
		Response:  merged(func(_ measure.Row, c *measure.Cell) *measure.Histogram { return c.Response }, &iv.Window, &iv.Warmup),
		WarmUp:    warmUp,
		InFlight:  iv.InFlight.Seconds() / max(1e-9, (iv.End-iv.Start).Seconds()),
		Commands:  make(map[string]int64, len(sent)),
	}
	for i := range sent {
		if t := &sent[i]; t.Store != "" && t.Commands > 0 {
			p.Commands[t.Store] += t.Commands
		}
	}
	for k, n := range iv.Window.Started {
		v.started[k] += n
	}
	for _, w := range v.watched {
		p.Parts = append(p.Parts, v.part(iv, w))
	}
	lag := measure.NewHDR()
	iv.Window.Lag.AddTo(lag)
	iv.Warmup.Lag.AddTo(lag)
	if l := measure.LatencyOf(lag); l != nil {
		p.LagP99Micros = l.P99
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	addTotals(&v.totals, p.GetTotals())
	if len(v.intervals) == liveIntervals {
		v.intervals = slices.Delete(v.intervals, 0, 1)
	}
	v.intervals = append(v.intervals, p)
}

// since returns the totals, and the intervals that end after t.
func (v *live) since(t time.Duration) (*workerpb.Totals, []*workerpb.Interval) {
	v.mu.Lock()
	defer v.mu.Unlock()
	i, _ := slices.BinarySearchFunc(v.intervals, int64(t)+1, func(iv *workerpb.Interval, at int64) int {
		return int(min(1, max(-1, iv.GetToNanos()-at)))
	})
	return proto.CloneOf(&v.totals), slices.Clone(v.intervals[i:])
}

func totals(iv *measure.Interval) *workerpb.Totals {
	t := &workerpb.Totals{}
	for _, set := range []*measure.Set{&iv.Window, &iv.Warmup} {
		for row := range measure.Row(measure.Rows) {
			cell := &set.Cells[row]
			*[workload.Outcomes]*int64{&t.Ok, &t.NotFound, &t.Wrong, &t.Failed}[row.Outcome()] += cell.Operations
			t.Rpcs += cell.RPCs
			if row.Outcome() == workload.Failed && cell.Operations > 0 {
				addClass(t, row.Class().String(), cell.Operations)
			}
		}
		for _, n := range set.Started {
			t.Started += n
		}
		t.Skipped += set.Skipped
		t.CutOff += set.CutOff
	}
	return t
}

func addTotals(dst, t *workerpb.Totals) {
	dst.Started += t.GetStarted()
	dst.Ok += t.GetOk()
	dst.NotFound += t.GetNotFound()
	dst.Wrong += t.GetWrong()
	dst.Failed += t.GetFailed()
	dst.Rpcs += t.GetRpcs()
	dst.Skipped += t.GetSkipped()
	dst.CutOff += t.GetCutOff()
	for class, n := range t.GetFailedByClass() {
		addClass(dst, class, n)
	}
}

func addClass(t *workerpb.Totals, class string, operations int64) {
	if t.FailedByClass == nil {
		t.FailedByClass = make(map[string]int64)
	}
	t.FailedByClass[class] += operations
}

// waiting tells whether it matters for how long has waited what is not answered: to latencies that are watched.
func (v *live) waiting() bool {
	return slices.ContainsFunc(v.watched, func(w *workerpb.Watched) bool { return w.GetTime() != "" })
}

// part is what an interval has of operations of the window that are watched.
func (v *live) part(iv *measure.Interval, w *workerpb.Watched) *workerpb.Part {
	p, set := &workerpb.Part{}, &iv.Window
	of := func(k workload.Kind) bool { return w.GetKind() == objective.AllKinds || k.String() == w.GetKind() }
	for row := range measure.Row(measure.Rows) {
		if !of(row.Kind()) {
			continue
		}
		n := set.Cells[row].Operations
		p.Ended += n
		switch row.Outcome() {
		case workload.OK, workload.NotFound:
			p.Answered += n
		case workload.Failed:
			p.Failed += n
		}
	}
	if w.GetTime() == "" {
		return p
	}
	p.Latency = merged(func(row measure.Row, c *measure.Cell) *measure.Histogram {
		switch {
		case !of(row.Kind()) || row.Outcome() != workload.OK:
			return nil
		case w.GetTime() == objective.Response:
			return c.Response
		}
		return c.Service
	}, set)
	p.Waiting = v.waits(&iv.Waiting, of, w.GetTime() == objective.Response)
	return p
}

// waits is for how long calls of some kinds have waited that are not answered; with those, for the response time, that are due and not
// started, of which it is not known which kind they will be: they are taken to be as what was started. It is nil if there are none.
func (v *live) waits(w *measure.Waits, of func(workload.Kind) bool, response bool) *workerpb.Histogram {
	counts := make(map[int64]int64)
	var started, all int64
	for k := range workload.Kind(workload.Kinds) {
		all += v.started[k]
		if !of(k) {
			continue
		}
		started += v.started[k]
		h := w.Waited[k].Service
		if response {
			h = w.Waited[k].Response
		}
		if h != nil {
			h.Each(func(us, n int64) { counts[us] += n })
		}
	}
	if response && started > 0 && w.WaitedSlots != nil {
		share, sum, given := float64(started)/float64(all), int64(0), int64(0)
		w.WaitedSlots.Each(func(us, n int64) { // in their order
			sum += n
			if due := int64(share * float64(sum)); due > given {
				counts[us] += due - given
				given = due
			}
		})
	}
	return packed(counts)
}

// merged adds up one histogram of each cell; nil if there is none.
func merged(of func(measure.Row, *measure.Cell) *measure.Histogram, sets ...*measure.Set) *workerpb.Histogram {
	counts := make(map[int64]int64)
	for _, set := range sets {
		for i := range set.Cells {
			if h := of(measure.Row(i), &set.Cells[i]); h != nil {
				h.Each(func(us, n int64) { counts[us] += n })
			}
		}
	}
	return packed(counts)
}

// packed is a histogram of counts by microseconds; nil if there are none.
func packed(counts map[int64]int64) *workerpb.Histogram {
	if len(counts) == 0 {
		return nil
	}
	h := &workerpb.Histogram{}
	for _, us := range slices.Sorted(maps.Keys(counts)) {
		h.Micros = append(h.Micros, uint32(us))
		h.Counts = append(h.Counts, uint64(counts[us]))
	}
	return h
}
