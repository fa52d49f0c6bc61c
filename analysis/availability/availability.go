// SPDX-License-Identifier: Apache-2.0

// Package availability tells what a store's users would have seen of it from the answers to regular writes (probes): for how
// long none was acknowledged, and which share was acknowledged in time. Moments in, figures out.
package availability

import (
	"cmp"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kvbench/kvbench/internal/measure"
)

// MostStalls is how many stalls of a store a [StoreSeen] lists, the longest.
const MostStalls = 100

// Tally accounts for the probes of one store. All moments are on one clock. It is for one goroutine.
type Tally struct {
	interval, deadline time.Duration

	waiting []probe       // that are not acknowledged, by when they were due: in flight, or failed since the last acknowledgement
	acked   time.Duration // when the last acknowledgement came
	held    time.Duration // for how long the prober has stood still since then

	probes, inTime, late, unknown int64
	failed                        map[string]int64 // by class
	missed                        []time.Duration  // when those were due that were not acknowledged in time
	stalls                        []Stall
	response                      *hdrhistogram.Histogram // of what was acknowledged
}

// probe is a write that has not been acknowledged.
type probe struct {
	due    time.Duration
	failed bool
	held   time.Duration // for how long the prober has stood still meanwhile
}

// New returns the tally of probes that are due every interval, and to be acknowledged within the deadline of that.
func New(interval, deadline time.Duration) *Tally {
	return &Tally{interval: interval, deadline: deadline, acked: -1, failed: make(map[string]int64), response: measure.NewHDR()}
}

// Due notes a probe that is begun. Probes come in the order in which they are due.
func (t *Tally) Due(at time.Duration) { t.waiting = append(t.waiting, probe{due: at}) }

// Acknowledged notes that the probe that was due then was acknowledged at end.
func (t *Tally) Acknowledged(due, end time.Duration) {
	if stall := t.Stall(end); stall != nil {
		stall.Ended = true
		t.stalls = append(t.stalls, *stall)
		if len(t.stalls) > 2*MostStalls {
			t.stalls = longest(t.stalls)
		}
	}
	held := t.end(due)
	// A failed one that was due before has made way: the store acknowledges again.
	t.waiting = slices.DeleteFunc(t.waiting, func(p probe) bool { return p.failed })
	if end > t.acked {
		t.acked, t.held = end, 0
	}
	switch took := end - due; {
	case took <= t.deadline:
		t.probes++
		t.inTime++
	case took-held <= t.deadline:
		t.unknown++
		return
	default:
		t.probes++
		t.late++
		t.missed = append(t.missed, due)
	}
	_ = t.response.RecordValue(min(max(1, int64((end-due)/time.Microsecond)), measure.Highest)) // within its range
}

// Failed notes that the probe that was due then has ended at end, without an acknowledgement.
func (t *Tally) Failed(due, end time.Duration, class string) {
	held := t.end(due)
	if first := t.failing(); due > t.acked && (first < 0 || due < t.waiting[first].due) { // a stall counts from the first that was due
		if first >= 0 {
			t.waiting = slices.Delete(t.waiting, first, first+1)
		}
		t.waiting = slices.Insert(t.waiting, t.find(due), probe{due: due, failed: true})
	}
	if held > 0 && end-due-held < t.deadline {
		t.unknown++
		return
	}
	t.probes++
	t.failed[class]++
	t.missed = append(t.missed, due)
}

// end takes out the probe that was due then, and returns for how long the prober has stood still meanwhile.
func (t *Tally) end(due time.Duration) (held time.Duration) {
	i := t.find(due)
	held = t.waiting[i].held
	t.waiting = slices.Delete(t.waiting, i, i+1)
	return held
}

// find returns the place of what was due then.
func (t *Tally) find(due time.Duration) int {
	i, _ := slices.BinarySearchFunc(t.waiting, due, func(p probe, due time.Duration) int { return cmp.Compare(p.due, due) })
	return i
}

// Held notes that the prober stood still for so long, and began skipped probes not at all. What it saw then is not known: no
// stall is longer for it, and what was in flight is late only if it would be without it.
func (t *Tally) Held(long time.Duration, skipped int64) {
	t.held += long
	t.unknown += skipped
	for i := range t.waiting {
		t.waiting[i].held += long
	}
}

// Stall returns for how long nothing has been acknowledged, now, although a probe was due; nil if that is no longer than two
// intervals, which one write alone that fails may take. What was due before the last acknowledgement tells nothing
// of the store any more: it may hang elsewhere.
func (t *Tally) Stall(now time.Duration) *Stall {
	i := slices.IndexFunc(t.waiting, func(p probe) bool { return p.due > t.acked })
	if i < 0 {
		return nil
	}
	since := t.waiting[i].due
	long := now - since - t.held
	if long <= 2*t.interval {
		return nil
	}
	return &Stall{FromS: since.Seconds(), Seconds: long.Seconds()}
}

// Quiet tells whether nothing has failed since the last acknowledgement, and there is no stall.
func (t *Tally) Quiet(now time.Duration) bool {
	return t.Stall(now) == nil && t.failing() < 0
}

// failing returns the place of the probe that has failed since the last acknowledgement, the first that was due; -1 if none has.
func (t *Tally) failing() int {
	return slices.IndexFunc(t.waiting, func(p probe) bool { return p.failed })
}

