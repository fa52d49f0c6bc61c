// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A sum of histograms is what the library merges of them, with the same percentiles, again after it was emptied.
func TestSum(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	var s Sum
	percents := []float64{0.001, 50, 90, 99, 99.9, 99.99, 100}
	for range 50 {
		s.Reset()
		if values, _ := s.Quantiles(50); values != nil || s.HDR() != nil || s.Count() != 0 {
			t.Fatalf("an empty sum has %v", values)
		}
		want := NewHDR()
		for range 1 + random.IntN(5) {
			packed := hdrhistogram.NewPacked(Lowest, Highest, Digits)
			for range 1 + random.IntN(500) {
				if err := packed.RecordValues(int64(math.Exp(random.Float64()*math.Log(Highest/3))), 1+random.Int64N(9)); err != nil {
					t.Fatal(err)
				}
			}
			packed.MergeInto(want)
			s.Add(Pack(packed))
		}
		values, beyond := s.Quantiles(percents...)
		if library := want.ValueAtPercentilesSlice(percents); !slices.Equal(values, library) || values[6] != want.Max() || beyond != 0 {
			t.Fatalf("%v, want %v", values, library)
		}
		if !s.HDR().Equals(want) || s.Count() != want.TotalCount() {
			t.Fatal("the sum is not what the library merges")
		}
	}
}

// What lies beyond the range is its end, and counted.
func TestSumBeyond(t *testing.T) {
	t.Parallel()
	packed := hdrhistogram.NewPacked(Lowest, Highest, Digits)
	for _, us := range []int64{10, 10, 10, Highest} {
		if err := packed.RecordValue(us); err != nil {
			t.Fatal(err)
		}
	}
	var s Sum
	s.Add(Pack(packed))
	if values, beyond := s.Quantiles(50, 99, 100); !slices.Equal(values, []int64{10, 3_600_000_000, 3_600_000_000}) || beyond != 2 {
		t.Errorf("%v, %d beyond", values, beyond)
	}
}

// Values that are recorded, and sums that are merged, count as they do in the library.
func TestSumRecordAndMerge(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 8))
	var parts [3]Sum
	want := NewHDR()
	for i := range parts {
		for range 1000 {
			us, n := int64(math.Exp(random.Float64()*math.Log(Highest/3))), 1+random.Int64N(9)
			parts[i].Record(us, n)
			if err := want.RecordValues(us, n); err != nil {
				t.Fatal(err)
			}
		}
	}
	var s Sum
	for i := range parts {
		s.Merge(&parts[i])
	}
	if !s.HDR().Equals(want) || s.Count() != want.TotalCount() {
		t.Error("the merged sums are not what the library counts")
	}
	s.Record(2*Highest, 1)
	s.Record(-1, 1)
	if values, beyond := s.Quantiles(0, 100); values[0] != 0 || beyond != 1 || s.Count() != want.TotalCount()+2 {
		t.Errorf("out of range: %v, %d beyond, %d values", values, beyond, s.Count())
	}
}

// Counts of more than 32 bits pack and add up as others do.
func TestPackedOfLargeCounts(t *testing.T) {
	t.Parallel()
	var s, back Sum
	s.Record(10, 3)
	s.Record(5000, 1<<40)
	s.Record(70_000, 7)
	p := s.Packed()
	if p.large == nil || p.TotalCount() != s.Count() {
		t.Fatalf("%+v", p)
	}
	back.Add(p)
	if !back.HDR().Equals(s.HDR()) {
		t.Error("what was packed is not what was counted")
	}
	if new(Sum).Packed() != nil {
		t.Error("an empty sum is something")
	}
}
