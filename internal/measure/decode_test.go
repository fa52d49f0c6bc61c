// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// What an Encoder writes, a Decoder reads as it was, whatever it has read before.
func TestDecode(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	e, d := NewEncoder(), NewDecoder()
	for range 200 {
		h := newHistogram()
		for range 1 + random.IntN(1<<random.IntN(12)) {
			h.record(time.Duration(math.Exp(random.Float64()*math.Log(Highest))) * time.Microsecond)
		}
		p, err := d.Decode(e.Append(nil, h))
		if err != nil {
			t.Fatal(err)
		}
		got, want := NewHDR(), NewHDR()
		p.AddTo(got)
		h.AddTo(want)
		if !got.Equals(want) || p.TotalCount() != h.Count() || p.Highest() != Highest {
			t.Fatalf("%d values up to %d, want %d", p.TotalCount(), p.Highest(), h.Count())
		}
		if _, err := d.Decode([]byte("HISTFAAA")); err == nil { // and something broken between them
			t.Fatal("a histogram that is cut short was read")
		}
	}
}

// What a Decoder reads is what the library reads; whatever is in a file, it does not panic.
func FuzzDecode(f *testing.F) {
	e := NewEncoder()
	for _, values := range [][]time.Duration{{0}, {time.Microsecond}, {time.Millisecond, time.Second, time.Second, time.Hour}} {
		h := newHistogram()
		for _, v := range values {
			h.record(v)
		}
		f.Add(e.Append(nil, h))
	}
	older := hdrhistogram.NewPacked(Lowest, 60_000_000, Digits)
	if err := older.RecordValues(59_999_999, 3); err != nil {
		f.Fatal(err)
	}
	text, err := older.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := NewDecoder().Decode(text)
		if err != nil {
			return
		}
		want, err := hdrhistogram.DecodePacked(text)
		if err != nil {
			t.Fatalf("read, where the library says: %v", err)
		}
		type bar struct{ us, count int64 }
		var got, bars []bar
		p.Each(func(us, count int64) { got = append(got, bar{us, count}) })
		want.ForEachBucket(func(us, count int64) bool {
			bars = append(bars, bar{us, count})
			return true
		})
		if !slices.Equal(got, bars) || p.TotalCount() != want.TotalCount() {
			t.Fatalf("%v, want %v", got, bars)
		}
	})
}
