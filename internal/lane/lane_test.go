// SPDX-License-Identifier: Apache-2.0

package lane

import (
	"container/heap"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/pace"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/workload"
)

// session is a database on a manual clock: a call submitted at t is answered
// at answer(t). Waiting is what moves the clock.
type session struct {
	clock       *clock.Manual
	answer      func(t time.Duration) time.Duration
	waits       func() // called at the start of every Wait
	calls       calls
	done        []*store.Call
	woken       bool
	most        int           // in flight
	late        time.Duration // waits end by so much too late
	lateAnswers bool          // calls that are given up have their answer after all
	submitted   int
}

type calls []*store.Call

func (c calls) Len() int           { return len(c) }
func (c calls) Less(i, j int) bool { return c[i].End < c[j].End }
func (c calls) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }
func (c *calls) Push(x any)        { *c = append(*c, x.(*store.Call)) }
func (c *calls) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

func (s *session) Submit(c *store.Call) {
	c.End, c.Class, c.Err, c.RPCs = s.answer(s.clock.Now()), store.OK, nil, 1
	heap.Push(&s.calls, c)
	s.most = max(s.most, len(s.calls))
	s.submitted++
}

func (s *session) Wait(until time.Duration) []*store.Call {
	if s.waits != nil {
		s.waits()
	}
	if s.woken {
		s.woken, until = false, s.clock.Now()
	}
	if len(s.calls) > 0 && s.calls[0].End <= until {
		s.clock.Set(s.calls[0].End)
	} else if until != store.Forever {
		s.clock.Set(until + s.late)
	}
	s.done = s.done[:0]
	for len(s.calls) > 0 && s.calls[0].End <= s.clock.Now() {
		s.done = append(s.done, heap.Pop(&s.calls).(*store.Call))
	}
	return s.done
}

func (s *session) Wake() { s.woken = true }

func (s *session) Cancel() {
	for _, c := range s.calls {
		c.End = s.clock.Now()
		if !s.lateAnswers {
			c.Class = store.Cancelled
		}
	}
	heap.Init(&s.calls)
}

func (s *session) Close() error { return nil }

// source makes operations of one kind, of two keys and so many calls each, up to a count.
type source struct {
	calls int
	count int64 // 0: endless
	begun []int64
	left  map[*workload.Operation]int
}

func (s *source) Begin(op *workload.Operation, index int64) bool {
	if s.count > 0 && index >= s.count {
		return false
	}
	s.begun = append(s.begun, index)
	s.left[op] = s.calls
	op.Kind = workload.Update
	op.Size, op.Call.Keys = 1, [][]byte{[]byte("k"), []byte("l")}
	return true
}

func (s *source) Continue(op *workload.Operation) bool {
	if s.left[op]--; s.left[op] > 0 && op.Call.Class == store.OK {
		return true
	}
	op.Result = workload.Result{Class: op.Call.Class, RPCs: int32(s.calls)}
	if op.Call.Class == store.OK {
		op.Result.Count[workload.OK] = 1
	} else {
		op.Result.Count[workload.Failed] = 1
	}
	return false
}

// rig is a lane on a manual clock.
type rig struct {
	clock   *clock.Manual
	session *session
	source  *source
	lane    *Lane
	total   total // of the window
}

// total is what all intervals of a window add up to.
type total struct {
	operations             int64
	service, response, lag *hdrhistogram.Histogram
	skipped, blocked       int64
	cutOff                 int64
	queued                 int64
	waited                 *hdrhistogram.Histogram // of those without an answer, since they were due
	intervals              []measure.Interval      // without their histograms
	waiting                [][2]ages               // of calls and slots, at the ends of intervals
}

// ages are of what waits.
type ages struct {
	n           int64
	least, most time.Duration
}

func agesOf(h *measure.Histogram) (a ages) {
	if h != nil {
		h.Each(func(us, n int64) {
			d := time.Duration(us) * time.Microsecond
			if a.n == 0 {
				a.least = d
			}
			a.n, a.most = a.n+n, d
		})
	}
	return a
}

// near tells whether ages are the same, within the histograms' three digits.
func (a ages) near(b ages) bool {
	close := func(a, b time.Duration) bool { return max(a-b, b-a) <= a/500 }
	return a.n == b.n && close(a.least, b.least) && close(a.most, b.most)
}

func newTotal() total {
	return total{service: measure.NewHDR(), response: measure.NewHDR(), lag: measure.NewHDR(), waited: measure.NewHDR()}
}

