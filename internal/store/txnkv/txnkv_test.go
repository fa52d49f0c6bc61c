// SPDX-License-Identifier: Apache-2.0

package txnkv_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/playground"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/store/storetest"
	"github.com/kvbench/kvbench/internal/store/tikv"
	"github.com/kvbench/kvbench/internal/store/txnkv"
)

func TestMain(m *testing.M) { storetest.VerifyTestMain(m) }

// goYCSB are the options that go-ycsb has by default.
var goYCSB = txnkv.Options{AsyncCommit: true, OnePhase: true}

func opener(o txnkv.Options) storetest.Opener {
	return storetest.Opener{API: playground.TxnAPI, Open: func(ctx context.Context, c tikv.Config, timeout time.Duration) (store.Driver, error) {
		d, err := txnkv.Open(ctx, c, o, timeout)
		if err != nil {
			return nil, err
		}
		return d, nil
	}}
}

func TestDriver(t *testing.T) {
	if testing.Short() {
		t.Skip("its sessions are those of rawkv, whose tests the race detector watches")
	}
	storetest.Run(t, opener(goYCSB))
}

// rig is a cluster with regions that meet at "b" and "c", and a session for each of some options.
type rig struct {
	t       *testing.T
	clk     clock.Clock
	cluster *playground.Cluster
}

func setUp(t *testing.T) *rig {
	t.Helper()
	pg, err := playground.Start(t.Context(), playground.Options{API: playground.TxnAPI, SplitKeys: [][]byte{[]byte("b"), []byte("c")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pg.Close(); err != nil {
			t.Error(err)
		}
	})
	return &rig{t, clock.Since(time.Now()), pg}
}

func (r *rig) open(o txnkv.Options) (*txnkv.Driver, store.Session) {
	r.t.Helper()
	d, err := txnkv.Open(r.t.Context(), tikv.Config{PD: []string{r.cluster.PDAddr()}}, o, 30*time.Second)
	if err != nil {
		r.t.Fatal(err)
	}
	s, err := d.Open(0, 16, r.clk)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			r.t.Error(err)
		}
		if err := d.Close(); err != nil {
			r.t.Error(err)
		}
	})
	return d, s
}

// do makes a call, and returns its class.
func (r *rig) do(s store.Session, c *store.Call) store.Class {
	r.t.Helper()
	if err := store.Do(s, c, r.clk, time.Minute); err != nil && c.Class == store.OK {
		r.t.Fatal(err)
	}
	return c.Class
}

func (r *rig) must(s store.Session, c *store.Call) {
	r.t.Helper()
	if class := r.do(s, c); class != store.OK {
		r.t.Fatalf("%v %q: %v: %v", c.Verb, c.Keys, class, c.Err)
	}
}

func keys(names ...string) (ks [][]byte) {
	for _, n := range names {
		ks = append(ks, []byte(n))
	}
	return ks
}

func (r *rig) put(s store.Session, value string, names ...string) {
	r.t.Helper()
	c := &store.Call{Verb: store.Put, Keys: keys(names...)}
	for range names {
		c.Values = append(c.Values, []byte(value))
	}
	r.must(s, c)
}

func (r *rig) wants(s store.Session, value string, names ...string) {
	r.t.Helper()
	c := &store.Call{Verb: store.Get, Keys: keys(names...)}
	r.must(s, c)
	for i, got := range c.Found {
		if string(got) != value {
			r.t.Errorf("%s has %q, want %q", names[i], got, value)
		}
	}
}

// commitModes are the ways in which client-go commits.
var commitModes = map[string]txnkv.Options{
	"two phases": {}, "async": {AsyncCommit: true}, "one phase": goYCSB,
	"pessimistic": {Pessimistic: true}, "pessimistic, one phase": {Pessimistic: true, AsyncCommit: true, OnePhase: true},
}

