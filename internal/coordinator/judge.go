// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/objective"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/units"
)

// judgedSeconds are over how many seconds, the last ones of the measured window, objectives are judged while a run goes on.
const judgedSeconds = 10

// ObjectiveView is an objective while the run goes on, by its last seconds.
type ObjectiveView struct {
	Objective objective.Objective
	objective.Finding
	Since time.Duration // it is broken since then, on the run's clock, without a break
}

// judge holds what workers tell of the last seconds of the measured window, merged over the fleet, and judges objectives by it.
// The zero value judges none.
type judge struct {
	watched []*workerpb.Watched
	seconds map[int64]*second // by the whole second of the run's clock in which they end
	views   []ObjectiveView
}

// second is what the fleet did in a second of the run.
type second struct {
	workers int           // that have told of it
	length  time.Duration // of their intervals, all together
	due     float64       // operations that were asked of them
	flying  float64       // calls in flight, on average
	skipped int64         // slots that were given up
	parts   []counted     // of what is watched, in its order
}

// counted is a part of a second.
type counted struct {
	answered, failed, ended int64
	latency                 *hdrhistogram.Histogram // nil: nothing ended
	waiting                 *hdrhistogram.Histogram // at the end of the second; nil: nothing
}

func newJudge(all []objective.Objective) judge {
	j := judge{seconds: make(map[int64]*second)}
	for _, o := range all {
		j.views = append(j.views, ObjectiveView{Objective: o})
		if j.part(o) < 0 {
			j.watched = append(j.watched, &workerpb.Watched{Kind: o.Kind, Time: o.Time})
		}
	}
	return j
}

// part is the place of what an objective is about among what is watched; -1: it is not watched.
func (j *judge) part(o objective.Objective) int {
	return slices.IndexFunc(j.watched, func(w *workerpb.Watched) bool { return w.GetKind() == o.Kind && w.GetTime() == o.Time })
}

// add takes up an interval of a worker. Those of a worker that knows nothing of what is watched, or that are not of the
// window, are left out.
func (j *judge) add(iv *workerpb.Interval, s *spec.Spec) {
	from, to := time.Duration(iv.GetFromNanos()), time.Duration(iv.GetToNanos())
	end := s.Warmup + s.Duration
	if len(j.watched) == 0 || len(iv.GetParts()) != len(j.watched) || from < s.Warmup || to <= from || s.Duration > 0 && to > end {
		return
	}
	at := secondOf(to)
	sec := j.seconds[at]
	if sec == nil {
		sec = &second{parts: make([]counted, len(j.watched))}
		j.seconds[at] = sec
		for old := range j.seconds {
			if old <= at-2*judgedSeconds {
				delete(j.seconds, old)
			}
		}
	}
	sec.workers++
	sec.length += to - from
	sec.due += iv.GetTarget() * (to - from).Seconds()
	sec.flying += iv.GetInFlight()
	sec.skipped += iv.GetTotals().GetSkipped()
	for i, p := range iv.GetParts() {
		c := &sec.parts[i]
		c.answered += p.GetAnswered()
		c.failed += p.GetFailed()
		c.ended += p.GetEnded()
		add(&c.latency, p.GetLatency())
		add(&c.waiting, p.GetWaiting())
	}
}

// secondOf is the whole second in which an interval ends, counted from 1.
func secondOf(to time.Duration) int64 { return int64((to + time.Second - 1) / time.Second) }

// judge judges all objectives by the seconds up to one of which all workers that are at work have told.
func (j *judge) judge(upTo int64, fleet *fleetSeen) {
	var last int64
	for at := range j.seconds {
		if at <= upTo {
			last = max(last, at)
		}
	}
	for i := range j.views {
		v := &j.views[i]
		before := v.State
		v.Finding = objective.Finding{Why: "nothing has been measured yet"}
		if seen := j.seen(v.Objective, last, fleet); seen != nil {
			v.Finding = v.Objective.Judge(seen)
		}
		if v.State == objective.Broken && before != objective.Broken {
			v.Since = time.Duration(last) * time.Second
		}
	}
}