func (t *total) add(s *measure.Set) {
	for row := range s.Cells {
		c := &s.Cells[row]
		t.operations += c.Operations
		addTo(t.service, c.Service)
		addTo(t.response, c.Response)
	}
	addTo(t.lag, s.Lag)
	for k := range s.Waited {
		addTo(t.waited, s.Waited[k].Response)
	}
	addTo(t.waited, s.WaitedSlots)
	t.skipped += s.Skipped
	t.blocked += s.Blocked
	t.cutOff += s.CutOff
	t.queued += s.Queued
}

func addTo(dst *hdrhistogram.Histogram, h *measure.Histogram) {
	if h != nil {
		h.AddTo(dst)
	}
}

// at returns a quantile of a histogram of microseconds.
func at(h *hdrhistogram.Histogram, percentile float64) time.Duration {
	return time.Duration(h.ValueAtPercentile(percentile)) * time.Microsecond
}

const latency = 200 * time.Microsecond

type setup struct {
	rate    float64
	catchUp float64
	threads int
	warmup  time.Duration
	window  time.Duration
	grace   time.Duration
	calls   int
	count   int64
	answer  func(t time.Duration) time.Duration
}

func newRig(s setup) (*rig, *measure.Collector) {
	r := &rig{clock: &clock.Manual{}, total: newTotal()}
	if s.answer == nil {
		s.answer = func(t time.Duration) time.Duration { return t + latency }
	}
	r.session = &session{clock: r.clock, answer: s.answer}
	r.source = &source{calls: max(1, s.calls), count: s.count, left: map[*workload.Operation]int{}}
	collector := measure.NewCollector(measure.Config{Paced: s.rate > 0, Warmup: s.warmup, Window: s.window, Waiting: true}, 1)
	cfg := Config{
		Clock: r.clock, Source: r.source, Session: r.session, Recorder: collector.Recorder(0),
		Share: pace.Share{Step: 1}, Threads: s.threads, Grace: s.grace,
	}
	if s.window > 0 {
		cfg.End = s.warmup + s.window
	}
	if s.rate > 0 {
		cfg.Pacer = pace.New(pace.Config{Profile: pace.Constant(s.rate), Share: cfg.Share, CatchUp: s.catchUp})
	}
	r.lane = New(cfg)
	return r, collector
}

func (r *rig) run(t *testing.T, collector *measure.Collector) *rig {
	t.Helper()
	collected := make(chan struct{})
	go func() {
		defer close(collected)
		collector.Run(func(i *measure.Interval) {
			r.total.add(&i.Window)
			r.total.waiting = append(r.total.waiting, [2]ages{agesOf(i.Waiting.Waited[workload.Update].Response), agesOf(i.Waiting.WaitedSlots)})
			r.total.intervals = append(r.total.intervals, measure.Interval{Start: i.Start, End: i.End, InFlight: i.InFlight, Unanswered: i.Unanswered, Stall: i.Stall})
		})
	}()
	r.lane.Run()
	<-collected
	if len(r.session.calls) > 0 {
		t.Errorf("%d calls still in flight when the lane has ended", len(r.session.calls))
	}
	return r
}

func start(t *testing.T, s setup) *rig {
	t.Helper()
	r, c := newRig(s)
	return r.run(t, c)
}

func TestPacedRunIsExact(t *testing.T) {
	t.Parallel()
	r := start(t, setup{rate: 1000, catchUp: 2, threads: 8, warmup: 1500 * time.Millisecond, window: 10 * time.Second, grace: time.Second})
	if got := r.total.operations; got != 10_000 {
		t.Errorf("%d operations in 10 s at 1000/s", got)
	}
	if got := at(r.total.service, 99.9); got > latency+latency/100 {
		t.Errorf("service p99.9 %v, want %v", got, latency)
	}
	if got := at(r.total.lag, 100); got > 10*time.Microsecond || r.total.queued != 0 {
		t.Errorf("lag %v and %d queued on a clock that is never late", got, r.total.queued)
	}
	if r.total.skipped != 0 || r.total.cutOff != 0 {
		t.Errorf("skipped %d, cut off %d, want none", r.total.skipped, r.total.cutOff)
	}
}

