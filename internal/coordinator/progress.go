// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/results"
)

// Stage is where a run stands.
type Stage string

// The stages, in order.
const (
	Preparing Stage = "preparing"
	Starting  Stage = "starting"
	WarmingUp Stage = "warm-up"
	Measuring Stage = "measuring"
	Draining  Stage = "draining" // nothing is started any more; calls in flight and journals
	Stopping  Stage = "stopping" // the same, since the user has asked
)

// Snapshot is a run at a glance, for people to look at. Rates and latencies are of
// each worker's last second; nothing in a report is computed from them.
type Snapshot struct {
	RunID   string
	Stage   Stage
	Elapsed time.Duration // on the run's clock; negative before the start
	Length  time.Duration // warm-up and window together; 0: the run ends by count
	Grace   time.Duration // for so long after that calls in flight are waited for
	Threads int           // of the workers that are at work
	Alone   bool          // it goes on when it is left
	// Operations are those that the run ends after; 0: it ends by time. Of a load that goes on where it
	// stood, those that were left.
	Operations int64

	Workers []WorkerView
	Total   Total // of the workers that are at work

	Objectives []ObjectiveView // judged by the last seconds of the measured window
}

// Total is what is shown of all workers together.
type Total struct {
	View
	Service  *hdrhistogram.Histogram // in µs; nil if nothing ended
	Response *hdrhistogram.Histogram // nil when unpaced
}

// View is what is shown of one worker, or of all.
type View struct {
	Operations int64   // ended so far, however
	Rate       float64 // operations a second
	RPCs       float64 // requests a second
	Target     float64 // operations a second that are asked for, of lost workers too; 0 is unpaced
	NotFound   int64   // so far
	Wrong      int64
	Errors     int64
	Skipped    int64
	ByClass    map[string]int64   // what Errors consists of
	InFlight   float64            // calls, on average
	Commands   map[string]float64 // a second, to each store by address; empty if the driver does not count them
	LagP99     time.Duration      // the largest of the workers'
}

// WorkerView is one worker.
type WorkerView struct {
	Name, Address string
	State         results.State
	Reason        string        // why it is lost or has failed
	Silent        time.Duration // since it was heard of
	Unknown       bool          // it is at work and has not reported for two intervals: it has no rate now
	ClockOffset   time.Duration // of its wall clock to ours
	P50, P99      time.Duration // of service time, in its last second; 0 if nothing ended
	View
}

// report shows the run once a second, and saves its record, until done.
func (r *running) report(done <-chan struct{}) {
	next := after(r.zero.Add(progressPhase + r.spread()))
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	for {
		select {
		case <-done:
			return
		case <-timer.C:
		}
		r.save()
		r.judgeNow()
		r.job.Progress(r.snapshot(r.stage()))
		next = after(next)
		timer.Reset(time.Until(next))
	}
}

func (r *running) stage() Stage {
	select {
	case <-r.stopping:
		return Stopping
	default:
	}
	s, t := r.job.Spec, time.Since(r.zero)
	switch {
	case t < 0:
		return Starting
	case t < s.Warmup:
		return WarmingUp
	case s.Duration > 0 && t > s.Warmup+s.Duration:
		return Draining
	}
	return Measuring
}

func (r *running) snapshot(stage Stage) *Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &Snapshot{RunID: r.job.RunID, Stage: stage, Alone: r.job.Detach, Objectives: slices.Clone(r.judge.views)}
	if !r.zero.IsZero() {
		s.Elapsed = time.Since(r.zero)
	}
	s.Grace = r.job.Spec.Grace
	if d := r.job.Spec.Duration; d > 0 {
		s.Length = r.job.Spec.Warmup + d
	} else {
		s.Operations = r.operations
	}
	reporting := 0
	var own *hdrhistogram.Histogram // of one worker after the other: in a large fleet, one for each would be most of our memory
	for _, p := range r.workers {
		w := WorkerView{Name: p.name, Address: p.address, State: p.state, Reason: p.reason, ClockOffset: p.offset.ahead}
		if !p.lastSeen.IsZero() {
			w.Silent = max(0, time.Since(p.lastSeen))
		}
		w.Unknown = p.state == results.Running && w.Silent > unknownAfter
		w.count(p.totals)
		s.Total.count(p.totals)
		if p.state == results.Running && !w.Unknown { // others have no rate now
			w.last(p.latest)
			if own != nil {
				own.Reset()
			}
			if service := p.latest.GetService(); service != nil {
				add(&own, service)
				w.P50, w.P99 = quantile(own, 50), quantile(own, 99)
			}
			s.Total.View.last(p.latest)
			add(&s.Total.Service, p.latest.GetService())
			add(&s.Total.Response, p.latest.GetResponse())
			reporting++
			s.Threads += r.job.Spec.Threads
		}
		s.Workers = append(s.Workers, w)
	}
	if reporting > 0 { // all have the same share, and what is asked of the fleet is asked without the others too
		s.Total.Target *= float64(len(r.workers)) / float64(reporting)
	}
	return s
}

// unknownAfter is how long a worker's last interval stands for what it does now: two intervals.
const unknownAfter = 2 * time.Second

// count adds what ended so far.
func (v *View) count(t *workerpb.Totals) {
	v.Operations += t.GetOk() + t.GetNotFound() + t.GetWrong() + t.GetFailed()
	v.NotFound += t.GetNotFound()
	v.Wrong += t.GetWrong()
	v.Errors += t.GetFailed()
	v.Skipped += t.GetSkipped()
	for class, n := range t.GetFailedByClass() {
		if v.ByClass == nil {
			v.ByClass = make(map[string]int64)
		}
		v.ByClass[class] += n
	}
}

// last adds a last interval.
func (v *View) last(iv *workerpb.Interval) {
	length := time.Duration(iv.GetToNanos() - iv.GetFromNanos()).Seconds()
	if length <= 0 {
		return
	}
	t := iv.GetTotals()
	v.Rate += float64(t.GetOk()+t.GetNotFound()+t.GetWrong()+t.GetFailed()) / length
	v.RPCs += float64(t.GetRpcs()) / length
	v.Target += iv.GetTarget()
	v.InFlight += iv.GetInFlight()
	for store, n := range iv.GetCommands() {
		if v.Commands == nil {
			v.Commands = make(map[string]float64)
		}
		v.Commands[store] += float64(n) / length
	}
	v.LagP99 = max(v.LagP99, time.Duration(iv.GetLagP99Micros())*time.Microsecond)
}

// quantile is a percentile of a histogram of microseconds.
func quantile(h *hdrhistogram.Histogram, percentile float64) time.Duration {
	if h == nil {
		return 0
	}
	return time.Duration(h.ValueAtPercentile(percentile)) * time.Microsecond
}

// add merges a worker's buckets, of which there are as many values as counts
// unless the worker is broken.
func add(dst **hdrhistogram.Histogram, h *workerpb.Histogram) {
	if len(h.GetMicros()) != len(h.GetCounts()) || len(h.GetMicros()) == 0 {
		return
	}
	if *dst == nil {
		*dst = measure.NewHDR()
	}
	for i, us := range h.GetMicros() {
		_ = (*dst).RecordValues(min(int64(us), measure.Highest), int64(min(h.GetCounts()[i], 1<<40)))
	}
}