// An update that reads and then writes is one transaction: what was written between is not lost.
func TestForUpdate(t *testing.T) {
	r := setUp(t)
	_, other := r.open(goYCSB)
	for name, o := range commitModes {
		t.Run(name, func(t *testing.T) {
			r := &rig{t, r.clk, r.cluster}
			_, s := r.open(o)
			names := []string{"a", "b", "c"} // in three regions
			r.put(other, "old", names...)
			r.wants(other, "old", names...) // and resolves locks that its commit has yet to take away, for which nobody below waits
			c := &store.Call{Verb: store.Get, Keys: keys(names...), ForUpdate: true}
			update := func() store.Class {
				c.Verb, c.Values = store.Put, keys("new", "new", "new")
				return r.do(s, c)
			}
			r.must(s, c)
			if got := fmt.Sprintf("%s", c.Found); got != "[old old old]" || c.Locked != o.Pessimistic {
				t.Fatalf("read %s, locked %v", got, c.Locked)
			}
			if class := update(); class != store.OK {
				t.Fatalf("%v: %v", class, c.Err)
			}
			r.wants(other, "new", names...)

			c.Verb = store.Get
			r.must(s, c)
			if o.Pessimistic { // the other one has to wait
				_, hasty := r.open(txnkv.Options{Pessimistic: true})
				late := &store.Call{Verb: store.Put, Keys: keys("b"), Values: keys("other")}
				if class := r.do(hasty, late); class != store.LockTimeout {
					t.Errorf("a write of what is locked: %v: %v", class, late.Err)
				}
				c.Verb = store.Unlock
				r.must(s, c)
				r.must(hasty, late)
				r.wants(other, "other", "b")
				return
			}
			r.put(other, "other", "b")
			if class := update(); class != store.Conflict {
				t.Errorf("a commit over a newer value: %v: %v", class, c.Err)
			}
			r.wants(other, "new", "a", "c")
			r.wants(other, "other", "b")
		})
	}
}

// Relaxed calls, and no others, read what was there some time ago, without asking PD for the time.
func TestStaleness(t *testing.T) {
	const ago = 1200 * time.Millisecond
	r := setUp(t)
	o := goYCSB
	o.Staleness = ago
	_, s := r.open(o)
	r.put(s, "1", "a", "b")
	before := time.Now()
	relaxed := []*store.Call{
		{Verb: store.Get, Keys: keys("a"), Relaxed: true},
		{Verb: store.Get, Keys: keys("a", "b"), Relaxed: true},
		{Verb: store.Scan, Keys: keys("a"), Limit: 2, Relaxed: true},
	}
	for _, c := range relaxed {
		if r.must(s, c); time.Since(before) < ago/2 && len(c.Found) > 0 && c.Found[0] != nil {
			t.Errorf("%v of %d keys found %q, which is newer than %v", c.Verb, len(c.Keys), c.Found, ago)
		}
	}
	r.wants(s, "1", "a", "b")
	for _, c := range relaxed {
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			if r.must(s, c); len(c.Found) > 0 && string(c.Found[0]) == "1" {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%v: after %v it is not there", c.Verb, time.Since(before))
			}
		}
	}
	const reads = 200
	asked := stamps(r.cluster)
	for range reads {
		r.must(s, relaxed[0])
	}
	if n := stamps(r.cluster) - asked; n > reads/2 { // client-go asks by itself now and then
		t.Errorf("%d timestamps for %d stale reads", n, reads)
	}
}

// A call that is to be made later is, and not at all if it is given up meanwhile.
func TestDelay(t *testing.T) {
	r := setUp(t)
	_, s := r.open(goYCSB)
	put := &store.Call{Verb: store.Put, Keys: keys("a"), Values: keys("late"), Delay: 30 * time.Millisecond}
	r.must(s, put)
	if took := put.End - put.Start; took < put.Delay {
		t.Errorf("a call that should wait for %v took %v", put.Delay, took)
	}
	put.Values, put.Delay, put.Start = keys("never"), time.Hour, r.clk.Now()
	s.Submit(put)
	s.Cancel()
	if done := s.Wait(r.clk.Now() + 20*time.Second); len(done) != 1 || put.Class != store.Cancelled {
		t.Fatalf("after it was given up: %v: %v", put.Class, put.Err)
	}
	r.wants(s, "late", "a")
}

