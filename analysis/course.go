// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/kvbench/kvbench/analysis/dips"
	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/results"
)

// Kinds of events that a client's traffic shows.
const (
	storeConnection = "store-connection"
	storeLeader     = "store-leader"
)

// quiet is for how long a store must have been well for what comes then to be an event of its own.
const quiet = 10 * time.Second

// course is how a run went second by second, where it can be told: as far as all workers did their part or are known to be lost.
type course struct {
	from    time.Duration // whole seconds
	seconds []dips.Second
	lost    []int // workers, per second, of which nothing is known
	bins    *series
	workers int
	batch   float64
	paced   bool

	start   time.Time
	trouble map[storeTrouble]time.Duration // when it was seen last
	events  []results.Event
}

type storeTrouble struct{ kind, store string }

// newCourse returns the course of a run that has been looked at; without a second, if a part of a journal is not here.
func newCourse(r *Run, bins *series) course {
	c := course{bins: bins, workers: len(r.workers), batch: float64(max(r.record.Plan.Batch, 1)), paced: r.record.Paced,
		start: r.record.Start, trouble: make(map[storeTrouble]time.Duration)}
	whole := func(t time.Duration) time.Duration { return t.Truncate(time.Second) }
	c.from = whole(r.window.begin + time.Second - 1)
	to := whole(r.window.finish)
	for _, w := range r.workers {
		switch known := w.member.State == results.Lost || w.member.State == results.Failed; {
		case len(w.gaps) > 0 || !w.journal:
			return c
		case !known:
			to = min(to, whole(w.end))
		}
		if !r.window.whole && w.worked {
			c.from = max(c.from, whole(w.begin+time.Second-1))
		}
	}
	if to <= c.from || r.record.Phase == "verify" {
		return c
	}
	c.seconds = make([]dips.Second, (to-c.from)/time.Second)
	c.lost = make([]int, len(c.seconds))
	for _, w := range r.workers {
		for i := max(0, int((whole(w.end)-c.from)/time.Second)); i < len(c.lost); i++ {
			c.lost[i]++
		}
	}
	return c
}

// add counts an interval. They must be added in the order of their starts.
func (c *course) add(iv *results.Interval) {
	if iv.Start >= c.end() || iv.End <= c.from {
		return
	}
	calls := int64(0)
	for row := range measure.Row(measure.Rows) {
		if answered(row) {
			calls += iv.Window.Rows[row].Batches + iv.Warmup.Rows[row].Batches
		}
	}
	// One that is longer than a second, of a worker that stood still, is spread over its seconds.
	for i := int(max(0, iv.Start-c.from) / time.Second); i < len(c.seconds); i++ {
		from := c.from + time.Duration(i)*time.Second
		if from >= iv.End {
			break
		}
		share := (&window{from: from, to: from + time.Second}).share(iv.Start, iv.End)
		c.seconds[i].Answered += share * float64(calls)
		c.seconds[i].Due += share * iv.Target * (iv.End - iv.Start).Seconds() / c.batch
	}
	for _, t := range iv.Traffic {
		if t.Store == "" {
			continue
		}
		if t.Breaks > 0 {
			c.see(iv, storeTrouble{storeConnection, t.Store}, fmt.Sprintf("connections to store %s broke", t.Store))
		}
		if t.Fallbacks["not_leader"] > 0 {
			c.see(iv, storeTrouble{storeLeader, t.Store}, fmt.Sprintf("store %s was no longer the leader of what it was asked for", t.Store))
		}
	}
}

// see makes an event of what a store did, unless it did it a short time before.
func (c *course) see(iv *results.Interval, t storeTrouble, text string) {
	last, seen := c.trouble[t]
	if !seen || iv.Start-last > quiet {
		c.events = append(c.events, results.Event{At: c.start.Add(iv.Start), S: iv.Start.Seconds(), Kind: t.kind, Text: text})
	}
	c.trouble[t] = max(last, iv.End)
}

// withEvents adds what the traffic shows to the events, in the order of time.
func (c *course) withEvents(events []results.Event) []results.Event {
	all := append(slices.Clone(events), c.events...)
	slices.SortStableFunc(all, func(a, b results.Event) int { return cmp.Compare(a.S, b.S) })
	return all
}

// levels are the seconds with what was due on workers that are lost, too: each had an equal share.
func (c *course) levels() []dips.Second {
	all := slices.Clone(c.seconds)
	for i := range all {
		s := &all[i]
		switch {
		case !c.paced:
			s.Due = 0
		case c.lost[i] < c.workers:
			s.Due *= float64(c.workers) / float64(c.workers-c.lost[i])
		case i > 0:
			s.Due = all[i-1].Due
		}
		if c.paced && s.Due <= 0 {
			s.Due = -1
		}
	}
	return all
}

// end is when it ends.
func (c *course) end() time.Duration { return c.from + time.Duration(len(c.seconds))*time.Second }
