// SPDX-License-Identifier: Apache-2.0

// Package storetest holds the tests that every driver must pass, over a
// playground and the wire: what the verbs do, what happens when the cluster is
// disturbed, and that two drivers leave the same data behind.
package storetest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/playground"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/store/tikv"
)

// Opener opens the driver that is tested.
type Opener struct {
	API  playground.API // that the driver is for
	Open func(ctx context.Context, c tikv.Config, timeout time.Duration) (store.Driver, error)
}

// raw tells whether the driver is for the raw API.
func (o Opener) raw() bool { return o.API != playground.TxnAPI }

// generous is a timeout that only a broken driver reaches.
const generous = 30 * time.Second

// bench is a cluster, a driver and a session on it.
type bench struct {
	t       *testing.T
	raw     bool // the driver is for the raw API
	cluster *playground.Cluster
	session store.Session
	clk     clock.Clock
}

// options that tests change.
type options struct {
	playground playground.Options
	config     tikv.Config
	timeout    time.Duration
	threads    int
}

// setUp starts a cluster whose regions meet at the keys "b", "c" and "d", and
// opens a driver on it. Everything is closed when the test ends.
func setUp(t *testing.T, open Opener, change func(*options)) *bench {
	t.Helper()
	o := options{timeout: generous, threads: 64}
	o.playground.API, o.playground.SplitKeys = open.API, keys("b", "c", "d")
	o.playground.ElectionDelay = 50 * time.Millisecond
	if change != nil {
		change(&o)
	}
	pg, err := playground.Start(t.Context(), o.playground)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, pg.Close()) })
	o.config.PD = []string{pg.PDAddr()}
	o.config.APIVersion = string(o.playground.APIVersion)
	opening, opened := context.WithCancel(t.Context())
	driver, err := open.Open(opening, o.config, o.timeout)
	opened() // a driver outlives that
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, driver.Close()) })
	b := &bench{t: t, raw: open.raw(), cluster: pg, clk: clock.Since(time.Now())}
	if b.session, err = driver.Open(0, o.threads, b.clk); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, b.session.Close()) })
	return b
}

// do makes all calls at once and returns when all have come back.
func (b *bench) do(calls ...*store.Call) {
	b.t.Helper()
	b.submit(calls...)
	for back := 0; back < len(calls); {
		done := b.session.Wait(b.clk.Now() + 2*generous)
		if len(done) == 0 {
			b.t.Fatalf("%d of %d calls did not come back", len(calls)-back, len(calls))
		}
		back += len(done)
		for _, c := range done {
			b.checkAnswer(c)
		}
	}
}

func (b *bench) submit(calls ...*store.Call) {
	for _, c := range calls {
		c.Start = b.clk.Now()
		b.session.Submit(c)
	}
}

// checkAnswer checks what must hold of every answer.
func (b *bench) checkAnswer(c *store.Call) {
	b.t.Helper()
	if (c.Class == store.OK) != (c.Err == nil) {
		b.t.Errorf("%v %q: class %v, but error %v", c.Verb, c.Keys, c.Class, c.Err)
	}
	if c.End < c.Start || c.End > b.clk.Now() {
		b.t.Errorf("%v %q: started at %v, ended at %v, and it is %v", c.Verb, c.Keys, c.Start, c.End, b.clk.Now())
	}
	if c.Class == store.OK && c.RPCs < 1 && c.Verb != store.Scan { // an empty range needs none
		b.t.Errorf("%v %q: answered after %d RPCs", c.Verb, c.Keys, c.RPCs)
	}
	if c.Class == store.OK && c.Verb == store.Get && len(c.Found) != len(c.Keys) {
		b.t.Errorf("Get of %d keys found %d values", len(c.Keys), len(c.Found))
	}
}

// ok makes calls that must succeed.
func (b *bench) ok(calls ...*store.Call) {
	b.t.Helper()
	b.do(calls...)
	for _, c := range calls {
		if c.Class != store.OK {
			b.t.Fatalf("%v %q: %v: %v", c.Verb, c.Keys, c.Class, c.Err)
		}
	}
}

// wantValues gets keys in one call; nil is a miss.
func (b *bench) wantValues(ks [][]byte, want ...[]byte) {
	b.t.Helper()
	c := get(ks...)
	b.ok(c)
	for i, k := range ks {
		if got := c.Found[i]; string(got) != string(want[i]) || (got == nil) != (want[i] == nil) {
			b.t.Errorf("%q has %s, want %s", k, show(got), show(want[i]))
		}
	}
}

func get(ks ...[]byte) *store.Call { return &store.Call{Verb: store.Get, Keys: ks} }

func put(k string, v string) *store.Call {
	return &store.Call{Verb: store.Put, Keys: keys(k), Values: keys(v)}
}

func del(ks ...[]byte) *store.Call { return &store.Call{Verb: store.Delete, Keys: ks} }

func keys(names ...string) [][]byte {
	var ks [][]byte
	for _, n := range names {
		ks = append(ks, []byte(n))
	}
	return ks
}

// numbered returns n keys in each of the four regions, in an order that mixes the regions.
func numbered(n int) [][]byte {
	var ks [][]byte
	for i := range n {
		for _, region := range "abcd" {
			ks = append(ks, fmt.Appendf(nil, "%c%04d", region, i))
		}
	}
	return ks
}

func sorted(ks [][]byte) [][]byte {
	ks = slices.Clone(ks)
	slices.SortFunc(ks, bytes.Compare)
	return ks
}

func show(v []byte) string {
	if v == nil {
		return "nothing"
	}
	return fmt.Sprintf("%q", v)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// border is a key as regions are split at it.
func border(t *testing.T, pg *playground.Cluster, key string) []byte {
	t.Helper()
	at, err := pg.Key("", []byte(key))
	must(t, err)
	return at
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in 20 s: %s", what)
		}
	}
}
