// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"bytes"
	"compress/zlib" // and not that of the encoder
	"encoding/base64"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// inflate returns what lies under base64, header and zlib.
func inflate(t *testing.T, text []byte) []byte {
	t.Helper()
	packed, err := base64.StdEncoding.DecodeString(string(text))
	if err != nil {
		t.Fatal(err)
	}
	z, err := zlib.NewReader(bytes.NewReader(packed[packedHeader:]))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

// What an Encoder writes is, before its compression, to the byte what the library writes, and reads as it.
func TestEncode(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	e := NewEncoder() // one for all, so that one histogram might leave something to the next
	for round := range 200 {
		h, want := newHistogram(), NewHDR()
		for range 1 + random.IntN(1<<random.IntN(12)) {
			us := int64(math.Exp(random.Float64() * math.Log(Highest)))
			switch random.IntN(50) {
			case 0:
				us = 0
			case 1:
				us = Highest
			}
			h.record(time.Duration(us) * time.Microsecond)
			if err := want.RecordValue(us); err != nil {
				t.Fatal(err)
			}
		}
		got := e.Append([]byte("before,"), h)
		text, ok := bytes.CutPrefix(got, []byte("before,"))
		if !ok {
			t.Fatalf("what was there is gone: %q", got)
		}
		read, err := hdrhistogram.Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		if !read.Equals(want) {
			t.Fatalf("round %d: the library reads another histogram", round)
		}
		theirs, err := want.EncodeV2()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(inflate(t, text), inflate(t, theirs)) {
			t.Fatalf("round %d: the library writes something else", round)
		}
		if plain := len(inflate(t, text)); len(text) > (plain+packedHeader+24)*4/3+4 { // base64, and what zlib has around a stored block
			t.Errorf("round %d: %d bytes for one of %d", round, len(text), plain)
		}
		if want := valueOf(bucketOf(want.Max())); h.Highest() != want {
			t.Errorf("highest %d, want %d", h.Highest(), want)
		}
	}
}

func TestEncodeMakesNoGarbage(t *testing.T) {
	e, h := NewEncoder(), newHistogram()
	for i := range 1000 {
		h.record(time.Duration(i*i) * time.Microsecond)
	}
	buf := e.Append(nil, h)
	if n := testing.AllocsPerRun(100, func() { buf = e.Append(buf[:0], h) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, most := range []time.Duration{0, time.Minute, time.Hour} {
		b.Run(fmt.Sprintf("longest=%v", most), func(b *testing.B) {
			e, h := NewEncoder(), newHistogram()
			random := rand.New(rand.NewPCG(1, 2))
			for range 10_000 {
				h.record(time.Duration(math.Exp(5+random.NormFloat64())) * time.Microsecond)
			}
			h.record(most)
			var buf []byte
			for b.Loop() {
				buf = e.Append(buf[:0], h)
			}
			b.ReportMetric(float64(len(buf)), "bytes")
		})
	}
}
