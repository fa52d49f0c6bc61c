// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/playground"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/store/rawkv"
	"github.com/kvbench/kvbench/internal/store/stream"
	"github.com/kvbench/kvbench/internal/store/tikv"
)

// TestDifferential makes the same calls through both drivers, on a cluster
// each, while the regions of both change alike: the answers, the data left behind, and
// what was counted must be the same.
func TestDifferential(t *testing.T) {
	for _, version := range []playground.APIVersion{playground.V1, playground.V1TTL, playground.V2} {
		t.Run(string(version), func(t *testing.T) {
			change := func(o *options) { o.playground.APIVersion = version }
			a := setUp(t, Opener{Open: openRawkv}, change)
			b := setUp(t, Opener{Open: openStream}, change)
			rng := rand.New(rand.NewPCG(11, 12))
			rpcs := [2]int32{}
			round := 0
			compare := func(calls []*store.Call) {
				t.Helper()
				var copies []*store.Call
				for _, c := range calls {
					c := *c
					copies = append(copies, &c)
				}
				a.do(calls...)
				b.do(copies...)
				for i, x := range calls {
					y := copies[i]
					rpcs[0] += x.RPCs
					rpcs[1] += y.RPCs
					if x.Class != y.Class || x.Swapped != y.Swapped || !sameValues(x.Found, y.Found) || !sameValues(x.FoundKeys, y.FoundKeys) {
						t.Fatalf("round %d, %v %q: rawkv %v %q %q, stream %v %q %q", round, x.Verb, x.Keys, x.Class, x.FoundKeys, x.Found, y.Class, y.FoundKeys, y.Found)
					}
					if round < 4 && x.RPCs != y.RPCs { // while nothing has changed
						t.Errorf("round %d, %v of %d keys: %d RPCs through rawkv, %d through stream", round, x.Verb, len(x.Keys), x.RPCs, y.RPCs)
					}
				}
			}
			// A call whose regions become known one by one, while its keys are dealt out, takes
			// more RPCs; from here on both know all regions.
			for _, key := range keys("a", "b", "c", "d") {
				for _, x := range []*bench{a, b} {
					x.do(&store.Call{Verb: store.Get, Keys: [][]byte{key}})
				}
			}
			for ; round < 60; round++ {
				if round%5 == 4 {
					key := fmt.Appendf(nil, "%c%02d", "abcd"[rng.IntN(4)], rng.IntN(40))
					for _, x := range []*bench{a, b} {
						at := key
						if version == playground.V2 {
							var err error
							if at, err = x.cluster.Key("", key); err != nil {
								t.Fatal(err)
							}
						}
						x.cluster.SplitRegion(at) // at a border: an error, which is as good
						if round%10 == 9 {
							if _, err := x.cluster.MoveLeaders(); err != nil {
								t.Fatal(err)
							}
						}
					}
				}
				used := map[string]bool{}
				var calls []*store.Call
				for range 30 {
					if c := randomCall(rng, used, version != playground.V1); c != nil {
						calls = append(calls, c)
					}
				}
				compare(calls)
				compare([]*store.Call{randomScan(rng), randomScan(rng), randomScan(rng)})
			}
			var all [2]*store.Call
			for i, x := range []*bench{a, b} {
				all[i] = &store.Call{Verb: store.Scan, Keys: keys(""), Limit: 10_000}
				x.ok(all[i])
			}
			if !sameValues(all[0].FoundKeys, all[1].FoundKeys) || !sameValues(all[0].Found, all[1].Found) || len(all[0].Found) == 0 {
				t.Errorf("rawkv left %d keys behind, stream %d", len(all[0].FoundKeys), len(all[1].FoundKeys))
			}
			t.Logf("%d keys, %d and %d RPCs", len(all[0].FoundKeys), rpcs[0], rpcs[1])
		})
	}
}

func openRawkv(ctx context.Context, c tikv.Config, timeout time.Duration) (store.Driver, error) {
	return rawkv.Open(ctx, c, timeout)
}

func openStream(ctx context.Context, c tikv.Config, timeout time.Duration) (store.Driver, error) {
	return stream.Open(ctx, c, stream.Config{Timeout: timeout})
}

// randomCall returns a call on one key or more, or nil. Of the calls that are made at once, only one may write a key, and then no other reads it.
func randomCall(rng *rand.Rand, used map[string]bool, ttl bool) *store.Call {
	c := &store.Call{Verb: []store.Verb{store.Get, store.Put, store.Delete, store.CompareAndSwap}[rng.IntN(4)]}
	n := 1
	if c.Verb != store.CompareAndSwap && rng.IntN(2) == 0 {
		n += rng.IntN(12)
	}
	for range n {
		k := fmt.Sprintf("%c%02d", "abcd"[rng.IntN(4)], rng.IntN(40))
		if used[k] {
			continue
		}
		c.Keys = append(c.Keys, []byte(k))
		if used[k] = true; c.Verb == store.Put || c.Verb == store.CompareAndSwap {
			c.Values = append(c.Values, bytes.Repeat([]byte{byte('0' + rng.IntN(10))}, rng.IntN(50)))
		}
	}
	if len(c.Keys) == 0 {
		return nil
	}
	switch c.Verb {
	case store.Get:
		c.Keys = append(c.Keys, c.Keys[rng.IntN(len(c.Keys))]) // the same key twice
	case store.Put:
		if ttl && rng.IntN(3) == 0 {
			c.TTL = 1000
		}
	case store.CompareAndSwap:
		c.MustNotExist = rng.IntN(2) == 0
		c.Previous = bytes.Repeat([]byte{'0'}, rng.IntN(3))
	}
	return c
}

func randomScan(rng *rand.Rand) *store.Call {
	c := &store.Call{Verb: store.Scan, Limit: 1 + rng.IntN(100), Reverse: rng.IntN(2) == 0, KeyOnly: rng.IntN(2) == 0}
	c.Keys = [][]byte{fmt.Appendf(nil, "%c%02d", "abcd"[rng.IntN(4)], rng.IntN(40))}
	if rng.IntN(2) == 0 {
		c.EndKey = fmt.Appendf(nil, "%c%02d", "abcd"[rng.IntN(4)], rng.IntN(40))
	}
	return c
}

func sameValues(a, b [][]byte) bool {
	return slices.EqualFunc(a, b, func(x, y []byte) bool { return bytes.Equal(x, y) && (x == nil) == (y == nil) })
}
