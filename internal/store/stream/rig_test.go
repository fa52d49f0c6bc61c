// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	clientgo "github.com/tikv/client-go/v2/tikv"
	"google.golang.org/grpc/mem"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/store/kit"
	"github.com/kvbench/kvbench/internal/store/tikv"
)

// rig is a session whose only link ends in the test: it sees the messages that
// the session sends, and says what comes back. Fallbacks are never made, but wait to be seen.
type rig struct {
	*session
	t     testing.TB
	link  *link
	clock *clock.Manual
}

func newRig(t testing.TB, prefix string, c Config) *rig {
	c, err := c.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	clk := new(clock.Manual)
	s := &session{
		config: c, clk: clk, counts: newCounters(),
		dialect:    dialect{prefix: []byte(prefix), cf: ""},
		inbox:      kit.NewInbox[event](clk),
		deadlines:  kit.NewDeadlines(c.Timeout),
		attempts:   kit.NewDeadlines(attemptTime),
		maxWaiting: 10_000,
		errLate:    errors.New("late"),
	}
	s.fallbacks.limit = 0
	ctx, cancel := context.WithCancel(context.Background())
	connection := &storeConnection{id: 1, address: "test", ctx: ctx, close: cancel, count: s.counts.store("test")}
	l := &link{connection: connection, state: up, out: make(chan outgoing, 10_000), cancel: func() {}}
	connection.links = []*link{l}
	s.connections = append(s.connections, connection)
	r := &route{connection: connection, rpc: &clientgo.RPCContext{Peer: &metapb.Peer{Id: 3}}}
	context, err := (&kvrpcpb.Context{RegionId: 7, Peer: &metapb.Peer{Id: 3}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	r.contexts = [2][]byte{context, context}
	s.routes.client = &tikv.Client{Regions: noRegions}
	s.routes.insert(r)
	t.Cleanup(func() { s.inbox.Close(); cancel() })
	return &rig{session: s, t: t, link: l, clock: clk}
}

// noRegions is client-go's cache as it is at first.
var noRegions = func() *clientgo.RegionCache {
	c := clientgo.NewRegionCache(nil)
	c.Close()
	return c
}()

// sent returns the message that the session sends now, or nil.
func (r *rig) sent() *tikvpb.BatchCommandsRequest {
	r.flush(store.Forever)
	select {
	case o := <-r.link.out:
		m := new(tikvpb.BatchCommandsRequest)
		if err := m.Unmarshal(*o.data); err != nil {
			r.t.Fatal(err)
		}
		buffers.Put(o.data)
		return m
	default:
		return nil
	}
}

// reply lets a message come in, and returns what has completed.
func (r *rig) reply(data []byte) []*store.Call {
	r.inbox.Put(event{kind: received, link: r.link, data: mem.SliceBuffer(data), at: r.clk.Now()})
	return r.wait()
}

// wait returns what has completed.
func (r *rig) wait() []*store.Call { return r.Wait(math.MinInt64) }

func (r *rig) respond(m *tikvpb.BatchCommandsResponse) []*store.Call {
	data, err := m.Marshal()
	if err != nil {
		r.t.Fatal(err)
	}
	return r.reply(data)
}
