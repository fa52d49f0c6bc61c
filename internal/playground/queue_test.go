// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
)

// erlangC is the share of arrivals that find all c servers busy, which are offered a load of a servers' work.
func erlangC(c int, a float64) float64 {
	b := 1.0 // Erlang B of no server
	for n := 1; n <= c; n++ {
		b = a * b / (float64(n) + a*b)
	}
	rho := a / float64(c)
	return b / (1 - rho*(1-b))
}

// TestQueueIsOne: what commands wait, with Poisson arrivals, is what queueing theory says of M/M/c and M/D/1.
func TestQueueIsOne(t *testing.T) {
	t.Parallel()
	const arrivals = 300_000
	random := rand.New(rand.NewPCG(1, 2))
	for _, s := range []Service{
		{Time: time.Millisecond, Servers: 1, Spread: Constant},
		{Time: time.Millisecond, Servers: 1, Spread: Exponential},
		{Time: 4 * time.Millisecond, Servers: 4, Spread: Exponential},
		{Time: 20 * time.Millisecond, Servers: 20, Spread: Exponential},
	} {
		const rho = 0.7
		rate := rho * s.Capacity()
		q, now, waited := newQueue(s), time.Now(), time.Duration(0)
		begin := now
		for range arrivals {
			now = now.Add(time.Duration(random.ExpFloat64() / rate * 1e9))
			waited += q.take(now).Sub(now)
		}
		wait := erlangC(s.Servers, rate*s.Time.Seconds()) / (s.Capacity() - rate)
		if s.Spread == Constant { // Pollaczek and Khinchine, of one server
			wait = rho * s.Time.Seconds() / (2 * (1 - rho))
		}
		want, got := wait+s.Time.Seconds(), waited.Seconds()/arrivals
		t.Logf("%v: %.3g s, in theory %.3g s; %.0f arrivals a second", s, got, want, arrivals/now.Sub(begin).Seconds())
		if math.Abs(got/want-1) > 0.08 {
			t.Errorf("%v: commands take %.3g s, want %.3g s", s, got, want)
		}
	}
}

// TestQueueHasItsCapacity: what is more than it can serve comes out at its capacity, and no faster.
func TestQueueHasItsCapacity(t *testing.T) {
	q := newQueue(Service{Time: 3 * time.Millisecond, Servers: 3, Spread: Constant})
	now := time.Now()
	for i := range 3000 {
		if done, want := q.take(now), now.Add(time.Duration(i/3+1)*3*time.Millisecond); !done.Equal(want) {
			t.Fatalf("command %d has been served after %v, want %v", i, done.Sub(now), want.Sub(now))
		}
	}
	if wait := q.wait(now); wait != 3*time.Second {
		t.Errorf("the next one waits for %v, want 3s", wait)
	}
	if wait := q.wait(now.Add(time.Hour)); wait != 0 {
		t.Errorf("the next one waits for %v of idle servers", wait)
	}
}

func TestQueueAndDisturbances(t *testing.T) {
	now := time.Now()
	with := func(change func(*trouble)) *trouble {
		d := &trouble{queue: newQueue(Service{Time: time.Second, Servers: 1, Spread: Constant})}
		change(d)
		return d
	}
	for name, tt := range map[string]struct {
		d    *trouble
		cmd  command
		want []time.Duration // of one command after another
	}{
		"queue":          {with(func(*trouble) {}), cmdRawGet, []time.Duration{time.Second, 2 * time.Second}},
		"empty commands": {with(func(*trouble) {}), cmdEmpty, []time.Duration{0, 0}},
		"busy":           {with(func(d *trouble) { d.busyShare = 1 }), cmdRawGet, []time.Duration{0, 0}},
		"slow":           {with(func(d *trouble) { d.slowBy, d.slowShare = time.Minute, 1 }), cmdRawGet, []time.Duration{61 * time.Second, 62 * time.Second}},
		"stalled":        {with(func(d *trouble) { d.stalledUntil = now.Add(time.Hour) }), cmdRawGet, []time.Duration{time.Hour + time.Second, time.Hour + 2*time.Second}},
	} {
		for i, want := range tt.want {
			if got := tt.d.strike(tt.cmd, now).delay; got != want {
				t.Errorf("%s: command %d is served after %v, want %v", name, i, got, want)
			}
		}
	}
}

// TestQueueOnTheWire: each command of a message is answered when it has been served, not with the last of them; also one that comes as
// a call of its own.
func TestQueueOnTheWire(t *testing.T) {
	t.Parallel()
	const service, commands = 10 * time.Millisecond, 12
	c := start(t, Options{Stores: 1, Regions: 1, Service: Service{Time: service, Servers: 1}})
	send, receive := talk(t, c, "a")
	ctx := contextOf(c, []byte("a"))
	var ids []uint64
	var gets []*tikvpb.BatchCommandsRequest_Request
	for i := range uint64(commands) {
		ids, gets = append(ids, i), append(gets, get(ctx, fmt.Sprint("a", i)))
	}
	sent := time.Now()
	send(ids, gets...)
	var order []uint64
	for len(order) < commands {
		order = append(order, receive().RequestIds...)
		if took, least := time.Since(sent), time.Duration(len(order))*service; took < least {
			t.Fatalf("%d commands were served in %v, want %v or more", len(order), took, least)
		}
	}
	for i, id := range order {
		if id != uint64(i) {
			t.Fatalf("answers come in the order %v", order)
		}
	}
	sent = time.Now()
	if _, err := tikvpb.NewTikvClient(dial(t, c.StoreAddrs()[0])).RawGet(t.Context(), &kvrpcpb.RawGetRequest{Context: ctx, Key: []byte("a")}); err != nil || time.Since(sent) < service {
		t.Errorf("a call of its own: %v after %v", err, time.Since(sent))
	}
	if err := c.SetService(1, Service{}); err != nil || c.stores[0].trouble.Load() != nil {
		t.Errorf("without a queue the store is still disturbed: %v", err)
	}
	if err := c.Restore(); err != nil || c.State().Stores[0].Queue == nil {
		t.Errorf("the queue of the start is not restored: %v", err)
	}
}
