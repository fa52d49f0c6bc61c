// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/clock"
)

func TestProfile(t *testing.T) {
	t.Parallel()
	ramp := func(stages ...Stage) Profile {
		p, err := NewProfile(stages...)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	tests := map[string]struct {
		p    Profile
		u    float64
		due  time.Duration
		rate float64 // at due
	}{
		"first slot":          {Constant(1000), 0, 0, 1000},
		"constant":            {Constant(1000), 1500, 1500 * time.Millisecond, 1000},
		"below one a second":  {Constant(0.25), 3, 12 * time.Second, 0.25},
		"a day at a million":  {Constant(1e6), 86400e6, 24 * time.Hour, 1e6},
		"third of a second":   {Constant(3), 1, 333333333 * time.Nanosecond, 3},
		"ramp up, its middle": {ramp(Stage{0, 1000, 10 * time.Second}), 1250, 5 * time.Second, 500},
		"ramp up, beyond":     {ramp(Stage{0, 1000, 10 * time.Second}), 6000, 11 * time.Second, 1000},
		"ramp down":           {ramp(Stage{1000, 0, 10 * time.Second}, Stage{From: 10, To: 10}), 3750, 5 * time.Second, 500},
		"step":                {ramp(Stage{100, 100, time.Second}, Stage{From: 200, To: 200}), 300, 2 * time.Second, 200},
		"pause":               {ramp(Stage{100, 100, time.Second}, Stage{0, 0, time.Second}, Stage{From: 100, To: 100}), 150, 2500 * time.Millisecond, 100},
		"change":              {Constant(100).Change(2*time.Second, 1000), 700, 2500 * time.Millisecond, 1000},
		"change in a ramp":    {ramp(Stage{0, 1000, 10 * time.Second}).Change(5*time.Second, 100), 1350, 6 * time.Second, 100},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tt.p.Due(tt.u); (got - tt.due).Abs() > 1 {
				t.Errorf("Due(%v) = %v, want %v", tt.u, got, tt.due)
			}
			if got := tt.p.Rate(tt.due); math.Abs(got-tt.rate) > 1e-6*tt.rate {
				t.Errorf("Rate(%v) = %v, want %v", tt.due, got, tt.rate)
			}
			if got := tt.p.Count(tt.due); math.Abs(got-tt.u) > 1e-6*(1+tt.u) {
				t.Errorf("Count(%v) = %v, want %v", tt.due, got, tt.u)
			}
		})
	}
}

