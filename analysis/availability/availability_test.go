// SPDX-License-Identifier: Apache-2.0

package availability_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kvbench/kvbench/analysis/availability"
)

const (
	interval = 100 * time.Millisecond
	deadline = time.Second
	ms       = time.Millisecond
)

// play has a store acknowledge probes of a time, each when end says; a negative end is a failure at the deadline.
func play(length time.Duration, end func(due time.Duration) time.Duration) *availability.Tally {
	t := availability.New(interval, deadline)
	type event struct {
		at  time.Duration
		do  func()
		end bool
	}
	var events []event
	for due := time.Duration(0); due < length; due += interval {
		e := end(due)
		events = append(events, event{at: due, do: func() { t.Due(due) }})
		if e < 0 || e > due+deadline {
			events = append(events, event{due + deadline, func() { t.Failed(due, due+deadline, "timeout") }, true})
		} else {
			events = append(events, event{e, func() { t.Acknowledged(due, e) }, true})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return int(a.at - b.at) })
	for _, e := range events {
		e.do()
	}
	return t
}

// stalled is a store that answers in 2 ms, but for a time in which it answers nothing; then what still waits.
func stalled(from, to time.Duration) func(time.Duration) time.Duration {
	return func(due time.Duration) time.Duration {
		if end := due + 2*ms; end <= from || due >= to {
			return end
		}
		return max(due+2*ms, to)
	}
}

func near(t *testing.T, what string, got, least, most float64) {
	t.Helper()
	if got < least-1e-9 || got > most+1e-9 {
		t.Errorf("%s: %v, want %v to %v", what, got, least, most)
	}
}

// A stall is as long as it was, less the interval at most, wherever it begins and however long it is.
func TestStallIsAsLongAsItWas(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		from := time.Duration(random.Int64N(int64(2 * time.Second)))
		length := 3*interval + time.Duration(random.Int64N(int64(5*time.Second)))
		s := play(12*time.Second, stalled(from, from+length)).Store("a", 1, 13*time.Second, 12*time.Second)
		near(t, "longest stall", s.LongestS, (length - interval).Seconds(), (length + 2*ms).Seconds())
		if len(s.Stalls) != 1 || !s.Stalls[0].Ended {
			t.Fatalf("stalls %+v, want one", s.Stalls)
		}
		near(t, "its beginning", s.Stalls[0].FromS, (from - 2*ms).Seconds(), (from + interval).Seconds())
		late := max(0, (length - deadline).Seconds()) // what came in its last second was acknowledged within the deadline
		near(t, "unavailable", s.UnavailableS, late-interval.Seconds(), late+interval.Seconds())
		if s.Probes != 120 || s.InTime+s.Failed["timeout"] != 120 || s.Unknown != 0 || s.UnprobedS != 0 {
			t.Errorf("%+v", s)
		}
	}
}

func TestNothingHappened(t *testing.T) {
	s := play(10*time.Second, func(due time.Duration) time.Duration { return due + 90*ms }).Store("a", 1, 11*time.Second, 10*time.Second)
	if s.LongestS != 0 || len(s.Stalls) != 0 || s.Stalls == nil || *s.Availability != 1 || s.UnavailableS != 0 || s.Response.P50 < 89_000 {
		t.Errorf("%+v", s)
	}
}

// A store that is slow, but acknowledges one probe after the other, does not stall.
func TestSlowIsNoStall(t *testing.T) {
	s := play(10*time.Second, func(due time.Duration) time.Duration { return due + 350*ms }).Store("a", 1, 12*time.Second, 10*time.Second)
	if len(s.Stalls) != 1 || s.LongestS > 0.351 { // until the first came
		t.Errorf("%+v", s.Stalls)
	}
	near(t, "median", float64(s.Response.P50), 350_000, 351_000)
}

// One write that is lost on its way is no stall, and counts as one.
func TestOneThatFails(t *testing.T) {
	s := play(10*time.Second, func(due time.Duration) time.Duration {
		if due == 5*time.Second {
			return -1
		}
		return due + ms
	}).Store("a", 1, 11*time.Second, 10*time.Second)
	if s.LongestS != 0 || s.Failed["timeout"] != 1 {
		t.Errorf("%+v", s)
	}
	near(t, "unavailable", s.UnavailableS, 0.1, 0.1)
	near(t, "availability", *s.Availability, 0.99, 0.99)
}

func TestStallThatIsNotOver(t *testing.T) {
	s := play(10*time.Second, stalled(8*time.Second, time.Hour)).Store("a", 1, 11*time.Second, 10*time.Second)
	if len(s.Stalls) != 1 || s.Stalls[0].Ended {
		t.Fatalf("%+v", s.Stalls)
	}
	near(t, "stall", s.LongestS, 2.9, 3.01)
}

// While the prober stands still nothing is known, and no stall is claimed.
func TestHeld(t *testing.T) {
	tally := availability.New(interval, deadline)
	tally.Due(0)
	tally.Acknowledged(0, ms)
	tally.Due(100 * ms)
	// It runs again at 5 s; 48 probes were never begun.
	tally.Held(4900*ms, 48)
	tally.Acknowledged(100*ms, 5*time.Second)
	tally.Due(4900 * ms)
	tally.Acknowledged(4900*ms, 5*time.Second+ms)
	s := tally.Store("a", 1, 5001*ms, 5*time.Second)
	if len(s.Stalls) != 0 || s.Probes != 2 || s.InTime != 2 || s.Unknown != 49 {
		t.Errorf("%+v", s)
	}
	near(t, "not known", s.UnprobedS, 4.8, 4.8)
}

