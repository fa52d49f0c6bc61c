// SPDX-License-Identifier: Apache-2.0

package workload

import "math/bits"

const golden = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio, made odd

// mix64 is a one-to-one map of 64 bits onto themselves in which every bit of the
// input changes half of the output: Stafford's variant 13 of MurmurHash3's finalizer.
func mix64(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// random is a SplitMix64 sequence. It is counter-based: the sequence of
// operation i starts at a hash of (seed, i), so that any operation can be computed
// without those before it.
type random struct{ state uint64 }

// newRandom returns the sequence number i of the seed.
func newRandom(seed uint64, i int64) random {
	return random{mix64(mix64(seed+golden) + uint64(i)*0xd1342543de82ef95)}
}

func (r *random) next() uint64 {
	r.state += golden
	return mix64(r.state)
}

// below returns a number in [0, n). Its bias is n/2^64: nothing that can be seen.
func (r *random) below(n int64) int64 {
	hi, _ := bits.Mul64(r.next(), uint64(n))
	return int64(hi)
}

// float returns a number in [0, 1).
func (r *random) float() float64 { return float64(r.next()>>11) * 0x1p-53 }
