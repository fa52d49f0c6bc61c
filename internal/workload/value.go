// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"
	"sync"

	"github.com/kvbench/kvbench/internal/spec"
)

// Field contents are letters, as go-ycsb's are. They are cut from a slab of random
// lower-case letters at a random place, with the case of each letter flipped at
// random, eight letters at a time: as random as one call per letter, and fifty times
// as fast. The case makes two cuts of the same place different, so that a store's
// compression finds nothing that it would not find in fresh random letters.
const (
	slabBits = 18
	slabSize = 1 << slabBits // bytes: stays in the second-level cache
	cutSize  = 16 << 10      // the most that is cut at once
)

var slab = sync.OnceValue(func() []byte {
	s := make([]byte, slabSize+cutSize)
	r := newRandom(0, 0)
	for i := range s {
		s[i] = 'a' + byte(r.below(26))
	}
	return s
})

// sumSize is the length of a field's checksum: 32 bits, six to a character.
const sumSize = 6

// values makes the contents of fields, and checks them.
//
// With dataintegrity, the last six bytes of a field are the CRC-32C of the key,
// the field's number and the letters before, so that a row is as long as without. A field
// shorter than that is the beginning of its checksum.
type values struct {
	codec     rowCodec
	keys      *keyCodec
	integrity bool
	text      bool    // integrity in go-ycsb's way
	balance   bool    // rows are balances
	length    int     // go-ycsb's integrity, balances: the only length
	random    float64 // fraction that does not compress
	slab      []byte
	salt      uint64   // changes all letters; 0 changes none
	scratch   []byte   // expected text
	seen      []uint64 // fields of the row being checked
}

