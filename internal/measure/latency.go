// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"slices"
	"strconv"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latency describes a distribution, in microseconds. The percentiles and the
// maximum are the upper ends of their buckets, at most 0.1 % above the value.
//
// What lay beyond the histograms' range was not measured: a number that it decides is the
// least that it can be, and is named in AtLeast.
type Latency struct {
	Mean  float64 `json:"mean"`
	P50   int64   `json:"p50"`
	P90   int64   `json:"p90"`
	P95   int64   `json:"p95"`
	P99   int64   `json:"p99"`
	P999  int64   `json:"p99_9"`
	P9999 int64   `json:"p99_99"`
	Max   int64   `json:"max"`

	Samples     int64            `json:"samples"`               // that it describes
	TooFew      []string         `json:"too_few,omitempty"`     // the percentiles that so many samples do not carry, see [Carries]
	Percentiles map[string]int64 `json:"percentiles,omitempty"` // others that were asked for, by their names

	Beyond  int64    `json:"beyond,omitempty"`   // values beyond the range
	Range   int64    `json:"range,omitempty"`    // where that ends; 0 if nothing lies beyond
	AtLeast []string `json:"at_least,omitempty"` // the numbers that these decide, by their names here
}

// names are those of a Latency's numbers in the order of [quantiles], and that of the largest value.
var names = []string{"p50", "p90", "p95", "p99", "p99_9", "p99_99", "max"}

// quantiles are the percentiles of a [Latency].
var quantiles = []float64{50, 90, 95, 99, 99.9, 99.99}

// Carries tells whether a percentile of so many samples says something: one of them at least must lie beyond it. Else it is the
// largest, whatever the distribution.
func Carries(samples int64, percent float64) bool {
	const rounding = 1e-9 // 100 - 99.9 is a little less than 0.1
	return float64(samples)*(100-percent) >= 100*(1-rounding)
}

// PercentileName is the name of a percentile in JSON, as in "p99_9".
func PercentileName(percent float64) string {
	return "p" + strings.ReplaceAll(strconv.FormatFloat(percent, 'f', -1, 64), ".", "_")
}

// minute in microseconds: ranges end at a whole number of them.
const minute = 60_000_000

// Reach returns from which value on a histogram made by [NewHDR], or by an earlier version of it, holds only what lies
// beyond its range, and where that ends, in microseconds.
func Reach(h *hdrhistogram.Histogram) (beyond, reach int64) {
	return reachOf(h.HighestTrackableValue())
}

func reachOf(highest int64) (beyond, reach int64) {
	return valueOf(bucketOf(highest)), highest - highest%minute
}

// LatencyOf describes what a histogram made by [NewHDR] holds, with further percentiles; nil if that is nothing.
func LatencyOf(h *hdrhistogram.Histogram, further ...float64) *Latency {
	if h == nil || h.TotalCount() == 0 {
		return nil
	}
	q := append(h.ValueAtPercentilesSlice(quantiles), h.Max())
	l := &Latency{Mean: h.Mean(), Samples: h.TotalCount()}
	end, reach := Reach(h)
	if most := q[len(q)-1]; most >= end {
		l.Range = reach
		for _, bar := range h.Distribution() {
			if bar.From >= end {
				l.Beyond += bar.Count
			}
		}
		counted := float64(end+most) / 2 // as the mean has it
		l.Mean -= float64(l.Beyond) / float64(h.TotalCount()) * (counted - float64(l.Range))
		l.AtLeast = []string{"mean"}
		for i := range q {
			if q[i] >= end {
				q[i] = l.Range
				l.AtLeast = append(l.AtLeast, names[i])
			}
		}
	}
	l.P50, l.P90, l.P95, l.P99, l.P999, l.P9999, l.Max = q[0], q[1], q[2], q[3], q[4], q[5], q[6]
	for i, percent := range quantiles {
		l.carry(names[i], percent)
	}
	for _, percent := range further {
		name, value := PercentileName(percent), h.ValueAtPercentile(percent)
		if slices.Contains(names, name) {
			continue
		}
		if value >= end {
			value = reach
			l.AtLeast = append(l.AtLeast, name)
		}
		if l.Percentiles == nil {
			l.Percentiles = make(map[string]int64)
		}
		l.Percentiles[name] = value
		l.carry(name, percent)
	}
	return l
}

// carry notes a percentile that the samples do not carry.
func (l *Latency) carry(name string, percent float64) {
	if !Carries(l.Samples, percent) {
		l.TooFew = append(l.TooFew, name)
	}
}
