// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"math"
	"sort"
	"testing"

	"github.com/kvbench/kvbench/internal/spec"
)

// goodFit fails the test when counts do not follow the probabilities. Chi-square of k-1 degrees
// of freedom is close to normal for the k used here; 5 sigma is one false alarm in millions, and seeds are fixed.
func goodFit(t *testing.T, counts []int64, probability func(i int) float64) {
	t.Helper()
	var total int64
	for _, c := range counts {
		total += c
	}
	chi, freedom, tail, tailCount := 0.0, -1, 0.0, int64(0)
	for i, c := range counts {
		expected := probability(i) * float64(total)
		if expected < 10 { // too few for the approximation: all together
			tail, tailCount = tail+expected, tailCount+c
			continue
		}
		chi += (float64(c) - expected) * (float64(c) - expected) / expected
		freedom++
	}
	if tail > 10 {
		chi += (float64(tailCount) - tail) * (float64(tailCount) - tail) / tail
		freedom++
	}
	if freedom < 1 {
		return
	}
	if limit := float64(freedom) + 5*math.Sqrt(2*float64(freedom)); chi > limit {
		t.Errorf("chi-square %.1f with %d degrees of freedom, limit %.1f", chi, freedom, limit)
	}
}

func draw(c *chooser, n int64, draws int64) []int64 {
	counts := make([]int64, n)
	for i := range draws {
		r := newRandom(1, i)
		counts[c.next(&r, n, i)]++
	}
	return counts
}

func zeta(n int64, q float64) (sum float64) {
	for i := n; i >= 1; i-- {
		sum += math.Pow(float64(i), -q)
	}
	return sum
}

func TestRequestDistributions(t *testing.T) {
	t.Parallel()
	const n, draws = 1000, 1_000_000
	newFor := func(pairs ...string) *chooser {
		c := newChooser(parse(t, append(pairs, "recordcount", fmt.Sprint(n))...))
		return &c
	}
	t.Run("uniform", func(t *testing.T) {
		goodFit(t, draw(newFor(), n, draws), func(int) float64 { return 1.0 / n })
	})
	t.Run("sequential", func(t *testing.T) {
		for i, c := range draw(newFor("requestdistribution", "sequential"), n, draws) {
			if c != draws/n {
				t.Fatalf("record %d was drawn %d times", i, c)
			}
		}
	})
	t.Run("hotspot", func(t *testing.T) {
		for _, f := range [][2]float64{{0.2, 0.8}, {0, 0.5}, {1, 0.5}, {0.5, 0}, {0.5, 1}, {0.001, 0.9}} {
			data, ops := f[0], f[1]
			c := newFor("requestdistribution", "hotspot", "hotspotdatafraction", fmt.Sprint(data), "hotspotopnfraction", fmt.Sprint(ops))
			if data == 0 {
				ops = 0
			} else if data == 1 {
				ops = 1
			}
			goodFit(t, draw(c, n, draws), func(i int) float64 {
				if float64(i) < data*n {
					return ops / (data * n)
				}
				return (1 - ops) / ((1 - data) * n)
			})
		}
	})
	t.Run("exponential", func(t *testing.T) {
		for _, frac := range []float64{0.8571428571, 0.1, 0.01} {
			c := newFor("requestdistribution", "exponential", "exponential.frac", fmt.Sprint(frac))
			counts := draw(c, n, draws)
			rate := -math.Log(0.05) / (frac * n)
			norm := -math.Expm1(-rate * n)
			goodFit(t, counts, func(i int) float64 {
				age := float64(n - 1 - i)
				return (math.Exp(-rate*age) - math.Exp(-rate*(age+1))) / norm
			})
		}
	})
	for _, q := range []string{"0.5", "0.99", "1", "1.3", "3"} {
		theta := 0.0
		fmt.Sscan(q, &theta)
		sum := zeta(n, theta)
		t.Run("latest "+q, func(t *testing.T) {
			counts := draw(newFor("requestdistribution", "latest", "zipfian.constant", q), n, draws)
			goodFit(t, counts, func(i int) float64 { return math.Pow(float64(n-i), -theta) / sum })
		})
		t.Run("zipfian "+q, func(t *testing.T) {
			c := newFor("requestdistribution", "zipfian", "zipfian.constant", q)
			counts := draw(c, n, draws)
			rank := make(map[int64]int, n)
			for i := range int64(n) {
				rank[scramble(i, n, c.domain)] = int(i)
			}
			goodFit(t, counts, func(i int) float64 { return math.Pow(float64(rank[int64(i)]+1), -theta) / sum })
		})
	}
}

