// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/kvbench/kvbench/analysis/dips"
	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/results"
)

// Disturbance is an account of a dip, of an event, or of events and the dip with which they coincide. docs/events.md
// says how it is found and how exact it is.
type Disturbance struct {
	AtS    float64         `json:"at_s"`   // on the run's clock
	ToS    float64         `json:"to_s"`   // when the dip was over; without one, until when was looked at: 10 s, or to what comes next
	Events []results.Event `json:"events"` // in the dip, or shortly before it

	Dip     bool    `json:"dip"`
	Judged  bool    `json:"judged"`         // false: whether there was a dip is not known
	Depth   float64 `json:"depth"`          // share of the rate before, or of the target, that the worst second lost
	Open    bool    `json:"open,omitempty"` // the dip was not over when the run was
	Unseen  int     `json:"unseen_workers,omitempty"`
	Resolve float64 `json:"resolution_s"` // of before, during and after

	NoAnswer *NoAnswer    `json:"no_answer,omitempty"` // the longest time in it
	Errors   []ClassCount `json:"errors"`
	Queued   int64        `json:"queued_operations"`
	Skipped  int64        `json:"skipped_slots"`

	Before *Stretch `json:"before,omitempty"`
	During *Stretch `json:"during,omitempty"`
	After  *Stretch `json:"after,omitempty"`
}

// ClassCount is how many operations failed with a class of errors.
type ClassCount struct {
	Class string `json:"class"`
	Count int64  `json:"count"`
}

// Stretch is a part of the run's time, with the latencies of what was answered in it.
type Stretch struct {
	FromS      float64  `json:"from_s"`
	ToS        float64  `json:"to_s"`
	OpsPerS    float64  `json:"ops_per_s"`
	ServiceUS  *Latency `json:"service_us,omitempty"`
	ResponseUS *Latency `json:"response_us,omitempty"`
}

const (
	maxDisturbances = 50
	beside          = 30 * time.Second // so much before and after is compared
	effect          = 10 * time.Second // so long after an event a dip may begin that is shown with it
	sameTime        = 1.0              // seconds within which events without a dip are one
)

// accounted are the kinds of events of which an account is given: those that may change how a run goes.
var accounted = []string{results.WorkerLost, results.WorkerBack, results.TargetChanged, results.Annotation, storeConnection, storeLeader, StoreStalled}

// disturbances finds the dips, and gives an account of them and of the events; nil if the course of the run is not known.
func (r *Run) disturbances(p *Report) []Disturbance {
	c := &r.course
	if len(c.seconds) == 0 {
		return nil
	}
	silences := r.longSilences(p)
	var gaps []dips.Span
	for _, s := range silences {
		gaps = append(gaps, dips.Span{From: (s.from - c.from).Seconds(), To: (s.to - c.from).Seconds()})
	}
	all := []Disturbance{}
	from := c.from.Seconds()
	for _, d := range dips.Find(c.levels(), gaps) {
		all = append(all, Disturbance{AtS: from + d.From, ToS: from + d.To, Dip: true, Judged: true, Depth: d.Depth, Open: d.Open})
	}
	found := len(all)
events:
	for _, e := range p.Events {
		if !slices.Contains(accounted, e.Kind) || e.S < from || e.S >= c.end().Seconds() {
			continue
		}
		for i := range all[:found] {
			if d := &all[i]; e.S >= d.AtS-effect.Seconds() && e.S <= d.ToS {
				d.Events = append(d.Events, e)
				continue events
			}
		}
		if n := len(all); n > found && e.S-all[n-1].AtS < sameTime {
			all[n-1].Events = append(all[n-1].Events, e)
			continue
		}
		all = append(all, Disturbance{AtS: e.S, Judged: e.S >= from+dips.Least, ToS: min(e.S+effect.Seconds(), c.end().Seconds()), Events: []results.Event{e}})
	}
	slices.SortStableFunc(all, func(a, b Disturbance) int { return cmp.Compare(a.AtS, b.AtS) })
	for i := range len(all) - 1 {
		if d := &all[i]; !d.Dip {
			d.ToS = min(d.ToS, all[i+1].AtS)
		}
	}
	all = all[:min(len(all), maxDisturbances)]
	for i := range all {
		r.account(all, i, silences)
	}
	return all
}

