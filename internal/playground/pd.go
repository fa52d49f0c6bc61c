// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pingcap/kvproto/pkg/keyspacepb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// serverVersion is the version that PD and the stores say they are: the TiKV release that the playground follows.
const serverVersion = "8.5.0"

// pd is the placement driver: one member, always the leader.
type pd struct {
	pdpb.UnimplementedPDServer
	keyspacepb.UnimplementedKeyspaceServer
	cluster  *Cluster
	topology *topology
	server   server
	tso      timestamps
	requests sync.Map // method name → *atomic.Uint64
}

func (p *pd) register(g *grpc.Server) {
	pdpb.RegisterPDServer(g, p)
	keyspacepb.RegisterKeyspaceServer(g, p)
	etcdserverpb.RegisterKVServer(g, &etcd{pd: p})
	etcdserverpb.RegisterClusterServer(g, &etcd{pd: p})
}

func (p *pd) count(method string) {
	n, ok := p.requests.Load(method)
	if !ok {
		n, _ = p.requests.LoadOrStore(method, new(atomic.Uint64))
	}
	n.(*atomic.Uint64).Add(1)
}

func (p *pd) header() *pdpb.ResponseHeader { return &pdpb.ResponseHeader{ClusterId: p.cluster.id} }

func (p *pd) failed(kind pdpb.ErrorType, format string, args ...any) *pdpb.ResponseHeader {
	h := p.header()
	h.Error = &pdpb.Error{Type: kind, Message: fmt.Sprintf(format, args...)}
	return h
}

// enter counts a call and refuses one that is meant for another cluster.
func (p *pd) enter(method string, h *pdpb.RequestHeader) error {
	p.count(method)
	if h.GetClusterId() != p.cluster.id {
		return status.Errorf(codes.FailedPrecondition, "mismatch cluster id, need %d but got %d", p.cluster.id, h.GetClusterId())
	}
	return nil
}

// url is where clients find PD.
func (p *pd) url() string {
	scheme := "http"
	if p.server.tls != nil {
		scheme = "https"
	}
	return scheme + "://" + p.cluster.advertised(p.server.addr)
}

func (p *pd) GetMembers(context.Context, *pdpb.GetMembersRequest) (*pdpb.GetMembersResponse, error) {
	p.count("GetMembers")
	url := []string{p.url()}
	m := &pdpb.Member{Name: "pd-0", MemberId: 1, PeerUrls: url, ClientUrls: url, BinaryVersion: serverVersion}
	return &pdpb.GetMembersResponse{Header: p.header(), Members: []*pdpb.Member{m}, Leader: m, EtcdLeader: m}, nil
}

func (p *pd) GetClusterInfo(context.Context, *pdpb.GetClusterInfoRequest) (*pdpb.GetClusterInfoResponse, error) {
	p.count("GetClusterInfo")
	return &pdpb.GetClusterInfoResponse{Header: p.header(), ServiceModes: []pdpb.ServiceMode{pdpb.ServiceMode_PD_SVC_MODE}}, nil
}

func (p *pd) Tso(stream pdpb.PD_TsoServer) error {
	for {
		req, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := p.enter("Tso", req.Header); err != nil {
			return err
		}
		if req.Count == 0 {
			return status.Error(codes.InvalidArgument, "tso count should be positive")
		}
		resp := &pdpb.TsoResponse{Header: p.header(), Count: req.Count, Timestamp: p.tso.take(req.Count)}
		if err := stream.Send(resp); err != nil {
			return err
		}
	}
}

// timestamps hands out timestamps that only grow.
type timestamps struct {
	mu                sync.Mutex
	physical, logical int64
}

// maxLogical is the number of timestamps in a millisecond: 18 bits.
const maxLogical = 1 << 18

// take returns the last of count timestamps, all greater than any before.
func (t *timestamps) take(count uint32) *pdpb.Timestamp {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now().UnixMilli(); now > t.physical {
		t.physical, t.logical = now, 0
	}
	if t.logical += int64(count); t.logical >= maxLogical {
		t.physical, t.logical = t.physical+1, int64(count)
	}
	return &pdpb.Timestamp{Physical: t.physical, Logical: t.logical}
}

