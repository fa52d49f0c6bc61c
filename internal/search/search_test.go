// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/clock"
)

// system is one that is searched. It breaks above its threshold, more or less.
type system struct {
	*rand.Rand
	clock     clock.Manual
	threshold float64
	noise     float64       // standard deviation of a cell, as a share of the rate; of longer ones it is less
	lapses    float64       // the share of cells that show the contrary
	slow      float64       // by how much more, as a share, short cells hold: what breaks takes time to build up
	wall      float64       // the client can do no more; 0: it can
	blind     float64       // the share of cells that show nothing
	overhead  time.Duration // up to so much
	cell      time.Duration
	rates     []float64
}

func (s *system) Run(_ context.Context, rate float64, length time.Duration) (Outcome, error) {
	s.rates = append(s.rates, rate)
	s.clock.Set(s.clock.Now() + length + time.Duration(s.Float64()*float64(s.overhead)))
	if s.Float64() < s.blind {
		return Outcome{State: Unknown, Why: "nobody looked"}, nil
	}
	if s.wall > 0 && rate >= s.wall {
		return Outcome{State: Client, Why: "no cores"}, nil
	}
	noise := s.noise * math.Sqrt(s.cell.Seconds()/length.Seconds()) * s.NormFloat64()
	threshold := s.threshold
	if length < verifyLength {
		threshold *= 1 + s.slow
	}
	if (rate*math.Exp(noise) > threshold) != (s.Float64() < s.lapses) {
		return Outcome{State: Broken, Why: "too slow"}, nil
	}
	return Outcome{State: Kept}, nil
}

const (
	cellLength   = 20 * time.Second
	verifyLength = 3 * cellLength
)

func config() Config {
	return Config{
		Start: 1000, Min: 10, Max: 1e5, Precision: 0.03, Cell: cellLength, Verify: verifyLength, Budget: 30 * time.Minute, Overhead: 8 * time.Second,
	}
}

func (s *system) search(t *testing.T, c Config) *Result {
	t.Helper()
	s.cell, c.Clock = c.Cell, &s.clock
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), c, s)
	if err != nil {
		t.Fatal(err)
	}
	if s.clock.Now() > c.Budget {
		t.Errorf("threshold %v: the search took %v of %v", s.threshold, s.clock.Now(), c.Budget)
	}
	for _, rate := range s.rates {
		if rate < c.Min || rate > c.Max {
			t.Errorf("threshold %v: a cell at %v/s, which is not in %v/s to %v/s", s.threshold, rate, c.Min, c.Max)
		}
	}
	if len(r.Cells) != len(s.rates) || r.Reason == "" {
		t.Errorf("%d cells of %d, and the reason %q", len(r.Cells), len(s.rates), r.Reason)
	}
	return r
}

// TestExact: without noise the answer is within the precision below the threshold, the interval holds it, and a better system has no lower answer.
func TestExact(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	last := 0.0
	for threshold := 12.0; threshold < 0.9e5; threshold *= 1.3 + random.Float64() {
		s := &system{Rand: random, threshold: threshold, overhead: 8 * time.Second}
		r := s.search(t, config())
		t.Logf("threshold %.5g: %.5g, %.5g to %.5g, %d cells", threshold, r.Verified, r.Low, r.High, len(r.Cells))
		if r.Reason != Found || r.Low > threshold || r.High < threshold || r.High/r.Low > 1.05 {
			t.Errorf("threshold %v: %s, %v to %v", threshold, r.Reason, r.Low, r.High)
		}
		if r.Verified > threshold || r.Verified < threshold/1.04 || r.Verified < last {
			t.Errorf("threshold %v: the answer is %v, after %v for less", threshold, r.Verified, last)
		}
		last = r.Verified
		for i := 1; i < len(s.rates) && r.Cells[i].State == Kept && r.Cells[i-1].State == Kept && r.Cells[i].Length == cellLength; i++ {
			if s.rates[i] <= s.rates[i-1] {
				t.Errorf("threshold %v: after %v/s, which was held, comes %v/s", threshold, s.rates[i-1], s.rates[i])
			}
			if s.rates[0] >= threshold {
				break
			}
		}
	}
}

