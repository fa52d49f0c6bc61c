// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"slices"
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

	service, response measure.Sum // of bin number len(points)
}

// bin is a stretch of the run.
type bin struct {
	answered, errors float64 // operations
	due              float64
	skipped          float64
	cpu, capacity    float64 // seconds
}

func newSeries(w *window, end time.Duration) *series {
	s := &series{
		width:  (end/maxPoints + time.Second - 1).Truncate(time.Second),
		end:    end,
		window: w,
	}
	s.width = max(s.width, time.Second)
	s.bins = make([]bin, (end+s.width-1)/s.width)
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
		b.cpu += share * iv.Host.CPU.Seconds()
		b.capacity += took * float64(iv.Host.Cores)
	}
	for _, h := range iv.Histograms {
		if !answered(h.Row) {
			continue
		}
		switch h.Quantity {
		case results.Service:
			s.service.Add(h.Packed)
		case results.Response:
			s.response.Add(h.Packed)
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
		Skipped: int64(b.skipped + 0.5),
	}
	if b.capacity > 0 {
		p.CPUShare = b.cpu / b.capacity
	}
	if l := measure.LatencyOf(s.service.HDR()); l != nil {
		p.ServiceP50, p.ServiceP99, p.ServiceMax = l.P50, l.P99, l.Max
		p.beyond("service", l)
	}
	if l := measure.LatencyOf(s.response.HDR()); l != nil {
		p.ResponseP50, p.ResponseP99, p.ResponseMax = l.P50, l.P99, l.Max
		p.beyond("response", l)
	}
	s.points = append(s.points, p)
	s.service.Reset()
	s.response.Reset()
}

// beyond names the latencies of a point that lie beyond the histograms' range, as in JSON.
func (p *Point) beyond(time string, l *Latency) {
	for _, name := range []string{"p50", "p99", "max"} {
		if slices.Contains(l.AtLeast, name) {
			p.AtLeast = append(p.AtLeast, time+"_"+name+"_us")
		}
	}
}

// close completes the bins that are left and returns all points.
func (s *series) close() []Point {
	for len(s.points) < len(s.bins) {
		s.complete()
	}
	return s.points
}
