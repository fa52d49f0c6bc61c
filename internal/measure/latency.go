// SPDX-License-Identifier: Apache-2.0

package measure

import "github.com/HdrHistogram/hdrhistogram-go"

// Latency describes a distribution, in microseconds. The percentiles and the
// maximum are the upper ends of their buckets, at most 0.1 % above the value.
type Latency struct {
	Mean  float64 `json:"mean"`
	P50   int64   `json:"p50"`
	P90   int64   `json:"p90"`
	P95   int64   `json:"p95"`
	P99   int64   `json:"p99"`
	P999  int64   `json:"p99_9"`
	P9999 int64   `json:"p99_99"`
	Max   int64   `json:"max"`
}

// quantiles are the percentiles of a [Latency].
var quantiles = []float64{50, 90, 95, 99, 99.9, 99.99}

// LatencyOf describes what a histogram made by [NewHDR] holds; nil if that is nothing.
func LatencyOf(h *hdrhistogram.Histogram) *Latency {
	if h == nil || h.TotalCount() == 0 {
		return nil
	}
	q := h.ValueAtPercentilesSlice(quantiles)
	return &Latency{
		Mean: h.Mean(),
		P50:  q[0], P90: q[1], P95: q[2], P99: q[3], P999: q[4], P9999: q[5],
		Max: h.Max(),
	}
}
