// SPDX-License-Identifier: Apache-2.0

package rawkv_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/playground"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/store/cluster"
	"github.com/kvbench/kvbench/internal/store/rawkv"
	"github.com/kvbench/kvbench/internal/store/storetest"
)

func TestMain(m *testing.M) { storetest.VerifyTestMain(m) }

func open(ctx context.Context, c cluster.Config, timeout time.Duration) (store.Driver, error) {
	d, err := rawkv.Open(ctx, c, timeout)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func TestDriver(t *testing.T) { storetest.Run(t, open) }

// What client-go sends is counted, by store, whether commands share messages or not.
func TestTraffic(t *testing.T) {
	pg, err := playground.Start(t.Context(), playground.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Close()
	for _, maxBatch := range []int{0, -1} {
		d, err := rawkv.Open(t.Context(), cluster.Config{PD: []string{pg.PDAddr()}, MaxBatchSize: maxBatch}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		clk := clock.Since(time.Now())
		s, err := d.Open(0, 100, clk)
		if err != nil {
			t.Fatal(err)
		}
		var calls []*store.Call
		for i := range 100 {
			calls = append(calls, &store.Call{Verb: store.Get, Keys: [][]byte{fmt.Appendf(nil, "usertable:user%d", i*97)}})
		}
		calls = append(calls, &store.Call{Verb: store.CompareAndSwap, Keys: calls[0].Keys, Values: calls[0].Keys, MustNotExist: true})
		if err := store.DoAll(s, calls, clk, time.Minute); err != nil {
			t.Fatal(err)
		}
		var sent store.Traffic
		traffic, addresses := d.Traffic(), pg.StoreAddrs()
		for _, one := range traffic {
			if !slices.Contains(addresses, one.Store) {
				t.Errorf("traffic to %q, but the stores are %q", one.Store, addresses)
			}
			sent.Add(&one)
		}
		var commands int64
		for _, c := range calls {
			commands += int64(c.RPCs)
		}
		largest := slices.Max(slices.Collect(maps.Keys(sent.Sizes)))
		if sent.Commands != commands || len(traffic) != 3 || (maxBatch < 0) != (sent.Messages == commands && largest == 1) {
			t.Errorf("batches of %d: %d commands; counted %+v", maxBatch, commands, traffic)
		}
		if err := errors.Join(s.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	}
}
