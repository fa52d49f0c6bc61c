// SPDX-License-Identifier: Apache-2.0

package rawkv_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/playground"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/store/rawkv"
	"github.com/kvbench/kvbench/internal/store/storetest"
	"github.com/kvbench/kvbench/internal/store/tikv"
)

func TestMain(m *testing.M) { storetest.VerifyTestMain(m) }

func open(ctx context.Context, c tikv.Config, timeout time.Duration) (store.Driver, error) {
	d, err := rawkv.Open(ctx, c, timeout)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func TestDriver(t *testing.T) { storetest.Run(t, storetest.Opener{Open: open}) }

// The driver makes client-go's own number of connections, unless told otherwise.
func TestConnections(t *testing.T) {
	pg, err := playground.Start(t.Context(), playground.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Close()
	for _, test := range []struct {
		config tikv.Config
		want   int
	}{{tikv.Config{}, 4}, {tikv.Config{Clients: 2, GrpcConnectionCount: 3}, 6}} {
		test.config.PD = []string{pg.PDAddr()}
		d, err := open(t.Context(), test.config, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.(store.Connected).ConnectionsPerStore(); got != test.want {
			t.Errorf("%d connections to each store, want %d", got, test.want)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What client-go sends is counted, by store, as the stores themselves count it, whether commands
// share messages or not.
func TestTraffic(t *testing.T) {
	for _, maxBatch := range []int{0, -1} {
		t.Run(fmt.Sprint("batch size ", maxBatch), func(t *testing.T) { testTraffic(t, maxBatch) })
	}
}

func testTraffic(t *testing.T, maxBatch int) {
	pg, err := playground.Start(t.Context(), playground.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Close()
	d, err := rawkv.Open(t.Context(), tikv.Config{PD: []string{pg.PDAddr()}, MaxBatchSize: maxBatch}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	clk := clock.Since(time.Now())
	s, err := d.Open(0, 100, clk)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	before := pg.State() // the preflight asks, too
	var calls []*store.Call
	for i := range 100 {
		calls = append(calls, &store.Call{Verb: store.Get, Keys: [][]byte{fmt.Appendf(nil, "usertable:user%d", i*97)}})
	}
	calls = append(calls, &store.Call{Verb: store.CompareAndSwap, Keys: calls[0].Keys, Values: calls[0].Keys, MustNotExist: true})
	if err := store.DoAll(s, calls, clk, time.Minute); err != nil {
		t.Fatal(err)
	}
	traffic, after := d.Traffic(), pg.State()
	if len(traffic) != 3 {
		t.Fatalf("traffic to %d stores: %+v", len(traffic), traffic)
	}
	var commands int64
	for i, st := range after.Stores {
		sent := traffic[slices.IndexFunc(traffic, func(t store.Traffic) bool { return t.Store == st.Addr })]
		commands += sent.Commands
		unary := sum(st.Unary) - sum(before.Stores[i].Unary)
		messages := int64(st.Messages-before.Stores[i].Messages) + unary
		if got := sum(st.Commands) - sum(before.Stores[i].Commands) + unary; sent.Commands != got || sent.Messages != messages {
			t.Errorf("%d commands in %d messages, store %d received %d in %d", sent.Commands, sent.Messages, st.ID, got, messages)
		}
		if maxBatch < 0 && sent.Messages != sent.Commands {
			t.Errorf("%d commands share %d messages", sent.Commands, sent.Messages)
		}
	}
	if commands != 101 {
		t.Errorf("%d commands for 101 calls", commands)
	}
	// Kinds are counted in messages of several commands as in those of one; of a compare-and-swap there is no telling.
	key := calls[0].Keys
	calls = []*store.Call{
		{Verb: store.Put, Keys: key, Values: key}, {Verb: store.Delete, Keys: key}, {Verb: store.Scan, Keys: key, EndKey: append(slices.Clone(key[0]), 0), Limit: 1},
		{Verb: store.Get, Keys: slices.Concat(key, key)}, {Verb: store.Put, Keys: slices.Concat(key, key), Values: slices.Concat(key, key)}, {Verb: store.Delete, Keys: slices.Concat(key, key)},
	}
	if err := store.DoAll(s, calls, clk, time.Minute); err != nil {
		t.Fatal(err)
	}
	var all store.Traffic
	for _, t := range d.Traffic() {
		all.Add(&t)
	}
	want := map[string]int64{"raw_get": 100, "raw_put": 1, "raw_delete": 1, "raw_scan": 1, "raw_batch_get": 1, "raw_batch_put": 1, "raw_batch_delete": 1}
	if !maps.Equal(all.Kinds, want) {
		t.Errorf("kinds %v, want %v", all.Kinds, want)
	}
}

func sum(counts map[string]uint64) (n int64) {
	for _, c := range counts {
		n += int64(c)
	}
	return n
}
