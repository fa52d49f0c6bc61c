// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	tikverr "github.com/tikv/client-go/v2/error"
	"github.com/tikv/client-go/v2/oracle"
	"github.com/tikv/client-go/v2/txnkv"
	"github.com/tikv/client-go/v2/txnkv/transaction"
	"github.com/tikv/client-go/v2/txnkv/txnsnapshot"
)

// prewriteOnly leaves the lock of a transaction that is about to put a value.
func prewriteOnly(t *testing.T, client *txnkv.Client, k []byte, value string) transaction.CommitterProbe {
	t.Helper()
	txn := begin(t, client)
	if err := txn.Set(k, []byte(value)); err != nil {
		t.Fatal(err)
	}
	committer, err := transaction.TxnProbe{KVTxn: txn}.NewCommitter(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := committer.PrewriteAllMutations(t.Context()); err != nil {
		t.Fatal(err)
	}
	return committer
}

func now(t *testing.T, client *txnkv.Client) uint64 {
	t.Helper()
	ts, err := client.CurrentTimestamp(oracle.GlobalTxnScope)
	if err != nil {
		t.Fatal(err)
	}
	return ts
}

// Reads of what is committed pass by locks, and those that check timestamps take a lock or a newer value for a conflict.
func TestIsolationLevels(t *testing.T) {
	t.Parallel()
	c, client := startTxn(t, 10)
	held := prewriteOnly(t, client, key(1), "new")
	at := func(level txnsnapshot.IsoLevel, ts uint64) *txnsnapshot.KVSnapshot {
		s := client.GetSnapshot(ts)
		s.SetIsolationLevel(level)
		return s
	}
	reads := map[string]func(s *txnsnapshot.KVSnapshot, k []byte) (string, error){
		"get": func(s *txnsnapshot.KVSnapshot, k []byte) (string, error) {
			v, err := s.Get(t.Context(), k)
			return string(v), err
		},
		"batch get": func(s *txnsnapshot.KVSnapshot, k []byte) (string, error) {
			all, err := s.BatchGet(t.Context(), [][]byte{k, key(9)})
			return string(all[string(k)]), err
		},
		"scan": func(s *txnsnapshot.KVSnapshot, k []byte) (string, error) {
			it, err := s.Iter(k, append(k, 0))
			if err != nil {
				return "", err
			}
			defer it.Close()
			if !it.Valid() {
				return "", errors.New("nothing was found")
			}
			return string(it.Value()), nil
		},
	}
	wants := func(level txnsnapshot.IsoLevel, ts uint64, i int, want string) {
		t.Helper()
		for name, read := range reads {
			if got, err := read(at(level, ts), key(i)); got != want || err != nil {
				t.Errorf("%s of key %d at level %v: %q, %v; want %q", name, i, level, got, err, want)
			}
		}
	}
	conflicts := func(ts uint64) {
		t.Helper()
		for name, read := range reads {
			var conflict *tikverr.ErrWriteConflict
			_, err := read(at(txnsnapshot.RCCheckTS, ts), key(1))
			if !errors.As(err, &conflict) || conflict.Reason != kvrpcpb.WriteConflict_RcCheckTs {
				t.Errorf("%s of a key that changes: %v", name, err)
			}
		}
	}
	before := now(t, client)
	wants(txnsnapshot.RC, before, 1, "old")
	wants(txnsnapshot.RCCheckTS, before, 2, "old")
	conflicts(before) // with the lock
	if locks(t, c) != 1 {
		t.Fatal("a read has removed the lock")
	}
	commitPrimary(t, c, held)
	conflicts(before) // with what is newer
	wants(txnsnapshot.RC, before, 1, "old")
	after := now(t, client)
	wants(txnsnapshot.RC, after, 1, "new")
	wants(txnsnapshot.RCCheckTS, after, 1, "new")
}

// staleGet reads at one replica's store.
func staleGet(t *testing.T, c *Cluster, peer *metapb.Peer, k []byte, ts uint64, stale bool) *kvrpcpb.GetResponse {
	t.Helper()
	ctx := contextOf(c, encodeKey(k))
	ctx.Peer, ctx.StaleRead = peer, stale
	resp, err := tikvpb.NewTikvClient(dial(t, c.StoreAddrs()[peer.StoreId-1])).KvGet(t.Context(), &kvrpcpb.GetRequest{Context: ctx, Key: k, Version: ts})
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// Any replica can be read as of what is settled; what is not yet is refused, as is what a transaction under way may still change.
func TestStaleReads(t *testing.T) {
	t.Parallel()
	c, client := startTxn(t, 10)
	old := now(t, client)
	set(t, client, 10, "new")
	region := c.topology.routes.Load().find(encodeKey(key(1)))
	pin := func(until time.Time) { // lets the resolved timestamps be, or move on
		all := &c.storage.txn.resolved
		all.mu.Lock()
		defer all.mu.Unlock()
		for key, at := range all.byRegion {
			at.since = until
			all.byRegion[key] = at
		}
	}
	for _, peer := range region.meta.Peers {
		if resp := staleGet(t, c, peer, key(1), old, true); string(resp.Value) != "old" {
			t.Errorf("a stale read at store %d: %v", peer.StoreId, resp)
		}
		if resp := staleGet(t, c, peer, key(1), old, false); (resp.RegionError.GetNotLeader() == nil) != (peer == region.leader) {
			t.Errorf("a read at store %d: %v", peer.StoreId, resp)
		}
	}
	pin(time.Now().Add(time.Hour))
	fresh := now(t, client)
	for _, peer := range region.meta.Peers {
		resp := staleGet(t, c, peer, key(1), fresh, true)
		if d := resp.RegionError.GetDataIsNotReady(); d == nil || d.RegionId != region.id() || d.PeerId != peer.Id || d.SafeTs >= fresh || d.SafeTs < old {
			t.Errorf("a stale read of what is not settled at store %d: %v", peer.StoreId, resp)
		}
	}

	// client-go waits until it is.
	read := make(chan error, 1)
	go func() {
		s := client.GetSnapshot(fresh)
		s.SetReadReplicaScope(oracle.GlobalTxnScope)
		s.SetIsStalenessReadOnly(true)
		v, err := s.Get(context.WithoutCancel(t.Context()), key(1))
		if err == nil && string(v) != "new" {
			err = errors.New("it is " + string(v))
		}
		read <- err
	}()
	eventually(t, "client-go is refused", func() bool {
		n := uint64(0)
		for _, s := range c.State().Stores {
			n += s.RegionErrors["DataIsNotReady"]
		}
		return n > uint64(len(region.meta.Peers))
	})
	pin(time.Time{})
	if err := <-read; err != nil {
		t.Errorf("a stale read, once it is settled: %v", err)
	}

	held := prewriteOnly(t, client, key(1), "newer")
	pin(time.Time{})
	resp := staleGet(t, c, region.leader, key(1), now(t, client), true)
	if d := resp.RegionError.GetDataIsNotReady(); d == nil || d.SafeTs >= held.GetStartTS() {
		t.Errorf("a stale read of what is about to be written: %v", resp)
	}
	if resp := staleGet(t, c, region.leader, key(1), fresh, true); string(resp.Value) != "new" {
		t.Errorf("a stale read from before: %v", resp)
	}
	commitPrimary(t, c, held)
	pin(time.Time{})
	if resp := staleGet(t, c, region.leader, key(1), now(t, client), true); string(resp.Value) != "newer" {
		t.Errorf("a stale read once it is written: %v", resp)
	}
}