// TestNoise: the interval holds the threshold in 95 % of the searches, however much chance there is.
func TestNoise(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine computes")
	}
	for _, tt := range []struct {
		name          string
		noise, lapses float64
		budget        time.Duration
		found         float64 // in at least so many the precision is reached within the budget
		near          float64 // so close to the threshold are the answers of nine in ten
	}{
		{"quiet", 0.005, 0, 30 * time.Minute, 0.9, 0.03},
		{"noisy", 0.02, 0, time.Hour, 0.9, 0.04},
		{"very noisy", 0.03, 0, time.Hour, 0.6, 0.06},
		{"disturbed", 0.005, 0.03, 45 * time.Minute, 0.9, 0.03},
		{"short of time", 0.02, 0.01, 15 * time.Minute, 0.3, 0.15},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(7, uint64(len(tt.name))))
			const searches = 80
			var right, found, near, cells, width float64
			for range searches {
				s := &system{Rand: random, threshold: math.Exp(math.Log(30) + random.Float64()*math.Log(1000)), noise: tt.noise, lapses: tt.lapses, overhead: 8 * time.Second}
				c := config()
				c.Budget = tt.budget
				r := s.search(t, c)
				if r.Low <= s.threshold && (r.High == 0 || s.threshold <= r.High) {
					right++
				}
				if r.Reason == Found {
					found++
				}
				if math.Abs(r.Verified/s.threshold-1) <= tt.near {
					near++
				}
				cells += float64(len(r.Cells))
				if r.High > 0 && r.Low > 0 {
					width += r.High/r.Low - 1
				}
			}
			t.Logf("right %.3f, found %.3f, near %.3f; %.1f cells, %.3f wide", right/searches, found/searches, near/searches, cells/searches, width/searches)
			if right < 0.95*searches || found < tt.found*searches || near < 0.85*searches {
				t.Errorf("of %d searches %v have the threshold in the interval, %v are as precise as asked for, %v within %v of it", searches, right, found, near, tt.near)
			}
		})
	}
}

// TestShortCellsDeceive: what only long runs show counts, and not what short ones have held.
func TestShortCellsDeceive(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, seed))
		s := &system{Rand: random, threshold: 200 + 1000*random.Float64(), noise: 0.003, slow: 0.08 * random.Float64(), overhead: 8 * time.Second}
		c := config()
		c.Budget = time.Hour
		if r := s.search(t, c); r.Reason != Found || r.Verified > s.threshold*1.01 || r.Verified < s.threshold/1.05 || r.High > s.threshold*1.05 {
			t.Errorf("threshold %v, of short cells %v %% more: %s, %v is verified, %v to %v", s.threshold, s.slow*100, r.Reason, r.Verified, r.Low, r.High)
		}
	}
}

