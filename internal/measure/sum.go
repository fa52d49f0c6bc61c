// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Sum is what many histograms have counted. Adding one touches only its buckets in use, which
// the library's type finds anew for each value; memory is taken only where there are any. The zero Sum is empty.
type Sum struct {
	highest int64
	total   int64
	blocks  [blocks]*[half]int64 // of buckets; nil: zero
}

// Add counts what p has counted.
func (s *Sum) Add(p *Packed) {
	s.highest = max(s.highest, p.highest)
	s.total += p.total
	if p.large != nil {
		for i, bucket := range p.buckets {
			s.block(int(bucket >> halfBits))[bucket%half] += p.large[i]
		}
		return
	}
	at, block := -1, (*[half]int64)(nil)
	counts := p.counts[:len(p.buckets)]
	for i, bucket := range p.buckets {
		if n := int(bucket >> halfBits); n != at { // buckets rise, and many stand in one block
			at, block = n, s.block(n)
		}
		block[bucket%half] += int64(counts[i])
	}
}

// Record counts a value in microseconds n times; what lies beyond [Highest] is counted there, as by a lane.
func (s *Sum) Record(us, n int64) {
	s.highest = Highest
	s.total += n
	bucket := bucketOf(max(0, min(us, Highest)))
	s.block(bucket >> halfBits)[bucket%half] += n
}

// Merge counts what o has counted.
func (s *Sum) Merge(o *Sum) {
	s.highest = max(s.highest, o.highest)
	s.total += o.total
	for i, from := range o.blocks {
		if from == nil {
			continue
		}
		to := s.block(i)
		for j, n := range from {
			to[j] += n
		}
	}
}

// block returns one of the blocks of buckets, which is made if need be.
func (s *Sum) block(i int) *[half]int64 {
	if s.blocks[i] == nil {
		s.blocks[i] = new([half]int64)
	}
	return s.blocks[i]
}

// Packed returns what s has counted, in little memory; nil if that is nothing.
func (s *Sum) Packed() *Packed {
	if s.total == 0 {
		return nil
	}
	used := 0
	for _, b := range s.blocks {
		if b == nil {
			continue
		}
		for _, n := range b {
			if n > 0 {
				used++
			}
		}
	}
	p := &Packed{highest: s.highest, total: s.total, buckets: make([]uint16, 0, used)}
	large := s.total > math.MaxUint32
	if large {
		p.large = make([]int64, 0, used)
	} else {
		p.counts = make([]uint32, 0, used)
	}
	for i, b := range s.blocks {
		if b == nil {
			continue
		}
		for j, n := range b {
			switch {
			case n == 0:
				continue
			case large:
				p.large = append(p.large, n)
			default:
				p.counts = append(p.counts, uint32(n))
			}
			p.buckets = append(p.buckets, uint16(i<<halfBits+j))
		}
	}
	return p
}

// Count returns the number of values.
func (s *Sum) Count() int64 { return s.total }

// Reset empties s, and keeps its memory.
func (s *Sum) Reset() {
	for _, b := range s.blocks {
		if b != nil {
			clear(b[:])
		}
	}
	s.total = 0
}

// Each calls f for every bucket in use, in rising order, with its lowest value in microseconds.
func (s *Sum) Each(f func(us, count int64)) {
	for i, b := range s.blocks {
		if b == nil {
			continue
		}
		for j, n := range b {
			if n > 0 {
				f(valueOf(i<<halfBits+j), n)
			}
		}
	}
}

// Quantiles returns the values at percentiles, which rise, in microseconds: the upper ends of their buckets, as of the
// library's histograms. Those that lie beyond the range are where that ends, as [Reach] has it, and there are so many of them
// in last places; nil if s is empty.
func (s *Sum) Quantiles(percents ...float64) (values []int64, beyond int) {
	if s.total == 0 {
		return nil, 0
	}
	end, reach := reachOf(s.highest)
	var seen int64
	for i, b := range s.blocks {
		if b == nil {
			continue
		}
		for j, n := range b {
			if seen += n; n == 0 {
				continue
			}
			for len(values) < len(percents) && seen >= rank(percents[len(values)], s.total) {
				us := valueOf(i<<halfBits+j+1) - 1
				if us >= end {
					us = reach
					beyond++
				}
				values = append(values, us)
			}
		}
	}
	return values, beyond
}

// rank is that of the value at a percentile, counted from 1.
func rank(percent float64, total int64) int64 {
	return min(total, max(1, int64(percent/100*float64(total)+0.5)))
}

// HDR returns s as a histogram of the library; nil if s is nil or empty.
func (s *Sum) HDR() *hdrhistogram.Histogram {
	if s == nil || s.total == 0 {
		return nil
	}
	h := hdrhistogram.New(Lowest, s.highest, Digits)
	s.AddTo(h)
	return h
}

// AddTo merges s into an HdrHistogram of at least its range.
func (s *Sum) AddTo(dst *hdrhistogram.Histogram) {
	s.Each(func(us, count int64) {
		_ = dst.RecordValues(us, count) // fails only beyond 2⁶³ values
	})
}

// Highest returns where the range of what was added ends, in microseconds.
func (s *Sum) Highest() int64 { return s.highest }
