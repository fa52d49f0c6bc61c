// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/results"
)

// Detail is what charts show beside the series of a run. It is no part of the JSON document,
// which it would make many times as long.
type Detail struct {
	Heat    []Heat
	Width   float64 // of the columns of tracks, in seconds; the first begins with the run's clock
	Workers []Track
	Stores  []Track
}

// Track is one worker, or one store, over time, column by column. Where nothing was measured stands NaN.
type Track struct {
	Name string
	Rate []Span    // of a worker, operations answered per second; of a store, commands sent to it per second
	Sick []Span    // of a worker, errors per second; of a store, fallbacks and broken streams per second
	P99  []float64 // of a worker: of answered operations, response time if paced, else service time, in microseconds
	CPU  []Span    // of a worker: share of its cores
}

// Span is the lowest and the highest of a column's seconds.
type Span struct{ Low, High float64 }

// unmeasured is the span of no seconds.
var unmeasured = Span{math.NaN(), math.NaN()}

func (s *Span) add(v float64) {
	if math.IsNaN(s.Low) {
		*s = Span{v, v}
		return
	}
	s.Low, s.High = min(s.Low, v), max(s.High, v)
}

// maxSpans is how many columns a track has at most: its chart is small.
const maxSpans = 120

// tracks grow by the intervals of all workers, each worker's in the order of time. Those of different workers may be
// added at the same time, as may what is the stores'.
type tracks struct {
	width    time.Duration // of a column
	columns  int
	quantity results.Quantity // whose p99 is shown
	workers  []Track
	open     []openColumn // of each worker

	// What was sent to a store, in each second of the run; the workers' seconds add up.
	told  []bool // anything
	sent  map[string][]float64
	sick  map[string][]float64
	bins  int
	binAt time.Duration
}

// openColumn is the column of a worker of which not all intervals have been seen.
type openColumn struct {
	at  int
	sum measure.Sum
}

func newTracks(workers []*worker, end time.Duration, paced bool) *tracks {
	t := &tracks{width: whole(end / maxSpans), quantity: results.Service, open: make([]openColumn, len(workers)),
		sent: make(map[string][]float64), sick: make(map[string][]float64)}
	if paced {
		t.quantity = results.Response
	}
	t.columns = int((end + t.width - 1) / t.width)
	t.binAt = whole(end / maxPoints)
	t.bins = int((end + t.binAt - 1) / t.binAt)
	t.told = make([]bool, t.bins)
	for _, w := range workers {
		track := Track{Name: w.member.Name}
		for range t.columns {
			track.Rate, track.Sick, track.CPU = append(track.Rate, unmeasured), append(track.Sick, unmeasured), append(track.CPU, unmeasured)
			track.P99 = append(track.P99, math.NaN())
		}
		t.workers = append(t.workers, track)
	}
	return t
}

// whole rounds up to whole seconds, of which there is one at least.
func whole(d time.Duration) time.Duration {
	return max(time.Second, (d + time.Second - 1).Truncate(time.Second))
}

// add counts an interval of a worker in the column in which its middle lies. One of less than half a second
// has no rate that says something.
func (t *tracks) add(worker int, iv *results.Interval) {
	middle, took := iv.Start+(iv.End-iv.Start)/2, (iv.End - iv.Start).Seconds()
	column := int(middle / t.width)
	if column >= t.columns {
		return
	}
	track, open := &t.workers[worker], &t.open[worker]
	if column != open.at {
		t.close(worker)
		open.at = column
	}
	for _, h := range iv.Histograms {
		if h.Quantity == t.quantity && answered(h.Row) {
			open.sum.Add(h.Packed)
		}
	}
	if took >= 0.5 {
		track.Rate[column].add(float64(iv.OK+iv.Missing) / took)
		track.Sick[column].add(float64(iv.Failed+iv.Wrong) / took)
		if iv.Host.Cores > 0 {
			track.CPU[column].add(min(1, iv.Host.CPU.Seconds()/took/float64(iv.Host.Cores)))
		}
	}
}

// addStores counts what was sent to the stores in an interval of any worker.
func (t *tracks) addStores(iv *results.Interval) {
	middle := iv.Start + (iv.End-iv.Start)/2
	if int(middle/t.width) >= t.columns {
		return
	}
	bin := int(middle / t.binAt)
	t.told[bin] = true
	for i := range iv.Traffic {
		sent := &iv.Traffic[i]
		if sent.Store == "" {
			continue
		}
		if t.sent[sent.Store] == nil {
			t.sent[sent.Store], t.sick[sent.Store] = make([]float64, t.bins), make([]float64, t.bins)
		}
		t.sent[sent.Store][bin] += float64(sent.Commands) / t.binAt.Seconds()
		bad := sent.Breaks
		for _, n := range sent.Fallbacks {
			bad += n
		}
		t.sick[sent.Store][bin] += float64(bad) / t.binAt.Seconds()
	}
}

// close takes the percentile of a worker's column.
func (t *tracks) close(worker int) {
	open := &t.open[worker]
	if p99, _ := open.sum.Quantiles(99); p99 != nil {
		t.workers[worker].P99[open.at] = float64(p99[0])
	}
	open.sum.Reset()
}

// detail returns the tracks. The last second of a run may be short, and is left out of the stores' rates.
func (t *tracks) detail() *Detail {
	for i := range t.workers {
		t.close(i)
	}
	d := &Detail{Width: t.width.Seconds(), Workers: t.workers}
	for _, store := range slices.Sorted(maps.Keys(t.sent)) {
		track := Track{Name: store}
		for range t.columns {
			track.Rate, track.Sick = append(track.Rate, unmeasured), append(track.Sick, unmeasured)
		}
		for bin := range t.bins - 1 {
			if column := min(int(time.Duration(bin)*t.binAt/t.width), t.columns-1); t.told[bin] {
				track.Rate[column].add(t.sent[store][bin])
				track.Sick[column].add(t.sick[store][bin])
			}
		}
		d.Stores = append(d.Stores, track)
	}
	return d
}
