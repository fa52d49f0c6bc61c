// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/klauspost/compress/zlib"
)

// Packed is what a histogram has counted: the buckets in use, in rising order. The zero Packed is empty.
type Packed struct {
	highest int64 // where its range ends
	total   int64
	buckets []uint16
	counts  []uint32
	large   []int64 // in place of counts, if one of them might be too large for those
}

// count is that of the bucket in use numbered i.
func (p *Packed) count(i int) int64 {
	if p.large != nil {
		return p.large[i]
	}
	return int64(p.counts[i])
}

// Pack returns what a histogram of the library, made with [Lowest] and [Digits], has counted; nil if that is nothing.
func Pack(h *hdrhistogram.PackedHistogram) *Packed {
	var s Sum
	h.ForEachBucket(func(us, count int64) bool {
		s.Record(us, count)
		return true
	})
	s.highest = h.HighestTrackableValue()
	return s.Packed()
}

// Highest returns where the histogram's range ends, in microseconds: [Highest], or less in results of earlier versions.
func (p *Packed) Highest() int64 { return p.highest }

// TotalCount returns the number of values.
func (p *Packed) TotalCount() int64 { return p.total }

// Max returns the upper end of the highest bucket in use, in microseconds; 0 if there is none.
func (p *Packed) Max() int64 {
	if len(p.buckets) == 0 {
		return 0
	}
	return valueOf(int(p.buckets[len(p.buckets)-1])+1) - 1
}

// Each calls f for every bucket in use, in rising order, with its lowest value in microseconds.
func (p *Packed) Each(f func(us, count int64)) {
	for i, bucket := range p.buckets {
		f(valueOf(int(bucket)), p.count(i))
	}
}

// AddTo merges p into an HdrHistogram of the same range.
func (p *Packed) AddTo(dst *hdrhistogram.Histogram) {
	for i, bucket := range p.buckets {
		_ = dst.RecordValues(valueOf(int(bucket)), p.count(i)) // fails only beyond 2⁶³ values
	}
}

// Decoder reads histograms as an [Encoder] writes them, and those of other writers that have the same
// lowest value and precision. It keeps its decompressor from one to the next, which the library's decoder makes
// anew for each. It is for one goroutine.
type Decoder struct {
	packed []byte
	source bytes.Reader
	zip    io.ReadCloser
	limit  io.LimitedReader
	plain  bytes.Buffer
}

// NewDecoder returns a decoder.
func NewDecoder() *Decoder { return new(Decoder) }

// maxPlain bounds what a histogram takes when it is not compressed: a varint of nine bytes for each bucket.
const maxPlain = plainHeader + 9*buckets

var errCut = errors.New("the histogram is cut short")

// Decode sets p to one histogram in base64, in the memory that p has. After an error p is empty.
func (d *Decoder) Decode(p *Packed, text []byte) error {
	*p = Packed{buckets: p.buckets[:0], counts: p.counts[:0]}
	if err := d.inflate(text); err != nil {
		return err
	}
	b := d.plain.Bytes()
	if len(b) < plainHeader {
		return errCut
	}
	digits, lowest := binary.BigEndian.Uint32(b[12:]), int64(binary.BigEndian.Uint64(b[16:]))
	highest := int64(binary.BigEndian.Uint64(b[24:]))
	switch length := int(int32(binary.BigEndian.Uint32(b[4:]))); {
	case binary.BigEndian.Uint32(b)&^0xf0 != plainCookie&^0xf0:
		return fmt.Errorf("a histogram of encoding %#x, and this program reads V2, %#x", binary.BigEndian.Uint32(b), plainCookie)
	case length != len(b)-plainHeader:
		return fmt.Errorf("the histogram should hold %d bytes, and has %d", length, len(b)-plainHeader)
	case binary.BigEndian.Uint32(b[8:]) != 0:
		return errors.New("the histogram's index is shifted")
	case lowest != Lowest || digits != Digits || highest < 2*half || highest > Highest:
		return fmt.Errorf("the histogram holds %d to %d with %d digits, and not %d to %d with %d: merging would lose values",
			lowest, highest, digits, Lowest, Highest, Digits)
	}
	return p.fill(highest, b[plainHeader:])
}

