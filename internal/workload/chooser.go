// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"math"
	"math/bits"
	"sort"

	"github.com/kvbench/kvbench/internal/spec"
)

// chooser draws records: offsets in [0, n), where offset 0 is the oldest record and
// n-1 the newest. n may grow from draw to draw as records are inserted.
type chooser struct {
	law    string
	start  int64   // records that there are before the run inserts any
	zipf   zipf    // Zipfian, Latest
	folded bool    // Zipfian: ranks are folded onto the records, as YCSB does
	domain uint    // Zipfian: bits of the permutation
	hot    float64 // Hotspot: fraction of the records, and of the operations
	hotOps float64
	rate   float64 // Exponential: per record
	bound  float64 // Exponential: probability that lies within the records
	bounds int64   // the n that bound is for
}

func newChooser(s *spec.Spec) chooser {
	c := chooser{law: s.Distribution, start: s.InsertCount, hot: s.HotData, hotOps: s.HotOps}
	switch c.law {
	case spec.Zipfian:
		c.folded = s.ZipfItems > 0
		n := c.start
		if c.folded {
			n = s.ZipfItems
		}
		c.zipf = newZipf(n, s.ZipfConstant)
		c.domain = uint(bits.Len64(uint64(c.start - 1)))
		if s.Proportions.Insert > 0 {
			c.domain = uint(bits.Len64(uint64(2 * c.start)))
		}
	case spec.Latest:
		c.zipf = newZipf(c.start, s.ZipfConstant)
	case spec.Exponential:
		c.rate = -math.Log(1-s.ExpPercentile/100) / (s.ExpFraction * float64(c.start))
	}
	return c
}

// next draws from n records. at is the operation's place in the fleet's sequence.
func (c *chooser) next(r *random, n, at int64) int64 {
	switch c.law {
	case spec.Sequential:
		return at % n
	case spec.Zipfian:
		if c.folded {
			return int64(mix64(uint64(c.zipf.next(r))) % uint64(n))
		}
		c.fit(n)
		return scramble(c.zipf.next(r), n, c.domain)
	case spec.Latest:
		c.fit(n)
		return n - 1 - c.zipf.next(r)
	case spec.Hotspot:
		hot := int64(c.hot * float64(n))
		if hot == n || hot > 0 && r.float() < c.hotOps {
			return r.below(hot)
		}
		return hot + r.below(n-hot)
	case spec.Exponential:
		if c.bounds != n {
			c.bounds, c.bound = n, -math.Expm1(-c.rate*float64(n))
		}
		age := int64(-math.Log1p(-r.float()*c.bound) / c.rate)
		return n - 1 - min(age, n-1)
	}
	return r.below(n)
}

func (c *chooser) fit(n int64) {
	if c.zipf.n != n {
		c.zipf.resize(n)
	}
}

// lengths draws sizes: of fields, and of scans.
type lengths struct {
	law       string
	low, high int64
	zipf      zipf
	block     int64
	upTo      []int64 // Histogram: cumulated counts
}

func newLengths(law string, low, high int64, h spec.LengthHistogram) lengths {
	l := lengths{law: law, low: low, high: high}
	switch law {
	case spec.Zipfian:
		l.zipf = newZipf(high-low+1, 0.99)
	case spec.Histogram:
		l.block, l.high = h.BlockSize, h.Max()
		var sum int64
		for _, c := range h.Counts {
			sum += c
			l.upTo = append(l.upTo, sum)
		}
	}
	return l
}

// least is the smallest length that next returns.
func (l *lengths) least() int64 {
	switch l.law {
	case spec.Uniform, spec.Zipfian:
		return l.low
	case spec.Histogram:
		return int64(sort.Search(len(l.upTo), func(i int) bool { return l.upTo[i] > 0 })+1) * l.block
	}
	return l.high
}

func (l *lengths) next(r *random) int64 {
	switch l.law {
	case spec.Uniform:
		return l.low + r.below(l.high-l.low+1)
	case spec.Zipfian:
		return l.low + l.zipf.next(r)
	case spec.Histogram:
		x := r.below(l.upTo[len(l.upTo)-1])
		bucket := sort.Search(len(l.upTo), func(i int) bool { return x < l.upTo[i] })
		return int64(bucket+1) * l.block
	}
	return l.high
}
