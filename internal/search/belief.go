// SPDX-License-Identifier: Apache-2.0

package search

import "math"

// belief is what is known of a threshold: a distribution over rates, and over how much chance there is in a cell.
//
// A cell of rate r holds with the probability
//
//	ε + (1 − 2ε) · L((ln θ − ln r) / (σ·k))
//
// where θ is the threshold, L the logistic function with a standard deviation of 1, σ the noise of a cell as a share of the rate, k the root
// of a cell's length over that of this one, and ε the share of cells in which something else happened, which would speak for either
// side. The distribution is Bayes' over a grid of ln θ and of σ, from one that prefers none. This is the model of psychometric
// thresholds: A. B. Watson and D. G. Pelli, QUEST: a Bayesian adaptive psychometric method, Perception & Psychophysics 33 (1983);
// σ as a second unknown: L. L. Kontsevich and C. W. Tyler, Vision Research 39 (1999).
type belief struct {
	lowest float64 // ln of the lowest rate
	step   float64 // of ln of the rate
	points int
	weight []float64 // by noise, then by rate; their sum is 1
	whole  []float64 // by rate, over all noises
}

// noises are those that are thought of, as shares of the rate, each with how likely it is taken to be before anything is seen.
var noises = []struct{ deviation, weight float64 }{{0.003, 0.4}, {0.01, 0.3}, {0.03, 0.2}, {0.1, 0.1}}

const (
	lapse    = 0.02               // ε
	scale    = 0.5513288954217920 // √3/π: that of a logistic distribution with a standard deviation of 1
	perWidth = 8                  // steps of the grid in an interval of the precision that is asked for

	// How much lies beside an interval on either side: of the one that must be narrow for a search to end, and of the one that is
	// reported. A search that ends once it is narrow ends early by chance, too, and noise is never quite that of the model.
	inner = 0.025
	outer = 0.01
)

// newBelief returns a belief that prefers no threshold between two rates.
func newBelief(low, high, precision float64) *belief {
	b := &belief{lowest: math.Log(low), step: math.Log1p(precision) / perWidth}
	b.points = int((math.Log(high)-b.lowest)/b.step) + 2
	b.weight, b.whole = make([]float64, b.points*len(noises)), make([]float64, b.points)
	for i := range b.weight {
		b.weight[i] = noises[i/b.points].weight
	}
	b.normalize()
	return b
}

// see takes note of a cell that was held or not. k is how much less noise there is in it than in an ordinary cell, as a factor.
func (b *belief) see(rate float64, held bool, k float64) {
	at := math.Log(rate)
	for n, noise := range noises {
		per := 1 / (noise.deviation * k * scale)
		if !held {
			per = -per
		}
		row := b.weight[n*b.points : (n+1)*b.points]
		for i := range row {
			row[i] *= lapse + (1-2*lapse)*logistic((b.lowest+float64(i)*b.step-at)*per)
		}
	}
	b.normalize()
}

// logistic is the cumulative logistic function. Beyond 40 it is 0 or 1 to the last digit.
func logistic(x float64) float64 {
	switch {
	case x > 40:
		return 1
	case x < -40:
		return 0
	}
	return 1 / (1 + math.Exp(-x))
}

func (b *belief) normalize() {
	sum := 0.0
	for _, w := range b.weight {
		sum += w
	}
	clear(b.whole)
	for n := range noises {
		row := b.weight[n*b.points : (n+1)*b.points]
		for i := range row {
			row[i] /= sum
			b.whole[i] += row[i]
		}
	}
}

// quantile is the rate below which the threshold lies with a probability of q.
func (b *belief) quantile(q float64) float64 {
	sum := 0.0
	for i, w := range b.whole {
		if sum += w; sum >= q || i == b.points-1 {
			return math.Exp(b.lowest + float64(i)*b.step)
		}
	}
	return 0 // there is a point
}

// interval has all but two tails. A point of the grid stands for what lies half a step around it.
func (b *belief) interval(tail float64) (low, high float64) {
	half := math.Exp(b.step / 2)
	return b.quantile(tail) / half, b.quantile(1-tail) * half
}