// Over ten billion items the law is compared in ranges of ranks that grow by a half.
func TestZipfOverTenBillion(t *testing.T) {
	t.Parallel()
	const n, q = int64(10_000_000_000), 0.99
	// zeta of the first m ranks: summed up to 10⁴, then by Euler and Maclaurin.
	zetaTo := func(m int64) float64 {
		const exact = 10_000
		if m <= exact {
			return zeta(m, q)
		}
		a, b := float64(exact), float64(m)
		f := func(x float64) float64 { return math.Pow(x, -q) }
		return zeta(exact, q) + (math.Pow(b, 1-q)-math.Pow(a, 1-q))/(1-q) + (f(b)-f(a))/2 + q/12*(math.Pow(a, -q-1)-math.Pow(b, -q-1))
	}
	total := zetaTo(n)
	if math.Abs(total-26.46902820178302) > 1e-6 {
		t.Fatalf("zeta %.9f is not the one that YCSB computed", total)
	}
	var bounds []int64
	for b := int64(1); b < n; b = max(b+1, b*3/2) {
		bounds = append(bounds, b)
	}
	bounds = append(bounds, n)
	counts := make([]int64, len(bounds))
	z := newZipf(n, q)
	const draws = 2_000_000
	for i := range int64(draws) {
		r := newRandom(3, i)
		rank := z.next(&r)
		if rank < 0 || rank >= n {
			t.Fatalf("rank %d", rank)
		}
		counts[sort.Search(len(bounds), func(j int) bool { return rank < bounds[j] })]++
	}
	goodFit(t, counts, func(j int) float64 {
		low := 0.0
		if j > 0 {
			low = zetaTo(bounds[j-1])
		}
		return (zetaTo(bounds[j]) - low) / total
	})
}

func TestZipfHoldsItsRange(t *testing.T) {
	t.Parallel()
	for _, q := range []float64{0.01, 0.5, 0.99, 0.999999, 1, 1.000001, 2, 10} {
		for _, n := range []int64{1, 2, 3, 1000, 1 << 40, 1 << 60} {
			z := newZipf(n, q)
			for i := range int64(2000) {
				r := newRandom(9, i)
				if k := z.next(&r); k < 0 || k >= n {
					t.Fatalf("rank %d of %d for q=%v", k, n, q)
				}
			}
		}
	}
}

func TestScrambleIsAPermutation(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{1, 2, 3, 5, 64, 1000, 4097} {
		for _, domain := range []uint{0, 12, 14} {
			seen := make([]bool, n)
			for i := range n {
				x := scramble(i, n, domain)
				if x < 0 || x >= n || seen[x] {
					t.Fatalf("%d of %d goes to %d", i, n, x)
				}
				seen[x] = true
			}
		}
	}
	// Growing within the domain moves few: the hot records stay hot.
	moved := 0
	for i := range int64(1000) {
		if scramble(i, 1000, 11) != scramble(i, 1010, 11) {
			moved++
		}
	}
	if moved > 30 {
		t.Errorf("%d of 1000 moved", moved)
	}
}

func TestFoldedZipfianIsYCSBs(t *testing.T) {
	t.Parallel()
	const n = 1000
	c := newChooser(parse(t, "requestdistribution", "zipfian", "zipfian.items", "10000000000", "recordcount", fmt.Sprint(n)))
	var hottest int64
	counts := draw(&c, n, 500_000)
	for _, x := range counts {
		hottest = max(hottest, x)
	}
	// The first rank has 1/26.469 of all draws, and its record some of the others.
	if share := float64(hottest) / 500_000; share < 0.0375 || share > 0.045 {
		t.Errorf("the hottest record has %.4f of the draws", share)
	}
}

func TestLengths(t *testing.T) {
	t.Parallel()
	sample := func(l lengths, high int) []int64 {
		counts := make([]int64, high+1)
		for i := range int64(500_000) {
			r := newRandom(2, i)
			counts[l.next(&r)]++
		}
		return counts
	}
	goodFit(t, sample(newLengths(spec.Uniform, 3, 20, spec.LengthHistogram{}), 20), func(i int) float64 {
		if i < 3 {
			return 0
		}
		return 1.0 / 18
	})
	goodFit(t, sample(newLengths(spec.Zipfian, 1, 100, spec.LengthHistogram{}), 100), func(i int) float64 {
		if i < 1 {
			return 0
		}
		return math.Pow(float64(i), -0.99) / zeta(100, 0.99)
	})
	h := spec.LengthHistogram{BlockSize: 10, Counts: []int64{1, 0, 3, 6}}
	goodFit(t, sample(newLengths(spec.Histogram, 0, 0, h), 40), func(i int) float64 {
		return map[int]float64{10: 0.1, 30: 0.3, 40: 0.6}[i]
	})
}

func TestProportions(t *testing.T) {
	t.Parallel()
	for _, p := range [][]string{
		{"0.95", "0.05", "0", "0", "0", "0"},
		{"7", "2", "1", "0", "0", "0"},
		{"0.7", "0.2", "0.1", "0", "0", "0"},
		{"1", "1", "1", "1", "1", "1"},
		{"0", "0", "0", "3", "0", "0"},
		{"0", "0.5", "0", "0", "0.5", "0"},
		{"100", "0", "0", "0", "0", "0.001"},
	} {
		names := []string{"read", "update", "insert", "delete", "scan", "readmodifywrite"}
		var pairs []string
		var weights [Kinds]float64
		sum := 0.0
		for i, name := range names {
			pairs = append(pairs, name+"proportion", p[i])
			fmt.Sscan(p[i], &weights[i])
			sum += weights[i]
		}
		g := generator(t, pairs...)
		counts := make([]int64, Kinds)
		for i := range int64(1_000_000) {
			r := newRandom(g.spec.Seed, i)
			counts[g.kind(&r)]++
		}
		for i := range counts {
			if weights[i] == 0 && counts[i] > 0 {
				t.Errorf("%v: %v came %d times", p, Kind(i), counts[i])
			}
		}
		goodFit(t, counts, func(i int) float64 { return weights[i] / sum })
	}
}