// A stall in which the prober stands still for moments is still one, shorter by these.
func TestHeldInAStall(t *testing.T) {
	tally := availability.New(interval, deadline)
	tally.Due(0)
	tally.Acknowledged(0, ms)
	for at := 100 * ms; at < 3*time.Second; at += interval {
		tally.Due(at)
		if at == time.Second || at == 2*time.Second {
			tally.Held(150*ms, 0)
		}
	}
	if tally.Quiet(3 * time.Second) {
		t.Error("a store that stalls is quiet")
	}
	for at := 100 * ms; at < 3*time.Second; at += interval {
		tally.Acknowledged(at, 3*time.Second)
	}
	s := tally.Store("a", 1, 3*time.Second, 3*time.Second)
	near(t, "stall", s.LongestS, 2.6, 2.6)
	// Those due at 1.9 s and 2 s were late only because of it.
	if s.Late != 18 || s.Unknown != 1 || s.InTime != 11 || len(s.Stalls) != 1 || !s.Stalls[0].Ended {
		t.Errorf("%+v", s)
	}
}

// Writes that hang elsewhere, while others are acknowledged or none is due any more, are late, and no stall.
func TestOvertaken(t *testing.T) {
	tally := availability.New(interval, deadline)
	for at := time.Duration(0); at < time.Second; at += interval {
		tally.Due(at)
	}
	tally.Failed(0, 900*ms, "no_connection")
	tally.Acknowledged(900*ms, 950*ms)
	if stall := tally.Stall(10 * time.Second); stall != nil {
		t.Errorf("%+v", stall)
	}
	for at := interval; at < 900*ms; at += interval {
		tally.Failed(at, 10*time.Second, "timeout")
	}
	if !tally.Quiet(10 * time.Second) {
		t.Error("it has acknowledged since")
	}
	s := tally.Store("a", 1, 10*time.Second, time.Second)
	if len(s.Stalls) != 1 || s.Failed["timeout"] != 8 {
		t.Errorf("%+v", s)
	}
	near(t, "stall", s.LongestS, 0.95, 0.95)
}

// In whichever order writes fail, a stall counts from the first that was due.
func TestFailedOutOfOrder(t *testing.T) {
	tally := availability.New(interval, deadline)
	for at := time.Duration(0); at < time.Second; at += interval {
		tally.Due(at)
	}
	for _, i := range rand.New(rand.NewPCG(3, 4)).Perm(10) {
		tally.Failed(time.Duration(i)*interval, time.Second, "cancelled")
	}
	s := tally.Store("a", 1, 2*time.Second, time.Second)
	near(t, "stall", s.LongestS, 2, 2)
	if s.Failed["cancelled"] != 10 || s.Stalls[0].Ended {
		t.Errorf("%+v", s)
	}
}

// An outage of many probes takes no more memory than those in flight, and ends with the first acknowledgement.
func TestLongOutage(t *testing.T) {
	s := play(time.Hour, stalled(10*time.Second, 59*time.Minute)).Store("a", 1, time.Hour, time.Hour)
	if len(s.Stalls) != 1 {
		t.Fatalf("%+v", s.Stalls)
	}
	near(t, "stall", s.LongestS, 3529.8, 3530)
	near(t, "unavailable", s.UnavailableS, 3528.8, 3529.2)
}

func TestTogether(t *testing.T) {
	a := play(10*time.Second, stalled(2*time.Second, 5*time.Second))
	b := play(10*time.Second, stalled(3*time.Second, 7*time.Second))
	stores := []availability.StoreSeen{a.Store("a", 1, 11*time.Second, 10*time.Second), b.Store("b", 2, 11*time.Second, 10*time.Second)}
	c := availability.Together(stores, []*availability.Tally{a, b})
	if c.Probes != 200 || c.LongestStall.Store != "b" {
		t.Errorf("%+v", c)
	}
	near(t, "unavailable", c.UnavailableS, 3.9, 4.1) // from 2 s to 4 s, and from 3 s to 6 s
	if c := availability.Together(nil, nil); c.Availability != nil || c.LongestStall != nil {
		t.Errorf("%+v of nothing", c)
	}
}

// Of very many stalls the longest are kept, in order of time.
func TestManyStalls(t *testing.T) {
	tally := availability.New(interval, deadline)
	at := time.Duration(0)
	for i := range 1000 {
		tally.Due(at)
		tally.Acknowledged(at, at+interval+time.Duration(i+1)*ms/2)
		at += time.Second
	}
	s := tally.Store("a", 1, at, at)
	if len(s.Stalls) != availability.MostStalls || s.Stalls[0].FromS != 900 || s.Stalls[99].FromS != 999 || s.LongestS != 0.6 {
		t.Errorf("%d stalls, from %v to %v, longest %v s", len(s.Stalls), s.Stalls[0], s.Stalls[len(s.Stalls)-1], s.LongestS)
	}
}