// TestLateWakeUpsLoseNothing: the last slots of the window start although it is over
// when the lane wakes, for a little lateness is on time.
func TestLateWakeUpsLoseNothing(t *testing.T) {
	t.Parallel()
	for _, late := range []time.Duration{time.Microsecond, time.Millisecond, pace.Slack / 2} {
		r, c := newRig(setup{rate: 1000, catchUp: 2, threads: 64, window: 2 * time.Second, grace: time.Second})
		r.session.late = late
		r.run(t, c)
		if r.total.operations != 2000 || r.total.skipped != 0 {
			t.Errorf("waking %v late: %d operations, %d skipped, want all 2000", late, r.total.operations, r.total.skipped)
		}
		if r.total.queued != 0 {
			t.Errorf("waking %v late: %d operations are said to have waited for a thread", late, r.total.queued)
		}
	}
}

// TestSlotsStartTogether: a lane does not wake for each of many slots, and none of
// them starts later than the coalescing time after it was due.
func TestSlotsStartTogether(t *testing.T) {
	t.Parallel()
	for rate, want := range map[float64]int{1000: 1000, 30_000: 30_000, 200_000: int(time.Second / coalescing)} {
		r, c := newRig(setup{rate: rate, catchUp: 2, threads: 500, window: time.Second, grace: time.Second,
			answer: func(at time.Duration) time.Duration { return at.Truncate(time.Millisecond) + 2*time.Millisecond }})
		waits := 0
		r.session.waits = func() { waits++ }
		r.run(t, c)
		if r.total.operations != int64(rate) {
			t.Errorf("%d operations in 1 s at %v/s", r.total.operations, rate)
		}
		if lag := at(r.total.lag, 100); lag > coalescing+coalescing/20 {
			t.Errorf("at %v/s: lag %v, more than the coalescing time of %v", rate, lag, coalescing)
		}
		if answers := 1002; waits < want || waits > want+answers+10 {
			t.Errorf("at %v/s the lane slept %d times, want %d for slots and %d for answers", rate, waits, want, answers)
		}
	}
}

// TestQueuedIsNotTheLanesOwnLateness: what was due before the threads were full did not
// wait for one of them, even if it had to.
func TestQueuedIsNotTheLanesOwnLateness(t *testing.T) {
	t.Parallel()
	r, c := newRig(setup{rate: 1000, catchUp: 10, threads: 2, window: 2 * time.Second, grace: time.Second})
	r.session.late = 5 * time.Millisecond
	r.run(t, c)
	if r.total.operations != 2000 || r.total.queued > 20 {
		t.Errorf("%d operations, of which %d are said to have waited for a thread", r.total.operations, r.total.queued)
	}
}

func TestUnpacedRunKeepsAllThreadsBusy(t *testing.T) {
	t.Parallel()
	r := start(t, setup{threads: 7, window: time.Second, grace: time.Second})
	if r.session.most != 7 {
		t.Errorf("%d in flight at most, want 7", r.session.most)
	}
	if got, want := r.total.operations, int64(7*time.Second/latency); got != want {
		t.Errorf("%d operations, want %d", got, want)
	}
	if r.total.response.TotalCount() != 0 {
		t.Error("an unpaced run has a response time")
	}
}

// TestStallShowsInResponseTime: a server that freezes for a second at 1000/s.
func TestStallShowsInResponseTime(t *testing.T) {
	t.Parallel()
	r := start(t, setup{rate: 1000, catchUp: 2, threads: 4, window: 20 * time.Second, grace: time.Second,
		answer: func(at time.Duration) time.Duration {
			if at >= 5*time.Second && at < 6*time.Second {
				return 6*time.Second + latency
			}
			return at + latency
		}})
	if got := r.total.operations; got != 20_000 {
		t.Errorf("%d operations, want all 20,000", got)
	}
	if got := at(r.total.response, 99.9); got < 900*time.Millisecond {
		t.Errorf("response p99.9 %v, want near 1 s", got)
	}
	if got := at(r.total.service, 99.9); got > time.Millisecond {
		t.Errorf("service p99.9 %v: want the stall hidden, four calls saw it", got)
	}
	// Those of the stall but for the four, and those of the burst with which catching up begins;
	// none of the others that were late while the lane caught up.
	if got := r.total.queued; got < 995 || got > 1010 {
		t.Errorf("%d operations waited for a thread, want those that were due in the stall", got)
	}
}

