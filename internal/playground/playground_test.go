// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/log"
	"github.com/tikv/client-go/v2/rawkv"
	"go.uber.org/goleak"
	"go.uber.org/zap"
)

func TestMain(m *testing.M) {
	// client-go logs to stdout unless told otherwise, and dereferences the level of the properties.
	log.ReplaceGlobals(zap.NewNop(), &log.ZapProperties{Level: zap.NewAtomicLevel()})
	if code := m.Run(); code != 0 {
		os.Exit(code)
	}
	if err := goleak.Find(); err != nil {
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

func TestPutGet(t *testing.T) {
	c := start(t, Options{})
	client := connect(t, c)
	for i := range 1000 {
		key, value := fmt.Appendf(nil, "usertable:user%d", i*7919), fmt.Appendf(nil, "value %d", i)
		if err := client.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
		got, err := client.Get(t.Context(), key)
		if err != nil || string(got) != string(value) {
			t.Fatalf("Get(%s) = %q, %v", key, got, err)
		}
	}
}
