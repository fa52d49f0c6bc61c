// SPDX-License-Identifier: Apache-2.0

package dips

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// steady is a run of n seconds: calls a second that vary as chance has it, and besides by a share of their own.
func steady(r *rand.Rand, rate, spread float64, paced bool, n int) ([]Second, []Span) {
	seconds := make([]Second, n)
	var gaps []Span
	last := 0.0
	for i := range seconds {
		mean := rate * math.Exp(spread*r.NormFloat64())
		calls := poisson(r, mean)
		seconds[i].Answered = calls
		if paced {
			seconds[i].Due = rate
		}
		if calls == 0 {
			continue
		}
		// The first and the last answer of the second: the least and the most of so many at random.
		first := float64(i) + 1 - math.Pow(r.Float64(), 1/calls)
		if first-last >= 0.5 {
			gaps = append(gaps, Span{last, first})
		}
		last = float64(i) + math.Pow(r.Float64(), 1/calls)
		last = max(last, first)
	}
	return seconds, gaps
}

func poisson(r *rand.Rand, mean float64) float64 {
	if mean > 200 {
		return max(0, math.Round(mean+math.Sqrt(mean)*r.NormFloat64()))
	}
	n, p := 0.0, r.Float64()
	for limit := math.Exp(-mean); p > limit; n++ {
		p *= r.Float64()
	}
	return n
}

func TestSteadyRunsHaveNoDip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, rate := range []float64{2, 30, 500, 20_000} {
		for _, spread := range []float64{0, 0.05, 0.3} {
			for _, paced := range []bool{true, false} {
				wrong := 0
				for range 42 { // a thousand in all
					seconds, gaps := steady(r, rate, spread, paced, 300)
					wrong += len(Find(seconds, gaps))
				}
				if wrong > 0 {
					t.Errorf("%g/s, spread %g, paced %v: %d dips in steady runs", rate, spread, paced, wrong)
				}
			}
		}
	}
}

// Seconds that resemble the ones before them: a rate that wanders, as with a cache that fills or a neighbour that
// comes and goes, or that swings, as with compactions.
func TestCorrelatedNoiseIsNoDip(t *testing.T) {
	if testing.Short() {
		t.Skip("much arithmetic in one goroutine, of which the race detector learns nothing")
	}
	r := rand.New(rand.NewPCG(5, 6))
	const rate, n = 5000.0, 300
	find := func(t *testing.T, mean func(i int) float64) {
		t.Helper()
		for _, due := range []float64{0, rate} {
			seconds := make([]Second, n)
			for i := range seconds {
				seconds[i] = Second{Answered: poisson(r, rate*mean(i)), Due: due}
			}
			if found := Find(seconds, nil); len(found) > 0 {
				t.Errorf("due %g: found %+v", due, found)
			}
		}
	}
	for _, spread := range []float64{0.05, 0.1, 0.3} {
		for _, memory := range []float64{0.5, 0.9, 0.98} { // of AR(1): the correlation of a second with the next
			t.Run(fmt.Sprintf("wanders by %g, memory %g", spread, memory), func(t *testing.T) {
				for range 50 {
					x := r.NormFloat64()
					find(t, func(int) float64 {
						x = memory*x + math.Sqrt(1-memory*memory)*r.NormFloat64()
						return math.Exp(spread * x)
					})
				}
			})
		}
		for _, period := range []float64{3, 10, 30, 60, 120, 600} {
			t.Run(fmt.Sprintf("swings by %g in %g s", spread, period), func(t *testing.T) {
				for range 10 {
					phase := r.Float64()
					find(t, func(i int) float64 { return 1 + spread*math.Sin(2*math.Pi*(float64(i)/period+phase)) })
				}
			})
		}
	}
}

