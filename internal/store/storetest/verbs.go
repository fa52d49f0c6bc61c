// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/playground"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/store/tikv"
)

// Run tests a driver.
func Run(t *testing.T, open Opener) {
	for _, test := range []struct {
		name string
		raw  bool // it is about what the raw API alone has
		run  func(*testing.T, Opener)
	}{
		{"Described", false, testDescribed},
		{"Verbs", false, testVerbs},
		{"Unary", false, testUnary},
		{"V1TTL", true, testV1TTL},
		{"V2", false, testV2},
		{"TLS", false, testTLS},
		{"Many", false, testMany},
		{"Wake", false, testWake},
		{"Cancel", false, testCancel},
		{"Timeout", false, testTimeout},
		{"StoreErrors", false, testStoreErrors},
		{"Busy", false, testBusy},
		{"StaleRegions", false, testStaleRegions},
		{"StoreDown", false, testStoreDown},
		{"PDAway", true, testPDAway},
		{"Turmoil", false, testTurmoil},
		{"Recovery", false, testRecovery},
	} {
		if open.raw() || !test.raw {
			t.Run(test.name, func(t *testing.T) { test.run(t, open) })
		}
	}
}

// What results keep of the cluster is what the driver says of it.
func testDescribed(t *testing.T, open Opener) {
	pg, err := playground.Start(t.Context(), playground.Options{API: open.API})
	must(t, err)
	t.Cleanup(func() { must(t, pg.Close()) })
	driver, err := open.Open(t.Context(), tikv.Config{PD: []string{pg.PDAddr()}}, generous)
	must(t, err)
	t.Cleanup(func() { must(t, driver.Close()) })
	d, ok := driver.(store.Described)
	if !ok {
		t.Fatal("the driver does not say which cluster it is connected to")
	}
	if c := d.Cluster(); c.ID != pg.ClusterID() || !slices.Equal(c.Stores, pg.StoreAddrs()) || c.Details["store.1"] == "" {
		t.Errorf("it is connected to %+v", c)
	}
}

func testVerbs(t *testing.T, open Opener) {
	verbs(setUp(t, open, nil))
}

// Without batching, the library sends every command as a call of its own.
func testUnary(t *testing.T, open Opener) {
	verbs(setUp(t, open, func(o *options) { o.config.MaxBatchSize = -1 }))
}

func verbs(b *bench) {
	t := b.t
	shortest := "" // an empty value is a value; client-go's transactions take none
	if !b.raw {
		shortest = "0"
	}
	t.Run("single", func(t *testing.T) {
		b.t = t
		b.ok(put("a1", "one"), put("c1", shortest))
		b.wantValues(keys("a1"), []byte("one"))
		b.wantValues(keys("c1"), []byte(shortest))
		b.wantValues(keys("b1"), nil)
		b.ok(put("a1", "two"))
		b.wantValues(keys("a1"), []byte("two"))
		b.ok(del(keys("a1")...), del(keys("never")...))
		b.wantValues(keys("a1"), nil)
		b.ok(del(keys("c1")...))
	})
	t.Run("batch", func(t *testing.T) {
		b.t = t
		ks := numbered(100)
		values := make([][]byte, len(ks))
		for i := range ks {
			values[i] = fmt.Appendf(nil, "value %d", i)
		}
		values[7] = []byte(shortest)
		write := &store.Call{Verb: store.Put, Keys: ks, Values: values}
		b.ok(write)
		if b.raw && write.RPCs != 4 {
			t.Errorf("a put to 4 regions took %d RPCs", write.RPCs)
		}
		b.wantValues(ks, values...)

		// Misses between hits, and keys that come twice.
		mixed := slices.Concat(ks[:2], keys("a-none", "d-none"), ks[1:2], keys("a-none"))
		b.wantValues(mixed, values[0], values[1], nil, nil, values[1], nil)

		remove := del(ks[:200]...)
		b.ok(remove)
		if b.raw && remove.RPCs != 4 {
			t.Errorf("a delete in 4 regions took %d RPCs", remove.RPCs)
		}
		want := slices.Clone(values)
		for i := range 200 {
			want[i] = nil
		}
		b.wantValues(ks, want...)
		b.ok(del(ks...))
	})
	t.Run("large", func(t *testing.T) {
		b.t = t
		big := bytes.Repeat([]byte("0123456789abcdef"), 64<<10) // 1 MiB
		b.ok(&store.Call{Verb: store.Put, Keys: keys("b-big"), Values: [][]byte{big}})
		b.wantValues(keys("b-big"), big)
		many := numbered(300) // more than 512 keys, of more than 16 KiB, which client-go splits
		values := make([][]byte, len(many))
		for i := range values {
			values[i] = big[:100+i]
		}
		b.ok(&store.Call{Verb: store.Put, Keys: many, Values: values})
		b.wantValues(many, values...)
		b.ok(del(many...), del(keys("b-big")...))
	})
	t.Run("scan", func(t *testing.T) { b.t = t; scans(b) })
	if b.raw {
		t.Run("swap", func(t *testing.T) { b.t = t; swaps(b) })
	}
}

