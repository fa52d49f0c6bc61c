// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"strconv"

	"github.com/kvbench/kvbench/internal/spec"
)

// keyCodec makes keys of record numbers: table ":" prefix number. With the default
// properties they are those of go-ycsb's raw TiKV driver.
type keyCodec struct {
	head  []byte // table, colon and prefix
	table int    // bytes of table and colon
	hash  func(int64) uint64
	hex   bool
	width int // least digits
}

func newKeyCodec(s *spec.Spec) keyCodec {
	k := keyCodec{
		head:  []byte(s.Key.Table + ":" + s.Key.Prefix),
		table: len(s.Key.Table) + 1,
		hash:  func(n int64) uint64 { return uint64(n) },
		hex:   s.Key.Format == spec.Hex,
		width: s.Key.Padding,
	}
	if s.Key.Order == spec.Hashed {
		switch s.Key.Hash {
		case spec.GoYCSB:
			k.hash = hashGoYCSB
		case spec.YCSB:
			k.hash = hashYCSB
		case spec.Mix:
			k.hash = func(n int64) uint64 { return mix64(uint64(n)) }
			if !k.hex {
				k.width = max(k.width, 20) // so that the order of keys is that of numbers
			}
		}
	}
	if k.hex {
		k.width = max(k.width, 16)
	}
	if s.Key.Length > 0 {
		k.width = s.Key.Length - len(s.Key.Prefix)
	}
	return k
}

// size returns the most bytes that a key can have.
func (k *keyCodec) size() int { return len(k.head) + max(k.width, 20) }

// append appends the key of a record.
func (k *keyCodec) append(dst []byte, number int64) []byte {
	dst = append(dst, k.head...)
	n := k.hash(number)
	if k.hex {
		const digits = "0123456789abcdef"
		for range k.width - 16 {
			dst = append(dst, '0')
		}
		for shift := 60; shift >= 0; shift -= 4 {
			dst = append(dst, digits[n>>shift&15])
		}
		return dst
	}
	var buf [20]byte
	text := strconv.AppendUint(buf[:0], n, 10)
	for range k.width - len(text) {
		dst = append(dst, '0')
	}
	return append(dst, text...)
}

// sorts reports whether the keys of the records first to last, whose numbers are not hashed, are in the order of the numbers.
func (k *keyCodec) sorts(first, last int64) bool {
	return k.hex || len(strconv.FormatInt(max(first, 0), 10)) == len(strconv.FormatInt(last, 10)) || k.width >= len(strconv.FormatInt(last, 10))
}

// possible reports whether a key looks like one of a record.
func (k *keyCodec) possible(key []byte) bool {
	digits, ok := bytes.CutPrefix(key, k.head)
	if !ok || len(digits) == 0 || len(digits) < k.width || len(digits) > max(k.width, 20) {
		return false
	}
	for _, d := range digits {
		if (d < '0' || d > '9') && (!k.hex || d < 'a' || d > 'f') {
			return false
		}
	}
	return true
}

// user returns what YCSB calls the key: without the table.
func (k *keyCodec) user(key []byte) []byte { return key[min(k.table, len(key)):] }

// end returns the first key after all of the table.
func (k *keyCodec) end() []byte {
	end := append([]byte(nil), k.head[:k.table]...)
	end[len(end)-1]++ // the colon becomes a semicolon
	return end
}

const (
	fnvOffset = 0xcbf29ce484222325
	fnvPrime  = 0x100000001b3
)

// hashGoYCSB is the absolute value of FNV-1a over the number's big-endian bytes.
// It hardly mixes the low bytes: consecutive records are neighbours in the store.
func hashGoYCSB(n int64) uint64 {
	h := uint64(fnvOffset)
	for shift := 56; shift >= 0; shift -= 8 {
		h = (h ^ uint64(n)>>shift&0xff) * fnvPrime
	}
	return absolute(h)
}

// hashYCSB is the same over the little-endian bytes, as Java's YCSB has it.
func hashYCSB(n int64) uint64 {
	h := uint64(fnvOffset)
	for shift := 0; shift <= 56; shift += 8 {
		h = (h ^ uint64(n)>>shift&0xff) * fnvPrime
	}
	return absolute(h)
}

// hashText continues FNV-1a over more text.
func hashText(h uint64, text []byte) uint64 {
	for _, b := range text {
		h = (h ^ uint64(b)) * fnvPrime
	}
	return h
}

// absolute is the absolute value of h as a signed number.
func absolute(h uint64) uint64 {
	if int64(h) < 0 {
		return -h
	}
	return h
}