func newValues(s *spec.Spec, keys *keyCodec) values {
	return values{
		codec:     newRowCodec(s),
		keys:      keys,
		integrity: s.Integrity,
		text:      s.IntegrityFormat == spec.GoYCSB,
		balance:   s.Row.Format == spec.Balance,
		length:    s.Row.FieldLength,
		random:    1 - s.Row.Compressibility,
		slab:      slab(),
		seen:      make([]uint64, (s.Row.Fields+63)/64),
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// keySum is the part of the checksums that is the same for all fields of a key.
func (v *values) keySum(key []byte) uint32 {
	if !v.integrity {
		return 0
	}
	return crc32.Update(0, castagnoli, key)
}

// content appends a field of that length.
func (v *values) content(dst []byte, r *random, key []byte, keySum uint32, field, length int) []byte {
	if v.integrity && v.text {
		return v.appendText(dst, key, field, length)
	}
	body := length
	if v.integrity {
		body = max(0, length-sumSize)
	}
	start := len(dst)
	dst = v.letters(dst, r, int(float64(body)*v.random+0.5))
	for len(dst)-start < body {
		dst = append(dst, filler[:min(len(filler), body-(len(dst)-start))]...)
	}
	if v.integrity {
		var sum [8]byte
		binary.LittleEndian.PutUint64(sum[:], sumText(fieldSum(keySum, field, dst[start:])))
		dst = append(dst, sum[:min(sumSize, length)]...)
	}
	return dst
}

// filler is what compresses away.
const filler = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

// letters appends n random letters.
func (v *values) letters(dst []byte, r *random, n int) []byte {
	for n > 0 {
		cut := min(n, cutSize)
		at := int((r.next() ^ v.salt) >> (64 - slabBits))
		flip := (r.next() ^ v.salt) | 1
		start := len(dst)
		dst = append(dst, v.slab[at:at+cut]...)
		chunk := dst[start:]
		for len(chunk) >= 8 {
			binary.LittleEndian.PutUint64(chunk, binary.LittleEndian.Uint64(chunk)^flip&0x2020202020202020)
			flip ^= flip << 13
			flip ^= flip >> 7
			flip ^= flip << 17
			chunk = chunk[8:]
		}
		for i := range chunk {
			chunk[i] ^= byte(flip>>(8*i)) & 0x20
		}
		n -= cut
	}
	return dst
}

// fieldSum is the checksum of a field.
func fieldSum(keySum uint32, field int, body []byte) uint32 {
	return crc32.Update(keySum^uint32(field)*0x9e3779b1, castagnoli, body)
}

// sumText writes a checksum as six characters of six bits each, from ; to z, in the
// low bytes of a number, the first one lowest.
func sumText(sum uint32) uint64 {
	x := uint64(sum)
	return 0x3b3b3b3b3b3b + (x&0x3f |
		x>>6&0x3f<<8 |
		x>>12&0x3f<<16 |
		x>>18&0x3f<<24 |
		x>>24&0x3f<<32 |
		x>>30<<40)
}

// appendText appends what go-ycsb's dataintegrity writes: the key without its table, a
// colon, the field's name, and hashes of all before, each behind a colon, cut to length.
func (v *values) appendText(dst []byte, key []byte, field, length int) []byte {
	start := len(dst)
	dst = append(dst, v.keys.user(key)...)
	dst = append(dst, ":field"...)
	dst = strconv.AppendInt(dst, int64(field), 10)
	hash, hashed := uint64(fnvOffset), start
	for len(dst)-start < length {
		dst = append(dst, ':')
		hash, hashed = hashText(hash, dst[hashed:]), len(dst)
		dst = strconv.AppendUint(dst, hash, 10)
	}
	return dst[:start+length]
}

// row appends a whole row with fresh contents.
func (v *values) row(dst []byte, r *random, key []byte, sizes *lengths) []byte {
	if v.balance {
		return v.appendBalance(dst, spec.OpeningBalance)
	}
	sum := v.keySum(key)
	for field := range v.codec.fields {
		length := int(sizes.next(r))
		dst = v.codec.header(dst, field, length)
		dst = v.content(dst, r, key, sum, field, length)
	}
	return dst
}

// replace appends the row with one field given fresh contents. All other
// fields stay, also those that are not ours.
func (v *values) replace(dst, row []byte, r *random, key []byte, field int, sizes *lengths) ([]byte, error) {
	pos, err := v.codec.begin(row)
	if err != nil {
		return dst, err
	}
	length := int(sizes.next(r))
	sum := v.keySum(key)
	first, found := pos, false
	for pos < len(row) {
		c, err := v.codec.cell(row, pos)
		if err != nil {
			return dst, err
		}
		pos = c.end
		if c.field == field {
			found = true
			dst = append(dst, row[first:c.begin]...)
			dst = v.codec.header(dst, field, length)
			dst = v.content(dst, r, key, sum, field, length)
			first = c.end
		}
	}
	dst = append(dst, row[first:]...)
	if !found {
		dst = v.codec.header(dst, field, length)
		dst = v.content(dst, r, key, sum, field, length)
	}
	return dst, nil
}

// WrongValue is what verification found.
type WrongValue struct {
	Key     []byte
	Problem string
}

// Error implements error.
func (w *WrongValue) Error() string { return fmt.Sprintf("value of key %q %s", w.Key, w.Problem) }

// What check looks into, beside a field's number.
const (
	allFields = -1
	noFields  = -2 // the row's shape only
)

// checkWhole checks the shape of a row, and with integrity all its fields.
func (v *values) checkWhole(key, row []byte) error {
	if v.balance {
		_, err := v.balanceOf(key, row)
		return err
	}
	if v.integrity {
		return v.check(key, row, allFields)
	}
	return v.check(key, row, noFields)
}

// check checks a row that was read for a key: all fields, or one. A row must hold
// all of our fields. It allocates only when something is wrong.
func (v *values) check(key, row []byte, only int) error {
	wrong := func(format string, args ...any) error {
		return &WrongValue{bytes.Clone(key), fmt.Sprintf(format, args...)}
	}
	pos, err := v.codec.begin(row)
	if err != nil {
		return wrong("%v", err)
	}
	clear(v.seen)
	sum := v.keySum(key)
	count := 0
	for pos < len(row) || v.codec.format == rawRow && count == 0 {
		c, err := v.codec.cell(row, pos)
		if err != nil {
			return wrong("%v", err)
		}
		if c.field < 0 {
			return wrong("has an unknown field at offset %d", c.begin)
		}
		if c.field < v.codec.fields {
			if bit := uint64(1) << (c.field % 64); v.seen[c.field/64]&bit != 0 {
				return wrong("has field%d twice", c.field)
			} else {
				v.seen[c.field/64] |= bit
			}
			count++
		}
		if only == allFields || only == c.field {
			if problem := v.checkField(row[c.content:c.end], key, sum, c.field); problem != "" {
				return wrong("is wrong in field%d: %s", c.field, problem)
			}
		}
		pos = c.end
	}
	if count < v.codec.fields {
		for field := range v.codec.fields {
			if v.seen[field/64]&(1<<(field%64)) == 0 {
				return wrong("lacks field%d: %d of %d fields are there", field, count, v.codec.fields)
			}
		}
	}
	return nil
}

// checkField returns what is wrong with a field's content, or "".
func (v *values) checkField(content, key []byte, keySum uint32, field int) string {
	body := content[:max(0, len(content)-sumSize)]
	stored := content[len(body):]
	var sum [8]byte
	binary.LittleEndian.PutUint64(sum[:], sumText(fieldSum(keySum, field, body)))
	if len(content) > 0 && string(stored) == string(sum[:len(stored)]) {
		return ""
	}
	if user := v.keys.user(key); len(content) == v.length && bytes.HasPrefix(content, user[:min(len(user), len(content))]) {
		v.scratch = v.appendText(v.scratch[:0], key, field, len(content))
		if bytes.Equal(content, v.scratch) {
			return ""
		}
		return fmt.Sprintf("it should be %q, and is %q", clip(v.scratch), clip(content))
	}
	if len(content) == 0 {
		return "it is empty"
	}
	return fmt.Sprintf("its checksum should be %q for its key and content, and is %q (content %q)", string(sum[:len(stored)]), stored, clip(body))
}

// clip bounds what error texts show of a value.
func clip(b []byte) []byte { return b[:min(len(b), 64)] }