// The database stops for a second, wherever that begins within a second of the run.
func TestStopOfASecondIsFound(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const rate, length = 500.0, 1.0
	for _, loop := range []string{"open", "open, slots skipped", "closed"} {
		for _, chance := range []bool{false, true} {
			for phase := range 100 {
				from := 40 + float64(phase)/100
				to := from + length
				name := fmt.Sprintf("%s loop, chance %v, from %.2f s", loop, chance, from)
				seconds := make([]Second, 80)
				var gaps []Span
				last := 0.0
				answer := func(at float64) {
					if i := int(at); i < len(seconds) {
						seconds[i].Answered++
					}
					if at-last >= 0.5 {
						gaps = append(gaps, Span{last, at})
					}
					last = max(last, at)
				}
				for at := 0.0; at < 80; {
					if chance {
						at += r.ExpFloat64() / rate
					} else {
						at += 1 / rate
					}
					switch end := at + 0.001; {
					case end < from || end >= to:
						answer(end)
					case loop == "open": // at twice the rate until it has caught up
						answer(to + (end-from)/100)
					}
				}
				for i := range seconds {
					if loop != "closed" {
						seconds[i].Due = rate
					}
				}
				found := Find(seconds, gaps)
				if len(found) != 1 {
					t.Fatalf("%s: found %+v", name, found)
				}
				d := found[0]
				if math.Abs(d.From-from) > 0.05 || d.To < to-0.05 || d.To > math.Ceil(to)+2 /* by chance a second or two may be below 95 % */ || d.Open {
					t.Errorf("%s: it is said to be from %.2f to %.2f s", name, d.From, d.To)
				}
				if math.Abs(d.Gap.Length()-length) > 0.05 {
					t.Errorf("%s: the gap is said to be %.3f s", name, d.Gap.Length())
				}
			}
		}
	}
}

func TestDips(t *testing.T) {
	const n = 100
	flat := func(change func(i int, s *Second)) []Second {
		seconds := make([]Second, n)
		for i := range seconds {
			seconds[i] = Second{Answered: 1000, Due: 1000}
			change(i, &seconds[i])
		}
		return seconds
	}
	for _, c := range []struct {
		name   string
		change func(i int, s *Second)
		want   []Dip
	}{
		{"half of it for five seconds", func(i int, s *Second) {
			if i >= 50 && i < 55 {
				s.Answered = 500
			}
		}, []Dip{{Span: Span{50, 55}, Depth: 0.5}}},
		{"a third of it, after a second of which it is a small part, with little known before", func(i int, s *Second) {
			switch {
			case i == 12:
				s.Answered = 810
			case i > 12 && i < 16:
				s.Answered = 640
			}
		}, []Dip{{Span: Span{13, 16}, Depth: 0.36}}},
		{"to the end", func(i int, s *Second) {
			if i >= 60 {
				s.Answered = 400
			}
		}, []Dip{{Span: Span{60, n}, Depth: 0.6, Open: true}}},
		{"the target falls, and all of it is answered", func(i int, s *Second) {
			if i >= 60 {
				s.Answered, s.Due = 300, 300
			}
		}, nil},
		{"a target that pauses", func(i int, s *Second) {
			if i >= 60 && i < 70 {
				s.Answered, s.Due = 0, -1
			}
		}, nil},
		{"too little is known", func(i int, s *Second) {
			if i == 5 {
				s.Answered = 0
			}
		}, nil},
		{"it catches up and is well", func(i int, s *Second) {
			if i == 50 {
				s.Answered = 100
			}
			if i == 51 {
				s.Answered = 1900
			}
		}, []Dip{{Span: Span{50, 51}, Depth: 0.9}}},
	} {
		found := Find(flat(c.change), nil)
		if len(found) != len(c.want) {
			t.Errorf("%s: found %+v, want %+v", c.name, found, c.want)
			continue
		}
		for i, d := range found {
			if w := c.want[i]; d.Span != w.Span || d.Open != w.Open || math.Abs(d.Depth-w.Depth) > 1e-9 {
				t.Errorf("%s: found %+v, want %+v", c.name, d, w)
			}
		}
	}
}
