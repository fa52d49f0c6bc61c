// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/playground"
	"github.com/kvbench/kvbench/internal/store"
)

var turmoil = flag.Duration("turmoil", 2*time.Second, "how long the test Turmoil disturbs the cluster; from 10s on, Recovery measures rates too")

// testTurmoil writes and reads while everything goes wrong at once. Each virtual
// thread has a key of its own and counts in it. What it reads must be its last
// acknowledged write; or one that was given up, which may take effect at any time.
func testTurmoil(t *testing.T, open Opener) {
	const threads = 48
	length := *turmoil
	if testing.Short() {
		length = min(length, time.Second)
	}
	b := setUp(t, open, func(o *options) { o.timeout, o.threads = 400*time.Millisecond, threads })
	rng := rand.New(rand.NewPCG(7, 7))
	type state struct {
		acked, tried int
		givenUp      map[int]bool
	}
	states := make([]state, threads)
	outcomes := map[store.Class]int{}
	ended := 0
	var warmUp []*store.Call
	for i := range threads {
		warmUp = append(warmUp, put(fmt.Sprintf("%c%d", "abcd"[i%4], i), "0"))
	}
	eventually(t, "every key is there", func() bool { // the first calls may take longer than those that follow
		b.do(warmUp...)
		return !slices.ContainsFunc(warmUp, func(c *store.Call) bool { return c.Class != store.OK })
	})
	stop := disturb(t, b.cluster)
	next := func(c *store.Call) {
		st := &states[c.Owner]
		if c.Verb = store.Get; rng.IntN(2) == 0 {
			c.Verb = store.Put
			st.tried++
			c.Values[0] = fmt.Append(nil, st.tried)
		}
		b.submit(c)
	}
	for i, c := range warmUp {
		c.Owner, states[i].givenUp = i, map[int]bool{}
		next(c)
	}
	end := b.clk.Now() + length
	disturbed, restored := true, time.Duration(0)
	for ended < threads {
		done := b.session.Wait(b.clk.Now() + generous)
		if len(done) == 0 {
			t.Fatalf("%d virtual threads are stuck", threads-ended)
		}
		if disturbed && b.clk.Now() > end {
			disturbed = false
			stop()
			must(t, b.cluster.Restore())
			restored = b.clk.Now()
		}
		for _, c := range done {
			st := &states[c.Owner]
			b.checkAnswer(c)
			outcomes[c.Class]++
			switch {
			case c.Class != store.OK && c.Verb == store.Put:
				st.givenUp[st.tried] = true
			case c.Class != store.OK:
			case c.Verb == store.Put:
				st.acked = st.tried
			default:
				n, err := strconv.Atoi(string(c.Found[0]))
				if err != nil || n != st.acked && !st.givenUp[n] {
					t.Errorf("%q has %s; the last acknowledged write was %d", c.Keys[0], show(c.Found[0]), st.acked)
				}
			}
			if !disturbed && c.Class == store.OK {
				ended++
				continue
			}
			next(c)
		}
	}
	t.Logf("outcomes: %v; all threads were well again %v after the end", outcomes, b.clk.Now()-restored)
	if took := b.clk.Now() - restored; took > 5*time.Second {
		t.Errorf("it took %v after the end of all disturbances until every thread had a good answer", took)
	}
	least := 500
	if !b.raw {
		least = 100 // each transaction asks PD first, which is away for a third of the time
	}
	if outcomes[store.OK] < least {
		t.Errorf("only %d calls succeeded", outcomes[store.OK])
	}
}

