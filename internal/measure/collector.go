// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"math"
	"time"
)

// Collector merges what the lanes of a worker hand in.
type Collector struct {
	recorders []*Recorder
}

// NewCollector returns a collector for so many lanes.
func NewCollector(cfg Config, lanes int) *Collector {
	c := &Collector{recorders: make([]*Recorder, lanes)}
	for i := range c.recorders {
		c.recorders[i] = newRecorder(cfg)
	}
	return c
}

// Recorder returns the recorder of a lane, counted from 0.
func (c *Collector) Recorder(lane int) *Recorder { return c.recorders[lane] }

// Run calls emit with every interval, in order, as soon as all lanes have handed
// in their part, and returns when all have finished. An interval is valid until
// emit returns. While emit takes its time the lanes go on, with longer intervals.
func (c *Collector) Run(emit func(*Interval)) {
	var (
		ends  = make([]time.Duration, len(c.recorders)) // what each lane has handed in
		whole *shard                                    // of lane owner, the others' parts merged into it
		owner *Recorder
	)
	for {
		// Take from the lane that is furthest behind, until all have come to the
		// end of the interval. A finished lane is ahead of all.
		lane := 0
		for i, end := range ends {
			if end < ends[lane] {
				lane = i
			}
		}
		if whole != nil && ends[lane] >= whole.End {
			if whole.End > whole.Start || !whole.Window.Empty() || !whole.Warmup.Empty() {
				emit(&whole.Interval)
			}
			owner.give(whole)
			whole = nil
		}
		if len(ends) == 0 || ends[lane] == math.MaxInt64 {
			return
		}
		part := <-c.recorders[lane].full
		ends[lane] = part.End
		if part.final {
			ends[lane] = math.MaxInt64
		}
		if whole == nil {
			whole, owner = part, c.recorders[lane]
			continue
		}
		whole.merge(part)
		c.recorders[lane].give(part)
	}
}

// give returns a shard, emptied, to its recorder.
func (r *Recorder) give(s *shard) {
	s.reset()
	r.free <- s
}

func (s *shard) merge(from *shard) {
	s.Start, s.End = min(s.Start, from.Start), max(s.End, from.End)
	s.Answers.add(from.Answers)
	s.mergeSet(&s.Window, &from.Window)
	s.mergeSet(&s.Warmup, &from.Warmup)
	s.InFlight += from.InFlight
	s.Unanswered.add(from.Unanswered)
	s.mergeWaits(&s.Waiting, &from.Waiting)
	s.Stall.add(from.Stall)
}

func (s *shard) mergeSet(dst, from *Set) {
	for i := range from.Cells {
		d, f := &dst.Cells[i], &from.Cells[i]
		d.Operations += f.Operations
		d.Batches += f.Batches
		d.RPCs += f.RPCs
		d.Retries += f.Retries
		s.mergeHistogram(&d.Service, f.Service)
		s.mergeHistogram(&d.Response, f.Response)
		for _, text := range f.Texts {
			d.addText(text)
		}
	}
	for k, n := range from.Started {
		dst.Started[k] += n
		dst.Costs[k].Add(&from.Costs[k].CostCounts)
		for phase, h := range from.Costs[k].Phases {
			s.mergeHistogram(&dst.Costs[k].Phases[phase], h)
		}
	}
	s.mergeHistogram(&dst.Lag, from.Lag)
	s.mergeHistogram(&dst.Lane, from.Lane)
	s.mergeWaits(&dst.Waits, &from.Waits)
	dst.ScannedRows += from.ScannedRows
	dst.Deviations.Add(from.Deviations)
}

func (s *shard) mergeWaits(dst, from *Waits) {
	for k := range from.Waited {
		s.mergeHistogram(&dst.Waited[k].Service, from.Waited[k].Service)
		s.mergeHistogram(&dst.Waited[k].Response, from.Waited[k].Response)
	}
	s.mergeHistogram(&dst.WaitedSlots, from.WaitedSlots)
}

func (s *shard) mergeHistogram(dst **Histogram, from *Histogram) {
	if from == nil {
		return
	}
	if *dst == nil {
		*dst = s.take()
	}
	(*dst).add(from)
}

// reset empties the shard; its histograms become spare.
func (s *shard) reset() {
	s.resetSet(&s.Window)
	s.resetSet(&s.Warmup)
	s.resetWaits(&s.Waiting)
	*s = shard{spare: s.spare}
}

func (s *shard) resetSet(set *Set) {
	for i := range set.Cells {
		s.put(set.Cells[i].Service)
		s.put(set.Cells[i].Response)
	}
	for k := range set.Costs {
		for _, h := range set.Costs[k].Phases {
			s.put(h)
		}
	}
	s.put(set.Lag)
	s.put(set.Lane)
	s.resetWaits(&set.Waits)
}

func (s *shard) resetWaits(w *Waits) {
	for k := range w.Waited {
		s.put(w.Waited[k].Service)
		s.put(w.Waited[k].Response)
	}
	s.put(w.WaitedSlots)
}

// put makes a histogram, if there is one, a spare one.
func (s *shard) put(h *Histogram) {
	if h != nil {
		h.reset()
		s.spare = append(s.spare, h)
	}
}
