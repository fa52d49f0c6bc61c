// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"math"

	"gonum.org/v1/gonum/stat"
)

// Total estimates the sum of a series of equally long intervals, and tells how many
// independent values the series is worth (its effective sample size, at most its length). What
// comes in one interval depends on those before it, so a sum is less sure than that of as many independent values.
func Total(series []float64) (sum Estimate, effective float64) {
	n := float64(len(series))
	if n < 2 {
		return Estimate{Variance: math.Inf(1), Freedom: 1}, 0
	}
	mean, variance := stat.MeanVariance(series, nil)
	time := autocorrelationTime(series, mean)
	effective = n / time
	return Estimate{
		Value:    mean * n,
		Variance: variance * time * n,
		Freedom:  max(1, effective-1),
	}, effective
}

// window is how many autocorrelation times are summed up: enough that little is left out, and few enough that
// it is not all noise (Sokal).
const window = 5

// autocorrelationTime returns the integrated autocorrelation time of a series in intervals, 1 at least.
// Of two estimates it is the larger, since a series that is short for its memory hides it: the sum
// of the autocorrelations, and that of a first order process of which the bias in short series is known (Kendall 1954).
func autocorrelationTime(series []float64, mean float64) float64 {
	n := float64(len(series))
	var0 := autocovariance(series, mean, 0)
	if var0 == 0 {
		return 1
	}
	time := 1.0
	for lag := 1; lag < len(series)/2; lag++ {
		time += 2 * autocovariance(series, mean, lag) / var0
		if float64(lag) >= window*time {
			break
		}
	}
	phi := autocovariance(series, mean, 1) / var0
	phi += (1 + 3*phi) / n
	if phi >= 1 {
		return n
	}
	return min(n, max(1, time, (1+phi)/(1-phi)))
}

func autocovariance(series []float64, mean float64, lag int) (sum float64) {
	for i := range len(series) - lag {
		sum += (series[i] - mean) * (series[i+lag] - mean)
	}
	return sum / float64(len(series))
}
