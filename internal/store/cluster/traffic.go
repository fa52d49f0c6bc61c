// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"

	"github.com/kvbench/kvbench/internal/store"
)

// sent counts the messages that client-go sends to stores. It lets nobody near its
// connections, so they are counted where they are encoded, by this package's codec. A codec is
// the whole process's: when several clusters are open, the first one tells for all.
var sent sentMessages

type sentMessages struct {
	byStore atomic.Pointer[map[uint64]*store.Messages]
	mu      sync.Mutex // of those who add a store
}

func (s *sentMessages) reset() { s.byStore.Store(&map[uint64]*store.Messages{}) }

// count counts v if it is a message with raw commands.
func (s *sentMessages) count(v any) {
	id, commands := commandsIn(v)
	if commands == 0 {
		return
	}
	m := s.stores()[id]
	if m == nil {
		m = s.add(id)
	}
	m.Sent(commands)
}

func (s *sentMessages) stores() map[uint64]*store.Messages {
	if m := s.byStore.Load(); m != nil {
		return *m
	}
	return nil
}

func (s *sentMessages) add(id uint64) *store.Messages {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.stores()[id]; m != nil {
		return m
	}
	all := maps.Clone(s.stores())
	if all == nil {
		all = make(map[uint64]*store.Messages)
	}
	all[id] = new(store.Messages)
	s.byStore.Store(&all)
	return all[id]
}

// commandsIn returns how many raw commands are in a message, and the store that they are for.
func commandsIn(v any) (storeID uint64, commands int) {
	if m, ok := v.(*tikvpb.BatchCommandsRequest); ok {
		for _, r := range m.Requests {
			if c := contextOf(commandOf(r)); c != nil {
				storeID = c.GetPeer().GetStoreId()
				commands++
			}
		}
		return storeID, commands
	}
	if c := contextOf(v); c != nil {
		return c.GetPeer().GetStoreId(), 1
	}
	return 0, 0
}

// commandOf returns a command that came in a batch.
func commandOf(r *tikvpb.BatchCommandsRequest_Request) any {
	switch c := r.GetCmd().(type) {
	case *tikvpb.BatchCommandsRequest_Request_RawGet:
		return c.RawGet
	case *tikvpb.BatchCommandsRequest_Request_RawBatchGet:
		return c.RawBatchGet
	case *tikvpb.BatchCommandsRequest_Request_RawPut:
		return c.RawPut
	case *tikvpb.BatchCommandsRequest_Request_RawBatchPut:
		return c.RawBatchPut
	case *tikvpb.BatchCommandsRequest_Request_RawDelete:
		return c.RawDelete
	case *tikvpb.BatchCommandsRequest_Request_RawBatchDelete:
		return c.RawBatchDelete
	case *tikvpb.BatchCommandsRequest_Request_RawScan:
		return c.RawScan
	}
	return nil
}

// contextOf returns a raw command's context; nil if v is something else.
func contextOf(v any) *kvrpcpb.Context {
	switch v.(type) {
	case *kvrpcpb.RawGetRequest, *kvrpcpb.RawBatchGetRequest, *kvrpcpb.RawPutRequest, *kvrpcpb.RawBatchPutRequest,
		*kvrpcpb.RawDeleteRequest, *kvrpcpb.RawBatchDeleteRequest, *kvrpcpb.RawScanRequest, *kvrpcpb.RawCASRequest:
		return v.(interface{ GetContext() *kvrpcpb.Context }).GetContext()
	}
	return nil
}

// Traffic returns what client-go has sent since the cluster was opened, by store. Of several clusters
// that a process has open, the first one returns what was sent to all, and the others nothing.
func (c *Cluster) Traffic() []store.Traffic {
	if !c.first {
		return nil
	}
	var all []store.Traffic
	for id, m := range sent.stores() {
		t := store.Traffic{Store: fmt.Sprint("store ", id)}
		for _, s := range c.info.Stores {
			if s.ID == id {
				t.Store = s.Address
			}
		}
		m.AddTo(&t)
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b store.Traffic) int { return cmp.Compare(a.Store, b.Store) })
	return all
}
