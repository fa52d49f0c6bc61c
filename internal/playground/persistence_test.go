// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/tikv/client-go/v2/rawkv"
)

func TestDataDirectoryKeepsAll(t *testing.T) {
	opts := Options{DataDir: t.TempDir(), APIVersion: V2, Keyspaces: []string{"a"}, Regions: 3}
	ctx := t.Context()
	run := func(opts Options, use func(*Cluster, *rawkv.Client)) {
		t.Helper()
		c, err := Start(ctx, opts)
		if err != nil {
			t.Fatal(err)
		}
		client, err := rawkv.NewClientWithOpts(ctx, []string{c.PDAddr()}, rawkv.WithAPIVersion(kvrpcpb.APIVersion_V2), rawkv.WithKeyspace("a"))
		if err != nil {
			t.Fatal(err)
		}
		use(c, client)
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	var before State
	run(opts, func(c *Cluster, client *rawkv.Client) {
		if err := client.PutWithTTL(ctx, []byte("k"), []byte("v"), 1000); err != nil {
			t.Fatal(err)
		}
		k, err := c.Key("a", []byte("m"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.SplitRegion(k); err != nil {
			t.Fatal(err)
		}
		if _, err := c.MoveLeaders(); err != nil {
			t.Fatal(err)
		}
		before = c.State()
	})
	opts.Keyspaces = []string{"b"} // one more
	run(opts, func(c *Cluster, client *rawkv.Client) {
		after := c.State()
		if after.ClusterID != before.ClusterID || !reflect.DeepEqual(after.Regions, before.Regions) {
			t.Errorf("cluster %d with %+v, was %d with %+v", after.ClusterID, after.Regions, before.ClusterID, before.Regions)
		}
		if got := strings.Join(after.Keyspaces, " "); got != "DEFAULT a b" {
			t.Errorf("keyspaces %s", got)
		}
		if v, err := client.Get(ctx, []byte("k")); string(v) != "v" || err != nil {
			t.Errorf("Get = %q, %v", v, err)
		}
		if ttl, err := client.GetKeyTTL(ctx, []byte("k")); err != nil || ttl == nil || *ttl == 0 {
			t.Errorf("GetKeyTTL = %v, %v", ttl, err)
		}
		k, err := c.Key("a", []byte("p"))
		if err != nil {
			t.Fatal(err)
		}
		id, err := c.SplitRegion(k)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range before.Regions {
			if r.ID == id {
				t.Errorf("region id %d is given twice", id)
			}
		}
	})
	for name, other := range map[string]Options{
		"stores":      {DataDir: opts.DataDir, APIVersion: V2, Stores: 2},
		"API version": {DataDir: opts.DataDir},
	} {
		if c, err := Start(ctx, other); err == nil || !strings.Contains(err.Error(), "holds a cluster of 3 stores with API version V2") {
			t.Errorf("other %s: %v", name, err)
			if c != nil {
				c.Close()
			}
		}
	}
}

// TestSecondUseOfADirectory expects one clear error, and the first cluster to go on.
func TestSecondUseOfADirectory(t *testing.T) {
	opts := Options{DataDir: t.TempDir()}
	c := start(t, opts)
	if _, err := Start(t.Context(), opts); err == nil || !strings.Contains(err.Error(), opts.DataDir) {
		t.Errorf("second start: %v", err)
	}
	client := connect(t, c)
	if err := client.Put(t.Context(), []byte("k"), []byte("v")); err != nil {
		t.Error(err)
	}
}

func TestBusyPort(t *testing.T) {
	c := start(t, Options{})
	begin := time.Now()
	if _, err := Start(t.Context(), Options{PDAddr: c.PDAddr()}); err == nil || !strings.Contains(err.Error(), "PD: listen tcp "+c.PDAddr()) {
		t.Errorf("second start: %v", err)
	}
	if time.Since(begin) > 5*time.Second {
		t.Errorf("it took %v to say so", time.Since(begin))
	}
}
