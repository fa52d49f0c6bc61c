// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"maps"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/workload"
)

// What is watched of an interval is of its kind and of the measured window, and latencies are of what succeeded.
func TestParts(t *testing.T) {
	c := measure.NewCollector(measure.Config{Paced: true, Warmup: 100 * time.Millisecond, Window: time.Second}, 1)
	r := c.Recorder(0)
	record := func(kind workload.Kind, outcome workload.Outcome, slot, took time.Duration) {
		result := workload.Result{}
		if outcome == workload.Failed {
			result.Class = store.Timeout
		}
		result.Count[outcome] = 1
		r.Record(&measure.Sample{Kind: kind, Result: &result, Slot: slot, Start: slot + time.Millisecond, End: slot + time.Millisecond + took, Seen: slot + took})
	}
	record(workload.Read, workload.OK, 0, time.Second) // of the warm-up
	for _, o := range []workload.Outcome{workload.OK, workload.OK, workload.NotFound, workload.Failed} {
		record(workload.Read, o, 200*time.Millisecond, 2*time.Millisecond)
	}
	record(workload.Update, workload.OK, 200*time.Millisecond, 7*time.Millisecond)
	r.Finish(1100 * time.Millisecond)
	v := &live{}
	v.watched = []*workerpb.Watched{{Kind: "READ", Time: "response"}, {Kind: "TOTAL", Time: "service"}, {Kind: "UPDATE"}, {Kind: "SCAN", Time: "service"}}
	c.Run(func(iv *measure.Interval) { v.add(iv, 0, nil, false) })
	want := []struct {
		answered, failed, ended int64
		calls                   uint64
		longest                 uint32
	}{{3, 1, 4, 2, 3000}, {4, 1, 5, 3, 7000}, {1, 0, 1, 0, 0}, {0, 0, 0, 0, 0}}
	got := make([]workerpb.Part, len(want))
	_, intervals := v.since(0)
	for _, iv := range intervals {
		for i, p := range iv.GetParts() {
			got[i].Answered += p.GetAnswered()
			got[i].Failed += p.GetFailed()
			got[i].Ended += p.GetEnded()
			if p.GetLatency() != nil {
				got[i].Latency = p.GetLatency()
			}
		}
	}
	for i, w := range want {
		p := &got[i]
		var calls uint64
		for _, n := range p.GetLatency().GetCounts() {
			calls += n
		}
		var longest uint32
		for _, us := range p.GetLatency().GetMicros() {
			longest = max(longest, us)
		}
		if p.GetAnswered() != w.answered || p.GetFailed() != w.failed || p.GetEnded() != w.ended || calls != w.calls || longest > w.longest || longest+8 < w.longest {
			t.Errorf("%v: %d answered, %d failed of %d, %d calls of up to %d µs, want %+v", v.watched[i], p.GetAnswered(), p.GetFailed(), p.GetEnded(), calls, longest, w)
		}
	}
}

// What is not answered at the end of an interval has waited for so long: calls of a kind, and a kind's share of what is due.
func TestWaiting(t *testing.T) {
	v := &live{watched: []*workerpb.Watched{{Kind: "READ", Time: "service"}, {Kind: "READ", Time: "response"}, {Kind: "TOTAL", Time: "response"}, {Kind: "UPDATE"}, {Kind: "SCAN", Time: "response"}}}
	if !v.waiting() || (&live{watched: []*workerpb.Watched{{Kind: "UPDATE"}}}).waiting() {
		t.Error("it does not know whether it matters what waits")
	}
	c := measure.NewCollector(measure.Config{Paced: true, Window: time.Second, Waiting: true}, 2)
	for lane := range 2 {
		r := c.Recorder(lane)
		r.Started(workload.Read, 200*time.Millisecond, 3)
		r.Started(workload.Update, 200*time.Millisecond, 1)
		r.Observe(func(at time.Duration) (u measure.Unanswered) {
			r.Waiting(workload.Read, time.Second, time.Second, at) // it does not belong to the window
			r.Waiting(workload.Read, 200*time.Millisecond, 400*time.Millisecond, at)
			r.Waiting(workload.Update, 200*time.Millisecond, 300*time.Millisecond, at)
			r.WaitingSlots(time.Second, at, 7) // nor do these
			r.WaitingSlots(500*time.Millisecond, at, 10)
			return u
		})
		r.Tick(time.Second)
		r.Finish(time.Second)
	}
	c.Run(func(iv *measure.Interval) { v.add(iv, 0, nil, false) })
	_, intervals := v.since(0)
	if len(intervals) == 0 {
		t.Fatal("there is no interval")
	}
	want := []map[uint32]uint64{{600_000: 2}, {800_000: 2, 500_000: 15}, {800_000: 4, 500_000: 20}, nil, nil}
	for i, p := range intervals[0].GetParts() {
		got := map[uint32]uint64{}
		for k, us := range p.GetWaiting().GetMicros() {
			got[(us+5000)/100_000*100_000] += p.GetWaiting().GetCounts()[k] // histograms have three digits
		}
		if !maps.Equal(got, want[i]) {
			t.Errorf("%v: %v wait, want %v", v.watched[i], got, want[i])
		}
	}
}
