// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tikv/client-go/v2/rawkv"
)

// warm starts a cluster of three regions, and a client that knows them all, with key(0) to key(9) in place.
func warm(t *testing.T) (*Cluster, *rawkv.Client) {
	t.Helper()
	c := start(t, Options{SplitKeys: [][]byte{key(3), key(6)}, ElectionDelay: 50 * time.Millisecond})
	client := connect(t, c)
	for i := range 10 {
		if err := client.Put(t.Context(), key(i), value(i)); err != nil {
			t.Fatal(err)
		}
	}
	return c, client
}

// check reads and overwrites all keys of warm.
func check(t *testing.T, client *rawkv.Client) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	defer time.AfterFunc(15*time.Second, cancel).Stop() // not a deadline: client-go takes one for a broken store
	for i := range 10 {
		if v, err := client.Get(ctx, key(i)); string(v) != string(value(i)) || err != nil {
			t.Fatalf("Get(%s) = %q, %v", key(i), v, err)
		}
		if err := client.Put(ctx, key(i), value(i)); err != nil {
			t.Fatalf("Put(%s): %v", key(i), err)
		}
	}
	keys, _, err := client.Scan(ctx, nil, nil, 100)
	if err != nil || len(keys) != 10 {
		t.Fatalf("Scan = %d keys, %v", len(keys), err)
	}
}

func TestStaleClient(t *testing.T) {
	for _, tt := range []struct {
		name    string
		disturb func(*Cluster) error
		want    string // the region error that tells the client
	}{
		{"split", func(c *Cluster) error { _, err := c.SplitRegion(key(5)); return err }, "EpochNotMatch"},
		{"merge", func(c *Cluster) error { _, err := c.MergeRegion(key(1)); return err }, "RegionNotFound"},
		{"leaders moved", func(c *Cluster) error { _, err := c.MoveLeaders(); return err }, "NotLeader"},
		{
			"all at once", func(c *Cluster) error {
				for i := range 10 {
					if _, err := c.SplitRegion(append(key(i), 'x')); err != nil {
						return err
					}
				}
				_, err := c.MoveLeaders()
				return err
			}, "NotLeader",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, client := warm(t)
			if err := tt.disturb(c); err != nil {
				t.Fatal(err)
			}
			check(t, client)
			if regionErrors(c, tt.want) == 0 {
				t.Errorf("the client was not told by %s", tt.want)
			}
		})
	}
}

func TestStoreStopsAndStarts(t *testing.T) {
	t.Parallel()
	c, client := warm(t)
	for id := uint64(1); id <= 3; id++ {
		if err := c.StopStore(id); err != nil {
			t.Fatal(err)
		}
		eventually(t, "its regions have leaders elsewhere", func() bool { return c.State().Stores[id-1].Leaders == 0 })
		check(t, client)
		if err := c.StartStore(id); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Restore(); err != nil {
		t.Fatal(err)
	}
	for _, s := range c.State().Stores {
		if s.Leaders != 1 || !s.Up {
			t.Errorf("after Restore store %d leads %d regions, up: %v", s.ID, s.Leaders, s.Up)
		}
	}
	check(t, client)
}

func TestNoLeaderWithoutMajority(t *testing.T) {
	t.Parallel()
	c, client := warm(t)
	for id := uint64(1); id <= 2; id++ {
		if err := c.StopStore(id); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "no region has a leader", func() bool {
		for _, r := range c.State().Regions {
			if r.Leader != 0 {
				return false
			}
		}
		return true
	})
	if err := c.StartStore(1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all regions have leaders", func() bool {
		for _, r := range c.State().Regions {
			if r.Leader == 0 {
				return false
			}
		}
		return true
	})
	check(t, client)
}

func TestResetConnections(t *testing.T) {
	t.Parallel()
	c, client := warm(t)
	for id := uint64(1); id <= 3; id++ {
		if n, err := c.ResetConnections(id); err != nil || n == 0 {
			t.Errorf("ResetConnections = %d, %v", n, err)
		}
	}
	check(t, client)
}

func TestPDAway(t *testing.T) {
	t.Parallel()
	c, client := warm(t)
	if err := c.StopPD(); err != nil {
		t.Fatal(err)
	}
	check(t, client)
	if err := c.StartPD(); err != nil {
		t.Fatal(err)
	}
	check(t, client)
}

