// SPDX-License-Identifier: Apache-2.0

package stream_test

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
	"github.com/kvbench/kvbench/internal/store/storetest"
	"github.com/kvbench/kvbench/internal/store/stream"
	"github.com/kvbench/kvbench/internal/store/tikv"
)

func TestMain(m *testing.M) { storetest.VerifyTestMain(m) }

func open(ctx context.Context, c tikv.Config, timeout time.Duration) (store.Driver, error) {
	d, err := stream.Open(ctx, c, stream.Config{Timeout: timeout})
	if err != nil {
		return nil, err
	}
	return d, nil
}

func TestDriver(t *testing.T) { storetest.Run(t, storetest.Opener{Open: open}) }

// With one command a message, there is one message for each command; and when
// all regions are known, nothing takes a fallback.
func TestTraffic(t *testing.T) {
	pg, err := playground.Start(t.Context(), playground.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Close()
	for _, maxBatch := range []int{1, 16, 0} {
		d, err := stream.Open(t.Context(), tikv.Config{PD: []string{pg.PDAddr()}}, stream.Config{MaxBatch: maxBatch, Streams: 2})
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
		round := func() {
			for _, c := range calls {
				c.Start = clk.Now()
				s.Submit(c)
			}
			for back := 0; back < len(calls); {
				for _, c := range s.Wait(store.Forever) {
					if back++; c.Err != nil {
						t.Fatal(c.Err)
					}
				}
			}
		}
		round()
		round()
		before := d.Traffic()
		for range 20 {
			round()
		}
		after := d.Traffic()
		if len(after) != 4 || after[0].Fallbacks["unknown_region"] == 0 { // those that no store is known for come first
			t.Fatalf("counted %+v", after)
		}
		var sent store.Traffic
		for i := range after {
			more := after[i].Since(&before[i])
			sent.Add(&more)
		}
		if sent.Commands != 2000 || sent.Kinds["raw_get"] != 2000 || sent.Breaks != 0 || len(sent.Fallbacks) > 0 || sent.Unsent != 0 {
			t.Errorf("counted %+v", sent)
		}
		switch largest := slices.Max(slices.Collect(maps.Keys(sent.Sizes))); {
		case maxBatch == 1 && (sent.Messages != sent.Commands || largest > 1),
			maxBatch == 16 && (sent.Messages < sent.Commands/16 || largest > 16),
			maxBatch == 0 && sent.Messages > sent.Commands/5:
			t.Errorf("with %d commands in a message at most: %+v", maxBatch, sent)
		}
		key := calls[0].Keys
		kinds := []*store.Call{
			{Verb: store.Put, Keys: key, Values: key}, {Verb: store.Delete, Keys: key}, {Verb: store.Scan, Keys: key, EndKey: append(slices.Clone(key[0]), 0), Limit: 1},
			{Verb: store.Get, Keys: slices.Concat(key, key)}, {Verb: store.Put, Keys: slices.Concat(key, key), Values: slices.Concat(key, key)}, {Verb: store.Delete, Keys: slices.Concat(key, key)},
		}
		if err := store.DoAll(s, kinds, clk, time.Minute); err != nil {
			t.Fatal(err)
		}
		sent = store.Traffic{}
		for i, last := range d.Traffic() {
			more := last.Since(&after[i])
			sent.Add(&more)
		}
		if want := map[string]int64{"raw_put": 1, "raw_delete": 1, "raw_scan": 1, "raw_batch_get": 1, "raw_batch_put": 1, "raw_batch_delete": 1}; !maps.Equal(sent.Kinds, want) {
			t.Errorf("kinds %v, want %v", sent.Kinds, want)
		}
		if err := errors.Join(s.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for _, c := range []stream.Config{{MaxBatch: -1}, {Streams: 1000}, {Linger: -1}, {Timeout: -1}} {
		if _, err := stream.Open(t.Context(), tikv.Config{PD: []string{"127.0.0.1:1"}}, c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}
