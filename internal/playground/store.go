// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"github.com/tikv/client-go/v2/util/codec"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// store is one TiKV server: an address, and the commands it serves for the regions that it leads.
type store struct {
	tikvpb.UnimplementedTikvServer
	id       uint64
	cluster  *Cluster
	storage  *storage
	topology *topology
	server   server
	status   httpServer

	up      atomic.Bool // as the other stores and PD see it
	trouble atomic.Pointer[trouble]
	stats   storeStats
}

func (s *store) register(g *grpc.Server) { tikvpb.RegisterTikvServer(g, s) }

func (s *store) meta() *metapb.Store {
	return &metapb.Store{
		Id: s.id, Address: s.cluster.advertised(s.server.addr), StatusAddress: s.cluster.advertised(s.status.addr),
		State: metapb.StoreState_Up, NodeState: metapb.NodeState_Serving, Version: serverVersion,
	}
}

// start opens both ports, as a process that starts.
func (s *store) start() error {
	if err := s.server.start(); err != nil {
		return err
	}
	if err := s.status.start(); err != nil {
		s.server.stop()
		return err
	}
	s.up.Store(true)
	return nil
}

// stop closes both ports and all connections, as a process that is killed.
func (s *store) stop() {
	s.up.Store(false)
	s.status.stop()
	s.server.stop()
}

// unary serves one command that came as a call of its own.
func unary[Q, R any](ctx context.Context, s *store, cmd command, req *Q, serve func(*call, *Q, *R)) (*R, error) {
	arrived := time.Now()
	s.stats.unary[cmd].Add(1)
	var f fault
	if d := s.trouble.Load(); d != nil {
		f = d.strike(cmd, arrived)
		if err := s.hold(ctx, arrived.Add(f.delay)); err != nil {
			return nil, status.FromContextError(err).Err()
		}
	}
	c, resp := &call{done: ctx.Done()}, new(R)
	c.begin(s)
	c.fault = f
	serve(c, req, resp)
	if err := c.finish(); err != nil {
		return nil, status.Errorf(codes.Internal, "store %d: %v", s.id, err)
	}
	s.stats.answered(s.stats.thread(ctx), []*slot{{cmd: cmd}}, arrived, time.Now())
	return resp, nil
}

func (s *store) RawGet(ctx context.Context, req *kvrpcpb.RawGetRequest) (*kvrpcpb.RawGetResponse, error) {
	return unary(ctx, s, cmdRawGet, req, (*call).rawGet)
}

func (s *store) RawBatchGet(ctx context.Context, req *kvrpcpb.RawBatchGetRequest) (*kvrpcpb.RawBatchGetResponse, error) {
	return unary(ctx, s, cmdRawBatchGet, req, (*call).rawBatchGet)
}

func (s *store) RawPut(ctx context.Context, req *kvrpcpb.RawPutRequest) (*kvrpcpb.RawPutResponse, error) {
	return unary(ctx, s, cmdRawPut, req, (*call).rawPut)
}

func (s *store) RawBatchPut(ctx context.Context, req *kvrpcpb.RawBatchPutRequest) (*kvrpcpb.RawBatchPutResponse, error) {
	return unary(ctx, s, cmdRawBatchPut, req, (*call).rawBatchPut)
}

func (s *store) RawDelete(ctx context.Context, req *kvrpcpb.RawDeleteRequest) (*kvrpcpb.RawDeleteResponse, error) {
	return unary(ctx, s, cmdRawDelete, req, (*call).rawDelete)
}

func (s *store) RawBatchDelete(ctx context.Context, req *kvrpcpb.RawBatchDeleteRequest) (*kvrpcpb.RawBatchDeleteResponse, error) {
	return unary(ctx, s, cmdRawBatchDelete, req, (*call).rawBatchDelete)
}

func (s *store) RawScan(ctx context.Context, req *kvrpcpb.RawScanRequest) (*kvrpcpb.RawScanResponse, error) {
	return unary(ctx, s, cmdRawScan, req, (*call).rawScan)
}

func (s *store) RawBatchScan(ctx context.Context, req *kvrpcpb.RawBatchScanRequest) (*kvrpcpb.RawBatchScanResponse, error) {
	return unary(ctx, s, cmdRawBatchScan, req, (*call).rawBatchScan)
}

func (s *store) RawDeleteRange(ctx context.Context, req *kvrpcpb.RawDeleteRangeRequest) (*kvrpcpb.RawDeleteRangeResponse, error) {
	return unary(ctx, s, cmdRawDeleteRange, req, (*call).rawDeleteRange)
}

func (s *store) RawGetKeyTTL(ctx context.Context, req *kvrpcpb.RawGetKeyTTLRequest) (*kvrpcpb.RawGetKeyTTLResponse, error) {
	return unary(ctx, s, cmdRawGetKeyTTL, req, (*call).rawGetKeyTTL)
}

func (s *store) RawCompareAndSwap(ctx context.Context, req *kvrpcpb.RawCASRequest) (*kvrpcpb.RawCASResponse, error) {
	return unary(ctx, s, cmdRawCompareAndSwap, req, (*call).rawCompareAndSwap)
}

func (s *store) RawChecksum(ctx context.Context, req *kvrpcpb.RawChecksumRequest) (*kvrpcpb.RawChecksumResponse, error) {
	return unary(ctx, s, cmdRawChecksum, req, (*call).rawChecksum)
}

func (s *store) SplitRegion(ctx context.Context, req *kvrpcpb.SplitRegionRequest) (*kvrpcpb.SplitRegionResponse, error) {
	return unary(ctx, s, cmdSplitRegion, req, (*call).splitRegion)
}

// splitRegion splits at raw keys as they are, at those of the transactional API in memcomparable form.
func (c *call) splitRegion(req *kvrpcpb.SplitRegionRequest, resp *kvrpcpb.SplitRegionResponse) {
	r, regionErr := c.region(req.Context)
	if resp.RegionError = regionErr; regionErr != nil {
		return
	}
	keys := req.SplitKeys
	if len(keys) == 0 {
		keys = [][]byte{req.SplitKey}
	}
	var inside [][]byte
	for _, key := range keys {
		if !req.IsRawKv && !c.topology.bounds.memcomparable {
			key = codec.EncodeBytes(nil, key)
		}
		if r.contains(key) {
			inside = append(inside, key)
		}
	}
	parts, _, err := c.topology.split(inside)
	if err != nil {
		resp.RegionError = c.refuse("Other", &errorpb.Error{Message: err.Error()})
		return
	}
	for _, part := range parts {
		resp.Regions = append(resp.Regions, part.meta)
	}
	resp.Left, resp.Right = resp.Regions[0], resp.Regions[1]
}
