// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/workload"
)

// totals are what was measured of the window's operations, by a worker or, merged,
// by the fleet.
type totals struct {
	rows       [measure.Rows]cell
	scanned    int64 // rows that scans returned
	lag, lane  measure.Sum
	deviations measure.Deviations
	texts      map[errorKey][]string
	traffic    map[string]*traffic // by store
	told       told

	// What the rows do not contain.
	waited  [workload.Kinds]waited
	slots   measure.Sum // how long slots that were skipped had waited
	started [workload.Kinds]int64
	costs   [workload.Kinds]cost
	atEnd   measure.Unanswered // when the window ended

	// The process, and what it was asked for, during the window.
	due      float64       // operations: the integral of the target
	cpu      time.Duration // used
	capacity time.Duration // cores × time
	cpuWait  time.Duration // threads were ready to run and had no core
	inFlight float64       // seconds × calls
	stall    measure.Stall
	denied   time.Duration // a limit of a control group kept threads from running
	deniedIn gap           // the seconds in which it did
	machine  float64       // seconds of the window × share of the machine in use by anyone
	cores    int
	busiest  float64 // share of the cores in the busiest second
	oneCore  float64 // seconds in which it used one of several cores at a time
	gcPause  time.Duration
	schedP99 time.Duration // of the worst second
	rss      int64
}

// cell is what was measured of one kind and outcome.
type cell struct {
	results.Count             // all of the window's operations
	rate              counted // those that count for rates
	service, response measure.Sum
}

func (c *cell) merge(o *cell) {
	c.Add(o.Count)
	c.rate.merge(o.rate)
	c.service.Merge(&o.service)
	c.response.Merge(&o.response)
}

// row is what cells come to together.
type row struct {
	results.Count
	rate              counted
	service, response *hdrhistogram.Histogram // nil: nothing was
}

// counted is a count of which some intervals lie in the window only in part.
type counted struct{ operations, batches, rpcs float64 }

func (c *counted) add(n results.Count, share float64) {
	c.operations += share * float64(n.Operations)
	c.batches += share * float64(n.Batches)
	c.rpcs += share * float64(n.RPCs)
}

func (c *counted) merge(o counted) {
	c.operations += o.operations
	c.batches += o.batches
	c.rpcs += o.rpcs
}

type errorKey struct{ kind, class string }

// add counts an interval.
func (t *totals) add(iv *results.Interval, w *window) {
	t.told.add(iv)
	share := 1.0
	if !w.whole {
		// Nothing of the window completes before it begins.
		share = w.share(max(iv.Start, min(w.from, iv.End)), iv.End)
	}
	for i, n := range iv.Window.Rows {
		row := &t.rows[i]
		row.Add(n)
		row.rate.add(n, share)
	}
	t.deviations.Add(iv.Window.Deviations)
	t.scanned += iv.Window.ScannedRows
	for _, h := range iv.Histograms {
		if h.Warmup {
			continue
		}
		t.sumOf(h.Tag).Add(h.Packed)
		if h.Quantity == results.WaitedService {
			t.waited[h.Row.Kind()].began(iv.End, &h)
		}
	}
	for k, n := range iv.Window.Started {
		t.started[k] += n
		t.costs[k].Add(&iv.Window.Costs[k])
	}
	if off := iv.End - w.finish; off > -time.Millisecond && off < time.Millisecond {
		t.atEnd = iv.Unanswered
	}
	for _, e := range iv.Errors {
		if !e.Warmup {
			t.addTexts(errorKey{e.Kind, e.Class}, e.Texts)
		}
	}
	within := w.share(iv.Start, iv.End)
	t.addHost(&iv.Second, within)
	for i := range iv.Traffic {
		t.addTraffic(&iv.Traffic[i], within)
	}
}

// sumOf returns where the histograms of a tag are added up.
func (t *totals) sumOf(tag results.Tag) *measure.Sum {
	if phase, ok := tag.Quantity.Phase(); ok {
		return &t.costs[tag.Row.Kind()].phases[phase]
	}
	switch tag.Quantity {
	case results.Service:
		return &t.rows[tag.Row].service
	case results.Response:
		return &t.rows[tag.Row].response
	case results.Lag:
		return &t.lag
	case results.Lane:
		return &t.lane
	case results.WaitedService:
		return &t.waited[tag.Row.Kind()].service
	case results.WaitedResponse:
		return &t.waited[tag.Row.Kind()].response
	default:
		return &t.slots
	}
}

