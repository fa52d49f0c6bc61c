// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/log"
	"github.com/tikv/client-go/v2/config"
	"github.com/tikv/client-go/v2/rawkv"
	"go.uber.org/goleak"
	"go.uber.org/zap"
)

func TestMain(m *testing.M) {
	// client-go logs to stdout unless told otherwise, and dereferences the level of the properties.
	log.ReplaceGlobals(zap.NewNop(), &log.ZapProperties{Level: zap.NewAtomicLevel()})
	// With one connection per store, all are in use before a store stops: the first use of one to a stopped store blocks for 5 s.
	config.UpdateGlobal(func(conf *config.Config) { conf.TiKVClient.GrpcConnectionCount = 1 })
	if code := m.Run(); code != 0 {
		os.Exit(code)
	}
	// A closed client-go client goes on for some seconds where it waits for a connection that was reset.
	waiting := goleak.IgnoreAnyFunction("github.com/tikv/client-go/v2/internal/client.(*batchCommandsClient).batchRecvLoop")
	if err := goleak.Find(waiting); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// start starts a cluster that ends with the test.
func start(t testing.TB, opts Options) *Cluster {
	t.Helper()
	c, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// connect returns the real client, which ends with the test, before the cluster.
func connect(t testing.TB, c *Cluster, opts ...rawkv.ClientOpt) *rawkv.Client {
	t.Helper()
	opts = append([]rawkv.ClientOpt{rawkv.WithAPIVersion(kvrpcpb.APIVersion_V1)}, opts...)
	client, err := rawkv.NewClientWithOpts(context.Background(), []string{c.PDAddr()}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

// regionErrors sums the region errors of a type over all stores.
func regionErrors(c *Cluster, kind string) (n uint64) {
	for _, s := range c.State().Stores {
		n += s.RegionErrors[kind]
	}
	return n
}
