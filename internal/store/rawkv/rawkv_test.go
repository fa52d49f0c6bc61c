// SPDX-License-Identifier: Apache-2.0

package rawkv_test

import (
	"context"
	"testing"
	"time"

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

func TestDriver(t *testing.T) { storetest.Run(t, open) }

// The driver makes client-go's own number of connections, unless told otherwise, and does not
// claim to know how client-go fills its messages.
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
		if _, counts := d.(store.TrafficCounter); counts {
			t.Error("the driver counts messages, which client-go does not tell")
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
