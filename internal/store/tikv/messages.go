// SPDX-License-Identifier: Apache-2.0

package tikv

import (
	"cmp"
	"context"
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
			m.to(cc.Target()).Sent(1)
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
		s.count.Sent(len(req.RequestIds))
	}
	return s.ClientStream.SendMsg(msg)
}
