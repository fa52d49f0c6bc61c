// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"

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

// keyspacePrefix is what API V2 puts before every key: 'r' for raw ones, 'x' for those of transactions, and three big-endian bytes of
// the keyspace id.
func (api API) keyspacePrefix(id uint32) []byte {
	mode := byte('r')
	if api == TxnAPI {
		mode = 'x'
	}
	return []byte{mode, byte(id >> 16), byte(id >> 8), byte(id)}
}

// maxKeyspaceID is the largest id that fits into a keyspace prefix.
const maxKeyspaceID = 1<<24 - 1

// ycsbSplitKeys gives at most n-1 keys that split the first records of a go-ycsb load into n parts of about equal size. It takes the
// quantiles of a sample of them: go-ycsb's hash leaves the keys of a small load in a small part of the space of all.
func ycsbSplitKeys(records uint64, n int) [][]byte {
	sample := make([]string, max(20*n, 10_000))
	random := rand.New(rand.NewPCG(1, 2)) // the same regions every time
	for i := range sample {
		sample[i] = ycsbKey(random.Uint64N(records))
	}
	slices.Sort(sample)
	keys := make([][]byte, 0, max(n-1, 0))
	for i := 1; i < n; i++ {
		keys = append(keys, []byte(sample[i*len(sample)/n]))
	}
	return keys
}

// ycsbKey is go-ycsb's key of a record: its number, hashed (64-bit FNV-1a over big-endian bytes), in decimal.
func ycsbKey(record uint64) string {
	h := fnv.New64a()
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, record)) // never fails
	hashed := int64(h.Sum64())
	return fmt.Sprintf("usertable:user%d", max(hashed, -hashed))
}
