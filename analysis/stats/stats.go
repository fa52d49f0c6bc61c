// SPDX-License-Identifier: Apache-2.0

// Package stats tells differences from noise: how many independent values a series is
// worth, how sure a mean is, and which of a few differences are more than chance. It is pure: numbers in, numbers out.
package stats

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Estimate is a value, and how sure it is.
type Estimate struct {
	Value    float64
	Variance float64 // of Value: its standard error, squared
	Freedom  float64 // degrees of freedom behind Variance; +Inf: it is known
}

// Mean estimates the mean of independent values, of which there must be two at least.
func Mean(values []float64) Estimate {
	mean, variance := stat.MeanVariance(values, nil)
	n := float64(len(values))
	return Estimate{mean, variance / n, n - 1}
}

// Difference is one estimate less another.
type Difference Estimate

// Sub returns b - a, as Welch does: the two need not vary alike.
func Sub(b, a Estimate) Difference {
	return Difference(a.plus(b, b.Value-a.Value))
}

// Between returns the difference of the means of b and a, of which one holds two values at least. A single one is taken to vary
// as much as those of the other do. No mean of values is surer than if they differed by least.
func Between(b, a []float64, least float64) Difference {
	if len(a) == 1 || len(b) == 1 {
		many := a
		if len(b) > len(a) {
			many = b
		}
		_, variance := stat.MeanVariance(many, nil)
		variance = max(variance, least*least) * (1 + 1/float64(len(many)))
		return Difference{stat.Mean(b, nil) - stat.Mean(a, nil), variance, float64(len(many) - 1)}
	}
	ea, eb := Mean(a), Mean(b)
	ea.Variance = max(ea.Variance, least*least/float64(len(a)))
	eb.Variance = max(eb.Variance, least*least/float64(len(b)))
	return Sub(eb, ea)
}

// Widened returns an estimate of which another, independent, error is known.
func (e Estimate) Widened(variance float64) Estimate {
	return e.plus(Estimate{Variance: variance, Freedom: math.Inf(1)}, e.Value)
}

// plus adds up two independent errors; the degrees of freedom are Welch's and Satterthwaite's.
func (e Estimate) plus(o Estimate, value float64) Estimate {
	sum := Estimate{Value: value, Variance: e.Variance + o.Variance, Freedom: math.Inf(1)}
	if by := e.Variance*e.Variance/e.Freedom + o.Variance*o.Variance/o.Freedom; by > 0 {
		sum.Freedom = sum.Variance * sum.Variance / by
	}
	return sum
}

// maxFreedom is from which on Student's distribution is the normal one, for all that is asked of it here.
const maxFreedom = 1e6

func (d Difference) student() distuv.StudentsT {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: min(d.Freedom, maxFreedom)}
}

// P is the probability of a difference at least as large, if there is none in truth.
func (d Difference) P() float64 {
	switch {
	case d.Value == 0:
		return 1
	case d.Variance == 0:
		return 0
	}
	return 2 * d.student().CDF(-math.Abs(d.Value)/math.Sqrt(d.Variance))
}

// HalfWidth is that of the difference's confidence interval; confidence is within 0 and 1.
func (d Difference) HalfWidth(confidence float64) float64 {
	if d.Variance == 0 {
		return 0
	}
	return d.student().Quantile(1-(1-confidence)/2) * math.Sqrt(d.Variance)
}

// Holm corrects the p values of a family for their number (Holm 1979): claiming those that
// are then at most x claims anything false with a probability of at most x.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(p[i], p[j]) })
	corrected := make([]float64, len(p))
	least := 0.0
	for rank, i := range order {
		least = max(least, min(1, p[i]*float64(len(p)-rank)))
		corrected[i] = least
	}
	return corrected
}
