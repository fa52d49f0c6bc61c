// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"math/bits"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The range and precision of every histogram, in microseconds. Whatever took longer than an
// hour is counted in the bucket of Highest, which is the first that nothing shorter falls into.
const (
	Lowest  = 1
	Highest = 1717 << 21
	Digits  = 3
)

// NewHDR returns an empty HdrHistogram, in microseconds, into which intervals
// are merged.
func NewHDR() *hdrhistogram.Histogram { return hdrhistogram.New(Lowest, Highest, Digits) }

// The geometry that HdrHistogram derives from these: values up to 2047 each have
// a bucket; from there, every doubling is split into 1024.
const (
	halfBits = 10
	half     = 1 << halfBits
	blocks   = 23 // up to 2047 << 21, the first such end above Highest
	buckets  = blocks * half
)

// Histogram counts durations of one interval, in the buckets of [NewHDR]. It
// differs from the library's type in what a lane cares for: a part of the memory,
// since no interval sees 2³² samples, and few see more than some doublings of the latency;
// and emptying and merging that touch only the buckets in use. A Histogram is for one goroutine.
type Histogram struct {
	count  int64
	lo, hi int                   // buckets outside [lo, hi] are zero
	blocks [blocks]*[half]uint32 // of buckets; nil: zero
}

// at returns how often a bucket was counted.
func (h *Histogram) at(bucket int) uint32 {
	if b := h.blocks[bucket>>halfBits]; b != nil {
		return b[bucket%half]
	}
	return 0
}

// plus counts a bucket n times.
func (h *Histogram) plus(bucket int, n uint32) {
	b := h.blocks[bucket>>halfBits]
	if b == nil {
		b = new([half]uint32)
		h.blocks[bucket>>halfBits] = b
	}
	b[bucket%half] += n
}

func newHistogram() *Histogram { return &Histogram{lo: buckets} }

// Count returns the number of values recorded.
func (h *Histogram) Count() int64 { return h.count }

// record counts d, and tells whether it lay within the range. What takes some
// time but less than a microsecond counts as one.
func (h *Histogram) record(d time.Duration) bool { return h.recordN(d, 1) }

// recordN is record for n times the same.
func (h *Histogram) recordN(d time.Duration, n uint32) bool {
	us := int64(d+time.Microsecond/2) / int64(time.Microsecond)
	in := true
	switch {
	case d < 0:
		us, in = 0, false
	case us >= Highest:
		us, in = Highest, false
	case us == 0 && d > 0:
		us = 1
	}
	i := bucketOf(us)
	h.lo, h.hi = min(h.lo, i), max(h.hi, i)
	h.plus(i, n)
	h.count += int64(n)
	return in
}

// bucketOf returns the bucket of us, which is within 0 and [Highest].
func bucketOf(us int64) int {
	shift := bits.Len64(uint64(us)|(2*half-1)) - (halfBits + 1)
	return shift<<halfBits + int(us>>shift)
}

// valueOf returns the lowest value of a bucket.
func valueOf(bucket int) int64 {
	shift := max(0, bucket>>halfBits-1)
	return int64(bucket-shift<<halfBits) << shift
}

// add counts everything that from has counted.
func (h *Histogram) add(from *Histogram) {
	if from.count == 0 {
		return
	}
	for i := from.lo; i <= from.hi; i++ {
		if n := from.at(i); n > 0 {
			h.plus(i, n)
		}
	}
	h.count += from.count
	h.lo, h.hi = min(h.lo, from.lo), max(h.hi, from.hi)
}

func (h *Histogram) reset() {
	if h.count > 0 {
		for i := h.lo; i <= h.hi; i = (i/half + 1) * half { // block by block
			if b := h.blocks[i/half]; b != nil {
				clear(b[i%half : min(half, h.hi+1-i/half*half)])
			}
		}
	}
	h.count, h.lo, h.hi = 0, buckets, 0
}

// Highest returns the lowest value, in microseconds, of the highest bucket in use; h must not be empty.
func (h *Histogram) Highest() int64 { return valueOf(h.hi) }

// Each calls f for every bucket in use, in rising order, with its lowest value
// in microseconds.
func (h *Histogram) Each(f func(us, count int64)) {
	for i := h.lo; i <= h.hi; i++ {
		if n := h.at(i); n > 0 {
			f(valueOf(i), int64(n))
		}
	}
}

// AddTo merges h into an HdrHistogram made by [NewHDR]. A nil Histogram is empty.
func (h *Histogram) AddTo(dst *hdrhistogram.Histogram) {
	if h == nil {
		return
	}
	h.Each(func(us, count int64) {
		_ = dst.RecordValues(us, count) // fails only beyond 2⁶³ values
	})
}
