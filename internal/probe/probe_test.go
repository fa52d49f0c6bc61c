// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvbench/kvbench/analysis/availability"
	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/playground"
	"github.com/kvbench/kvbench/internal/probe"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/store/rawkv"
	"github.com/kvbench/kvbench/internal/store/storetest"
	"github.com/kvbench/kvbench/internal/store/tikv"
)

func TestMain(m *testing.M) { storetest.VerifyTestMain(m) }

const (
	interval = 100 * time.Millisecond
	deadline = 500 * time.Millisecond
	giveUp   = 10 * time.Second
)

// rig is a probe of a playground.
type rig struct {
	*probe.Probe
	t       *testing.T
	cluster *playground.Cluster
	reader  store.Administered

	mu    sync.Mutex
	last  []probe.Snapshot
	ended []probe.Ended
	said  []string

	stop, abandon, done chan struct{}
}

func newRig(t *testing.T, options playground.Options) *rig {
	t.Helper()
	c, err := playground.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, cluster: c, stop: make(chan struct{}), abandon: make(chan struct{}), done: make(chan struct{})}
	open := func(timeout time.Duration) *rawkv.Driver {
		d, err := rawkv.Open(t.Context(), tikv.Config{PD: []string{c.PDAddr()}, MaxBatchSize: -1, APIVersion: string(options.APIVersion)}, timeout)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	writer, reader := open(giveUp), open(probe.ReadTime)
	r.reader = reader
	r.Probe, err = probe.New(t.Context(), probe.Config{
		Writer: writer, Reader: reader, Clock: clock.Since(time.Now()), Table: probe.Table, ID: "test",
		Interval: interval, Deadline: deadline, GiveUp: giveUp, Split: true,
		Say: func(text string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.said = append(r.said, text)
		},
		Tick: func(_ time.Duration, all []probe.Snapshot) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.last = all
		},
		Ends: func(e probe.Ended) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.ended = append(r.ended, e)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.done)
		r.Run(r.stop, r.abandon)
	}()
	t.Cleanup(func() {
		r.end()
		for _, close := range []func() error{r.Close, writer.Close, reader.Close, c.Close} {
			if err := close(); err != nil {
				t.Error(err)
			}
		}
	})
	return r
}

// end ends the probes, once.
func (r *rig) end() {
	select {
	case <-r.done:
	default:
		close(r.stop)
		<-r.done
	}
}

// until waits until a condition holds of the probes that have ended.
func (r *rig) until(what string, holds func(ended []probe.Ended, last []probe.Snapshot) bool) {
	r.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		r.mu.Lock()
		ok := holds(r.ended, r.last)
		r.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("not within 30 s: %s", what)
		}
		time.Sleep(5 * time.Millisecond) // of looking again
	}
}

// acknowledged waits until each store, or those with the ids, has acknowledged so many probes from now on.
func (r *rig) acknowledged(n int, ids ...int) {
	r.t.Helper()
	r.mu.Lock()
	before := len(r.ended)
	r.mu.Unlock()
	r.until("probes of all stores are acknowledged", func(ended []probe.Ended, _ []probe.Snapshot) bool {
		by := make(map[string]int)
		for _, e := range ended[before:] {
			if e.Class == store.OK {
				by[e.Store]++
			}
		}
		for i, s := range r.cluster.StoreAddrs() {
			if by[s] < n && (len(ids) == 0 || slices.Contains(ids, i+1)) {
				return false
			}
		}
		return true
	})
}

// report ends the probes, and reports them.
func (r *rig) report() *availability.Probe {
	r.t.Helper()
	r.end()
	report := r.Seen(time.Now())
	report.ReadBack = r.ReadBack(r.t.Context())
	return report
}

// rows returns how many keys there are in a part of the key space.
func (r *rig) rows(from, to string) (n int) {
	r.t.Helper()
	s, err := r.reader.Open(1, 1, clock.Since(time.Now()))
	if err != nil {
		r.t.Fatal(err)
	}
	defer s.Close()
	c := &store.Call{Verb: store.Scan, Keys: [][]byte{[]byte(from)}, EndKey: []byte(to), Limit: 10_000, KeyOnly: true}
	if err := store.Do(s, c, clock.Since(time.Now()), time.Minute); err != nil {
		r.t.Fatal(err)
	}
	return len(c.FoundKeys)
}

