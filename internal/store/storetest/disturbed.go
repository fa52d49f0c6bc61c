// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/playground"
	"github.com/kvbench/kvbench/internal/store"
)

// regionOf returns the region of key.
func (b *bench) regionOf(key string) playground.RegionState {
	b.t.Helper()
	at := string(border(b.t, b.cluster, key))
	for _, r := range b.cluster.State().Regions {
		if unquoted(b.t, r.Start) <= at && (r.End == "" || at < unquoted(b.t, r.End)) {
			return r
		}
	}
	b.t.Fatalf("no region holds %q", key)
	return playground.RegionState{}
}

// unquoted is a border as it is, from how a cluster shows it.
func unquoted(t *testing.T, border string) string {
	t.Helper()
	text, err := strconv.Unquote(`"` + border + `"`)
	must(t, err)
	return text
}

func testCancel(t *testing.T, open Opener) {
	b := setUp(t, open, nil)
	b.ok(put("a", "1"), put("b", "1"), put("c", "1"), put("d", "1"))
	for id := range b.cluster.StoreAddrs() {
		must(t, b.cluster.StallStore(uint64(id+1), time.Minute))
	}
	var calls []*store.Call
	for i := range 40 {
		calls = append(calls, get([]byte{"abcd"[i%4]}))
	}
	calls = append(calls, get(keys("a", "b", "c")...))
	b.submit(calls...)
	b.session.Wait(b.clk.Now() + 20*time.Millisecond)
	b.session.Cancel()
	start := b.clk.Now()
	for back := 0; back < len(calls); {
		done := b.session.Wait(b.clk.Now() + generous)
		if len(done) == 0 {
			t.Fatalf("%d calls are still out", len(calls)-back)
		}
		for _, c := range done {
			back++
			if b.checkAnswer(c); c.Class != store.Cancelled {
				t.Errorf("%v: %v, want cancelled", c.Class, c.Err)
			}
		}
	}
	if took := b.clk.Now() - start; took > time.Second {
		t.Errorf("it took %v", took)
	}
	must(t, b.cluster.Restore())
	b.wantValues(keys("a"), []byte("1")) // and life goes on
}

// A store that does not answer makes its own calls time out, punctually, and nobody else's.
func testTimeout(t *testing.T, open Opener) {
	const timeout = 300 * time.Millisecond
	b := setUp(t, open, func(o *options) { o.timeout = timeout })
	must(t, leaders(b, map[string]uint64{"a": 1, "b": 2, "c": 3, "d": 2}))
	for _, key := range []string{"a", "b", "c", "d"} {
		eventually(t, "the regions are known", func() bool { // which may take longer than a call has
			c := put(key, "1")
			b.do(c)
			return c.Class == store.OK
		})
	}
	must(t, b.cluster.StallStore(1, time.Minute))
	for range 3 {
		slow, fast, both := get(keys("a")...), get(keys("b")...), get(keys("a", "c")...)
		b.do(slow, fast, both)
		for _, c := range []*store.Call{slow, both} {
			if c.Class != store.Timeout {
				t.Errorf("a stalled store: %v %v", c.Class, c.Err)
			}
			if took := c.End - c.Start; took < timeout || took > timeout+250*time.Millisecond {
				t.Errorf("timed out after %v, want %v", took, timeout)
			}
		}
		if took := fast.End - fast.Start; fast.Class != store.OK || took > timeout {
			t.Errorf("another store: %v after %v", fast.Class, took)
		}
	}
	must(t, b.cluster.Restore())
	b.wantValues(keys("a", "c"), []byte("1"), []byte("1"))
}

// Errors of the store come back as what they are, batch reads' and scans' too.
func testStoreErrors(t *testing.T, open Opener) {
	b := setUp(t, open, nil)
	b.ok(put("a", "1"), put("b", "1"))
	long := put(strings.Repeat("k", 9000), "v")
	refused := []*store.Call{long}
	if b.raw {
		ttl := put("a", "2")
		ttl.TTL = 5
		refused = append(refused, ttl)
	}
	b.do(refused...)
	for _, c := range refused {
		if c.Class != store.RawError {
			t.Errorf("%v: %v, want a raw error", c.Class, c.Err)
		}
		if c.TTL > 0 && !strings.Contains(fmt.Sprint(c.Err), "ttl is not enabled") {
			t.Errorf("the store's text is lost: %v", c.Err)
		}
	}
	const text = "something is broken"
	for id := range b.cluster.StoreAddrs() {
		must(t, b.cluster.SetRawError(uint64(id+1), 1, text))
	}
	calls := []*store.Call{
		get(keys("a")...), get(keys("a", "b", "c")...), put("a", "3"), del(keys("b")...), del(keys("a", "b")...),
		{Verb: store.Put, Keys: keys("a", "b"), Values: keys("4", "5")},
		{Verb: store.Scan, Keys: keys("a"), Limit: 10},
		{Verb: store.Scan, Keys: keys("z"), Limit: 10, Reverse: true},
	}
	if b.raw {
		calls = append(calls, &store.Call{Verb: store.CompareAndSwap, Keys: keys("a"), Values: keys("6"), MustNotExist: true})
	}
	b.do(calls...)
	for _, c := range calls {
		if c.Class != store.RawError || !strings.Contains(fmt.Sprint(c.Err), text) {
			t.Errorf("%v of %d keys: %v %v, want a raw error %q", c.Verb, len(c.Keys), c.Class, c.Err, text)
		}
	}
	must(t, b.cluster.Restore())
	b.wantValues(keys("a", "b"), []byte("1"), []byte("1"))
}

