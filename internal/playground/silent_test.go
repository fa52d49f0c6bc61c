// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/tikv/client-go/v2/config"
	"github.com/tikv/client-go/v2/kv"
	"github.com/tikv/client-go/v2/txnkv/transaction"
)

// TestSilentFaults: each falls as often as it was told, and no answer tells of it, on both ways that commands come.
func TestSilentFaults(t *testing.T) {
	for _, batchSize := range []uint{0, 128} {
		t.Run(fmt.Sprint("batches of ", batchSize), func(t *testing.T) {
			t.Cleanup(config.UpdateGlobal(func(conf *config.Config) { conf.TiKVClient.MaxBatchSize = batchSize }))
			c := start(t, Options{Stores: 1})
			client := connect(t, c)
			ctx := t.Context()
			put := func(i int, text string) {
				t.Helper()
				if err := client.Put(ctx, key(i), []byte(text)); err != nil {
					t.Fatal(err)
				}
			}
			set := func(f SilentFault, share float64, count uint64) {
				t.Helper()
				if err := c.SetSilentFault(1, f, share, count); err != nil {
					t.Fatal(err)
				}
			}
			holds := func(want ...string) {
				t.Helper()
				for i, text := range want {
					if v, err := client.Get(ctx, key(i)); string(v) != text || err != nil {
						t.Errorf("%s is %q, %v; want %q", key(i), v, err, text)
					}
				}
			}
			for i := range 4 {
				put(i, "old")
			}
			set(Lose, 1, 2)
			put(0, "lost")
			if err := client.Delete(ctx, key(1)); err != nil {
				t.Fatal(err)
			}
			put(2, "made")
			holds("old", "old", "made", "old")

			set(Repeat, 1, 1)
			put(3, "first")
			put(3, "second")
			holds("old", "old", "made", "first")

			set(Swap, 1, 1)
			put(0, "mine")
			put(1, "not mine")
			put(2, "made again")
			holds("not mine", "old", "made again", "first")

			set(Swallow, 1, 3)
			for _, want := range []int{1, 4} {
				if keys, _, err := client.Scan(ctx, key(0), nil, 100); len(keys) != want || err != nil {
					t.Errorf("a scan of 4 rows has %d, %v; want %d", len(keys), err, want)
				}
			}
			set(Swallow, 1, 0)
			if keys, _, err := client.Scan(ctx, key(0), nil, 100); len(keys) != 0 || err != nil {
				t.Errorf("a scan without any rows has %d, %v", len(keys), err)
			}
			set(Swallow, 0, 0)
			if err := client.BatchPut(ctx, [][]byte{key(4), key(5)}, [][]byte{[]byte("a"), []byte("b")}); err != nil {
				t.Fatal(err)
			}
			set(Lose, 1, 1)
			if err := client.BatchPut(ctx, [][]byte{key(4), key(5)}, [][]byte{[]byte("c"), []byte("d")}); err != nil {
				t.Fatal(err)
			}
			holds("not mine", "old", "made again", "first", "a", "d")
			want := map[string]uint64{"lose": 3, "repeat": 1, "swap": 1, "swallow": 7}
			if s := c.State().Stores[0]; !maps.Equal(s.SilentFaults, want) {
				t.Errorf("silent faults %v, want %v", s.SilentFaults, want)
			}
			if err := c.SetSilentFault(1, Lose, 2, 0); err == nil || !strings.Contains(err.Error(), "want 0 to 1") {
				t.Errorf("a share of 2: %v", err)
			}
		})
	}
}

// TestLostCommits: a store loses what transactions have committed as it loses other writes, and leaves no lock behind.
func TestLostCommits(t *testing.T) {
	c, client := startTxn(t, 2) // in one region
	for name, mode := range commitModes {
		t.Run(name, func(t *testing.T) {
			set(t, client, 2, "old")
			for _, s := range c.State().Stores {
				if err := c.SetSilentFault(s.ID, Lose, 1, 0); err != nil {
					t.Fatal(err)
				}
			}
			err := transact(t, client, func(txn *transaction.KVTxn) error {
				mode(txn)
				if txn.IsPessimistic() {
					if err := txn.LockKeysWithWaitTime(t.Context(), kv.LockAlwaysWait, key(0)); err != nil {
						return err
					}
				}
				return txn.Set(key(0), []byte("new"))
			})
			if err != nil {
				t.Errorf("the store has told: %v", err)
			}
			for end := time.Now().Add(20 * time.Second); locks(t, c) > 0; time.Sleep(time.Millisecond) { // async commits go on in the background
				if time.Now().After(end) {
					t.Fatal("a lock has been left behind")
				}
			}
			if err := c.Restore(); err != nil {
				t.Fatal(err)
			}
			if got := latest(t, client, key(0)); got != "old" {
				t.Errorf("what was lost reads %q", got)
			}
		})
	}
}