// TestNoAnswer: what is not known is not said, and why.
func TestNoAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		system system
		change func(*Config)
		reason Reason
		why    string
		check  func(r *Result) bool
	}{
		"the client is the limit": {
			system{threshold: 5e4, wall: 9000}, nil, ByClient, "no cores",
			func(r *Result) bool { return r.Verified == 0 && r.High == 0 && r.Low > 8000 && r.Low < 9000 },
		},
		"the client is the limit from the start": {
			system{threshold: 5e4, wall: 1}, nil, ByClient, "no cores",
			func(r *Result) bool { return r.Verified == 0 && r.Low == 0 },
		},
		"the client's limit is higher": {
			system{threshold: 6500, wall: 7500}, nil, Found, "",
			func(r *Result) bool { return r.Low <= 6500 && r.High >= 6500 && r.High < 7500 },
		},
		"more than the bound": {
			system{threshold: 5e4}, func(c *Config) { c.Max = 3000 }, AtMax, "",
			func(r *Result) bool { return r.Verified == 3000 && r.High == 0 && len(r.Cells) == 4 },
		},
		"less than the bound": {
			system{threshold: 5}, nil, BelowMin, "",
			func(r *Result) bool { return r.Verified == 0 && r.Low == 0 && r.High == 10 },
		},
		"little less than the bound": {
			system{threshold: 9.8, noise: 0.02}, nil, BelowMin, "",
			func(r *Result) bool { return r.Verified == 0 },
		},
		"nothing is seen": {
			system{threshold: 2000, blind: 1}, nil, ByUnknown, "nobody looked",
			func(r *Result) bool { return len(r.Cells) == mostUnknown && r.Low == 0 && r.High == 0 },
		},
		"now and then nothing is seen": {
			system{threshold: 2000, blind: 0.15}, nil, Found, "",
			func(r *Result) bool { return r.Low <= 2000 && r.High >= 2000 },
		},
		"no time but to begin": {
			system{threshold: 5e4}, func(c *Config) { c.Budget = 3 * time.Minute }, ByBudget, "",
			func(r *Result) bool { return r.Verified >= 16000 && r.Low == r.Verified && r.High == 0 },
		},
		"time for one cell": {
			system{threshold: 5e4}, func(c *Config) { c.Budget = 100 * time.Second }, ByBudget, "",
			func(r *Result) bool { return r.Verified == 1000 && len(r.Cells) == 2 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := &tt.system, config()
			s.Rand = rand.New(rand.NewPCG(3, 3))
			if tt.change != nil {
				tt.change(&c)
			}
			if r := s.search(t, c); r.Reason != tt.reason || r.Why != tt.why || !tt.check(r) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// ending is a runner whose third cell ends with the context, or with an error.
type ending struct {
	system
	err  error
	stop func()
}

func (e *ending) Run(ctx context.Context, rate float64, length time.Duration) (Outcome, error) {
	if len(e.rates) < 2 {
		return e.system.Run(ctx, rate, length)
	}
	if e.err == nil {
		e.stop()
		<-ctx.Done()
	}
	return Outcome{State: Broken, Run: "third"}, e.err
}

// TestEnds: a search that is interrupted, whose cell fails, or whose cell takes longer than its budget, has what was seen before.
func TestEnds(t *testing.T) {
	unplugged := errors.New("unplugged")
	for _, tt := range []struct {
		reason Reason
		err    error
		budget time.Duration // real time, in which the third cell waits
	}{
		{Interrupted, nil, 0},
		{Failed, unplugged, 0},
		{ByBudget, nil, 200 * time.Millisecond},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		c := config()
		e := &ending{err: tt.err, stop: cancel, system: system{Rand: rand.New(rand.NewPCG(1, 1)), threshold: 1e4}}
		if tt.budget > 0 { // the clock of its system goes faster than that of the context
			c.Cell, c.Verify, c.Budget, c.Overhead = time.Nanosecond, time.Nanosecond, tt.budget, 0
			e.stop = func() {}
		}
		e.cell, c.Clock = c.Cell, &e.clock
		r, err := Run(ctx, c, e)
		cancel()
		if r.Reason != tt.reason || !errors.Is(err, tt.err) || len(r.Cells) != 3 || r.Cells[2].State != Unknown || r.Low != 2000 || r.High != 0 {
			t.Errorf("%s: %+v, %v", tt.reason, r, err)
		}
	}
}

func TestCheck(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"no rate":              func(c *Config) { c.Start = 0 },
		"not a number":         func(c *Config) { c.Start = math.NaN() },
		"start above":          func(c *Config) { c.Start = 2e5 },
		"start below":          func(c *Config) { c.Start = 9 },
		"bounds":               func(c *Config) { c.Min, c.Max = 2000, 1000 },
		"too fast":             func(c *Config) { c.Max = 1e10 },
		"no least":             func(c *Config) { c.Min = 0 },
		"too precise":          func(c *Config) { c.Precision = 0.001 },
		"vague":                func(c *Config) { c.Precision = 1 },
		"no cell":              func(c *Config) { c.Cell = 0 },
		"verified for less":    func(c *Config) { c.Verify = c.Cell - 1 },
		"budget of too little": func(c *Config) { c.Budget = c.Cell + c.Verify },
	} {
		c := config()
		if change(&c); c.Check() == nil {
			t.Errorf("%s: %+v can be searched", name, c)
		}
	}
}

func TestRounding(t *testing.T) {
	for rate, want := range map[float64]float64{1234.56: 1234, 1000: 1000, 999.99: 999.9, 0.0123456: 0.01234, 98765: 98760, 1e9: 1e9, 100000.5: 1e5} {
		if got := floor4(rate); math.Abs(got/want-1) > 1e-12 || got > rate {
			t.Errorf("%v is rounded down to %v, want %v", rate, got, want)
		}
	}
}