// Stall is a time in which a store acknowledged nothing although a write was due, less the time in which the prober stood still.
type Stall struct {
	Store   string  `json:"store"`
	FromS   float64 `json:"from_s"`
	Seconds float64 `json:"seconds"`
	Ended   bool    `json:"ended"` // false: nothing was acknowledged until the end
}

// StoreSeen is what was seen of one store.
type StoreSeen struct {
	Store        string           `json:"store"` // its address
	ID           uint64           `json:"id,omitempty"`
	Probes       int64            `json:"probes"`           // of which the fate is known
	InTime       int64            `json:"in_time"`          // acknowledged within the deadline
	Late         int64            `json:"late"`             // acknowledged after it
	Failed       map[string]int64 `json:"failed,omitempty"` // by class
	Unknown      int64            `json:"unknown"`          // the prober itself stood still
	Availability *float64         `json:"availability"`     // in_time / probes; null: nothing is known
	UnavailableS float64          `json:"unavailable_s"`    // intervals whose probes were not acknowledged in time
	UnprobedS    float64          `json:"unprobed_s"`       // nothing is known of: the store led no region that probes write to, or the prober stood still
	LongestS     float64          `json:"longest_stall_s"`  // 0: there was none
	Stalls       []Stall          `json:"stalls"`           // longer than two intervals, in order of time; the 100 longest if there are more
	Response     *measure.Latency `json:"response"`         // µs from when they were due, of acknowledged probes; null: there are none
}

// Store returns what is known of a store when the tally ends now, after the prober has been at work for a time.
func (t *Tally) Store(address string, id uint64, now, worked time.Duration) StoreSeen {
	s := StoreSeen{
		Store: address, ID: id, Probes: t.probes, InTime: t.inTime, Late: t.late, Unknown: t.unknown, Response: measure.LatencyOf(t.response),
		UnavailableS: total(t.unavailable()).Seconds(),
	}
	if len(t.failed) > 0 {
		s.Failed = t.failed
	}
	if t.probes > 0 {
		share := float64(t.inTime) / float64(t.probes)
		s.Availability = &share
	}
	s.UnprobedS = max(0, (worked - time.Duration(t.probes)*t.interval).Seconds())
	if s.UnprobedS <= 2*t.interval.Seconds() { // the first and the last interval are begun, not full
		s.UnprobedS = 0
	}
	s.Stalls = slices.Clone(t.stalls)
	if going := t.Stall(now); going != nil {
		s.Stalls = append(s.Stalls, *going)
	}
	s.Stalls = longest(s.Stalls)
	for i := range s.Stalls {
		s.Stalls[i].Store = address
		s.LongestS = max(s.LongestS, s.Stalls[i].Seconds)
	}
	return s
}

// longest returns the longest stalls, in order of time; not nil.
func longest(stalls []Stall) []Stall {
	slices.SortStableFunc(stalls, func(a, b Stall) int { return cmp.Compare(b.Seconds, a.Seconds) })
	kept := append([]Stall{}, stalls[:min(len(stalls), MostStalls)]...)
	slices.SortStableFunc(kept, func(a, b Stall) int { return cmp.Compare(a.FromS, b.FromS) })
	return kept
}

// span is a time from and to moments.
type span struct{ from, to time.Duration }

// unavailable returns the intervals whose probes were not acknowledged in time, joined.
func (t *Tally) unavailable() []span {
	slices.Sort(t.missed)
	var all []span
	for _, due := range t.missed {
		all = append(all, span{due, due + t.interval})
	}
	return joined(all)
}

// joined joins spans that meet, which must be in the order of their beginnings.
func joined(spans []span) (all []span) {
	for _, s := range spans {
		if last := len(all) - 1; last >= 0 && s.from <= all[last].to {
			all[last].to = max(all[last].to, s.to)
			continue
		}
		all = append(all, s)
	}
	return all
}

func total(spans []span) (d time.Duration) {
	for _, s := range spans {
		d += s.to - s.from
	}
	return d
}

// ClusterSeen is what was seen of all stores together.
type ClusterSeen struct {
	Probes       int64    `json:"probes"`
	InTime       int64    `json:"in_time"`
	Unknown      int64    `json:"unknown"`
	Availability *float64 `json:"availability"`  // share of all probes that were acknowledged in time; null: nothing is known
	UnavailableS float64  `json:"unavailable_s"` // in which a store at least did not acknowledge in time
	LongestStall *Stall   `json:"longest_stall"` // of any store; null: there was none
}

// Together sums up what is known of all stores.
func Together(stores []StoreSeen, tallies []*Tally) ClusterSeen {
	var c ClusterSeen
	var all []span
	for i, s := range stores {
		c.Probes += s.Probes
		c.InTime += s.InTime
		c.Unknown += s.Unknown
		all = append(all, tallies[i].unavailable()...)
		for _, stall := range s.Stalls {
			if c.LongestStall == nil || stall.Seconds > c.LongestStall.Seconds {
				c.LongestStall = &stall
			}
		}
	}
	if c.Probes > 0 {
		share := float64(c.InTime) / float64(c.Probes)
		c.Availability = &share
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	c.UnavailableS = total(joined(all)).Seconds()
	return c
}