// composeTS is a timestamp as transactions carry it.
func composeTS(ts *pdpb.Timestamp) uint64 { return uint64(ts.Physical)<<18 + uint64(ts.Logical) }

// UpdateGCSafePoint answers that nothing is removed.
func (p *pd) UpdateGCSafePoint(_ context.Context, req *pdpb.UpdateGCSafePointRequest) (*pdpb.UpdateGCSafePointResponse, error) {
	if err := p.enter("UpdateGCSafePoint", req.Header); err != nil {
		return nil, err
	}
	return &pdpb.UpdateGCSafePointResponse{Header: p.header()}, nil
}

func (p *pd) GetStore(_ context.Context, req *pdpb.GetStoreRequest) (*pdpb.GetStoreResponse, error) {
	if err := p.enter("GetStore", req.Header); err != nil {
		return nil, err
	}
	s := p.cluster.store(req.StoreId)
	if s == nil {
		return &pdpb.GetStoreResponse{Header: p.failed(pdpb.ErrorType_UNKNOWN, "invalid store ID %d, not found", req.StoreId)}, nil
	}
	return &pdpb.GetStoreResponse{Header: p.header(), Store: s.meta(), Stats: &pdpb.StoreStats{StoreId: s.id}}, nil
}

func (p *pd) GetAllStores(_ context.Context, req *pdpb.GetAllStoresRequest) (*pdpb.GetAllStoresResponse, error) {
	if err := p.enter("GetAllStores", req.Header); err != nil {
		return nil, err
	}
	resp := &pdpb.GetAllStoresResponse{Header: p.header()}
	for _, s := range p.cluster.stores {
		resp.Stores = append(resp.Stores, s.meta())
	}
	return resp, nil
}

func (p *pd) GetRegion(_ context.Context, req *pdpb.GetRegionRequest) (*pdpb.GetRegionResponse, error) {
	if err := p.enter("GetRegion", req.Header); err != nil {
		return nil, err
	}
	t := p.topology.routes.Load()
	return p.describe(t, t.indexOfBound(req.RegionKey)), nil
}

func (p *pd) GetPrevRegion(_ context.Context, req *pdpb.GetRegionRequest) (*pdpb.GetRegionResponse, error) {
	if err := p.enter("GetPrevRegion", req.Header); err != nil {
		return nil, err
	}
	t := p.topology.routes.Load()
	return p.describe(t, t.indexOfBound(req.RegionKey)-1), nil
}

func (p *pd) GetRegionByID(_ context.Context, req *pdpb.GetRegionByIDRequest) (*pdpb.GetRegionResponse, error) {
	if err := p.enter("GetRegionByID", req.Header); err != nil {
		return nil, err
	}
	t := p.topology.routes.Load()
	if r := t.byID[req.RegionId]; r != nil {
		return p.describe(t, t.index(r.start)), nil
	}
	return &pdpb.GetRegionResponse{Header: p.header()}, nil
}

func (p *pd) describe(t *routes, i int) *pdpb.GetRegionResponse {
	if i < 0 {
		return &pdpb.GetRegionResponse{Header: p.header()}
	}
	r := t.ordered[i]
	return &pdpb.GetRegionResponse{Header: p.header(), Region: r.meta, Leader: r.leader}
}

func (p *pd) ScanRegions(_ context.Context, req *pdpb.ScanRegionsRequest) (*pdpb.ScanRegionsResponse, error) {
	if err := p.enter("ScanRegions", req.Header); err != nil {
		return nil, err
	}
	resp := &pdpb.ScanRegionsResponse{Header: p.header()}
	t := p.topology.routes.Load()
	for _, r := range t.ordered[t.indexOfBound(req.StartKey):] {
		if len(req.EndKey) > 0 && bytes.Compare(r.meta.StartKey, req.EndKey) >= 0 || req.Limit > 0 && len(resp.Regions) >= int(req.Limit) {
			break
		}
		leader := r.leader
		if leader == nil {
			leader = &metapb.Peer{}
		}
		resp.RegionMetas, resp.Leaders = append(resp.RegionMetas, r.meta), append(resp.Leaders, leader)
		resp.Regions = append(resp.Regions, &pdpb.Region{Region: r.meta, Leader: leader})
	}
	return resp, nil
}

