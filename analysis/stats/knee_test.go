// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// saturating is a closed loop: rate in proportion to threads up to a capacity, with repeats that differ by a share.
func saturating(random *rand.Rand, threads []float64, capacity float64, n int, noise float64) [][]float64 {
	all := make([][]float64, len(threads))
	for i, t := range threads {
		for range n {
			all[i] = append(all[i], min(100*t, capacity)*math.Exp(noise*random.NormFloat64()))
		}
	}
	return all
}

var powers = []float64{1, 2, 4, 8, 16, 32, 64, 128}

func TestKnee(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for capacity, want := range map[float64]int{50: 0, 100: 0, 800: 3, 805: 3, 1600: 4, 1e9: 8} {
		k := KneeOf(saturating(random, powers, capacity, 1, 0), Saturation)
		if k.At != want || k.Known || k.Low != want || k.High != want {
			t.Errorf("capacity %v: %+v, want %d", capacity, k, want)
		}
		if k := KneeOf(saturating(random, powers, capacity, 3, 1e-9), Saturation); k.At != want || k.Low != want || k.High != want || !k.Known {
			t.Errorf("capacity %v, three times: %+v, want %d", capacity, k, want)
		}
	}
	falling := [][]float64{{100}, {200}, {150}, {100}}
	if k := KneeOf(falling, Saturation); k.At != 1 {
		t.Errorf("a rate that falls: %+v", k)
	}
	met := Met([]float64{100, 200, 300}, 0.99)
	for _, c := range []struct {
		rates []float64
		want  int
	}{{[]float64{100, 200, 300}, 3}, {[]float64{100, 199, 250}, 1}, {[]float64{98, 200, 300}, -1}} {
		if got := met(c.rates); got != c.want {
			t.Errorf("%v: met up to %d, want %d", c.rates, got, c.want)
		}
	}
}

// With noise the interval holds the true knee in 95 % of the studies, and is not wider than it must be.
func TestKneeInterval(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("numbers, and nothing concurrent")
	}
	random := rand.New(rand.NewPCG(3, 4))
	const studies = 60
	for _, noise := range []float64{0.02, 0.1} {
		held, wide := 0, 0
		for range studies {
			k := KneeOf(saturating(random, powers, 1200, 3, noise), Saturation)
			if k.Low <= 4 && 4 <= k.High {
				held++
			}
			wide += k.High - k.Low
		}
		// Of 60 with 95 % each, fewer than 50 are 1 in 10,000.
		if held < 50 {
			t.Errorf("noise %v: %d of %d intervals hold the knee", noise, held, studies)
		}
		if noise == 0.02 && wide > studies/2 {
			t.Errorf("noise %v: intervals of %v steps on average", noise, float64(wide)/studies)
		}
	}
}