// TestStuckCallDelaysOneCall: the schedule belongs to the lane, not to a thread.
func TestStuckCallDelaysOneCall(t *testing.T) {
	t.Parallel()
	first := true
	r := start(t, setup{rate: 100, catchUp: 2, threads: 2, window: 10 * time.Second, grace: time.Second,
		answer: func(at time.Duration) time.Duration {
			if first {
				first = false
				return 9 * time.Second
			}
			return at + latency
		}})
	if got := r.total.operations; got != 1000 {
		t.Errorf("%d operations, want 1000", got)
	}
	if got := at(r.total.lag, 100); got > time.Millisecond {
		t.Errorf("lag %v: others waited for the stuck call", got)
	}
}

func TestSkippedSlotsAreCounted(t *testing.T) {
	t.Parallel()
	r := start(t, setup{rate: 1000, threads: 1, window: 10 * time.Second, grace: time.Second,
		answer: func(at time.Duration) time.Duration {
			if at >= 5*time.Second && at < 5100*time.Millisecond {
				return 6 * time.Second
			}
			return at + latency
		}})
	if got := r.total.operations + r.total.skipped; got != 10_000 {
		t.Errorf("%d done + %d skipped = %d, want 10,000", r.total.operations, r.total.skipped, got)
	}
	if r.total.skipped < 980 || r.total.skipped > 1000 {
		t.Errorf("%d slots skipped in a stall of 1 s at 1000/s", r.total.skipped)
	}
}

func TestCutOffAfterGrace(t *testing.T) {
	t.Parallel()
	r := start(t, setup{rate: 10, catchUp: 2, threads: 4, window: time.Second, grace: 2 * time.Second,
		answer: func(at time.Duration) time.Duration {
			switch at {
			case 500 * time.Millisecond:
				return time.Hour
			case 900 * time.Millisecond:
				return 2 * time.Second // in the grace period
			}
			return at + latency
		}})
	if got := r.total.operations; got != 9 {
		t.Errorf("%d operations, want 9", got)
	}
	if r.total.cutOff != 1 {
		t.Errorf("%d cut off, want 1", r.total.cutOff)
	}
	if got := r.clock.Now(); got != 3*time.Second {
		t.Errorf("ended at %v, want after the grace period, at 3 s", got)
	}
}