// Each store is probed by itself, from a cluster with one region on, everything is read back, and nothing is left.
func TestEachStoreIsProbed(t *testing.T) {
	for _, version := range []playground.APIVersion{playground.V1, playground.V1TTL, playground.V2} {
		t.Run(string(version), func(t *testing.T) {
			r := newRig(t, playground.Options{APIVersion: version, Regions: 1})
			r.acknowledged(4)
			report := r.report()
			for _, s := range report.Stores {
				if s.Probes < 4 || s.Availability == nil {
					t.Errorf("%+v", s)
				}
			}
			b := report.ReadBack
			if len(report.Stores) != 3 || b.Acknowledged < 12 || b.Right != b.Acknowledged || !b.Complete {
				t.Errorf("%d stores, %+v", len(report.Stores), b)
			}
			if n := r.rows("", ""); n != int(b.Acknowledged+b.Happened) || n != r.rows("kvbench.probe:", "kvbench.probe;") {
				t.Errorf("%d keys, of %d writes", n, b.Acknowledged)
			}
			if err := r.Clean(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := r.rows("", ""); n != 0 {
				t.Errorf("%d keys are left", n)
			}
		})
	}
}

// The stall that is reported is the one that was, and of its store alone.
func TestStalledStore(t *testing.T) {
	r := newRig(t, playground.Options{})
	r.acknowledged(3)
	const stall = 1200 * time.Millisecond
	began := time.Now()
	if err := r.cluster.StallStore(2, stall); err != nil {
		t.Fatal(err)
	}
	r.until("the stall is shown", func(_ []probe.Ended, last []probe.Snapshot) bool {
		return len(last) == 3 && last[1].Stall != nil && last[1].Stall.Seconds > 3*interval.Seconds()
	})
	r.acknowledged(3)
	most := time.Since(began).Seconds()
	report := r.report()
	s := report.Stores[1]
	least := stall.Seconds() / 2 // on a busy machine the prober stands still, too, which counts as none
	if s.ID != 2 || s.LongestS < least || s.LongestS > most || !s.Stalls[0].Ended {
		t.Errorf("longest stall %v s, want %v to %v: %+v", s.LongestS, least, most, s.Stalls)
	}
	if s.Late == 0 || s.UnavailableS == 0 || s.UnavailableS > most {
		t.Errorf("unavailable for %v s, late: %d", s.UnavailableS, s.Late)
	}
	for _, other := range []int{0, 2} {
		if o := report.Stores[other]; o.LongestS >= least {
			t.Errorf("store %d stalls, too: %+v", o.ID, o.Stalls)
		}
	}
	if l := report.Cluster.LongestStall; l == nil || l.Store != s.Store {
		t.Errorf("longest stall of all: %+v", l)
	}
	b := report.ReadBack
	if b.Undetermined != 0 || b.Lost+b.Wrong+b.Unread != 0 || b.Right != b.Acknowledged {
		t.Errorf("%+v", b)
	}
	if bad, lacks := report.Bad(), report.Lacks(); bad != "" || len(lacks) != 1 || !strings.Contains(lacks[0], "not acknowledged within 500 ms") {
		t.Errorf("bad: %q, lacks: %q", bad, lacks)
	}
}

// A killed store's stall lasts until its regions have another leader; from then on it is not probed, until it leads
// again.
func TestKilledStore(t *testing.T) {
	r := newRig(t, playground.Options{ElectionDelay: time.Second})
	r.acknowledged(3)
	began := time.Now()
	if err := r.cluster.StopStore(1); err != nil {
		t.Fatal(err)
	}
	r.until("the store is not probed", func(_ []probe.Ended, last []probe.Snapshot) bool {
		return len(last) == 3 && !last[0].Probed && last[0].Stall == nil
	})
	most := time.Since(began).Seconds()
	if err := r.cluster.Restore(); err != nil { // leaders as they were
		t.Fatal(err)
	}
	r.acknowledged(3, 1)
	report := r.report()
	s := report.Stores[0]
	if s.LongestS < 0.3 || s.LongestS > most || s.UnprobedS == 0 {
		t.Errorf("longest stall %v s, not known for %v s", s.LongestS, s.UnprobedS)
	}
	if b := report.ReadBack; b.Bad() != 0 || b.Unread != 0 {
		t.Errorf("%+v", b)
	}
	if lacks := strings.Join(report.Lacks(), "; "); !strings.Contains(lacks, "nothing is known of store 1") {
		t.Error(lacks)
	}
}

// A probe follows a leader that moves, without a stall.
func TestLeadersMove(t *testing.T) {
	r := newRig(t, playground.Options{})
	r.acknowledged(3)
	for range 3 {
		if _, err := r.cluster.MoveLeaders(); err != nil {
			t.Fatal(err)
		}
		r.acknowledged(3) // of every store: leaders were spread anew, or it leads others of the slots
	}
	report := r.report()
	if b := report.ReadBack; b.Right != b.Acknowledged {
		t.Errorf("%+v", b)
	}
}

// Acknowledged writes that are lost or wrong are found, and named.
func TestLostAndWrong(t *testing.T) {
	for _, fault := range []playground.SilentFault{playground.Lose, playground.Swap} {
		t.Run(fault.String(), func(t *testing.T) {
			r := newRig(t, playground.Options{})
			r.acknowledged(3)
			if err := r.cluster.SetSilentFault(3, fault, 1, 2); err != nil {
				t.Fatal(err)
			}
			r.acknowledged(6)
			report := r.report()
			b := report.ReadBack
			if b.Bad() < 2 || int(b.Bad()) != len(b.Findings) || b.Right+b.Lost+b.Wrong != b.Acknowledged || fault == playground.Lose && b.Lost != 2 {
				t.Errorf("%+v", b)
			}
			for _, f := range b.Findings {
				if f.Store != report.Stores[2].Store || f.AcknowledgedAt == nil || !strings.HasPrefix(f.Key, "kvbench.probe:") {
					t.Errorf("%+v", f)
				}
			}
			if report.Bad() == "" {
				t.Error("the report does not say so")
			}
		})
	}
}

// What cannot be read back is not known, which is not lost; and giving up ends everything.
func TestGivenUp(t *testing.T) {
	r := newRig(t, playground.Options{})
	r.acknowledged(2)
	for id := range uint64(3) {
		if err := r.cluster.StallStore(id+1, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	r.until("all stall", func(_ []probe.Ended, last []probe.Snapshot) bool {
		return len(last) == 3 && !slices.ContainsFunc(last, func(s probe.Snapshot) bool { return s.Stall == nil || s.Stall.Seconds < 3*interval.Seconds() })
	})
	close(r.abandon)
	r.end()
	report := r.Seen(time.Now())
	given, cancel := context.WithCancel(t.Context())
	cancel()
	report.ReadBack = r.ReadBack(given)
	if b := report.ReadBack; b.Complete || b.Unread != b.Acknowledged || b.Bad() != 0 || b.Undetermined == 0 {
		t.Errorf("%+v", b)
	}
	for _, s := range report.Stores {
		if len(s.Stalls) == 0 || s.Stalls[len(s.Stalls)-1].Ended {
			t.Errorf("stalls of store %d: %+v", s.ID, s.Stalls)
		}
	}
	if lacks := strings.Join(report.Lacks(), "; "); !strings.Contains(lacks, "was not read back") {
		t.Error(lacks)
	}
}

func TestCheck(t *testing.T) {
	const second = time.Second
	for _, test := range []struct {
		interval, deadline, giveUp time.Duration
		ok                         bool
	}{
		{100 * time.Millisecond, second, 20 * second, true},
		{10 * time.Millisecond, 20 * second, 20 * second, true},
		{10 * time.Millisecond, second, 21 * second, false},
		{time.Millisecond, second, second, false},
		{time.Hour, second, second, false},
		{second, 0, second, false},
		{second, 21 * second, 20 * second, false},
	} {
		if err := probe.Check("--", test.interval, test.deadline, test.giveUp); (err == nil) != test.ok {
			t.Errorf("%+v: %v", test, err)
		}
	}
}
