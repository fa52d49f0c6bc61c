// SPDX-License-Identifier: Apache-2.0

package servermetrics

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/playground"
	"github.com/kvbench/kvbench/internal/store"
)

// gets sends so many reads to a store, over several connections.
func gets(t *testing.T, address string, n int) {
	t.Helper()
	const conns = 7
	for range conns {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		client := tikvpb.NewTikvClient(conn)
		for range n / conns {
			if _, err := client.RawGet(t.Context(), &kvrpcpb.RawGetRequest{Key: []byte("k")}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// collected are samples by store, in the order of time.
type collected struct {
	mu sync.Mutex
	of map[string][]Sample
}

func (c *collected) put(s Sample) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = make(map[string][]Sample)
	}
	c.of[s.Store] = append(c.of[s.Store], s)
}

func whole(samples []Sample) bool {
	return len(samples) > 1 && samples[0].Prompted > 0 && samples[len(samples)-1].Prompted > samples[0].Prompted
}

// Readings before and after a load have all that was counted until then, whatever threads keep: not of an earlier load, and all of this one.
func TestHandover(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 4 s")
	}
	t.Parallel()
	pg, err := playground.Start(t.Context(), playground.Options{Stores: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Close()
	servers := store.Servers{}
	for i, address := range pg.StoreAddrs() {
		servers.Stores = append(servers.Stores, store.Server{Store: address, Status: pg.StatusAddrs()[i]})
	}
	const earlier, load, early = 7 * 20, 7 * 50, 700 * time.Millisecond
	// The machine may still have too much else to do for an answer in time: then a watcher does without.
	for range 10 {
		for _, address := range pg.StoreAddrs() {
			gets(t, address, earlier)
		}
		zero := time.Now().Add(HandoverLead + 2*early)
		w := New(servers, clock.Since(zero))
		ended := make(chan struct{})
		var samples collected
		var watching sync.WaitGroup
		watching.Go(func() {
			w.Run(Watch{Every: time.Hour, Ended: ended, Stopped: make(chan struct{}), Whole: true, early: early}, samples.put)
		})
		time.Sleep(time.Until(zero))
		for _, address := range pg.StoreAddrs() {
			gets(t, address, load)
		}
		close(ended)
		watching.Wait()
		w.Close()
		first, second := samples.of[servers.Stores[0].Store], samples.of[servers.Stores[1].Store]
		if !whole(first) || !whole(second) {
			continue
		}
		for _, of := range samples.of {
			begin, end := of[0], of[len(of)-1]
			prompts := end.Prompted - begin.Prompted
			counted := int(end.Figures["requests_total.raw_get"]-begin.Figures["requests_total.raw_get"]) - prompts
			if begin.At != 0 || prompts != promptsPerThread*usualThreads || counted < load-prompts || counted > load+prompts {
				t.Errorf("%d commands are counted, want %d (±%d): %+v", counted, load, prompts, of)
			}
		}
		return
	}
	t.Error("the threads were never reached in time")
}

// Who is stopped does not wait for what is handed over late, and where stores cannot be reached, or it is too late, readings are as ever.
func TestNoHandover(t *testing.T) {
	t.Parallel()
	pg, err := playground.Start(t.Context(), playground.Options{Stores: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	good := store.Server{Store: pg.StoreAddrs()[0], Status: pg.StatusAddrs()[0]}
	for name, test := range map[string]struct {
		server store.Server
		lead   time.Duration
	}{
		"too late":               {good, 20 * time.Millisecond},
		"an unreachable store":   {store.Server{Store: closed.Addr().String(), Status: good.Status}, 20 * time.Millisecond},
		"an unreachable address": {store.Server{Store: good.Store, Status: closed.Addr().String()}, 20 * time.Millisecond},
		"after the start":        {good, 0},
	} {
		w := New(store.Servers{Stores: []store.Server{test.server}}, clock.Since(time.Now().Add(test.lead)))
		var samples collected
		ended, once := make(chan struct{}), sync.Once{}
		w.Run(Watch{Every: time.Hour, Ended: ended, Whole: true}, func(s Sample) {
			samples.put(s)
			once.Do(func() { close(ended) })
		})
		w.Close()
		for _, s := range samples.of[test.server.Store] {
			if s.Prompted > 0 || s.At < 0 || (s.Figures == nil) != (s.Missing != "") {
				t.Errorf("%s: %+v", name, s)
			}
		}
		if n := len(samples.of[test.server.Store]); n != 2 {
			t.Errorf("%s: %d readings, want one and the last", name, n)
		}
	}
	r := &reader{Watcher: &Watcher{clk: clock.Since(time.Now())}, server: good, sizes: Figures{}}
	h, err := r.handover(t.Context(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	stopped := make(chan struct{})
	close(stopped)
	waiting, release := until(stopped)
	defer release()
	<-waiting.Done()
	if s, ok := h.end(waiting, r); ok {
		t.Errorf("stopped, and yet: %+v", s)
	}
}