func TestProfileRefuses(t *testing.T) {
	t.Parallel()
	for name, stages := range map[string][]Stage{
		"nothing":              nil,
		"zero":                 {{}},
		"negative":             {{From: -1, To: 5}},
		"not a number":         {{From: math.NaN(), To: 5}},
		"infinite":             {{From: 1, To: math.Inf(1)}},
		"endless in the midst": {{From: 1, To: 1}, {From: 2, To: 2}},
		"ends at nothing":      {{From: 5, To: 0, Length: time.Second}},
	} {
		if _, err := NewProfile(stages...); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// laneShare is the share of lane of lanes of worker of workers, as workload.Place deals indexes.
func laneShare(worker, workers, lane, lanes int) Share {
	return Share{First: int64(worker + workers*lane), Step: int64(workers * lanes)}
}

// TestSharesAddUp: whatever the numbers of workers and lanes, every slot of the
// fleet starts exactly once, at its moment.
func TestSharesAddUp(t *testing.T) {
	t.Parallel()
	const rate, end = 977.0, 3 * time.Second
	for _, fleet := range [][]int{{1}, {2, 2}, {3, 1, 2}, {16, 16, 1, 7, 2}} {
		var all []time.Duration
		for worker, lanes := range fleet {
			for lane := range lanes {
				p := New(Config{Profile: Constant(rate), Share: laneShare(worker, len(fleet), lane, lanes), CatchUp: 2})
				for p.Due() < end {
					_, due := p.Take(p.Ready())
					all = append(all, due)
				}
			}
		}
		slices.Sort(all)
		if want := int(rate * end.Seconds()); len(all) != want {
			t.Errorf("lanes %v: %d slots in %v, want %d", fleet, len(all), end, want)
		}
		for i, due := range all {
			if want := Constant(rate).Due(float64(i)); due != want {
				t.Fatalf("lanes %v: slot %d due at %v, want %v", fleet, i, due, want)
			}
		}
	}
}

// run starts every slot as soon as it may, from now until end, and returns the moments.
func run(p *Pacer, clk *clock.Manual, end time.Duration) (starts []time.Duration, skipped int64) {
	for {
		p.Miss(clk.Now(), func(_ time.Duration, n int64) { skipped += n })
		if p.Ready() >= end {
			return starts, skipped
		}
		clk.Set(p.Ready())
		p.Take(clk.Now())
		starts = append(starts, clk.Now())
	}
}

func TestCatchUpIsBounded(t *testing.T) {
	t.Parallel()
	const rate = 1000.0
	p := New(Config{Profile: Constant(rate), Share: Share{0, 1}, CatchUp: 2})
	clk := &clock.Manual{}
	clk.Set(time.Second) // nothing could start for a second
	starts, _ := run(p, clk, 4*time.Second)
	if got := len(starts); got != 4000 {
		t.Errorf("%d starts in 4 s, want all 4000", got)
	}
	for i, s := range starts { // in any 100 ms: at most 2× the target, and the slack
		n := 0
		for _, r := range starts[i:] {
			if r >= s+100*time.Millisecond {
				break
			}
			n++
		}
		if most := int(2*rate*(0.1+Slack.Seconds())) + 1; n > most {
			t.Fatalf("%d starts in the 100 ms after %v, want at most %d", n, s, most)
		}
	}
	caught := starts[slices.IndexFunc(starts, func(s time.Duration) bool { return s > 2*time.Second })]
	if late := caught - p.cfg.Profile.Due(float64(slices.Index(starts, caught))); late > Slack {
		t.Errorf("still %v late at %v: want caught up after the length of the stall", late, caught)
	}
}

func TestNoCatchUpSkipsAndCounts(t *testing.T) {
	t.Parallel()
	p := New(Config{Profile: Constant(1000), Share: Share{0, 1}})
	clk := &clock.Manual{}
	clk.Set(time.Second)
	starts, skipped := run(p, clk, 2*time.Second)
	if want := int64(990); skipped != want {
		t.Errorf("skipped %d, want %d: all that are more than %v late", skipped, want, Slack)
	}
	if want := 2000 - 990; len(starts) != want {
		t.Errorf("%d starts, want %d", len(starts), want)
	}
}

// TestBatches: a target counts operations, of which a slot starts a whole batch.
func TestBatches(t *testing.T) {
	t.Parallel()
	p := New(Config{Profile: Constant(1000), Share: laneShare(1, 2, 0, 1), Batch: 7, CatchUp: 2})
	if want := Constant(1000).Due(7); p.Due() != want {
		t.Errorf("the second slot is due at %v, want %v", p.Due(), want)
	}
	if p.Gap() != 14*time.Millisecond {
		t.Errorf("gap %v, want 14 ms", p.Gap())
	}
	for range 4 {
		p.Take(p.Due())
	}
	if want := Constant(1000).Due(9 * 7); p.Due() != want {
		t.Errorf("slot 9 is due at %v, want %v", p.Due(), want)
	}
	if owed := owed(p, time.Second); owed != 67 { // slots 9, 11, … 141, as 143 × 7 is above 1000
		t.Errorf("%d slots are owed, want 67", owed)
	}
}

func TestOwed(t *testing.T) {
	t.Parallel()
	for _, arrivals := range []Arrivals{Uniform, Poisson} {
		p := New(Config{Profile: Constant(1000), Share: laneShare(1, 3, 0, 2), Arrivals: arrivals, CatchUp: 2})
		q := New(p.cfg)
		var n int64
		for ; q.Due() < 10*time.Second; n++ {
			q.Take(q.Due())
		}
		var behind, off int64
		p.Behind(10*time.Second, func(_ time.Duration, slots int64) { behind += slots })
		if arrivals == Poisson {
			off = int64(4 * math.Sqrt(float64(n)))
		}
		if max(behind-n, n-behind) > off || p.Due() != New(p.cfg).Due() {
			t.Errorf("arrivals %d: %d slots are due, want %d ± %d; the next one %v", arrivals, behind, n, off, p.Due())
		}
		if got := owed(p, 10*time.Second); got != n {
			t.Errorf("arrivals %d: owed %d, want %d", arrivals, got, n)
		}
	}
}

// TestPoisson compares the gaps of a fleet's starts with the exponential law, by
// the Kolmogorov–Smirnov statistic at the 0.1 % level.
func TestPoisson(t *testing.T) {
	t.Parallel()
	const rate, end = 5000.0, 20 * time.Second
	var all []time.Duration
	for lane := range 4 {
		p := New(Config{Profile: Constant(rate), Share: laneShare(0, 1, lane, 4), Arrivals: Poisson, Seed: 7, CatchUp: 2})
		for p.Due() < end {
			_, due := p.Take(p.Ready())
			all = append(all, due)
		}
	}
	slices.Sort(all)
	if n, want := float64(len(all)), rate*end.Seconds(); math.Abs(n-want) > 4*math.Sqrt(want) {
		t.Errorf("%v starts, want %v ± 4 standard deviations", n, want)
	}
	gaps := make([]float64, len(all)-1)
	for i := range gaps {
		gaps[i] = (all[i+1] - all[i]).Seconds()
	}
	slices.Sort(gaps)
	var d float64
	for i, g := range gaps {
		law := 1 - math.Exp(-rate*g)
		d = max(d, math.Abs(law-float64(i)/float64(len(gaps))), math.Abs(law-float64(i+1)/float64(len(gaps))))
	}
	if limit := 1.95 / math.Sqrt(float64(len(gaps))); d > limit {
		t.Errorf("Kolmogorov–Smirnov distance %v from the exponential law, want at most %v", d, limit)
	}
}

func TestRetarget(t *testing.T) {
	t.Parallel()
	p := New(Config{Profile: Constant(100), Share: Share{0, 1}, CatchUp: 2})
	clk := &clock.Manual{}
	before, _ := run(p, clk, 2*time.Second)
	p.Retarget(Constant(100).Change(2*time.Second, 1000))
	after, _ := run(p, clk, 3*time.Second)
	if len(before) != 200 || len(after) != 1000 {
		t.Errorf("%d and %d starts in the seconds before and after, want 200 and 1000", len(before), len(after))
	}
}

func BenchmarkPacer(b *testing.B) {
	p := New(Config{Profile: Constant(1e6), Share: Share{1, 6}, CatchUp: 2})
	for b.Loop() {
		p.Take(p.Ready())
	}
}

func owed(p *Pacer, end time.Duration) (n int64) {
	p.Owed(end, func(_ time.Duration, slots int64) { n += slots })
	return n
}

// TestOwedAge: what is given up is due when it is said to be, or earlier, and no more than a part of a thousand.
func TestOwedAge(t *testing.T) {
	t.Parallel()
	const rate, end = 10_000, 10 * time.Second
	p := New(Config{Profile: Constant(rate), Share: Share{0, 1}, CatchUp: 2})
	next, calls := int64(0), 0
	p.Owed(end, func(due time.Duration, slots int64) {
		next += slots
		calls++
		if want := Constant(rate).Due(float64(next - 1)); due != want {
			t.Fatalf("%d slots up to %d are due at %v, want %v", slots, next, due, want)
		}
	})
	if next != rate*10 || calls > owedParts {
		t.Errorf("%d slots in %d parts", next, calls)
	}
}
