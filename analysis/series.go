// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math"
	"time"

	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/workload"
)

// maxPoints bounds the length of a series: longer runs get wider bins.
const maxPoints = 1200

// series is the fleet over time. Intervals must be added in the order of their
// starts; only one bin's histograms are held.
type series struct {
	width  time.Duration
	end    time.Duration // of the last interval
	bins   []bin
	points []Point // of bins that are complete
	window *window

	service, response, lag measure.Sum // of bin number len(points)

	serviceHeat, responseHeat heatMap
}

// bin is a stretch of the run.
type bin struct {
	answered, errors float64 // operations
	due              float64
	skipped          float64
	cpu, capacity    float64               // seconds
	busiest          float64               // share of its cores that a worker used
	inFlight         float64               // calls × seconds
	covered          float64               // seconds × workers whose journals tell of them
	failed           [measure.Rows]float64 // operations

	// Of the intervals that begin in it, for the account of what disturbed the run.
	queued            int64
	service, response *measure.Packed
}

func newSeries(w *window, end time.Duration) *series {
	s := &series{width: whole(end / maxPoints), end: end, window: w}
	s.bins = make([]bin, (end+s.width-1)/s.width)
	s.serviceHeat.bins = len(s.bins)/maxColumns + 1
	s.responseHeat.bins = s.serviceHeat.bins
	return s
}

// answered tells whether the database answered the operations of a row rightly.
func answered(r measure.Row) bool { return r.Outcome() <= workload.NotFound }

// add counts an interval: in the bins that it spans, its histograms in the first.
func (s *series) add(iv *results.Interval) {
	if len(s.bins) == 0 {
		return
	}
	first := min(int(iv.Start/s.width), len(s.bins)-1)
	for len(s.points) < first {
		s.complete()
	}
	span := window{}
	for i := first; i < len(s.bins) && (i == first || time.Duration(i)*s.width < iv.End); i++ {
		span.from, span.to = time.Duration(i)*s.width, time.Duration(i+1)*s.width
		share := span.share(iv.Start, iv.End)
		b := &s.bins[i]
		b.answered += share * float64(iv.OK+iv.Missing)
		b.errors += share * float64(iv.Failed+iv.Wrong)
		b.skipped += share * float64(iv.Second.Skipped)
		took := share * (iv.End - iv.Start).Seconds()
		b.due += took * iv.Target
		b.inFlight += took * iv.InFlight
		b.covered += took
		for row := range iv.Window.Rows {
			if failed := iv.Window.Rows[row].Operations + iv.Warmup.Rows[row].Operations; failed > 0 && !answered(measure.Row(row)) {
				b.failed[row] += share * float64(failed)
			}
		}
		if length := (iv.End - iv.Start).Seconds(); length >= 0.5 && iv.Host.Cores > 0 { // shorter ones are too coarse for the system's accounting
			b.cpu += share * iv.Host.CPU.Seconds()
			b.capacity += took * float64(iv.Host.Cores)
			if share >= 0.5 {
				b.busiest = max(b.busiest, min(1, iv.Host.CPU.Seconds()/length/float64(iv.Host.Cores)))
			}
		}
	}
	s.bins[first].queued += iv.Second.Queued
	for _, h := range iv.Histograms {
		if !answered(h.Row) {
			continue
		}
		switch h.Quantity {
		case results.Service:
			s.service.Add(h.Packed)
		case results.Response:
			s.response.Add(h.Packed)
		case results.Lag:
			s.lag.Add(h.Packed)
		}
	}
}

// complete makes a point of the bin at hand.
func (s *series) complete() {
	i := len(s.points)
	b := &s.bins[i]
	from := time.Duration(i) * s.width
	seconds := (min(from+s.width, s.end) - from).Seconds()
	p := Point{
		S: from.Seconds(), Phase: s.window.phase(from),
		Target: b.due / seconds, OpsPerS: b.answered / seconds, ErrorsPerS: b.errors / seconds,
		Skipped: int64(b.skipped + 0.5), CPUMax: b.busiest, InFlight: b.inFlight / seconds,
		Workers: math.Round(100*b.covered/seconds) / 100,
	}
	for row, n := range b.failed {
		if n > 0 {
			if p.Errors == nil {
				p.Errors = make(map[string]float64)
			}
			p.Errors[results.ClassOf(measure.Row(row))] += n / seconds
		}
	}
	if b.capacity > 0 {
		p.CPUShare = b.cpu / b.capacity
	}
	p.quantiles("lag", &s.lag, &p.LagP50, &p.LagP99, nil, &p.LagMax)
	p.quantiles("service", &s.service, &p.ServiceP50, &p.ServiceP99, &p.ServiceP999, &p.ServiceMax)
	p.quantiles("response", &s.response, &p.ResponseP50, &p.ResponseP99, &p.ResponseP999, &p.ResponseMax)
	b.service, b.response = s.service.Packed(), s.response.Packed()
	s.points = append(s.points, p)
	s.serviceHeat.add(i, &s.service)
	s.responseHeat.add(i, &s.response)
	s.service.Reset()
	s.response.Reset()
	s.lag.Reset()
}

// quantiles sets latencies of a point, as far as there are any, and names those that lie beyond the histograms' range, as in JSON.
func (p *Point) quantiles(time string, of *measure.Sum, p50, p99, p999, most *int64) {
	values, beyond := of.Quantiles(50, 99, 99.9, 100)
	for i, to := range []*int64{p50, p99, p999, most} {
		if to == nil || values == nil {
			continue
		}
		*to = values[i]
		if i >= len(values)-beyond {
			p.AtLeast = append(p.AtLeast, time+"_"+[]string{"p50", "p99", "p99_9", "max"}[i]+"_us")
		}
	}
}

// heat returns the heat maps of what was measured.
func (s *series) heat() (maps []Heat) {
	for _, m := range []struct {
		time string
		heat *heatMap
	}{{"service", &s.serviceHeat}, {"response", &s.responseHeat}} {
		if h, ok := m.heat.heat(m.time, s.width.Seconds()); ok {
			maps = append(maps, h)
		}
	}
	return maps
}

// close completes the bins that are left and returns all points.
func (s *series) close() []Point {
	for len(s.points) < len(s.bins) {
		s.complete()
	}
	return s.points
}