// ServerIsBusy is waited out by the client library, for a second at least.
func testBusy(t *testing.T, open Opener) {
	b := setUp(t, open, func(o *options) { o.timeout = 200 * time.Millisecond })
	eventually(t, "rows are there", func() bool { // for which 200 ms are little on a machine that is busy
		a, other := put("a", "1"), put("b", "1")
		b.do(a, other)
		return a.Class == store.OK && other.Class == store.OK
	})
	busy := b.regionOf("a").Leader
	must(t, b.cluster.SetBusy(busy, 1))
	c := get(keys("a")...)
	b.do(c)
	if c.Class != store.Timeout {
		t.Errorf("%v %v, want a timeout", c.Class, c.Err)
	}
	must(t, b.cluster.Restore())
	b.wantValues(keys("a"), []byte("1"))
}

// Splits, merges and moved leaders cost an RPC more, and nothing else.
func testStaleRegions(t *testing.T, open Opener) {
	b := setUp(t, open, nil)
	ks := numbered(40)
	write := &store.Call{Verb: store.Put, Keys: ks, Values: ks}
	b.ok(write)
	var singles []*store.Call
	for _, k := range ks {
		singles = append(singles, get(k))
	}
	check := func(what string) {
		t.Helper()
		b.wantValues(ks, ks...)
		b.ok(singles...)
		for _, c := range singles {
			if string(c.Found[0]) != string(c.Keys[0]) {
				t.Fatalf("after %s: %q has %q", what, c.Keys[0], c.Found[0])
			}
		}
		scan := &store.Call{Verb: store.Scan, Keys: keys(""), Limit: 1000}
		b.ok(scan)
		if len(scan.FoundKeys) != len(ks) {
			t.Errorf("after %s: a scan found %d of %d keys", what, len(scan.FoundKeys), len(ks))
		}
		b.ok(write)
	}
	check("nothing")
	for _, k := range []string{"a0010", "a0020", "b0001", "d0039"} {
		if _, err := b.cluster.SplitRegion(border(t, b.cluster, k)); err != nil {
			t.Fatal(err)
		}
	}
	check("splits")
	for range 3 {
		if _, err := b.cluster.MoveLeaders(); err != nil {
			t.Fatal(err)
		}
		check("moved leaders")
	}
	for _, k := range []string{"a0010", "b", "a0000"} {
		if _, err := b.cluster.MergeRegion(border(t, b.cluster, k)); err != nil {
			t.Fatal(err)
		}
	}
	check("merges")
	for _, id := range []uint64{1, 2, 3} {
		if _, err := b.cluster.ResetConnections(id); err != nil {
			t.Fatal(err)
		}
	}
	check("reset connections")
}

// A store that is down does not stop calls to the others, its regions move on, and it can come back.
func testStoreDown(t *testing.T, open Opener) {
	b := setUp(t, open, func(o *options) { o.playground.ElectionDelay = 1500 * time.Millisecond })
	must(t, leaders(b, map[string]uint64{"a": 1, "b": 2, "c": 3, "d": 1}))
	for range 8 { // over all connections: client-go waits 5 s for one to a store that is gone
		b.ok(put("a", "1"), put("b", "1"), put("c", "1"), put("d", "1"))
	}
	must(t, b.cluster.StopStore(1))
	hung := []*store.Call{get(keys("a")...), put("d", "2"), get(keys("a", "b", "d")...)}
	b.submit(hung...)
	back := 0
	for range 100 {
		for range 20 {
			c := get(keys("b")...)
			b.submit(c)
			for isBack := false; !isBack; {
				for _, d := range b.session.Wait(b.clk.Now() + generous) {
					b.checkAnswer(d)
					if isBack = isBack || d == c; d != c {
						back++
					}
				}
			}
			if took := c.End - c.Start; c.Class != store.OK || took > time.Second {
				t.Errorf("a store that is up: %v after %v", c.Class, took)
			}
		}
	}
	for back < len(hung) {
		done := b.session.Wait(b.clk.Now() + generous)
		if back += len(done); len(done) == 0 {
			t.Fatal("calls to the stopped store did not come back")
		}
	}
	for _, c := range hung {
		if c.Class != store.OK { // the regions have new leaders by now
			t.Errorf("%v: %v %v", c.Keys, c.Class, c.Err)
		}
	}
	must(t, b.cluster.StartStore(1))
	must(t, leaders(b, map[string]uint64{"a": 1, "b": 1}))
	b.wantValues(keys("a", "b", "d"), []byte("1"), []byte("1"), []byte("2"))
}

// leaders gives the regions at these keys leaders.
func leaders(b *bench, want map[string]uint64) error {
	for key, id := range want {
		if err := b.cluster.MoveLeader(b.regionOf(key).ID, id); err != nil {
			return err
		}
	}
	return nil
}

// Without PD, calls to regions that are known go on, and others fail in time.
func testPDAway(t *testing.T, open Opener) {
	b := setUp(t, open, func(o *options) { o.timeout = 700 * time.Millisecond })
	b.ok(put("a", "1"), put("b", "1"), put("c", "1"), put("d", "1"))
	must(t, b.cluster.StopPD())
	for range 10 {
		b.wantValues(keys("a", "b", "c", "d"), []byte("1"), []byte("1"), []byte("1"), []byte("1"))
		b.ok(put("a", "1"))
	}
	must(t, b.cluster.StartPD())
	if _, err := b.cluster.SplitRegion(border(t, b.cluster, "a5")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "calls succeed again", func() bool {
		c := get(keys("a6")...)
		b.do(c)
		return c.Class == store.OK
	})
}
