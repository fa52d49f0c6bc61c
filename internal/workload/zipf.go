// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"math"
	"math/bits"
)

// zipf draws ranks 0, 1, 2, … below n with probability proportional to
// 1/(rank+1)^q, exactly, for any n and any q > 0, without tables: W. Hörmann and
// G. Derflinger, "Rejection-inversion to generate variates from monotone discrete
// distributions", ACM TOMACS 6(3), 1996. YCSB's generator instead approximates all
// ranks from the third on, and has to sum n terms to begin.
type zipf struct {
	q, p   float64 // exponent, and 1-q
	n      int64
	lowest float64 // of the area under 1/x^q that is drawn from
	area   float64 // its negative size
	accept float64 // a rank this close above its x needs no further test
}

func newZipf(n int64, q float64) zipf {
	z := zipf{q: q, p: 1 - q}
	z.accept = 2 - z.inverse(z.integral(2.5)-z.density(2))
	z.resize(n)
	return z
}

// resize changes the number of ranks.
func (z *zipf) resize(n int64) {
	z.n = n
	z.lowest = z.integral(float64(n) + 0.5)
	z.area = z.integral(1.5) - 1 - z.lowest
}

func (z *zipf) next(r *random) int64 {
	for {
		u := z.lowest + r.float()*z.area
		x := z.inverse(u)
		k := z.n // also when x is infinite
		if x+0.5 < float64(z.n) {
			k = max(int64(x+0.5), 1)
		}
		if f := float64(k); f-x <= z.accept || u >= z.integral(f+0.5)-z.density(f) {
			return k - 1
		}
	}
}

// density is 1/x^q.
func (z *zipf) density(x float64) float64 { return math.Exp(-z.q * math.Log(x)) }

// integral is the antiderivative of density that is 0 at x = 1.
func (z *zipf) integral(x float64) float64 {
	log := math.Log(x)
	if z.p == 0 {
		return log
	}
	return math.Expm1(z.p*log) / z.p
}

// inverse is the inverse function of integral.
func (z *zipf) inverse(y float64) float64 {
	if z.p == 0 {
		return math.Exp(y)
	}
	return math.Exp(math.Log1p(max(z.p*y, -1)) / z.p)
}

// scramble is a permutation of [0, n) that scatters neighbours: it permutes the
// next power of two and walks along until it is inside again, which takes less
// than two steps on average. Domain bits above those of n keep most places as they
// are when n grows.
func scramble(x, n int64, domain uint) int64 {
	domain = max(domain, uint(bits.Len64(uint64(n-1))), 1)
	mask, half := uint64(1)<<domain-1, (domain+1)/2
	for v := uint64(x); ; {
		v = (v*0x9e3779b97f4a7c15 + 0x632be59bd9b4e019) & mask
		v ^= v >> half
		v = v * 0xd6e8feb86659fd93 & mask
		v ^= v >> half
		v = v * 0xbf58476d1ce4e5b9 & mask
		v ^= v >> half
		if v < uint64(n) {
			return int64(v)
		}
	}
}
