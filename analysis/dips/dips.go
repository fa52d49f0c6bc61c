// SPDX-License-Identifier: Apache-2.0

// Package dips finds the times in which a database answered less than before: numbers in, numbers out.
// The rule is described in docs/events.md.
package dips

import (
	"cmp"
	"math"
	"slices"
)

// Second is one second of a run.
type Second struct {
	Answered float64 // calls
	Due      float64 // calls; 0 where there is no target
}

// Span is a time in seconds, which count from where the first [Second] begins.
type Span struct{ From, To float64 }

// Length is that of the span, in seconds.
func (s Span) Length() float64 { return s.To - s.From }

// Dip is a time in which less was answered than before it.
type Dip struct {
	Span
	Depth float64 // share of the rate before it that the worst second lost, from 0 to 1
	Gap   Span    // the longest time in it without an answer that was given to Find; empty if there was none
	Open  bool    // it was not over when the run ended
}

// The rule.
const (
	memory   = 30   // seconds before, with which a second is compared
	Least    = 10   // so many of them there must be
	loss     = 0.2  // a dip loses more than this share in its worst second,
	sigmas   = 8    // and more than so many standard deviations
	again    = 0.95 // it is over when this share of before is answered again, or what differs from before by two deviations
	gapCalls = 20   // a gap is a dip if at half the slowest rate before so many calls had been answered in it
)

// Find returns the dips, the first one first. Gaps are times without an answer, in their order, of
// which those matter that are much longer than calls usually take; which these are is known to the caller.
func Find(seconds []Second, gaps []Span) []Dip {
	var (
		found []Dip
		seen  before
		open  *Dip
	)
	for i, s := range seconds {
		at := float64(i)
		var gap Span // the longest that begins in this second
		for len(gaps) > 0 && gaps[0].From < at+1 {
			if gaps[0].Length() > gap.Length() {
				gap = gaps[0]
			}
			gaps = gaps[1:]
		}
		level, scale := s.level()
		if math.IsNaN(level) {
			continue // nothing was due
		}
		if open == nil {
			ref, ok := seen.reference()
			if !ok {
				seen.add(level)
				continue
			}
			lost, limit := 1-level/ref.level, ref.limit(scale)
			silent := gap.Length()*ref.lowest/2*scale >= gapCalls
			if lost <= limit && !silent {
				if lost >= -limit { // else it catches up
					seen.hold(level)
				}
				continue
			}
			seen.drop()
			found = append(found, Dip{Span: Span{From: at, To: at}})
			open = &found[len(found)-1]
			if silent {
				open.From = gap.From
			}
		}
		ref, _ := seen.reference()
		open.Depth = max(open.Depth, min(1, 1-level/ref.level))
		if gap.Length() > open.Gap.Length() {
			open.Gap = gap
		}
		switch {
		case open.Gap.To >= at+1: // it has not been over for a moment of this second
		case 1-level/ref.level <= max(1-again, 2*ref.noise(scale)):
			open.To = max(at, open.Gap.To)
			open = nil
		}
	}
	if open != nil {
		open.To, open.Open = float64(len(seconds)), true
	}
	return found
}

// level is what is compared, the share of what was due, or where nothing ever is the calls themselves, and how
// many calls one of it is. It is not a number where nothing was due.
func (s Second) level() (level, calls float64) {
	if s.Due < 0 {
		return math.NaN(), 0
	}
	if s.Due == 0 {
		return s.Answered, 1
	}
	return s.Answered / s.Due, s.Due
}

// before holds the levels of the last seconds that were not in a dip.
type before struct {
	levels []float64
	held   float64 // the last one, which may be the part of a second with which a dip begins
	holds  bool
}

// hold adds a level once it is known that no dip begins in the next second.
func (b *before) hold(level float64) {
	if b.holds {
		b.add(b.held)
	}
	b.held, b.holds = level, true
}

// drop forgets the level that is held.
func (b *before) drop() { b.holds = false }

func (b *before) add(level float64) {
	if len(b.levels) == memory {
		b.levels = slices.Delete(b.levels, 0, 1)
	}
	b.levels = append(b.levels, level)
}

// reference is what seconds are compared with.
type reference struct {
	level     float64 // median
	lowest    float64
	deviation float64 // standard, as a share of the level
}

// reference returns it; false if too little is known, or nothing was answered.
func (b *before) reference() (r reference, ok bool) {
	if len(b.levels) < Least {
		return r, false
	}
	sorted := slices.SortedFunc(slices.Values(b.levels), cmp.Compare[float64])
	r.level, r.lowest = sorted[len(sorted)/2], sorted[0]
	squares := 0.0
	for _, l := range sorted {
		squares += (l - r.level) * (l - r.level)
	}
	if r.level > 0 {
		r.deviation = math.Sqrt(squares/float64(len(sorted)-1)) / r.level
	}
	return r, r.level > 0
}

// limit is which share of the level a second must lose to be in a dip.
func (r reference) limit(scale float64) float64 { return max(loss, sigmas*r.noise(scale)) }

// noise is by which share a second deviates from the level without a cause: as those before did, and at least as
// chance makes so many calls deviate, by their square root.
func (r reference) noise(scale float64) float64 {
	return max(r.deviation, 1/math.Sqrt(r.level*scale))
}