// split splits at keys in the form of region bounds; what is not such a key is left out. It returns the ids of the new regions and
// the share of the keys that are bounds now, in per cent.
func (p *pd) split(bounds [][]byte) (created []uint64, percentage uint64, err error) {
	var keys [][]byte
	for _, bound := range bounds {
		if key, ok := p.topology.bounds.decode(bound); ok && len(key) > 0 {
			keys = append(keys, key)
		}
	}
	if _, created, err = p.topology.split(keys); err != nil && err != errNoSplitKey {
		return nil, 0, err
	}
	if len(bounds) > 0 {
		percentage = uint64(100 * len(keys) / len(bounds))
	}
	return created, percentage, nil
}

func (p *pd) SplitRegions(_ context.Context, req *pdpb.SplitRegionsRequest) (*pdpb.SplitRegionsResponse, error) {
	if err := p.enter("SplitRegions", req.Header); err != nil {
		return nil, err
	}
	created, percentage, err := p.split(req.SplitKeys)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &pdpb.SplitRegionsResponse{Header: p.header(), RegionsId: created, FinishedPercentage: percentage}, nil
}

func (p *pd) SplitAndScatterRegions(_ context.Context, req *pdpb.SplitAndScatterRegionsRequest) (*pdpb.SplitAndScatterRegionsResponse, error) {
	if err := p.enter("SplitAndScatterRegions", req.Header); err != nil {
		return nil, err
	}
	created, percentage, err := p.split(req.SplitKeys)
	if err == nil {
		err = p.cluster.scatter(created)
	}
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &pdpb.SplitAndScatterRegionsResponse{
		Header: p.header(), RegionsId: created, SplitFinishedPercentage: percentage, ScatterFinishedPercentage: 100,
	}, nil
}

func (p *pd) ScatterRegion(_ context.Context, req *pdpb.ScatterRegionRequest) (*pdpb.ScatterRegionResponse, error) {
	if err := p.enter("ScatterRegion", req.Header); err != nil {
		return nil, err
	}
	ids := req.RegionsId
	if len(ids) == 0 {
		ids = []uint64{req.RegionId}
	}
	for _, id := range ids {
		if p.topology.routes.Load().byID[id] == nil {
			return &pdpb.ScatterRegionResponse{Header: p.failed(pdpb.ErrorType_REGION_NOT_FOUND, "region %d not found", id)}, nil
		}
	}
	if err := p.cluster.scatter(ids); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &pdpb.ScatterRegionResponse{Header: p.header(), FinishedPercentage: 100}, nil
}

// GetOperator says that scattering a region, which is instant here, is done.
func (p *pd) GetOperator(_ context.Context, req *pdpb.GetOperatorRequest) (*pdpb.GetOperatorResponse, error) {
	if err := p.enter("GetOperator", req.Header); err != nil {
		return nil, err
	}
	return &pdpb.GetOperatorResponse{
		Header: p.header(), RegionId: req.RegionId, Desc: []byte("scatter-region"), Status: pdpb.OperatorStatus_SUCCESS, Kind: []byte("admin"),
	}, nil
}

func (p *pd) LoadKeyspace(_ context.Context, req *keyspacepb.LoadKeyspaceRequest) (*keyspacepb.LoadKeyspaceResponse, error) {
	if err := p.enter("LoadKeyspace", req.Header); err != nil {
		return nil, err
	}
	id, ok := keyspaceID(p.cluster.keyspaces, req.Name)
	if !ok {
		return &keyspacepb.LoadKeyspaceResponse{Header: p.failed(pdpb.ErrorType_ENTRY_NOT_FOUND, "keyspace %q does not exist", req.Name)}, nil
	}
	meta := &keyspacepb.KeyspaceMeta{Id: id, Name: req.Name, State: keyspacepb.KeyspaceState_ENABLED}
	return &keyspacepb.LoadKeyspaceResponse{Header: p.header(), Keyspace: meta}, nil
}