// addHost counts the part of a second that lies in the window.
func (t *totals) addHost(s *results.Second, share float64) {
	if share == 0 {
		return
	}
	took := (s.End - s.Start).Seconds()
	t.due += s.Target * took * share
	// What a process used is sampled a little after an interval, and of one of some milliseconds it may be that of more.
	cpu := min(s.Host.CPU.Seconds(), took*float64(s.Host.Cores))
	t.cpu += time.Duration(share * cpu * float64(time.Second))
	t.capacity += time.Duration(share * took * float64(s.Host.Cores) * float64(time.Second))
	t.cpuWait += time.Duration(share * float64(s.Host.CPUWait))
	t.inFlight += took * share * s.InFlight
	t.stall.Total += s.Stall.Total
	if s.Stall.Longest > t.stall.Longest {
		t.stall.Longest, t.stall.At = s.Stall.Longest, s.Stall.At
	}
	if s.Host.Throttled > 0 {
		if t.denied == 0 {
			t.deniedIn.from = s.Start
		}
		t.denied += time.Duration(share * float64(s.Host.Throttled))
		t.deniedIn.to = s.End
	}
	t.machine += took * share * s.Host.Machine
	t.cores = max(t.cores, s.Host.Cores)
	if took >= 0.5 && s.Host.Cores > 0 { // shorter ones are too coarse for the system's accounting
		t.busiest = max(t.busiest, cpu/(took*float64(s.Host.Cores)))
	}
	if s.Host.Procs == 1 && s.Host.Cores > 1 {
		t.oneCore += share * took
	}
	t.gcPause += time.Duration(share * float64(s.Host.GCPause))
	t.schedP99 = max(t.schedP99, s.Host.SchedP99)
	t.rss = max(t.rss, s.Host.RSSBytes)
}

// merge adds what others hold.
func (t *totals) merge(o *totals) {
	for i := range o.rows {
		t.rows[i].merge(&o.rows[i])
	}
	t.lag.Merge(&o.lag)
	t.lane.Merge(&o.lane)
	t.deviations.Add(o.deviations)
	t.scanned += o.scanned
	for k := range o.waited {
		t.waited[k].merge(&o.waited[k])
		t.started[k] += o.started[k]
		t.costs[k].merge(&o.costs[k])
	}
	t.slots.Merge(&o.slots)
	t.atEnd.Calls += o.atEnd.Calls
	t.atEnd.Oldest = max(t.atEnd.Oldest, o.atEnd.Oldest)
	for key, texts := range o.texts {
		t.addTexts(key, texts)
	}
	for store, sent := range o.traffic {
		t.trafficTo(store).merge(sent)
	}
	t.due += o.due
	t.cpu += o.cpu
	t.capacity += o.capacity
	t.cpuWait += o.cpuWait
	t.inFlight += o.inFlight
	t.cores += o.cores
	t.busiest = max(t.busiest, o.busiest)
	t.oneCore += o.oneCore
	t.gcPause += o.gcPause
	t.schedP99 = max(t.schedP99, o.schedP99)
	t.rss += o.rss
}

// addTexts keeps the first few distinct texts of a class of errors.
func (t *totals) addTexts(key errorKey, texts []string) {
	if t.texts == nil {
		t.texts = make(map[errorKey][]string)
	}
	for _, text := range texts {
		if kept := t.texts[key]; len(kept) < measure.MaxTexts && !slices.Contains(kept, text) {
			t.texts[key] = append(kept, text)
		}
	}
}

// cpuShare returns which part of its cores' time the process used.
func (t *totals) cpuShare() float64 {
	if t.capacity == 0 {
		return 0
	}
	return float64(t.cpu) / float64(t.capacity)
}

// sum adds up the rows that match.
func (t *totals) sum(match func(measure.Row) bool) row {
	var total cell
	for i := range t.rows {
		if match(measure.Row(i)) {
			total.merge(&t.rows[i])
		}
	}
	return row{total.Count, total.rate, total.service.HDR(), total.response.HDR()}
}

// kinds is of how many kinds operations were answered.
func (t *totals) kinds() (n int) {
	var seen [workload.Kinds]bool
	for i := range t.rows {
		if k := measure.Row(i).Kind(); answered(measure.Row(i)) && t.rows[i].Operations > 0 && !seen[k] {
			seen[k] = true
			n++
		}
	}
	return n
}

// mergeHDR adds a histogram to another, which is made when it is needed first.
func mergeHDR(to **hdrhistogram.Histogram, from *hdrhistogram.Histogram) {
	if from == nil {
		return
	}
	if *to == nil {
		*to = from.Clone()
		return
	}
	(*to).Merge(from)
}

// empty returns a histogram up to the highest value, which is lower in results of earlier versions.
func empty(highest int64) *hdrhistogram.Histogram {
	return hdrhistogram.New(measure.Lowest, highest, measure.Digits)
}
