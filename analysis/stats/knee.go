// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Knee is a place on a curve of rates, as an index of its points: -1 if it lies before the first one, and their number if it
// lies behind the last.
type Knee struct {
	At int
	// Low and High are between which it lies with 95 % confidence, by how much repeats of points differ. Without repeats,
	// Known is false.
	Low, High int
	Known     bool
}

// kneeDraws is how many curves are drawn to see how sure a knee is.
const kneeDraws = 2000

// KneeOf finds a knee by a rule, which is given the rate of each point: the geometric mean of its repeats. Rates are above 0.
// How much repeats differ, as a share, is taken to be the same for all points; the posterior of the rates that follows from it, with
// a flat prior, is drawn from, always in the same way, and the rule asked of each draw.
func KneeOf(repeats [][]float64, rule func(rates []float64) int) Knee {
	means, squares, freedom := make([]float64, len(repeats)), 0.0, 0.0
	for i, values := range repeats {
		logs := make([]float64, len(values))
		for j, v := range values {
			logs[j] = math.Log(v)
		}
		means[i] = stat.Mean(logs, nil)
		for _, v := range logs {
			squares += (v - means[i]) * (v - means[i])
		}
		freedom += float64(len(values) - 1)
	}
	rates := make([]float64, len(means))
	for i, m := range means {
		rates[i] = math.Exp(m)
	}
	k := Knee{At: rule(rates), Known: freedom > 0}
	k.Low, k.High = k.At, k.At
	if !k.Known {
		return k
	}
	source := rand.NewPCG(1, 1)
	normal, chi := distuv.Normal{Sigma: 1, Src: source}, distuv.ChiSquared{K: freedom, Src: source}
	found := make([]int, kneeDraws)
	for n := range found {
		deviation := math.Sqrt(squares / chi.Rand())
		for i, m := range means {
			rates[i] = math.Exp(m + deviation/math.Sqrt(float64(len(repeats[i])))*normal.Rand())
		}
		found[n] = rule(rates)
	}
	slices.Sort(found)
	tail := kneeDraws / 40 // 2.5 %
	k.Low, k.High = found[tail], found[kneeDraws-1-tail]
	k.Low, k.High = min(k.Low, k.At), max(k.High, k.At)
	return k
}

// enough is the share of the highest rate from which on a curve is taken to be flat.
const enough = 0.95

// Saturation is the first point with 95 % of the highest rate: from there on more load yields at most 5 % more. If that is
// the last one, the curve still rises, and the knee lies behind it.
func Saturation(rates []float64) int {
	highest := slices.Max(rates)
	first := slices.IndexFunc(rates, func(r float64) bool { return r >= enough*highest })
	if first == len(rates)-1 {
		return len(rates)
	}
	return first
}

// Met returns the rule that finds the last point up to which all reach their targets, by the share given.
func Met(targets []float64, share float64) func(rates []float64) int {
	return func(rates []float64) int {
		for i, r := range rates {
			if r < share*targets[i] {
				return i - 1
			}
		}
		return len(rates)
	}
}