// Transactions that lock what others write wait for them, and are not lost: each adds one to the same key.
func TestPessimisticTransactionsWait(t *testing.T) {
	const threads, rounds = 8, 10
	r := setUp(t)
	d, s := r.open(txnkv.Options{Pessimistic: true, LockWait: 20 * time.Second, AsyncCommit: true, OnePhase: true})
	r.put(s, "0", "a")
	var all sync.WaitGroup
	for lane := range threads {
		all.Go(func() {
			s, err := d.Open(1+lane, 1, r.clk)
			if err != nil {
				t.Error(err)
				return
			}
			for range rounds {
				c := &store.Call{Verb: store.Get, Keys: keys("a"), ForUpdate: true}
				if class := r.do(s, c); class != store.OK {
					t.Errorf("%v: %v", class, c.Err)
					break
				}
				n, err := strconv.Atoi(string(c.Found[0]))
				c.Verb, c.Values = store.Put, keys(strconv.Itoa(n+1))
				if class := r.do(s, c); class != store.OK || err != nil {
					t.Errorf("%v: %v, %v", class, c.Err, err)
					break
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	r.wants(s, strconv.Itoa(threads*rounds), "a")
}

// Locks that nobody will come back for do not outlive the driver.
func TestCloseGivesUpLocks(t *testing.T) {
	r := setUp(t)
	_, other := r.open(txnkv.Options{Pessimistic: true})
	r.put(other, "old", "a")
	d, err := txnkv.Open(t.Context(), tikv.Config{PD: []string{r.cluster.PDAddr()}}, txnkv.Options{Pessimistic: true}, 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Open(0, 1, r.clk)
	if err != nil {
		t.Fatal(err)
	}
	r.must(s, &store.Call{Verb: store.Get, Keys: keys("a"), ForUpdate: true})
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	r.put(other, "new", "a")
}

// What a transaction costs is what it costs a real cluster: with one phase, a prewrite and no commit; with two, both.
func TestCommands(t *testing.T) {
	const n = 100
	for name, test := range map[string]struct {
		options txnkv.Options
		want    map[string]int64
		stamps  int64 // for each update
		phases  []store.Phase
	}{
		"one phase":   {goYCSB, map[string]int64{"kv_get": n, "kv_prewrite": n}, 2, []store.Phase{store.BeginTimestamp, store.Reading, store.CommitTimestamp, store.Prewriting}},
		"two phases":  {txnkv.Options{}, map[string]int64{"kv_get": n, "kv_prewrite": n, "kv_commit": n}, 2, []store.Phase{store.BeginTimestamp, store.Reading, store.CommitTimestamp, store.Prewriting, store.Committing}},
		"causal":      {txnkv.Options{AsyncCommit: true, OnePhase: true, Causal: true}, map[string]int64{"kv_get": n, "kv_prewrite": n}, 1, []store.Phase{store.BeginTimestamp, store.Reading, store.Prewriting}},
		"pessimistic": {txnkv.Options{Pessimistic: true}, map[string]int64{"kv_pessimistic_lock": n, "kv_prewrite": n, "kv_commit": n}, 2, []store.Phase{store.BeginTimestamp, store.Locking, store.CommitTimestamp, store.Prewriting, store.Committing}},
	} {
		t.Run(name, func(t *testing.T) {
			r := setUp(t)
			d, s := r.open(test.options)
			before := stamps(r.cluster)
			var cost store.Cost
			began := time.Now()
			for i := range n {
				c := &store.Call{Verb: store.Get, Keys: keys(fmt.Sprint("a", i)), ForUpdate: true, Cost: &cost}
				r.must(s, c)
				c.Verb, c.Values = store.Put, keys("value")
				r.must(s, c)
			}
			took := time.Since(began)
			if cost.Transactions != n || int64(cost.Timestamps) != test.stamps*n {
				t.Errorf("%d transactions and %d timestamps were seen of %d, with %d each", cost.Transactions, cost.Timestamps, n, test.stamps)
			}
			for command, sent := range cost.Commands {
				if name := store.Command(command).String(); int64(sent) != test.want[name] {
					t.Errorf("%d %s were seen, want %d", sent, name, test.want[name])
				}
			}
			var sum time.Duration
			for phase, in := range cost.Phases {
				if phase := store.Phase(phase); phase != store.Backoff {
					sum += in
					if (in > 0) != slices.Contains(test.phases, phase) {
						t.Errorf("phase %v took %v of %v", phase, in, took)
					}
				}
			}
			if sum > took {
				t.Errorf("the phases took %v of %v: %v", sum, took, cost.Phases)
			}
			var all store.Traffic
			for _, t := range d.Traffic() {
				all.Add(&t)
			}
			for kind, want := range test.want {
				if got := all.Kinds[kind]; got != want {
					t.Errorf("%d %s, want %d; all: %v", got, kind, want, all.Kinds)
				}
			}
			if len(all.Kinds) != len(test.want) {
				t.Errorf("kinds %v, want %v", all.Kinds, test.want)
			}
			if got := stamps(r.cluster) - before; got < test.stamps*n || got > test.stamps*n+n/2 { // client-go asks by itself now and then
				t.Errorf("%d timestamps for %d transactions, want %d each", got, n, test.stamps)
			}
		})
	}
}

// stamps returns how many timestamps PD was asked for.
func stamps(pg *playground.Cluster) int64 { return int64(pg.State().PD.Requests["Tso"]) }

// A cluster that is split at raw keys is refused in words, before client-go fails at each key.
func TestRawClusterIsRefused(t *testing.T) {
	pg, err := playground.Start(t.Context(), playground.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Close()
	_, err = txnkv.Open(t.Context(), tikv.Config{PD: []string{pg.PDAddr()}}, goYCSB, time.Second)
	if err == nil || !strings.Contains(err.Error(), "holds data of the raw API (V1)") || exitcode.Of(err) != exitcode.Usage {
		t.Errorf("%v", err)
	}
	for _, c := range []tikv.Config{{APIVersion: "V1TTL"}, {ColumnFamily: "write"}, {TTL: true}} {
		c.PD = []string{pg.PDAddr()}
		if _, err := txnkv.Open(t.Context(), c, goYCSB, time.Second); err == nil || exitcode.Of(err) != exitcode.Usage {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Without PD there is no timestamp, and so no transaction; calls end in time, and it goes on when PD is back.
func TestPDAway(t *testing.T) {
	r := setUp(t)
	d, err := txnkv.Open(t.Context(), tikv.Config{PD: []string{r.cluster.PDAddr()}}, goYCSB, 300*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Open(0, 1, r.clk)
	if err != nil {
		t.Fatal(err)
	}
	put := &store.Call{Verb: store.Put, Keys: keys("a"), Values: keys("1")}
	if err := r.cluster.StopPD(); err != nil {
		t.Fatal(err)
	}
	if class := r.do(s, put); class != store.Timeout && class != store.PDUnavailable {
		t.Errorf("without PD: %v: %v", class, put.Err)
	}
	if took := put.End - put.Start; took > 5*time.Second {
		t.Errorf("it took %v to say so", took)
	}
	if err := r.cluster.StartPD(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); r.do(s, put) != store.OK; {
		if time.Now().After(end) {
			t.Fatalf("20 s after PD has come back: %v: %v", put.Class, put.Err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