// inflate sets d.plain to what lies under base64, header and zlib.
func (d *Decoder) inflate(text []byte) error {
	n := base64.StdEncoding.DecodedLen(len(text))
	if cap(d.packed) < n {
		d.packed = make([]byte, 2*n)
	}
	n, err := base64.StdEncoding.Decode(d.packed[:n], text)
	if err != nil {
		return err
	}
	packed := d.packed[:n]
	if n < packedHeader {
		return errCut
	}
	if cookie := binary.BigEndian.Uint32(packed); cookie&^0xf0 != packedCookie&^0xf0 {
		return fmt.Errorf("a histogram of encoding %#x, and this program reads compressed V2, %#x", cookie, packedCookie)
	}
	length := binary.BigEndian.Uint32(packed[4:])
	if packed = packed[packedHeader:]; uint64(length) > uint64(len(packed)) {
		return errCut
	}
	d.source.Reset(packed[:length])
	if d.zip == nil {
		d.zip, err = zlib.NewReader(&d.source)
	} else {
		err = d.zip.(zlib.Resetter).Reset(&d.source, nil)
	}
	if err != nil {
		return err
	}
	d.plain.Reset()
	d.limit = io.LimitedReader{R: d.zip, N: maxPlain + 1}
	if _, err = d.plain.ReadFrom(&d.limit); err == nil && d.plain.Len() > maxPlain {
		err = errors.New("the histogram is larger than any of its range")
	}
	return err
}

// step is what one byte of a payload does: a count of a bucket, or so many empty ones. Which of the two a byte is
// is as good as random, and a branch would be mispredicted. All are written as counts, and only those that are stay.
type step struct{ buckets, count, used uint8 }

// steps are those of the bytes that are a varint by themselves, as most are.
var steps = func() (all [0x80]step) {
	for b := range uint8(len(all)) {
		switch n := b >> 1; {
		case b == 0:
			all[b] = step{buckets: 1}
		case b&1 == 0:
			all[b] = step{1, n, 1}
		default:
			all[b] = step{buckets: n + 1}
		}
	}
	return all
}()

// fill takes the counts, see [Encoder.encode].
func (p *Packed) fill(highest int64, payload []byte) error {
	most := len(payload) // each bucket in use takes a byte at least
	buckets, counts := slices.Grow(p.buckets, most)[:most], slices.Grow(p.counts, most)[:most]
	used, total := uint(0), int64(0)
	at, end := int64(0), int64(bucketOf(highest))+1
	for i := 0; i < len(payload); {
		if b := payload[i]; b < 0x80 && at < end {
			s := &steps[b]
			buckets[used], counts[used] = uint16(at), uint32(s.count)
			used += uint(s.used)
			total += int64(s.count)
			at += int64(s.buckets)
			i++
			continue
		}
		n, length := binary.Varint(payload[i:])
		switch {
		case length <= 0:
			return errCut
		case n < 0 && (n < -end || at-n > end):
			return fmt.Errorf("the histogram has %d empty buckets from bucket %d on, of %d", -n, at, end)
		case n < 0: // so many buckets are empty
			at -= n
		case at >= end || n > math.MaxUint32:
			return fmt.Errorf("the histogram's count %d at bucket %d of %d cannot be", n, at, end)
		default:
			if n > 0 {
				buckets[used], counts[used] = uint16(at), uint32(n)
				used++
				total += n
			}
			at++
		}
		i += length
	}
	if at > end {
		return fmt.Errorf("the histogram has %d buckets, of %d", at, end)
	}
	p.highest, p.total, p.buckets, p.counts = highest, total, buckets[:used], counts[:used]
	return nil
}
