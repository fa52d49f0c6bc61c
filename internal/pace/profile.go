// SPDX-License-Identifier: Apache-2.0

// Package pace turns a target rate into due slots. It is arithmetic over a
// run's clock: nothing here sleeps, so every rule is tested on a clock that
// stands still.
//
// A slot starts a batch of n operations. The fleet's slot i is due when the target, in operations
// a second, integrated over time reaches i·n.
// Worker k of N owns the slots i ≡ k (mod N), and each of its lanes a share of
// those in the same way: shares add up exactly and interleave evenly. A slot's
// moment is computed from i, never by adding up intervals, so that no rounding
// is ever lost.
package pace

import (
	"fmt"
	"math"
	"sort"
	"time"
)

// Stage is a stretch of a profile: the rate moves from From to To, in operations a
// second, within Length. A Length of 0 is without end and must come last.
type Stage struct {
	From, To float64
	Length   time.Duration
}

// Profile is a target over time, in operations a second: constant, ramps and steps.
// After its last stage the rate stays as it was. It is immutable.
type Profile struct {
	stages []stage
}

// stage is a Stage with its place on the two axes.
type stage struct {
	start    float64 // seconds since the run's epoch
	count    float64 // operations due before start
	from, to float64 // operations a second
	length   float64 // seconds; +Inf for the last
}

// Constant is a profile of one rate, in operations a second, above 0.
func Constant(rate float64) Profile {
	p, err := NewProfile(Stage{From: rate, To: rate})
	if err != nil {
		panic(err) // a caller's mistake: rates are checked where they are read
	}
	return p
}

// NewProfile joins stages into a profile. Rates must be finite and at least 0, and
// the last one above 0.
func NewProfile(stages ...Stage) (Profile, error) {
	if len(stages) == 0 {
		return Profile{}, fmt.Errorf("a target profile needs at least one stage")
	}
	var p Profile
	var at, count float64
	for i, s := range stages {
		for _, r := range []float64{s.From, s.To} {
			if !(r >= 0) || math.IsInf(r, 0) {
				return Profile{}, fmt.Errorf("stage %d of the target: rate %v must be a number of at least 0", i+1, r)
			}
		}
		if s.Length < 0 || (s.Length == 0 && i < len(stages)-1) {
			return Profile{}, fmt.Errorf("stage %d of the target: length %v must be above 0", i+1, s.Length)
		}
		length := s.Length.Seconds()
		if s.Length > 0 {
			p.stages = append(p.stages, stage{at, count, s.From, s.To, length})
			at += length
			count += (s.From + s.To) / 2 * length
		}
	}
	last := stages[len(stages)-1].To
	if last <= 0 {
		return Profile{}, fmt.Errorf("the target ends at a rate of 0: give a last rate above 0, or a duration")
	}
	p.stages = append(p.stages, stage{at, count, last, last, math.Inf(1)})
	return p, nil
}

// Change returns the profile that is p before t and the constant rate from t on.
func (p Profile) Change(t time.Duration, rate float64) Profile {
	at := max(0, t.Seconds())
	var q Profile
	for _, s := range p.stages {
		if s.start >= at {
			break
		}
		if s.start+s.length > at {
			s.to, s.length = s.rate(at-s.start), at-s.start
		}
		q.stages = append(q.stages, s)
	}
	q.stages = append(q.stages, stage{at, p.count(at), rate, rate, math.Inf(1)})
	return q
}

// Rate returns the target at t, in operations a second.
func (p Profile) Rate(t time.Duration) float64 {
	s := p.at(t.Seconds())
	return s.rate(t.Seconds() - s.start)
}

// Count returns how many operations are due before t, fractions included.
func (p Profile) Count(t time.Duration) float64 { return p.count(t.Seconds()) }

// Due returns when operation u is due, counted from 0. Fractions are meant: Poisson arrivals use them.
func (p Profile) Due(u float64) time.Duration {
	// The last that begins with so many or fewer: stages of a rate of 0 begin with as many as the one behind them.
	i := sort.Search(len(p.stages), func(i int) bool { return p.stages[i].count > u })
	s := &p.stages[max(0, i-1)]
	return time.Duration(math.Round((s.start + s.invert(u-s.count)) * 1e9))
}

func (p Profile) at(sec float64) *stage {
	i := sort.Search(len(p.stages), func(i int) bool { return p.stages[i].start > sec })
	return &p.stages[max(0, i-1)]
}

func (p Profile) count(sec float64) float64 {
	s := p.at(sec)
	x := sec - s.start
	return s.count + (s.from+s.rate(x))/2*x
}

func (s *stage) rate(x float64) float64 {
	if s.from == s.to {
		return s.from
	}
	return s.from + (s.to-s.from)*x/s.length
}

// invert returns the x at which n operations of the stage are due: the root of
// from·x + (to-from)/(2·length)·x² = n, in the form that does not cancel.
func (s *stage) invert(n float64) float64 {
	if n <= 0 {
		return 0
	}
	if s.from == s.to {
		return n / s.from
	}
	a := (s.to - s.from) / s.length // operations per second squared
	root := math.Sqrt(max(0, s.from*s.from+2*a*n))
	return min(s.length, 2*n/(s.from+root))
}
