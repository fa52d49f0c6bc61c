// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"math"

	"github.com/klauspost/compress/zlib"
)

// Encoder writes histograms as HdrHistogram's interval logs have them: the V2
// encoding (cookie 0x1c849313), in a stream of zlib (0x1c849314), in base64. The format is
// that of encodeIntoCompressedByteBuffer in HdrHistogram's AbstractHistogram.java.
//
// The stream is stored, not compressed. Compressed, a histogram of a second takes about half the bytes, but
// reading it back costs several times all else that is done with it, and each journal is read whole.
//
// The library's encoder makes a compressor, a megabyte of it, for each histogram.
// That would be most of a worker's garbage, and a pause of milliseconds for the lanes that share
// its core. An Encoder makes none. It is for one goroutine.
type Encoder struct {
	plain  []byte
	packed bytes.Buffer
	zip    *zlib.Writer
}

const (
	plainCookie  = 0x1c849303 | 0x10
	packedCookie = 0x1c849304 | 0x10
	plainHeader  = 40 // bytes
	packedHeader = 8
)

// NewEncoder returns an encoder.
func NewEncoder() *Encoder {
	e := new(Encoder)
	e.zip, _ = zlib.NewWriterLevel(&e.packed, zlib.NoCompression) // fails only for a level that there is not
	return e
}

// Append appends h, which must not be empty, to buf.
func (e *Encoder) Append(buf []byte, h *Histogram) []byte {
	e.encode(h)
	e.packed.Reset()
	e.packed.Write(make([]byte, packedHeader))
	e.zip.Reset(&e.packed)
	_, _ = e.zip.Write(e.plain) // neither can fail:
	_ = e.zip.Close()           // they write to memory
	packed := e.packed.Bytes()
	binary.BigEndian.PutUint32(packed, packedCookie)
	binary.BigEndian.PutUint32(packed[4:], uint32(len(packed)-packedHeader))
	return base64.StdEncoding.AppendEncode(buf, packed)
}

// encode sets e.plain: a header, and for each bucket up to the last one in use its count, or for
// several empty ones minus their number, as zigzag varints.
func (e *Encoder) encode(h *Histogram) {
	b := append(e.plain[:0], make([]byte, plainHeader)...)
	next := 0
	for i := h.lo; i <= h.hi; i++ {
		n := h.at(i)
		if n == 0 {
			continue
		}
		switch empty := i - next; empty {
		case 0:
		case 1:
			b = binary.AppendVarint(b, 0)
		default:
			b = binary.AppendVarint(b, int64(-empty))
		}
		b = binary.AppendVarint(b, int64(n))
		next = i + 1
	}
	binary.BigEndian.PutUint32(b, plainCookie)
	binary.BigEndian.PutUint32(b[4:], uint32(len(b)-plainHeader))
	binary.BigEndian.PutUint32(b[8:], 0) // the index is not shifted
	binary.BigEndian.PutUint32(b[12:], Digits)
	binary.BigEndian.PutUint64(b[16:], Lowest)
	binary.BigEndian.PutUint64(b[24:], Highest)
	binary.BigEndian.PutUint64(b[32:], math.Float64bits(1)) // values are whole numbers as they are
	e.plain = b
}
