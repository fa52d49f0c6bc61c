// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"math"
	"strconv"

	"github.com/tikv/client-go/v2/util/codec"
)

// boundCodec translates between the keys that requests carry and the region bounds that PD and region errors show. Under API V1
// they are the same bytes; under V2 bounds are in memcomparable form, which keeps their order.
type boundCodec struct{ memcomparable bool }

func (c boundCodec) encode(key []byte) []byte {
	if !c.memcomparable || len(key) == 0 {
		return key
	}
	return codec.EncodeBytes(nil, key)
}

// decode reports false for bytes that no key encodes to.
func (c boundCodec) decode(bound []byte) ([]byte, bool) {
	if !c.memcomparable || len(bound) == 0 {
		return bound, true
	}
	rest, key, err := codec.DecodeBytes(bound, nil)
	return key, err == nil && len(rest) == 0
}

// keyspacePrefix is what API V2 puts before every raw key: 'r' and three big-endian bytes of the keyspace id.
func keyspacePrefix(id uint32) []byte {
	return []byte{'r', byte(id >> 16), byte(id >> 8), byte(id)}
}

// maxKeyspaceID is the largest id that fits into a keyspace prefix.
const maxKeyspaceID = 1<<24 - 1

// ycsbSplitKeys gives n-1 keys that split the default keys of go-ycsb into n parts of about equal shares: "usertable:user" and a
// decimal number spread evenly over [0, 2^63), in lexical order, where 18 digits lie among 19.
func ycsbSplitKeys(n int) [][]byte {
	keys := make([][]byte, 0, max(n-1, 0))
	for i := 1; i < n; i++ {
		lo, hi := 0.1, 1.0
		for range 60 {
			mid := (lo + hi) / 2
			if decimalShareBelow(mid) < float64(i)/float64(n) {
				lo = mid
			} else {
				hi = mid
			}
		}
		digits := strconv.FormatFloat(hi, 'f', 9, 64)[len("0."):]
		keys = append(keys, append([]byte("usertable:user"), digits...))
	}
	return keys
}

// decimalShareBelow is the share of the numbers in [0, 2^63) whose decimal digits, read as 0.ddd…, lie below x.
func decimalShareBelow(x float64) float64 {
	const all = 1 << 63
	sum := 0.0
	for digits := 1; digits <= 19; digits++ {
		scale := math.Pow(10, float64(digits))
		sum += max(0, min(x*scale, all)-scale/10)
	}
	return sum / all
}
