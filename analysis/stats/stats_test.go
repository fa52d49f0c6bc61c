// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

func near(got, want, tolerance float64) bool { return math.Abs(got-want) <= tolerance }

// Welch's test of two samples; p is that of the formula, integrated by hand.
func TestSub(t *testing.T) {
	t.Parallel()
	a := []float64{27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4}
	b := []float64{27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 30.5, 22.2}
	d := Sub(Mean(b), Mean(a))
	if !near(d.Freedom, 27.908, 0.001) || !near(d.P(), 0.0117214, 1e-6) || !near(d.Value, 2.68667, 1e-5) {
		t.Errorf("%+v, p %g", d, d.P())
	}
	if w := d.HalfWidth(1 - d.P()); !near(w, d.Value, 1e-6) {
		t.Errorf("the interval at 1-p reaches %g from %g, not zero", w, d.Value)
	}
}

// Quantiles of Student's distribution, from the tables.
func TestHalfWidth(t *testing.T) {
	t.Parallel()
	for freedom, want := range map[float64]float64{2: 9.925, 4: 4.604, 10: 3.169, 30: 2.750, math.Inf(1): 2.576} {
		if got := (Difference{Variance: 1, Freedom: freedom}).HalfWidth(0.99); !near(got, want, 0.001) {
			t.Errorf("%g degrees of freedom: %g, want %g", freedom, got, want)
		}
	}
}

func TestCertain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		d Difference
		p float64
	}{{Difference{Value: 1, Freedom: 3}, 0}, {Difference{Freedom: 3}, 1}, {Difference{Variance: 1, Freedom: 3}, 1}} {
		if p := tt.d.P(); p != tt.p {
			t.Errorf("%+v: p %g, want %g", tt.d, p, tt.p)
		}
	}
}

// A single value is taken to vary as much as the others do, and nothing more than that is known of it.
func TestBetween(t *testing.T) {
	t.Parallel()
	many := []float64{9, 10, 11, 10}
	d := Between([]float64{12}, many, 0)
	if want := 2.0 / 3 * (1 + 1.0/4); d.Value != 2 || !near(d.Variance, want, 1e-12) || d.Freedom != 3 {
		t.Errorf("%+v, want a variance of %g", d, want)
	}
	if back := Between(many, []float64{12}, 0); back.Value != -2 || back.Variance != d.Variance {
		t.Errorf("the other way: %+v", back)
	}
	// Values that are equal by chance are not known better than they can be told apart.
	if d := Between([]float64{202, 202}, []float64{200, 200}, 1); d.P() < 0.1 {
		t.Errorf("%+v: p %g", d, d.P())
	}
}

func TestHolm(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ p, want []float64 }{
		{nil, []float64{}},
		{[]float64{0.02}, []float64{0.02}},
		{[]float64{0.04, 0.01, 0.03, 0.005}, []float64{0.06, 0.03, 0.06, 0.02}},
		{[]float64{0.5, 0.9, 0.4}, []float64{1, 1, 1}},
	} {
		got := Holm(tt.p)
		if len(got) == 0 && len(tt.want) == 0 {
			continue
		}
		for i := range got {
			got[i] = math.Round(got[i]*1e9) / 1e9
		}
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("Holm(%v) = %v, want %v", tt.p, got, tt.want)
		}
	}
}

// autoregressive is a first order process with a standard deviation of 1.
func autoregressive(random *rand.Rand, n int, phi float64) []float64 {
	x, at := make([]float64, n), random.NormFloat64()
	for i := range x {
		x[i], at = at, phi*at+math.Sqrt(1-phi*phi)*random.NormFloat64()
	}
	return x
}

// The sum of a long series is as sure as theory has it, whatever the series remembers.
func TestTotal(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	const n = 5000
	for _, phi := range []float64{0, 0.5, 0.9, 0.97} {
		t.Run(fmt.Sprint(phi), func(t *testing.T) {
			want := n * (1 - phi) / (1 + phi)
			sum, effective := 0.0, 0.0
			const rounds = 20
			for range rounds {
				total, e := Total(autoregressive(random, n, phi))
				sum, effective = sum+total.Variance/rounds, effective+e/rounds
			}
			if math.Abs(effective/want-1) > 0.2 {
				t.Errorf("worth %.0f independent values, want %.0f", effective, want)
			}
			if want := n * (1 + phi) / (1 - phi); math.Abs(sum/want-1) > 0.3 {
				t.Errorf("variance of the sum %.0f, want %.0f", sum, want)
			}
		})
	}
}

// A series that is short for its memory hides it; it must not pass for a sure one.
func TestTotalOfShortSeries(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	over := 0
	for range 500 {
		if _, effective := Total(autoregressive(random, 60, 0.97)); effective > 15 {
			over++
		}
	}
	if over > 5 {
		t.Errorf("60 values that are worth one look like more than 15 in %d of 500 cases", over)
	}
	for _, series := range [][]float64{nil, {1}} {
		if sum, effective := Total(series); effective != 0 || !math.IsInf(sum.Variance, 1) {
			t.Errorf("%v: %+v, worth %g", series, sum, effective)
		}
	}
	if sum, effective := Total([]float64{5, 5, 5}); sum.Value != 15 || sum.Variance != 0 || effective != 3 {
		t.Errorf("what never varies: %+v, worth %g", sum, effective)
	}
}
