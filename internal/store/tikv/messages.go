// SPDX-License-Identifier: Apache-2.0

package tikv

import (
	"cmp"
	"context"
	"path"
	"slices"
	"sync"

	"github.com/pingcap/kvproto/pkg/tikvpb"
	"google.golang.org/grpc"

	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/store/kit"
)

// messages counts what client-go sends to each store: it is handed the messages
// by the interceptors of the clients' connections.
type messages struct {
	mu     sync.Mutex
	stores map[string]*kit.Messages // by address
}

// dialOptions returns what makes connections count.
func (m *messages) dialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			s, err := streamer(ctx, desc, cc, method, opts...)
			if err != nil || !desc.ClientStreams {
				return s, err
			}
			return &countedStream{s, m.to(cc.Target())}, nil
		}),
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			var kinds kit.Kinds
			kinds.Add(kindOf(method))
			m.to(cc.Target()).Sent(1, &kinds)
			return invoker(ctx, method, req, reply, cc, opts...)
		}),
	}
}

func (m *messages) to(address string) *kit.Messages {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stores == nil {
		m.stores = make(map[string]*kit.Messages)
	}
	n := m.stores[address]
	if n == nil {
		n = new(kit.Messages)
		m.stores[address] = n
	}
	return n
}

// traffic returns what was counted, sorted by store.
func (m *messages) traffic() []store.Traffic {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]store.Traffic, 0, len(m.stores))
	for address, n := range m.stores {
		t := store.Traffic{Store: address}
		n.AddTo(&t)
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b store.Traffic) int { return cmp.Compare(a.Store, b.Store) })
	return all
}

// countedStream counts the messages that were sent over it.
type countedStream struct {
	grpc.ClientStream
	count *kit.Messages
}

// SendMsg implements [grpc.ClientStream].
func (s *countedStream) SendMsg(msg any) error {
	if req, ok := msg.(*tikvpb.BatchCommandsRequest); ok {
		// Before it is sent: afterwards the sender may fill it anew.
		var kinds kit.Kinds
		for _, r := range req.Requests {
			kinds.Add(kindIn(r))
		}
		s.count.Sent(len(req.RequestIds), &kinds)
	}
	return s.ClientStream.SendMsg(msg)
}

// methods are the commands that may be sent by themselves, by the methods that they call.
var methods = map[string]store.Command{
	"RawGet": store.RawGet, "RawBatchGet": store.RawBatchGet, "RawPut": store.RawPut, "RawBatchPut": store.RawBatchPut,
	"RawDelete": store.RawDelete, "RawBatchDelete": store.RawBatchDelete, "RawScan": store.RawScan,
	"KvGet": store.TxnGet, "KvBatchGet": store.TxnBatchGet, "KvScan": store.TxnScan, "KvPrewrite": store.Prewrite, "KvCommit": store.Commit,
	"KvBatchRollback": store.BatchRollback, "KvCheckTxnStatus": store.CheckTxnStatus, "KvCheckSecondaryLocks": store.CheckSecondaryLocks,
	"KvResolveLock": store.ResolveLock, "KvPessimisticLock": store.PessimisticLock, "KVPessimisticRollback": store.PessimisticRollback,
	"KvTxnHeartBeat": store.TxnHeartBeat,
}

// kindOf is the kind of a command that is sent by itself, from the method that it calls.
func kindOf(method string) store.Command {
	if kind, ok := methods[path.Base(method)]; ok {
		return kind
	}
	return store.OtherCommand
}

// kindIn is the kind of a command in a message of several.
func kindIn(r *tikvpb.BatchCommandsRequest_Request) store.Command {
	switch r.GetCmd().(type) {
	case *tikvpb.BatchCommandsRequest_Request_RawGet:
		return store.RawGet
	case *tikvpb.BatchCommandsRequest_Request_RawBatchGet:
		return store.RawBatchGet
	case *tikvpb.BatchCommandsRequest_Request_RawPut:
		return store.RawPut
	case *tikvpb.BatchCommandsRequest_Request_RawBatchPut:
		return store.RawBatchPut
	case *tikvpb.BatchCommandsRequest_Request_RawDelete:
		return store.RawDelete
	case *tikvpb.BatchCommandsRequest_Request_RawBatchDelete:
		return store.RawBatchDelete
	case *tikvpb.BatchCommandsRequest_Request_RawScan:
		return store.RawScan
	case *tikvpb.BatchCommandsRequest_Request_Get:
		return store.TxnGet
	case *tikvpb.BatchCommandsRequest_Request_BatchGet:
		return store.TxnBatchGet
	case *tikvpb.BatchCommandsRequest_Request_Scan:
		return store.TxnScan
	case *tikvpb.BatchCommandsRequest_Request_Prewrite:
		return store.Prewrite
	case *tikvpb.BatchCommandsRequest_Request_Commit:
		return store.Commit
	case *tikvpb.BatchCommandsRequest_Request_BatchRollback:
		return store.BatchRollback
	case *tikvpb.BatchCommandsRequest_Request_CheckTxnStatus:
		return store.CheckTxnStatus
	case *tikvpb.BatchCommandsRequest_Request_CheckSecondaryLocks:
		return store.CheckSecondaryLocks
	case *tikvpb.BatchCommandsRequest_Request_ResolveLock:
		return store.ResolveLock
	case *tikvpb.BatchCommandsRequest_Request_PessimisticLock:
		return store.PessimisticLock
	case *tikvpb.BatchCommandsRequest_Request_PessimisticRollback:
		return store.PessimisticRollback
	case *tikvpb.BatchCommandsRequest_Request_TxnHeartBeat:
		return store.TxnHeartBeat
	}
	return store.OtherCommand
}
