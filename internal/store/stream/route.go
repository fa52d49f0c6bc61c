// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"bytes"
	"context"
	"slices"
	"sort"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/tikv/client-go/v2/kv"
	clientgo "github.com/tikv/client-go/v2/tikv"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kvbench/kvbench/internal/store/tikv"
)

// route is where the keys of one region go, as far as a lane knows.
type route struct {
	start, end []byte // [start, end) as applications have them; an empty end is that of the key space
	rpc        *clientgo.RPCContext
	connection *storeConnection
	contexts   [2][]byte // kvrpcpb.Context in the wire format, see context

	turn uint64 // the Submit for which part is valid
	part *part  // that collects this region's keys of a batch
}

func (r *route) contains(key []byte) bool {
	return bytes.Compare(r.start, key) <= 0 && (len(r.end) == 0 || bytes.Compare(key, r.end) < 0)
}

// context returns the encoded context for a command. client-go lets a store work
// on a batch or a delete for less long than on other commands.
func (r *route) context(command protowire.Number) []byte {
	switch command {
	case cmdRawBatchGet, cmdRawBatchPut, cmdRawBatchDelete, cmdRawDelete:
		return r.contexts[1]
	}
	return r.contexts[0]
}

// routes is a lane's table of the regions that it has sent something to, in the
// order of their keys and without overlaps. It is filled from client-go's cache of
// regions, which all lanes share behind a lock, and forgets a region when the region's store says that it is wrong. What the cache does
// not know is not looked up here, since that may take long: such a call goes
// through rawkv, which teaches the cache.
type routes struct {
	client *tikv.Client
	list   []*route
	last   *route
}

// find returns the route of a key, or nil. connection returns the connection for a store.
func (rs *routes) find(key []byte, connection func(id uint64, addr string) *storeConnection) *route {
	if r := rs.last; r != nil && r.contains(key) {
		return r
	}
	i := sort.Search(len(rs.list), func(i int) bool { return bytes.Compare(rs.list[i].start, key) > 0 }) - 1
	if i >= 0 && rs.list[i].contains(key) {
		rs.last = rs.list[i]
		return rs.last
	}
	r := rs.learn(key, connection)
	if r != nil {
		rs.insert(r)
	}
	return r
}

// learn asks client-go's cache, which answers without asking anybody else.
func (rs *routes) learn(key []byte, connection func(id uint64, addr string) *storeConnection) *route {
	at := rs.client.Regions.TryLocateKey(key)
	if at == nil {
		return nil
	}
	// The backoffer is for looking up the address of a store that the cache has
	// never resolved; it resolves all of a region's stores when it loads the region.
	rpc, err := rs.client.Regions.GetTiKVRPCContext(clientgo.NewBackoffer(context.Background(), 0), at.Region, kv.ReplicaReadLeader, 0)
	if err != nil || rpc == nil {
		return nil
	}
	r := &route{start: at.StartKey, end: at.EndKey, rpc: rpc, connection: connection(rpc.Store.StoreID(), rpc.Addr)}
	for i, limit := range []time.Duration{clientgo.ReadTimeoutShort, clientgo.MaxWriteExecutionTime} {
		r.contexts[i], err = (&kvrpcpb.Context{
			RegionId:               rpc.Meta.Id,
			RegionEpoch:            rpc.Meta.RegionEpoch,
			Peer:                   rpc.Peer,
			MaxExecutionDurationMs: uint64(limit.Milliseconds()),
			ApiVersion:             rs.client.Codec.GetAPIVersion(),
			KeyspaceId:             uint32(rs.client.Codec.GetKeyspaceID()),
		}).Marshal()
		if err != nil {
			return nil
		}
	}
	return r
}

// insert puts r in its place, and forgets what it overlaps.
func (rs *routes) insert(r *route) {
	from := sort.Search(len(rs.list), func(i int) bool {
		end := rs.list[i].end
		return len(end) == 0 || bytes.Compare(end, r.start) > 0
	})
	to := from
	for to < len(rs.list) && (len(r.end) == 0 || bytes.Compare(rs.list[to].start, r.end) < 0) {
		to++
	}
	rs.list = slices.Replace(rs.list, from, to, r)
	rs.last = r
}

// forget takes r out, if it is still there.
func (rs *routes) forget(r *route) {
	if i := slices.Index(rs.list, r); i >= 0 {
		rs.list = slices.Delete(rs.list, i, i+1)
	}
	if rs.last == r {
		rs.last = nil
	}
}

// forgetConnection takes all routes to a store out.
func (rs *routes) forgetConnection(t *storeConnection) {
	rs.list = slices.DeleteFunc(rs.list, func(r *route) bool { return r.connection == t })
	rs.last = nil
}