// TestCountIsExact: whatever the number of threads, each index starts exactly once.
func TestCountIsExact(t *testing.T) {
	t.Parallel()
	for _, threads := range []int{1, 3, 64} {
		r := start(t, setup{threads: threads, count: 1000, calls: 2, grace: time.Second})
		if got := r.total.operations; got != 1000 {
			t.Errorf("%d threads: %d operations, want 1000", threads, got)
		}
		for i, index := range r.source.begun {
			if int64(i) != index {
				t.Fatalf("%d threads: operation %d has index %d", threads, i, index)
			}
		}
		if r.session.submitted != 2000 {
			t.Errorf("%d threads: %d calls, want 2 for each operation", threads, r.session.submitted)
		}
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	r, c := newRig(setup{rate: 100, catchUp: 2, threads: 4, window: time.Hour, grace: time.Minute,
		answer: func(at time.Duration) time.Duration { return at + 10*time.Second }})
	stopped := false
	r.session.waits = func() {
		if r.clock.Now() >= 2*time.Second && !stopped {
			stopped = true
			r.lane.Stop(time.Second)
		}
	}
	r.run(t, c)
	if got := r.clock.Now(); got > 3100*time.Millisecond {
		t.Errorf("ended at %v, want a second after the stop at 2 s", got)
	}
	if r.total.cutOff != 4 {
		t.Errorf("%d cut off, want the 4 in flight", r.total.cutOff)
	}
}

// TestCancelEndsChains: an answer that comes after all has been given up starts
// no further call, which nobody would give up any more.
func TestCancelEndsChains(t *testing.T) {
	t.Parallel()
	r, c := newRig(setup{threads: 1, window: time.Second, calls: 2, grace: time.Second,
		answer: func(at time.Duration) time.Duration { return at + 5*time.Second }})
	r.session.lateAnswers = true
	r.run(t, c)
	if r.session.submitted != 1 || r.total.cutOff != 1 {
		t.Errorf("%d calls, %d cut off, want 1 of each", r.session.submitted, r.total.cutOff)
	}
}

func TestRetarget(t *testing.T) {
	t.Parallel()
	r, c := newRig(setup{rate: 100, catchUp: 2, threads: 4, window: 4 * time.Second, grace: time.Second})
	changed := false
	r.session.waits = func() {
		if r.clock.Now() >= 2*time.Second && !changed {
			changed = true
			r.lane.Retarget(pace.Constant(100).Change(2*time.Second, 1000))
		}
	}
	r.run(t, c)
	if got := r.total.operations; got != 2200 {
		t.Errorf("%d operations, want 2 s at 100/s and 2 s at 1000/s", got)
	}
}

// TestHungServer: a server that answers nothing from the middle of the window on. What was in flight is
// known, though it never completes, and so is what never came because all threads waited.
func TestHungServer(t *testing.T) {
	t.Parallel()
	for _, catchUp := range []float64{0, 2} {
		r := start(t, setup{rate: 100, catchUp: catchUp, threads: 4, window: 10 * time.Second, grace: 2 * time.Second,
			answer: func(at time.Duration) time.Duration {
				if at >= 5*time.Second {
					return time.Hour
				}
				return at + latency
			}})
		if r.total.operations != 500 || r.total.cutOff != 4 || r.total.skipped != 496 {
			t.Errorf("%d operations, %d cut off, %d skipped, want 500, 4, 496", r.total.operations, r.total.cutOff, r.total.skipped)
		}
		if r.total.blocked != 496 {
			t.Errorf("%d slots never came because all threads waited, want all 496", r.total.blocked)
		}
		if n, p50, most := r.total.waited.TotalCount(), at(r.total.waited, 50), at(r.total.waited, 100); n != 500 || p50 < 2400*time.Millisecond || p50 > 2600*time.Millisecond || most < 6900*time.Millisecond {
			t.Errorf("%d had no answer, and had waited %v (p50), %v (max)", n, p50, most)
		}
		for i, iv := range r.total.intervals {
			most := 4 * (iv.End - iv.Start)
			switch {
			case iv.InFlight > most:
				t.Errorf("%v to %v: %v in flight with 4 threads", iv.Start, iv.End, iv.InFlight)
			case iv.End <= 5*time.Second && iv.InFlight > most/50, iv.Start >= 6*time.Second && iv.InFlight != most:
				t.Errorf("%v to %v: %v in flight", iv.Start, iv.End, iv.InFlight)
			}
			if iv.End == 10*time.Second && (iv.Unanswered.Calls != 4 || iv.Unanswered.Oldest != 5*time.Second) {
				t.Errorf("at the end of the window: %+v", iv.Unanswered)
			}
			// All calls were due at 5 s, within 40 ms, and so much later are all that could not start since.
			calls, slots, since := r.total.waiting[i][0], r.total.waiting[i][1], iv.End-5*time.Second
			wantCalls, wantSlots := ages{}, ages{}
			if since > 0 {
				const gap = 10 * time.Millisecond
				over := max(0, iv.End-10*time.Second) // when no more is due
				wantCalls = ages{4, since - 3*gap, since}
				wantSlots = ages{int64((since-over)/gap) - 4, over + gap, since - 4*gap}
			}
			if ended := iv.End >= 12*time.Second; !ended && (!calls.near(wantCalls) || !slots.near(wantSlots)) {
				t.Errorf("at %v these wait: calls %v, want %v; slots %v, want %v", iv.End, calls, wantCalls, slots, wantSlots)
			}
			if iv.Stall != (measure.Stall{}) {
				t.Errorf("the lane is said to have stood still: %+v", iv.Stall)
			}
		}
	}
}

// TestStandstill: a lane knows that it stood still, whether it waited for slots or for answers, and how long.
func TestStandstill(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{0, 1, 1000} {
		r, c := newRig(setup{rate: rate, catchUp: 2, threads: 2, window: 10 * time.Second, grace: time.Second,
			answer: func(at time.Duration) time.Duration { return at + 700*time.Millisecond }})
		stood := false
		r.session.waits = func() {
			if now := r.clock.Now(); now >= 3*time.Second && !stood {
				stood = true
				r.clock.Set(now + 4*time.Second)
			}
		}
		r.run(t, c)
		var all measure.Stall
		for _, iv := range r.total.intervals {
			all.Total += iv.Stall.Total
			if iv.Stall.Longest > all.Longest {
				all.Longest, all.At = iv.Stall.Longest, iv.Stall.At
			}
		}
		if all.Total < 3900*time.Millisecond || all.Total > 4*time.Second || all.Longest != all.Total || all.At < 3*time.Second || all.At > 3200*time.Millisecond {
			t.Errorf("at %v/s: stood still %+v, want once, for the 4 s from 3 s on", rate, all)
		}
	}
}
