// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// What an Encoder writes, or has written in earlier versions, a Decoder reads as it was, whatever it has read before.
func TestDecode(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	e, d := NewEncoder(), NewDecoder()
	var p Packed
	for range 200 {
		h := newHistogram()
		for range 1 + random.IntN(1<<random.IntN(12)) {
			h.record(time.Duration(math.Exp(random.Float64()*math.Log(Highest))) * time.Microsecond)
		}
		want := NewHDR()
		h.AddTo(want)
		compressed, err := want.EncodeV2() // as earlier versions wrote it
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range [][]byte{e.Append(nil, h), compressed} {
			if err := d.Decode(&p, text); err != nil {
				t.Fatal(err)
			}
			got := NewHDR()
			p.AddTo(got)
			if !got.Equals(want) || p.TotalCount() != h.Count() || p.Highest() != Highest {
				t.Fatalf("%d values up to %d, want %d", p.TotalCount(), p.Highest(), h.Count())
			}
		}
		if err := d.Decode(&p, []byte("HISTFAAA")); err == nil || p.TotalCount() != 0 || p.Max() != 0 { // and something broken between them
			t.Fatalf("a histogram that is cut short was read: %v", err)
		}
	}
}

// No interval of a worker counts more than 32 bits in one bucket, and what claims to is refused.
func TestDecodeLargeCounts(t *testing.T) {
	t.Parallel()
	for most, readable := range map[int64]bool{0: true, math.MaxUint32: true, math.MaxUint32 + 1: false} {
		h := NewHDR()
		if most > 0 {
			if err := errors.Join(h.RecordValues(10, 3), h.RecordValues(5000, most), h.RecordValues(70_000, 7)); err != nil {
				t.Fatal(err)
			}
		}
		text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
		if err != nil {
			t.Fatal(err)
		}
		var p Packed
		err = NewDecoder().Decode(&p, text)
		if !readable {
			if err == nil || !strings.Contains(err.Error(), "cannot be") || p.TotalCount() != 0 {
				t.Errorf("a count of %d: %d, %v", most, p.TotalCount(), err)
			}
			continue
		}
		again := NewHDR()
		p.AddTo(again)
		if err != nil || !again.Equals(h) {
			t.Errorf("decoded: %+v, %v", p, err)
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
		var p Packed
		if NewDecoder().Decode(&p, text) != nil {
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