func TestBusy(t *testing.T) {
	t.Parallel()
	c, client := warm(t)
	for id := uint64(1); id <= 3; id++ {
		if err := c.SetBusy(id, 1); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error, 1)
	go func() {
		_, err := client.Get(t.Context(), key(1))
		done <- err
	}()
	eventually(t, "a command is refused", func() bool { return regionErrors(c, "ServerIsBusy") > 0 })
	if err := c.Restore(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestRawError(t *testing.T) {
	t.Parallel()
	c, client := warm(t)
	for id := uint64(1); id <= 3; id++ {
		if err := c.SetRawError(id, 1, "no disk"); err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	if _, err := client.Get(ctx, key(1)); err == nil || !strings.Contains(err.Error(), "no disk") {
		t.Errorf("Get: %v", err)
	}
	if err := client.Put(ctx, key(1), value(1)); err == nil || !strings.Contains(err.Error(), "no disk") {
		t.Errorf("Put: %v", err)
	}
	if err := client.BatchPut(ctx, [][]byte{key(1)}, [][]byte{value(1)}); err == nil || !strings.Contains(err.Error(), "no disk") {
		t.Errorf("BatchPut: %v", err)
	}
	for id := uint64(1); id <= 3; id++ {
		if err := c.SetRawError(id, 0, ""); err != nil {
			t.Fatal(err)
		}
		if c.stores[id-1].trouble.Load() != nil {
			t.Error("a store is still disturbed")
		}
	}
	check(t, client)
}

func TestDisturbancesCheckTheirInputs(t *testing.T) {
	c := start(t, Options{Stores: 2, Regions: 1})
	for name, err := range map[string]error{
		"no such store":    c.StopStore(3),
		"store 0":          c.StartStore(0),
		"negative stall":   c.StallStore(1, -time.Second),
		"negative latency": c.SlowStore(1, -1, 1),
		"share above 1":    c.SetBusy(1, 1.5),
		"negative share":   c.SetRawError(1, -0.5, "x"),
		"empty text":       c.SetRawError(1, 0.5, ""),
		"no such region":   c.MoveLeader(99, 0),
		"no such peer":     c.MoveLeader(c.State().Regions[0].ID, 7),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := c.MergeRegion([]byte("k")); err == nil {
		t.Error("the only region could be merged")
	}
	if _, err := c.SplitRegion(nil); err == nil {
		t.Error("a region could be split at its start")
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, opts := range map[string]Options{
		"stores":        {Stores: -1},
		"regions":       {Regions: -1},
		"ports":         {StorePort: 65535},
		"API version":   {APIVersion: "V3"},
		"keyspaces":     {Keyspaces: []string{"a"}},
		"keyspace name": {APIVersion: V2, Keyspaces: []string{"a", "a"}},
		"PD address":    {PDAddr: "localhost"},
		"split keys":    {Regions: 2, SplitKeys: [][]byte{[]byte("a")}},
		"TLS":           {TLS: TLS{CA: "ca.pem"}},
		"election":      {ElectionDelay: -1},
		"service time":  {Service: Service{Time: -1}},
		"servers":       {Service: Service{Time: time.Second, Servers: -1}},
	} {
		if c, err := Start(t.Context(), opts); err == nil {
			t.Errorf("%s: started", name)
			c.Close()
		}
	}
}

func TestYCSBSplitKeysShareEvenly(t *testing.T) {
	const n, draws = 12, 100_000
	for _, records := range []uint64{draws, 10_000_000_000} {
		keys := ycsbSplitKeys(records, n)
		counts := make([]int, n)
		for i := range uint64(draws) {
			k := ycsbKey(i * (records / draws))
			region := 0
			for region < len(keys) && k >= string(keys[region]) {
				region++
			}
			counts[region]++
		}
		for i, count := range counts {
			if count < draws/n*8/10 || count > draws/n*12/10 {
				t.Errorf("part %d has %d of %d keys: %v", i, count, draws, counts)
			}
		}
	}
	// From the table of go-ycsb's own keys.
	if got := ycsbKey(1); got != "usertable:user6284782960179005422" {
		t.Errorf("key of record 1: %s", got)
	}
}

// A store that is drained has no leaders when it goes, so that no region is without one, however long an election takes.
func TestDrainStore(t *testing.T) {
	c := start(t, Options{Regions: 6, ElectionDelay: time.Hour})
	moved, err := c.DrainStore(2)
	if err != nil || moved != 2 {
		t.Fatalf("%d leaders moved: %v", moved, err)
	}
	st := c.State()
	for _, r := range st.Regions {
		if r.Leader == 0 || r.Leader == 2 {
			t.Errorf("region %d is led by store %d", r.ID, r.Leader)
		}
	}
	if st.Stores[1].Up {
		t.Error("the store is up")
	}
	if _, err := c.DrainStore(9); err == nil {
		t.Error("a store that is not there was drained")
	}
	// Regions that no other store can lead stay where they are.
	single := start(t, Options{Stores: 1, Regions: 2, ElectionDelay: time.Hour})
	if moved, err := single.DrainStore(1); moved != 0 || err != nil {
		t.Errorf("of one store: %d moved, %v", moved, err)
	}
}
