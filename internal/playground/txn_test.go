// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"github.com/tikv/client-go/v2/config"
	tikverr "github.com/tikv/client-go/v2/error"
	"github.com/tikv/client-go/v2/kv"
	"github.com/tikv/client-go/v2/txnkv"
	"github.com/tikv/client-go/v2/txnkv/transaction"
)

// connectTxn returns the real transactional client, which ends with the test, before the cluster.
func connectTxn(t testing.TB, c *Cluster, opts ...txnkv.ClientOpt) *txnkv.Client {
	t.Helper()
	opts = append([]txnkv.ClientOpt{txnkv.WithAPIVersion(kvrpcpb.APIVersion_V1)}, opts...)
	client, err := txnkv.NewClient([]string{c.PDAddr()}, opts...)
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

// transact runs do in a transaction, and commits it.
func transact(t testing.TB, client *txnkv.Client, do func(txn *transaction.KVTxn) error) error {
	t.Helper()
	txn, err := client.Begin()
	if err != nil {
		t.Fatal(err)
	}
	return errors.Join(do(txn), txn.Commit(context.Background()))
}

var txnSplits = [][]byte{[]byte("k02"), []byte("k05"), []byte("k08")}

// commitModes are the ways to commit that client-go has.
var commitModes = map[string]func(*transaction.KVTxn){
	"two phases": func(txn *transaction.KVTxn) {},
	"async":      func(txn *transaction.KVTxn) { txn.SetEnableAsyncCommit(true) },
	"one phase":  func(txn *transaction.KVTxn) { txn.SetEnableAsyncCommit(true); txn.SetEnable1PC(true) },
	"pessimistic": func(txn *transaction.KVTxn) {
		txn.SetPessimistic(true)
	},
}

func TestTransactions(t *testing.T) {
	for _, tt := range []struct {
		name      string
		opts      Options
		client    []txnkv.ClientOpt
		batchSize uint
	}{
		{"V1", Options{}, nil, 128},
		{"V1 unary", Options{}, nil, 0},
		{"V2", Options{APIVersion: V2}, []txnkv.ClientOpt{txnkv.WithAPIVersion(kvrpcpb.APIVersion_V2)}, 128},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Cleanup(config.UpdateGlobal(func(conf *config.Config) { conf.TiKVClient.MaxBatchSize = tt.batchSize }))
			tt.opts.API, tt.opts.SplitKeys = TxnAPI, txnSplits
			c := start(t, tt.opts)
			client := connectTxn(t, c, tt.client...)
			for name, mode := range commitModes {
				t.Run(name, func(t *testing.T) { testTransactions(t, client, []byte(name), mode) })
			}
			for _, s := range c.State().Stores {
				if len(s.RegionErrors) > 0 {
					t.Errorf("store %d gave region errors to a client that is not stale: %v", s.ID, s.RegionErrors)
				}
			}
		})
	}
}