// testRecovery measures the rate before, during and after each disturbance: it is
// back soon, and nothing is stuck.
func testRecovery(t *testing.T, open Opener) {
	if *turmoil < 10*time.Second {
		t.Skip("rates are measured with -turmoil of 10s or more")
	}
	const threads, timeout = 32, 500 * time.Millisecond
	b := setUp(t, open, func(o *options) { o.timeout, o.threads = timeout, threads })
	slow := func() { // so that the rate does not depend on the processor
		for id := range b.cluster.StoreAddrs() {
			must(t, b.cluster.SlowStore(uint64(id+1), 2*time.Millisecond, 1))
		}
	}
	slow()
	var calls []*store.Call
	for i := range threads {
		calls = append(calls, put(fmt.Sprintf("%c%d", "abcd"[i%4], i), "0"))
	}
	b.submit(calls...)
	// rate keeps the calls going for d and returns how many succeeded in a second.
	rate := func(d time.Duration) float64 {
		start, ok := b.clk.Now(), 0
		for b.clk.Now() < start+d {
			for _, c := range b.session.Wait(start + d) {
				if b.checkAnswer(c); c.Class == store.OK {
					ok++
				}
				b.submit(c)
			}
		}
		return float64(ok) / d.Seconds()
	}
	rate(time.Second)
	for _, test := range []struct {
		name    string
		disturb func() error
	}{
		{"split", func() error { _, err := b.cluster.SplitRegion(border(t, b.cluster, "a2")); return err }},
		{"leaders", func() error { _, err := b.cluster.MoveLeaders(); return err }},
		{"merge", func() error { _, err := b.cluster.MergeRegion(border(t, b.cluster, "a")); return err }},
		{"connections", func() error { _, err := b.cluster.ResetConnections(1); return err }},
		{"stall", func() error { return b.cluster.StallStore(1, 3*time.Second) }},
		{"busy", func() error { return b.cluster.SetBusy(1, 1) }},
		{"errors", func() error { return b.cluster.SetRawError(1, .5, "an error") }},
		{"store", func() error { return b.cluster.StopStore(1) }},
		{"pd", b.cluster.StopPD},
	} {
		before := rate(2 * time.Second)
		must(t, test.disturb())
		during := rate(3 * time.Second)
		must(t, b.cluster.Restore())
		slow()
		after, took := 0.0, time.Duration(0)
		for ; after < .95*before && took < 10*time.Second; took += 500 * time.Millisecond {
			after = rate(500 * time.Millisecond)
		}
		t.Logf("%-12s %6.0f/s before, %6.0f/s during, %6.0f/s %v after", test.name, before, during, after, took)
		if took > 5*time.Second {
			t.Errorf("%s: after %v the rate is %.0f/s, before it was %.0f/s", test.name, took, after, before)
		}
	}
	for back := 0; back < threads; {
		done := b.session.Wait(b.clk.Now() + generous)
		if back += len(done); len(done) == 0 {
			t.Fatal("calls are stuck")
		}
	}
}

// disturb lets one disturbance follow another until it is stopped.
func disturb(t *testing.T, pg *playground.Cluster) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		rng := rand.New(rand.NewPCG(3, 4))
		for ctx.Err() == nil {
			id := uint64(1 + rng.IntN(3))
			switch rng.IntN(9) {
			case 0:
				pg.SplitRegion(border(t, pg, fmt.Sprintf("%c%d", "abcd"[rng.IntN(4)], rng.IntN(50))))
			case 1:
				pg.MergeRegion(border(t, pg, "abcd"[rng.IntN(4):][:1]))
			case 2, 3:
				pg.MoveLeaders()
			case 4:
				pg.ResetConnections(id)
			case 5:
				pg.StallStore(id, 30*time.Millisecond)
			case 6:
				pg.SetRawError(id, .1, "an error")
				pg.SlowStore(id, 5*time.Millisecond, .2)
			case 7:
				pg.StopStore(id)
				pause(ctx, 150*time.Millisecond)
				pg.StartStore(id)
			case 8:
				pg.StopPD()
				pause(ctx, 50*time.Millisecond)
				pg.StartPD()
			}
			pause(ctx, 30*time.Millisecond)
		}
	}()
	return func() { cancel(); <-done }
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