func scans(b *bench) {
	ks := sorted(numbered(50))
	b.ok(&store.Call{Verb: store.Put, Keys: ks, Values: ks})
	reversed := slices.Clone(ks)
	slices.Reverse(reversed)
	for _, test := range []struct {
		name string
		call store.Call
		want [][]byte
	}{
		{"within a region", store.Call{Keys: keys("a0010"), EndKey: []byte("a0015"), Limit: 100}, ks[10:15]},
		{"over all regions", store.Call{Keys: keys("a"), Limit: 1000}, ks},
		{"up to a limit behind a border", store.Call{Keys: keys("a0040"), Limit: 75}, ks[40:115]},
		{"up to a limit before a border", store.Call{Keys: keys("b0000"), Limit: 50}, ks[50:100]},
		{"nothing", store.Call{Keys: keys("e"), Limit: 5}, nil},
		{"an empty range", store.Call{Keys: keys("b"), EndKey: []byte("a"), Limit: 5}, nil},
		{"keys only", store.Call{Keys: keys("a0048"), Limit: 4, KeyOnly: true}, ks[48:52]},
		{"backwards", store.Call{Keys: keys("z"), Limit: 1000, Reverse: true}, reversed},
		{"backwards to an end", store.Call{Keys: keys("c0002"), EndKey: []byte("b0048"), Limit: 1000, Reverse: true}, reversed[98:102]},
		{"backwards from a border", store.Call{Keys: keys("c"), Limit: 3, Reverse: true}, reversed[100:103]},
	} {
		c := test.call
		c.Verb = store.Scan
		b.ok(&c)
		if !slices.EqualFunc(c.FoundKeys, test.want, bytes.Equal) {
			b.t.Errorf("%s: found %d keys, want %d\n%.200q\n%.200q", test.name, len(c.FoundKeys), len(test.want), c.FoundKeys, test.want)
			continue
		}
		for i, v := range c.Found {
			if want := c.FoundKeys[i]; !c.KeyOnly && !bytes.Equal(v, want) || c.KeyOnly && len(v) > 0 {
				b.t.Errorf("%s: %q has %q", test.name, want, v)
			}
		}
	}
	b.ok(del(ks...))
}

func swaps(b *bench) {
	swap := func(previous, value string, mustNotExist bool) *store.Call {
		c := &store.Call{Verb: store.CompareAndSwap, Keys: keys("b-swap"), Values: keys(value), MustNotExist: mustNotExist}
		if !mustNotExist {
			c.Previous = []byte(previous)
		}
		b.ok(c)
		return c
	}
	check := func(c *store.Call, swapped bool, previous []byte) {
		b.t.Helper()
		if c.Swapped != swapped || len(c.Found) != 1 || string(c.Found[0]) != string(previous) || (c.Found[0] == nil) != (previous == nil) {
			b.t.Errorf("swapped %v, found %q; want %v, %q", c.Swapped, c.Found, swapped, previous)
		}
	}
	check(swap("x", "1", false), false, nil)
	check(swap("", "1", true), true, nil)
	check(swap("", "2", true), false, []byte("1"))
	check(swap("0", "2", false), false, []byte("1"))
	check(swap("1", "", false), true, []byte("1"))
	check(swap("", "3", false), true, []byte{}) // an empty value is there
	b.wantValues(keys("b-swap"), []byte("3"))
	b.ok(del(keys("b-swap")...))
}

