// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"slices"
	"strings"
	"time"

	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/workload"
)

// Error texts kept per row and interval, and their longest length in bytes.
const (
	MaxTexts   = 3
	MaxTextLen = 300
)

// shard is one lane's share of an interval. It keeps its histograms when it is
// emptied, so that a lane allocates only when it sees a row for the first time.
type shard struct {
	Interval
	final bool
	spare []*Histogram
}

// take returns an empty histogram.
func (s *shard) take() *Histogram {
	if n := len(s.spare); n > 0 {
		h := s.spare[n-1]
		s.spare = s.spare[:n-1]
		return h
	}
	return newHistogram()
}

// record counts d so many times in *h, which is made when it is needed first. It tells whether d lay within the range.
func (s *shard) record(h **Histogram, d time.Duration, times uint32) bool {
	if *h == nil {
		*h = s.take()
	}
	return (*h).recordN(d, times)
}

// Recorder is one lane's way to record. Its methods are called from the lane only.
type Recorder struct {
	cfg  Config
	cur  *shard
	next time.Duration
	full chan *shard // to the collector
	free chan *shard // back from it, emptied

	inFlight   int           // calls
	integrated time.Duration // up to where cur.InFlight counts them
	unanswered func(at time.Duration) Unanswered
}

func newRecorder(cfg Config) *Recorder {
	// One shard fills while the other is with the collector. The channels hold
	// every shard there is, so sending never blocks.
	const shards = 2
	r := &Recorder{
		cfg:  cfg,
		cur:  &shard{},
		next: cfg.boundary(0),
		full: make(chan *shard, shards),
		free: make(chan *shard, shards),
	}
	for range shards - 1 {
		r.free <- &shard{}
	}
	return r
}

// set returns where an operation with this slot is counted.
func (r *Recorder) set(slot time.Duration) *Set {
	if r.cfg.measured(slot) {
		return &r.cur.Window
	}
	return &r.cur.Warmup
}

// Started counts operations (keys, not batches) that were started for a slot.
func (r *Recorder) Started(k workload.Kind, slot time.Duration, operations int) {
	r.set(slot).Started[k] += int64(operations)
}

// Queued counts operations that were started, but were due at slot while all
// threads had one: what they waited for is the database.
func (r *Recorder) Queued(slot time.Duration, operations int) {
	r.set(slot).Queued += int64(operations)
}

// Skipped counts slots that were due at slot, or before it, and given up after they had waited for
// so long; blocked if that was because all threads had an operation.
func (r *Recorder) Skipped(slot, waited time.Duration, slots int64, blocked bool) {
	set := r.set(slot)
	set.Skipped += slots
	if blocked {
		set.Blocked += slots
	}
	r.cur.record(&set.WaitedSlots, waited, uint32(slots))
}

// CutOff counts a call of so many operations that was started for a slot and given up at now, before
// it was answered.
func (r *Recorder) CutOff(k workload.Kind, slot, start, now time.Duration, operations int) {
	set := r.set(slot)
	set.CutOff += int64(operations)
	r.waited(&set.Waited[k], slot, start, now)
}

// waited counts for how long a call has waited that was started for a slot.
func (r *Recorder) waited(w *Waited, slot, start, now time.Duration) {
	r.cur.record(&w.Service, now-start, 1)
	if r.cfg.Paced {
		r.cur.record(&w.Response, now-slot, 1)
	}
}

// Waits tells whether the recorder wants to know what is waiting when it observes.
func (r *Recorder) Waits() bool { return r.cfg.Waiting }

// Waiting counts, while the recorder observes, a call that was started for a slot and is not answered at a moment.
func (r *Recorder) Waiting(k workload.Kind, slot, start, at time.Duration) {
	if r.cfg.measured(slot) {
		r.waited(&r.cur.Waiting.Waited[k], slot, start, at)
	}
}

// WaitingSlots counts, while the recorder observes, slots that were due at slot, or before it, and are not started at a moment.
func (r *Recorder) WaitingSlots(slot, at time.Duration, slots int64) {
	if r.cfg.measured(slot) {
		r.cur.record(&r.cur.Waiting.WaitedSlots, at-slot, uint32(slots))
	}
}

// Observe sets how to find out what is in flight at a moment of the current interval.
func (r *Recorder) Observe(unanswered func(at time.Duration) Unanswered) { r.unanswered = unanswered }

// Submitted is told when a thread gets an operation.
func (r *Recorder) Submitted(now time.Duration) {
	r.integrate(now)
	r.inFlight++
}