func testTransactions(t *testing.T, client *txnkv.Client, suffix []byte, mode func(*transaction.KVTxn)) {
	name := func(i int) []byte { return append(key(i), suffix...) }
	ctx := t.Context()
	before, err := client.CurrentTimestamp("global")
	if err != nil {
		t.Fatal(err)
	}
	err = transact(t, client, func(txn *transaction.KVTxn) error {
		mode(txn)
		for i := range 10 {
			if err := txn.Set(name(i), value(i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = transact(t, client, func(txn *transaction.KVTxn) error {
		mode(txn)
		return errors.Join(txn.Delete(name(4)), txn.Set(name(5), []byte("other")))
	})
	if err != nil {
		t.Fatal(err)
	}
	now, err := client.CurrentTimestamp("global")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		want := string(value(i))
		if i == 5 {
			want = "other"
		}
		v, err := client.GetSnapshot(now).Get(ctx, name(i))
		if i == 4 {
			if !tikverr.IsErrNotFound(err) {
				t.Errorf("Get of a deleted key = %q, %v", v, err)
			}
		} else if string(v) != want || err != nil {
			t.Errorf("Get(%s) = %q, %v; want %q", name(i), v, err, want)
		}
		if v, err := client.GetSnapshot(before).Get(ctx, name(i)); !tikverr.IsErrNotFound(err) {
			t.Errorf("Get(%s) before it was written = %q, %v", name(i), v, err)
		}
	}
	var keys [][]byte
	for i := range 12 {
		keys = append(keys, name(i))
	}
	found, err := client.GetSnapshot(now).BatchGet(ctx, keys)
	if err != nil || len(found) != 9 || string(found[string(name(5))]) != "other" || found[string(name(4))] != nil {
		t.Errorf("BatchGet = %q, %v", found, err)
	}
	for _, reverse := range []bool{false, true} {
		snapshot := client.GetSnapshot(now)
		snapshot.SetScanBatchSize(2)
		it, err := snapshot.Iter([]byte("k"), []byte("l"))
		if reverse {
			it, err = snapshot.IterReverse([]byte("l"))
		}
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for it.Valid() {
			if k := string(it.Key()); strings.HasSuffix(k, string(suffix)) {
				got = append(got, k[:3]+"="+string(it.Value()))
			}
			if err := it.Next(); err != nil {
				t.Fatal(err)
			}
		}
		want := "[k00=value 0 k01=value 1 k02=value 2 k03=value 3 k05=other k06=value 6 k07=value 7 k08=value 8 k09=value 9]"
		if reverse {
			want = "[k09=value 9 k08=value 8 k07=value 7 k06=value 6 k05=other k03=value 3 k02=value 2 k01=value 1 k00=value 0]"
		}
		if fmt.Sprint(got) != want {
			t.Errorf("scan, reverse %v: %v", reverse, got)
		}
	}
}

// startTxn starts a cluster with some keys, and its client.
func startTxn(t *testing.T, keys int) (*Cluster, *txnkv.Client) {
	t.Helper()
	c := start(t, Options{API: TxnAPI, SplitKeys: txnSplits})
	client := connectTxn(t, c)
	set(t, client, keys, "old")
	return c, client
}

func set(t *testing.T, client *txnkv.Client, keys int, value string) {
	t.Helper()
	err := transact(t, client, func(txn *transaction.KVTxn) error {
		for i := range keys {
			if err := txn.Set(key(i), []byte(value)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// latest reads a key as it is now.
func latest(t testing.TB, client *txnkv.Client, key []byte) string {
	t.Helper()
	ts, err := client.CurrentTimestamp("global")
	if err != nil {
		t.Fatal(err)
	}
	v, err := client.GetSnapshot(ts).Get(context.Background(), key)
	if err != nil {
		t.Fatalf("Get(%s): %v", key, err)
	}
	return string(v)
}

func begin(t testing.TB, client *txnkv.Client) *transaction.KVTxn {
	t.Helper()
	txn, err := client.Begin()
	if err != nil {
		t.Fatal(err)
	}
	return txn
}

// locks counts the locks in the database.
func locks(t testing.TB, c *Cluster) (n int) {
	t.Helper()
	it, err := c.storage.db.NewIter(&pebble.IterOptions{LowerBound: []byte{familyLock}, UpperBound: familyEnd(familyLock)})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	return n
}

func TestConflict(t *testing.T) {
	t.Parallel()
	_, client := startTxn(t, 3)
	for name, mode := range commitModes {
		if name == "pessimistic" {
			continue
		}
		early := begin(t, client)
		mode(early)
		if err := early.Set(key(1), []byte(name)); err != nil {
			t.Fatal(err)
		}
		set(t, client, 3, "newer")
		var conflict *tikverr.ErrWriteConflict
		err := early.Commit(t.Context())
		if !errors.As(err, &conflict) {
			t.Fatalf("%s: commit after a newer one: %v", name, err)
		}
		if conflict.StartTs != early.StartTS() || conflict.ConflictTs <= early.StartTS() || conflict.ConflictCommitTs <= conflict.ConflictTs ||
			string(conflict.Key) != string(key(1)) || conflict.Reason != kvrpcpb.WriteConflict_Optimistic {
			t.Errorf("%s: conflict %v of the transaction that started at %d", name, conflict, early.StartTS())
		}
		if v := latest(t, client, key(1)); v != "newer" {
			t.Errorf("%s: after the conflict, %q", name, v)
		}
	}
}

func TestPessimisticLocks(t *testing.T) {
	t.Parallel()
	c, client := startTxn(t, 4)
	ctx := t.Context()
	lock := func(txn *transaction.KVTxn, wait int64, k []byte) error {
		ts, err := client.CurrentTimestamp("global")
		if err != nil {
			return err
		}
		return txn.LockKeys(ctx, kv.NewLockCtx(ts, wait, time.Now()), k)
	}
	pessimistic := func() *transaction.KVTxn {
		txn := begin(t, client)
		txn.SetPessimistic(true)
		return txn
	}
	holder, other := pessimistic(), pessimistic()
	if err := lock(holder, kv.LockAlwaysWait, key(1)); err != nil {
		t.Fatal(err)
	}
	if err := lock(other, kv.LockNoWait, key(1)); !errors.Is(err, tikverr.ErrLockAcquireFailAndNoWaitSet) {
		t.Errorf("lock that is held, without waiting: %v", err)
	}
	if err := lock(other, 50, key(1)); !errors.Is(err, tikverr.ErrLockWaitTimeout) {
		t.Errorf("lock that is held, after 50 ms: %v", err)
	}
	if v := latest(t, client, key(1)); v != "old" {
		t.Errorf("a pessimistic lock shows %q", v)
	}

	locked := make(chan error, 1)
	waiting := func(n int) func() bool {
		return func() bool {
			c.storage.txn.waits.mu.Lock()
			defer c.storage.txn.waits.mu.Unlock()
			return len(c.storage.txn.waits.byWait) == n
		}
	}
	go func() { locked <- lock(other, kv.LockAlwaysWait, key(1)) }()
	eventually(t, "the other transaction waits", waiting(1))
	if err := holder.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-locked; err != nil {
		t.Errorf("lock after its holder rolled back: %v", err)
	}

	third := pessimistic()
	if err := lock(third, kv.LockAlwaysWait, key(3)); err != nil {
		t.Fatal(err)
	}
	go func() { locked <- lock(other, kv.LockAlwaysWait, key(3)) }()
	eventually(t, "one waits for the other", waiting(1))
	var dead *tikverr.ErrDeadlock
	if err := lock(third, kv.LockAlwaysWait, key(1)); !errors.As(err, &dead) {
		t.Fatalf("a lock that closes a circle: %v", err)
	}
	if dead.LockTs != other.StartTS() || string(dead.LockKey) != string(key(1)) || len(dead.WaitChain) != 2 {
		t.Errorf("deadlock: %v", dead)
	}
	if err := errors.Join(third.Set(key(3), []byte("third")), third.Commit(ctx)); err != nil {
		t.Fatal(err)
	}
	var conflict *tikverr.ErrWriteConflict
	if err := <-locked; !errors.As(err, &conflict) || conflict.Reason != kvrpcpb.WriteConflict_PessimisticRetry {
		t.Errorf("lock of a key that its holder wrote: %v", err)
	}
	if err := lock(other, kv.LockAlwaysWait, key(3)); err != nil {
		t.Errorf("the same at a later time: %v", err)
	}
	if err := errors.Join(other.Set(key(3), []byte("other")), other.Commit(ctx)); err != nil {
		t.Fatal(err)
	}
	if v := latest(t, client, key(3)); v != "other" {
		t.Errorf("after both have committed, %q", v)
	}
	eventually(t, "no lock is left", func() bool { return locks(t, c) == 0 })
}

// TestLocksLeftBehind ends a client between the phases of a commit, and lets another one find what it left.
func TestLocksLeftBehind(t *testing.T) {
	for _, tt := range []struct {
		name  string
		leave func(t *testing.T, cluster *Cluster, c transaction.CommitterProbe)
		want  string
	}{
		{"prewritten", func(*testing.T, *Cluster, transaction.CommitterProbe) {}, "old"},
		{"the first key is committed", commitPrimary, "new"},
		{"prewritten for async commit", nil, "new"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, client := startTxn(t, 10)
			dead := connectTxn(t, c)
			txn := begin(t, dead)
			for i := range 10 {
				if err := txn.Set(key(i), []byte("new")); err != nil {
					t.Fatal(err)
				}
			}
			committer, err := transaction.TxnProbe{KVTxn: txn}.NewCommitter(1)
			if err != nil {
				t.Fatal(err)
			}
			committer.SetLockTTL(1)
			if tt.leave == nil {
				committer.SetUseAsyncCommit()
			}
			if err := committer.PrewriteAllMutations(t.Context()); err != nil {
				t.Fatal(err)
			}
			if tt.leave != nil {
				tt.leave(t, c, committer)
			}
			if n := locks(t, c); n < 9 {
				t.Fatalf("%d locks are left", n)
			}
			// A second key, not the one that decides: its reader has to ask for that one.
			if v := latest(t, client, key(9)); v != tt.want {
				t.Errorf("the last key is %q, want %q", v, tt.want)
			}
			err = transact(t, client, func(txn *transaction.KVTxn) error { return txn.Set(key(5), []byte("after")) })
			if err != nil {
				t.Fatal(err)
			}
			ts, err := client.CurrentTimestamp("global")
			if err != nil {
				t.Fatal(err)
			}
			it, err := client.GetSnapshot(ts).Iter(nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for ; it.Valid(); n++ {
				want := tt.want
				if n == 5 {
					want = "after"
				}
				if string(it.Key()) != string(key(n)) || string(it.Value()) != want {
					t.Errorf("%s = %q, want %q", it.Key(), it.Value(), want)
				}
				if err := it.Next(); err != nil {
					t.Fatal(err)
				}
			}
			if n != 10 {
				t.Errorf("a scan finds %d keys", n)
			}
			set(t, client, 10, "last") // readers see through locks that they know the fate of, writers remove them
			eventually(t, "all locks are resolved", func() bool { return locks(t, c) == 0 })
		})
	}
}

// commitPrimary commits the key that decides, and no other.
func commitPrimary(t *testing.T, cluster *Cluster, c transaction.CommitterProbe) {
	t.Helper()
	ctx := contextOf(cluster, encodeKey(c.GetPrimaryKey()))
	resp, err := tikvpb.NewTikvClient(dial(t, cluster.StoreAddrs()[ctx.Peer.StoreId-1])).KvCommit(t.Context(), &kvrpcpb.CommitRequest{
		Context: ctx, Keys: [][]byte{c.GetPrimaryKey()}, StartVersion: c.GetStartTS(), CommitVersion: composeTS(cluster.pd.tso.take(1)),
	})
	if err != nil || resp.RegionError != nil || resp.Error != nil {
		t.Fatalf("commit of the first key: %v, %v", resp, err)
	}
}

// TestSplitDuringTransaction changes the regions between prewrite and commit.
func TestSplitDuringTransaction(t *testing.T) {
	t.Parallel()
	c, client := startTxn(t, 10)
	txn := begin(t, client)
	for i := range 10 {
		if err := txn.Set(key(i), []byte("new")); err != nil {
			t.Fatal(err)
		}
	}
	committer, err := transaction.TxnProbe{KVTxn: txn}.NewCommitter(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := committer.PrewriteAllMutations(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		bound, err := c.Key("", append(key(i), 'x'))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.SplitRegion(bound); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.MoveLeaders(); err != nil {
		t.Fatal(err)
	}
	ts, err := client.CurrentTimestamp("global")
	if err != nil {
		t.Fatal(err)
	}
	committer.SetCommitTS(ts)
	if err := committer.CommitMutations(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if v := latest(t, client, key(i)); v != "new" {
			t.Errorf("%s = %q", key(i), v)
		}
	}
	if n := regionErrors(c, "EpochNotMatch") + regionErrors(c, "NotLeader") + regionErrors(c, "KeyNotInRegion"); n == 0 {
		t.Error("nothing told the client that the regions had changed")
	}
}

func TestRegionsOfRawKeysBreakTransactions(t *testing.T) {
	t.Parallel()
	client := connectTxn(t, start(t, Options{}))
	err := transact(t, client, func(txn *transaction.KVTxn) error { return txn.Set([]byte("usertable:user1"), []byte("v")) })
	if err == nil || !strings.Contains(err.Error(), "insufficient bytes to decode value") && !strings.Contains(err.Error(), "invalid") {
		t.Errorf("a transaction where regions are split at raw keys: %v", err)
	}
}

// TestRepeatableReads reads keys twice at the same time while they are committed in one phase, whose timestamps the stores choose.
func TestRepeatableReads(t *testing.T) {
	t.Parallel()
	_, client := startTxn(t, 2)
	stop := make(chan struct{})
	var writers sync.WaitGroup
	defer writers.Wait()
	defer close(stop)
	for i := range 2 {
		writers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				err := transact(t, client, func(txn *transaction.KVTxn) error {
					txn.SetEnableAsyncCommit(true)
					txn.SetEnable1PC(true)
					return txn.Set(key(i), strconv.AppendInt(nil, int64(n), 10))
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for n := range 2000 {
		ts, err := client.CurrentTimestamp("global")
		if err != nil {
			t.Fatal(err)
		}
		k := key(n % 2)
		first, err := client.GetSnapshot(ts).Get(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		second, err := client.GetSnapshot(ts).Get(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		if string(first) != string(second) {
			t.Fatalf("two reads at %d: %s, then %s", ts, first, second)
		}
	}
}

// TestBankUnderDisturbance moves money between accounts while the cluster is disturbed; what all hold together never changes.
func TestBankUnderDisturbance(t *testing.T) {
	t.Parallel()
	const accounts, balance = 10, 1000
	c, client := startTxn(t, 0)
	set(t, client, accounts, strconv.Itoa(balance))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watchdog := time.AfterFunc(60*time.Second, cancel)
	defer watchdog.Stop()
	stop := make(chan struct{})
	running := func() bool {
		select {
		case <-stop:
			return false
		default:
			return true
		}
	}
	var tellers sync.WaitGroup
	modes := []string{"two phases", "async", "one phase", "pessimistic"}
	for w := range 8 {
		tellers.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(w)))
			for running() {
				err := transfer(ctx, client, commitModes[modes[w%len(modes)]], random, accounts)
				if err != nil && !tikverr.IsErrWriteConflict(err) && ctx.Err() == nil && !retryable(err) {
					t.Errorf("%s: %v", modes[w%len(modes)], err)
					return
				}
			}
		})
	}
	tellers.Go(func() {
		for running() {
			if sum, err := sumOf(ctx, client); err != nil || sum != accounts*balance {
				t.Errorf("all accounts hold %d, %v", sum, err)
				return
			}
		}
	})
	shake(t, c, 2*time.Second)
	close(stop)
	tellers.Wait()
	if sum, err := sumOf(ctx, client); err != nil || sum != accounts*balance {
		t.Errorf("at the end, all accounts hold %d, %v", sum, err)
	}
}

// retryable tells errors with which a transaction ends undecided or undone for reasons that are not the client's.
func retryable(err error) bool {
	var retry *tikverr.ErrRetryable
	var dead *tikverr.ErrDeadlock
	return errors.As(err, &retry) || errors.As(err, &dead) || tikverr.IsErrorUndetermined(err) || strings.Contains(err.Error(), "PessimisticLock")
}

func transfer(ctx context.Context, client *txnkv.Client, mode func(*transaction.KVTxn), random *rand.Rand, accounts int) error {
	txn, err := client.Begin()
	if err != nil {
		return err
	}
	mode(txn)
	from := random.IntN(accounts)
	to := (from + 1 + random.IntN(accounts-1)) % accounts
	if txn.IsPessimistic() {
		if err := txn.LockKeys(ctx, kv.NewLockCtx(txn.StartTS(), kv.LockAlwaysWait, time.Now()), key(from), key(to)); err != nil {
			return errors.Join(err, txn.Rollback())
		}
	}
	for _, side := range []struct{ account, amount int }{{from, -1}, {to, 1}} {
		v, err := txn.Get(ctx, key(side.account))
		if err != nil {
			return errors.Join(err, txn.Rollback())
		}
		held, err := strconv.Atoi(string(v))
		if err == nil {
			err = txn.Set(key(side.account), []byte(strconv.Itoa(held+side.amount)))
		}
		if err != nil {
			return err
		}
	}
	return txn.Commit(ctx)
}

func sumOf(ctx context.Context, client *txnkv.Client) (sum int, err error) {
	ts, err := client.CurrentTimestamp("global")
	if err != nil {
		return 0, err
	}
	it, err := client.GetSnapshot(ts).Iter(nil, nil)
	if err != nil {
		return 0, err
	}
	for it.Valid() {
		held, err := strconv.Atoi(string(it.Value()))
		if err != nil {
			return 0, err
		}
		sum += held
		if err := it.Next(); err != nil {
			return 0, err
		}
	}
	return sum, ctx.Err()
}

// TestReadersWaitForCommitsThatHaveNotHeardOfThem is about the moment between the choice of a commit timestamp and its commit.
func TestReadersWaitForCommitsThatHaveNotHeardOfThem(t *testing.T) {
	t.Parallel()
	c := start(t, Options{API: TxnAPI})
	txn := &c.storage.txn
	for i := range uint64(500) {
		free := txn.latches.take(key(1))
		before := txn.maxTS.Load()
		var committed atomic.Bool
		var readers sync.WaitGroup
		for _, keys := range [][][]byte{{key(1)}, nil} {
			readers.Go(func() {
				if txn.readAt(before+1+i, keys...); !committed.Load() {
					t.Error("a reader went by a commit whose timestamp may be before it")
				}
			})
		}
		for txn.maxTS.Load() == before {
			runtime.Gosched()
		}
		committed.Store(true)
		free()
		readers.Wait()
	}
}