// fleetSeen is how much of the fleet is seen, and how it works.
type fleetSeen struct {
	workers int
	batch   int
	poisson bool
	unseen  string // which workers are lost or silent, beyond what is tolerated
}

// seen merges the seconds before last, and that one; nil if there are none.
func (j *judge) seen(o objective.Objective, last int64, fleet *fleetSeen) *objective.Seen {
	s := &objective.Seen{Unseen: fleet.unseen, More: fleet.unseen != ""}
	var length, due, answered, flying float64
	part := j.part(o)
	for at := last - judgedSeconds + 1; at <= last; at++ {
		sec := j.seconds[at]
		if sec == nil {
			continue
		}
		c := &sec.parts[part]
		s.Operations += c.ended
		s.Failed += c.failed
		s.NeverCalls += sec.skipped // of which kind they would have been is not known
		answered += float64(c.answered)
		length += sec.length.Seconds() / float64(sec.workers)
		flying = sec.flying
		if more := float64(fleet.workers) / float64(sec.workers); fleet.unseen != "" {
			due += sec.due * more // all have the same share, and it is asked of those who are away as well
		} else {
			due += sec.due
		}
		if c.latency != nil {
			if s.Answered == nil {
				s.Answered = c.latency.Clone() // the seconds stay as they are
			} else {
				s.Answered.Merge(c.latency)
			}
		}
	}
	if length <= 0 {
		return nil
	}
	if w := j.seconds[last].parts[part].waiting; w != nil { // there is that second, or there were no length
		s.Least = w.Clone()
		if s.Answered != nil {
			s.Least.Merge(s.Answered)
		}
	}
	s.Rate, s.Target = answered/length, due/length
	s.Never = s.NeverCalls * int64(max(fleet.batch, 1))
	batch := float64(max(fleet.batch, 1))
	edge := batch * (float64(fleet.workers) + flying) // what is in flight is not missing yet
	if fleet.poisson {
		edge += 3 * batch * math.Sqrt(due/batch)
	}
	s.Slack = edge / length
	return s
}

// broken is the objective that has been broken for longest, if that is so long or longer; nil if there is none.
func (j *judge) broken(last, length time.Duration) *ObjectiveView {
	var longest *ObjectiveView
	for i := range j.views {
		v := &j.views[i]
		if v.State == objective.Broken && last-v.Since >= length && (longest == nil || v.Since < longest.Since) {
			longest = v
		}
	}
	return longest
}

// judgeNow judges the objectives, and stops the run if one has been broken for as long as its user puts up with.
func (r *running) judgeNow() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.judge.views) == 0 || r.stopped {
		return
	}
	fleet := &fleetSeen{workers: len(r.workers), batch: r.job.Spec.Batch, poisson: r.job.Spec.Arrival == spec.Poisson}
	upTo, away := int64(math.MaxInt64), 0
	for _, p := range r.workers {
		switch {
		case p.state == results.Finished:
			return // of a run that ends by count the others have less to do now; what was found last stands
		case p.state == results.Running && time.Since(p.lastSeen) <= unknownAfter:
			upTo = min(upTo, int64(time.Duration(p.latest.GetToNanos())/time.Second))
		default:
			away++
		}
	}
	if away > r.job.Limits.TolerateLost {
		fleet.unseen = fmt.Sprintf("%d of %d workers not heard of", away, len(r.workers))
	}
	if end := r.job.Spec.Warmup + r.job.Spec.Duration; r.job.Spec.Duration > 0 && time.Since(r.zero) > end+time.Second {
		return // it is over, and what was found last stands
	}
	r.judge.judge(upTo, fleet)
	patience := results.Duration(r.job.Limits.AbortS)
	now := min(time.Duration(upTo)*time.Second, time.Since(r.zero))
	if upTo == math.MaxInt64 || patience == 0 {
		return
	}
	if v := r.judge.broken(now, patience); v != nil {
		r.record.StopWhy = fmt.Sprintf("%s, since %s, and --abort-on-slo=%s", v.Why, units.Seconds(v.Since.Seconds()), patience)
		r.record.StopSLO = true
		r.stopNow(r.record.StopWhy)
	}
}