// Answered is told when a thread is free again: at now its lane took the answer, which had arrived at end.
func (r *Recorder) Answered(end, now time.Duration) {
	r.integrate(now)
	r.inFlight--
	r.cur.InFlight = max(0, r.cur.InFlight-max(0, now-end))
}

// integrate counts what is in flight up to now. It closes the intervals that ended before.
func (r *Recorder) integrate(now time.Duration) {
	if now >= r.next {
		r.Tick(now)
	}
	r.integrateTo(now)
}

func (r *Recorder) integrateTo(t time.Duration) {
	if t > r.integrated {
		r.cur.InFlight += time.Duration(r.inFlight) * (t - r.integrated)
		r.integrated = t
	}
}

// Stalled counts that the lane's loop did not come round for so long from at on.
func (r *Recorder) Stalled(at, length time.Duration) {
	s := &r.cur.Stall
	s.Total += length
	if length > s.Longest {
		s.Longest, s.At = length, at
	}
}

// Record counts a completed operation. The sample is not kept.
func (r *Recorder) Record(s *Sample) {
	set, res := r.set(s.Slot), s.Result
	worst := workload.OK
	for o, n := range res.Count {
		if n > 0 {
			worst = workload.Outcome(o)
			set.Cells[RowOf(s.Kind, worst, res.Class)].Operations += int64(n)
		}
	}
	if res.Count[workload.OK]+res.Count[workload.NotFound]+res.Count[workload.Wrong] > 0 || res.Class != store.OK && res.Class.Answered() {
		r.cur.Answers.add(Answers{First: s.End, Last: s.End})
	}
	cell := &set.Cells[RowOf(s.Kind, worst, res.Class)]
	cell.Batches++
	cell.RPCs += int64(res.RPCs)
	cell.Retries += int64(res.Retries)
	if res.Cost != nil && res.Cost.Transactions > 0 {
		r.cost(&set.Costs[s.Kind], res.Cost)
	}
	set.ScannedRows += int64(res.Rows)
	in := r.cur.record(&cell.Service, s.End-s.Start, 1)
	in = r.cur.record(&set.Lane, s.Seen-s.End, 1) && in
	if r.cfg.Paced {
		in = r.cur.record(&cell.Response, s.End-s.Slot, 1) && in
		in = r.cur.record(&set.Lag, s.Start-s.Slot, 1) && in
	}
	if !in {
		set.Clamped++
	}
	if res.Err != nil && worst >= workload.Wrong && len(cell.Texts) < MaxTexts {
		cell.addText(res.Err.Error())
	}
}

// cost counts what the transactions of a batch have cost.
func (r *Recorder) cost(to *Cost, c *store.Cost) {
	to.Batches++
	to.Transactions += int64(c.Transactions)
	to.Timestamps += int64(c.Timestamps)
	for kind, n := range c.Commands {
		to.Commands[kind] += int64(n)
	}
	for phase, took := range c.Phases {
		if took > 0 {
			r.cur.record(&to.Phases[phase], took, 1)
		}
	}
}

// addText keeps an error's text, unless it is there already or there are enough.
func (c *Cell) addText(text string) {
	if len(text) > MaxTextLen {
		text = strings.ToValidUTF8(text[:MaxTextLen-3], "") + "..."
	}
	if len(c.Texts) < MaxTexts && !slices.Contains(c.Texts, text) {
		c.Texts = append(c.Texts, strings.Clone(text))
	}
}

// Next returns when the recorder wants its next [Recorder.Tick].
func (r *Recorder) Next() time.Duration { return r.next }

// Behind tells whether the collector still works on what was handed in before, so
// that a Tick now would lengthen the interval.
func (r *Recorder) Behind() bool { return len(r.free) == 0 }

// Tick hands in the intervals that ended by now. It never blocks: while the
// collector is behind, the current interval goes on and becomes a longer one.
// What is recorded after the end of an interval and before Tick counts to it.
func (r *Recorder) Tick(now time.Duration) {
	for ; r.next <= now; r.next = r.cfg.boundary(r.next) {
		r.integrateTo(r.next)
		if r.Behind() {
			continue
		}
		clean := <-r.free
		r.cur.End = r.next
		if r.unanswered != nil {
			r.cur.Unanswered = r.unanswered(r.next)
		}
		r.full <- r.cur
		clean.Start = r.next
		r.cur = clean
	}
}

// Finish hands in what is left. The recorder must not be used afterwards.
func (r *Recorder) Finish(now time.Duration) {
	r.Tick(now)
	r.integrateTo(now)
	r.cur.End = max(now, r.cur.Start)
	r.cur.final = true
	r.full <- r.cur
	r.cur = nil
}