func testV1TTL(t *testing.T, open Opener) {
	expires(setUp(t, open, func(o *options) { o.playground.APIVersion = playground.V1TTL }))
}

func expires(b *bench) {
	short := put("a-short", "x")
	short.TTL = 1
	long := put("b-long", "y")
	long.TTL = 1000
	both := &store.Call{Verb: store.Put, Keys: keys("a-batch", "c-batch"), Values: keys("1", "2"), TTL: 1}
	b.ok(short, long, both, put("d-for-ever", "z"))
	all := keys("a-short", "b-long", "a-batch", "c-batch", "d-for-ever")
	eventually(b.t, "values expire", func() bool {
		c := get(all...)
		b.ok(c)
		return c.Found[0] == nil && c.Found[2] == nil && c.Found[3] == nil
	})
	b.wantValues(all, nil, []byte("y"), nil, nil, []byte("z"))
}

// All of it again in a keyspace, which is invisible from another one.
func testV2(t *testing.T, open Opener) {
	b := setUp(t, open, func(o *options) {
		o.playground.APIVersion = playground.V2
		o.playground.Keyspaces = []string{"mine"}
		o.config.Keyspace = "mine"
	})
	verbs(b)
	b.t = t
	b.ok(put("a-here", "1"))
	if b.raw {
		expires(b)
	}

	other, err := open.Open(t.Context(), tikv.Config{PD: []string{b.cluster.PDAddr()}, APIVersion: "V2"}, generous)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { must(t, other.Close()) }()
	there := &bench{t: t, raw: b.raw, cluster: b.cluster, clk: b.clk}
	if there.session, err = other.Open(0, 1, b.clk); err != nil {
		t.Fatal(err)
	}
	defer func() { must(t, there.session.Close()) }()
	there.wantValues(keys("a-here"), nil)
}

// testMany keeps many calls in flight, and sees each come back once with its own answer.
func testMany(t *testing.T, open Opener) {
	const threads, rounds = 500, 20
	b := setUp(t, open, func(o *options) { o.threads = threads })
	calls := make([]*store.Call, threads)
	left := make([]int, threads)
	for i := range calls {
		calls[i] = put(fmt.Sprintf("%c%d", "abcd"[i%4], i), fmt.Sprint(i))
		calls[i].Owner = i
		left[i] = 2 * rounds
	}
	b.submit(calls...)
	for open := threads; open > 0; {
		done := b.session.Wait(b.clk.Now() + generous)
		if len(done) == 0 {
			t.Fatalf("%d calls did not come back", open)
		}
		for _, c := range done {
			b.checkAnswer(c)
			if c != calls[c.Owner] || c.Class != store.OK {
				t.Fatalf("call %d: %v %v", c.Owner, c.Class, c.Err)
			}
			if want := fmt.Sprint(c.Owner); c.Verb == store.Get && string(c.Found[0]) != want {
				t.Fatalf("%q has %q, want %q", c.Keys[0], c.Found[0], want)
			}
			if left[c.Owner]--; left[c.Owner] == 0 {
				open--
				continue
			}
			c.Verb = store.Get + store.Put - c.Verb // in turn
			b.submit(c)
		}
	}
}

func testWake(t *testing.T, open Opener) {
	b := setUp(t, open, nil)
	woken := make(chan struct{})
	go func() {
		defer close(woken)
		time.Sleep(time.Millisecond)
		b.session.Wake()
	}()
	if done := b.session.Wait(b.clk.Now() + time.Hour); len(done) > 0 {
		t.Errorf("%d calls came back that nobody made", len(done))
	}
	<-woken
	if start := b.clk.Now(); len(b.session.Wait(start+time.Millisecond)) > 0 || b.clk.Now() < start+time.Millisecond {
		t.Error("the wait ended early")
	}
}
