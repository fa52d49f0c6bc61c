// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"maps"
	"math"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"

	"github.com/kvbench/kvbench/internal/measure"
)

// bounds are the upper ends of the classic histograms' buckets, in microseconds.
var bounds = [...]int64{
	100, 200, 300, 500,
	1_000, 2_000, 3_000, 5_000,
	10_000, 20_000, 30_000, 50_000,
	100_000, 200_000, 500_000,
	1_000_000, 2_000_000, 5_000_000, 10_000_000, 60_000_000, 600_000_000, 3_600_000_000,
}

// schema is the resolution of the native histograms: 2^schema buckets for every
// doubling, so that a bucket is 9 % wide.
const schema = 3

// latency is a distribution of durations as Prometheus shows it, in both forms.
// It is filled from the finer buckets of [measure.Histogram], each taken at its
// lower end, which is at most 0.1 % below the values in it.
type latency struct {
	count   uint64
	sumUS   float64
	classic [len(bounds) + 1]uint64 // not cumulative; the last is beyond all bounds
	native  map[int]uint64          // by the bucket's index
	zero    uint64
}

// add adds what h holds; nil is nothing.
func (l *latency) add(h *measure.Histogram) {
	if h == nil {
		return
	}
	if l.native == nil {
		l.native = make(map[int]uint64)
	}
	bucket := 0
	h.Each(func(us, n int64) {
		count := uint64(n)
		l.count += count
		l.sumUS += float64(us) * float64(n)
		for bucket < len(bounds) && us > bounds[bucket] {
			bucket++ // values come in rising order
		}
		l.classic[bucket] += count
		if us == 0 {
			l.zero += count
		} else {
			l.native[nativeBucket(us)] += count
		}
	})
}

// nativeBucket returns the index of the native histograms' bucket that holds us:
// bucket i reaches from 2^((i-1)/2^schema), excluded, to 2^(i/2^schema) seconds.
func nativeBucket(us int64) int {
	return int(math.Ceil(math.Log2(float64(us)/1e6) * (1 << schema)))
}

// dto returns l as the exposition format has it.
func (l *latency) dto() *dto.Histogram {
	h := &dto.Histogram{
		SampleCount:   proto.Uint64(l.count),
		SampleSum:     proto.Float64(l.sumUS / 1e6),
		Schema:        proto.Int32(schema),
		ZeroThreshold: proto.Float64(prometheus.DefNativeHistogramZeroThreshold),
		ZeroCount:     proto.Uint64(l.zero),
	}
	var cumulative uint64
	for i, bound := range bounds {
		cumulative += l.classic[i]
		h.Bucket = append(h.Bucket, &dto.Bucket{
			UpperBound:      proto.Float64(float64(bound) / 1e6),
			CumulativeCount: proto.Uint64(cumulative),
		})
	}
	// Native buckets are spans of neighbours, each bucket as the difference to the one before.
	var previous uint64
	next := 0
	for i, index := range slices.Sorted(maps.Keys(l.native)) {
		if i == 0 || index != next {
			h.PositiveSpan = append(h.PositiveSpan, &dto.BucketSpan{Offset: proto.Int32(int32(index - next)), Length: proto.Uint32(0)})
		}
		span := h.PositiveSpan[len(h.PositiveSpan)-1]
		*span.Length++
		h.PositiveDelta = append(h.PositiveDelta, int64(l.native[index])-int64(previous))
		previous, next = l.native[index], index+1
	}
	return h
}

// histogram is a [prometheus.Metric] that has both forms.
type histogram struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	value  *dto.Histogram
}

func newHistogram(desc *prometheus.Desc, l *latency, labels ...string) histogram {
	return histogram{desc, prometheus.MakeLabelPairs(desc, labels), l.dto()}
}

// Desc implements [prometheus.Metric].
func (h histogram) Desc() *prometheus.Desc { return h.desc }

// Write implements [prometheus.Metric].
func (h histogram) Write(out *dto.Metric) error {
	out.Label, out.Histogram = h.labels, h.value
	return nil
}