// longSilences are the times without an answer that are longer than calls usually take.
func (r *Run) longSilences(p *Report) []gap {
	if r.answers.unknown || len(r.answers.spans) == 0 {
		return nil
	}
	typical := time.Duration(0)
	for _, k := range p.Kinds {
		if k.Kind == AllKinds && k.ServiceUS != nil {
			typical = time.Duration(k.ServiceUS.P50) * time.Microsecond
		}
	}
	return slices.DeleteFunc(r.silences(r.course.from, r.course.end()), func(g gap) bool { return g.to-g.from < silenceLong*typical })
}

// account fills in what a disturbance did, among all of them.
func (r *Run) account(all []Disturbance, i int, silences []gap) {
	c, d := &r.course, &all[i]
	if d.Events == nil {
		d.Events = []results.Event{}
	}
	d.Resolve = c.bins.width.Seconds()
	for _, s := range silences {
		length := (s.to - s.from).Seconds()
		if s.to.Seconds() > d.AtS && s.from.Seconds() < d.ToS && (d.NoAnswer == nil || length > d.NoAnswer.S) {
			d.NoAnswer = &NoAnswer{AtS: s.from.Seconds(), S: length}
		}
	}
	width := c.bins.width
	start, end := c.from, c.end() // without what belongs to others
	for j := range all {
		switch o := &all[j]; {
		case j < i && !o.Dip: // nothing was wrong since, but it may be another load
			start = max(start, results.Duration(o.AtS).Truncate(width)+width)
		case j < i && o.ToS <= d.AtS:
			start = max(start, results.Duration(o.ToS).Truncate(width)+width)
		case j > i && o.AtS >= d.ToS:
			end = min(end, results.Duration(o.AtS))
		}
	}
	from := results.Duration(d.AtS).Truncate(width)
	to := min(results.Duration(d.ToS).Truncate(width)+width, (c.end() + width - 1).Truncate(width)) // with the one in which it was over
	if !d.Dip {
		to = min(to, end.Truncate(width)) // that one belongs to what comes next
	}
	d.Before = c.stretch(max(start, from-beside), from)
	d.During = c.stretch(from, to)
	if !d.Open {
		d.After = c.stretch(to, min(end, to+beside))
	}
	classes := make(map[string]float64)
	last := min(int(to/width), len(c.bins.bins))
	for _, b := range c.bins.bins[min(int(from/width), last):last] { // an event may be later than anything that was measured
		d.Queued += b.queued
		d.Skipped += int64(b.skipped + 0.5)
		for row, n := range b.failed {
			if n > 0 {
				classes[results.ClassOf(measure.Row(row))] += n
			}
		}
	}
	d.Errors = []ClassCount{}
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		d.Errors = append(d.Errors, ClassCount{class, int64(classes[class] + 0.5)})
	}
	slices.SortStableFunc(d.Errors, func(a, b ClassCount) int { return cmp.Compare(b.Count, a.Count) })
	if last = min(int((results.Duration(d.ToS)-c.from)/time.Second), len(c.lost)-1); last >= 0 {
		d.Unseen = c.lost[last]
	}
}

// stretch is what the whole bins between two moments hold; nil if there are none.
func (c *course) stretch(from, to time.Duration) *Stretch {
	width := c.bins.width
	first := int((from + width - 1) / width)
	last := min(int(to/width), len(c.bins.bins))
	if first >= last {
		return nil
	}
	var service, response measure.Sum
	operations := 0.0
	for _, b := range c.bins.bins[first:last] {
		operations += b.answered
		if b.service != nil {
			service.Add(b.service)
		}
		if b.response != nil {
			response.Add(b.response)
		}
	}
	s := &Stretch{FromS: (time.Duration(first) * width).Seconds(), ToS: (time.Duration(last) * width).Seconds(),
		ServiceUS: measure.LatencyOf(service.HDR()), ResponseUS: measure.LatencyOf(response.HDR())}
	s.OpsPerS = operations / (s.ToS - s.FromS)
	return s
}
