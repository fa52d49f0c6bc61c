// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"bytes"
	"strings"
	"testing"

	"github.com/pingcap/kvproto/pkg/keyspacepb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/tikv/client-go/v2/util/codec"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

func dial(t testing.TB, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestPDThroughItsClient(t *testing.T) {
	c := start(t, Options{SplitKeys: [][]byte{[]byte("f"), []byte("m")}})
	pd := connect(t, c).GetPDClient()
	ctx := t.Context()

	regions, err := pd.ScanRegions(ctx, nil, nil, 100)
	if err != nil || len(regions) != 3 {
		t.Fatalf("ScanRegions = %d regions, %v", len(regions), err)
	}
	for i, start := range []string{"", "f", "m"} {
		if r := regions[i]; string(r.Meta.StartKey) != start || r.Leader == nil || len(r.Meta.Peers) != 3 {
			t.Errorf("region %d: %v", i, r)
		}
	}
	if regions, err := pd.ScanRegions(ctx, []byte("a"), []byte("m"), 100); err != nil || len(regions) != 2 {
		t.Errorf("ScanRegions to m = %d regions, %v", len(regions), err)
	}
	if regions, err := pd.ScanRegions(ctx, []byte("a"), nil, 1); err != nil || len(regions) != 1 {
		t.Errorf("ScanRegions with limit 1 = %d regions, %v", len(regions), err)
	}
	r, err := pd.GetRegion(ctx, []byte("g"))
	if err != nil || string(r.Meta.StartKey) != "f" {
		t.Fatalf("GetRegion = %v, %v", r, err)
	}
	if prev, err := pd.GetPrevRegion(ctx, []byte("g")); err != nil || len(prev.Meta.StartKey) != 0 {
		t.Errorf("GetPrevRegion = %v, %v", prev, err)
	}
	if same, err := pd.GetRegionByID(ctx, r.Meta.Id); err != nil || same.Meta.Id != r.Meta.Id {
		t.Errorf("GetRegionByID = %v, %v", same, err)
	}
	stores, err := pd.GetAllStores(ctx)
	if err != nil || len(stores) != 3 {
		t.Fatalf("GetAllStores = %v, %v", stores, err)
	}
	for i, addr := range c.StoreAddrs() {
		if s, err := pd.GetStore(ctx, uint64(i+1)); err != nil || s.Address != addr {
			t.Errorf("GetStore(%d) = %v, %v", i+1, s, err)
		}
	}
	if _, err := pd.GetStore(ctx, 9); err == nil || !strings.Contains(err.Error(), "invalid store ID 9, not found") {
		t.Errorf("GetStore of a store that does not exist: %v", err)
	}
	if pd.GetClusterID(ctx) != c.ClusterID() || c.ClusterID() == 0 {
		t.Errorf("cluster id %d", pd.GetClusterID(ctx))
	}
	lastPhysical, lastLogical := int64(0), int64(0)
	for range 100 {
		physical, logical, err := pd.GetTS(ctx)
		if err != nil || physical < lastPhysical || physical == lastPhysical && logical <= lastLogical {
			t.Fatalf("GetTS = %d, %d, %v after %d, %d", physical, logical, err, lastPhysical, lastLogical)
		}
		lastPhysical, lastLogical = physical, logical
	}

	split, err := pd.SplitRegions(ctx, [][]byte{[]byte("t"), []byte("h"), []byte("j"), []byte("m")})
	if err != nil || len(split.RegionsId) != 3 || split.FinishedPercentage != 100 {
		t.Fatalf("SplitRegions = %v, %v", split, err)
	}
	after, err := pd.GetRegionByID(ctx, r.Meta.Id)
	if err != nil || string(after.Meta.StartKey) != "j" || string(after.Meta.EndKey) != "m" || after.Meta.RegionEpoch.Version != r.Meta.RegionEpoch.Version+2 {
		t.Errorf("after two splits region %d is %v, %v; want the right part, with a version larger by 2", r.Meta.Id, after, err)
	}
	scattered, err := pd.SplitAndScatterRegions(ctx, [][]byte{[]byte("x")})
	if err != nil || len(scattered.RegionsId) != 1 {
		t.Fatalf("SplitAndScatterRegions = %v, %v", scattered, err)
	}
	if err := pd.ScatterRegion(ctx, scattered.RegionsId[0]); err != nil {
		t.Error(err)
	}
	if op, err := pd.GetOperator(ctx, scattered.RegionsId[0]); err != nil || op.Status != pdpb.OperatorStatus_SUCCESS {
		t.Errorf("GetOperator = %v, %v", op, err)
	}
}

func TestPDRefuses(t *testing.T) {
	c := start(t, Options{APIVersion: V2, Keyspaces: []string{"a"}})
	conn := dial(t, c.PDAddr())
	pd := pdpb.NewPDClient(conn)
	ctx := t.Context()
	other := &pdpb.RequestHeader{ClusterId: c.ClusterID() + 1}
	if _, err := pd.GetRegion(ctx, &pdpb.GetRegionRequest{Header: other}); status.Code(err) != codes.FailedPrecondition ||
		!strings.Contains(err.Error(), "mismatch cluster id") {
		t.Errorf("GetRegion of another cluster: %v", err)
	}
	keyspaces := keyspacepb.NewKeyspaceClient(conn)
	header := &pdpb.RequestHeader{ClusterId: c.ClusterID()}
	for name, id := range map[string]uint32{"DEFAULT": 0, "a": 1} {
		resp, err := keyspaces.LoadKeyspace(ctx, &keyspacepb.LoadKeyspaceRequest{Header: header, Name: name})
		if err != nil || resp.Header.Error != nil || resp.Keyspace.Id != id || resp.Keyspace.State != keyspacepb.KeyspaceState_ENABLED {
			t.Errorf("LoadKeyspace(%s) = %v, %v", name, resp, err)
		}
	}
	if resp, err := keyspaces.LoadKeyspace(ctx, &keyspacepb.LoadKeyspaceRequest{Header: header, Name: "b"}); err != nil || resp.Header.Error == nil {
		t.Errorf("LoadKeyspace of one that does not exist = %v, %v", resp, err)
	}
	// Under API V2 bounds are memcomparable; a bound that is not cannot be split at.
	good := codec.EncodeBytes(nil, []byte("r\x00\x00\x00key"))
	resp, err := pd.SplitRegions(ctx, &pdpb.SplitRegionsRequest{Header: header, SplitKeys: [][]byte{good, []byte("plain")}})
	if err != nil || len(resp.RegionsId) != 1 || resp.FinishedPercentage != 50 {
		t.Errorf("SplitRegions = %v, %v", resp, err)
	}
	r, err := pd.GetRegion(ctx, &pdpb.GetRegionRequest{Header: header, RegionKey: good})
	if err != nil || !bytes.Equal(r.Region.StartKey, good) {
		t.Errorf("GetRegion = %v, %v", r, err)
	}
	for _, addr := range append(c.StoreAddrs(), c.PDAddr()) {
		h, err := grpc_health_v1.NewHealthClient(dial(t, addr)).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		if err != nil || h.Status != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("health of %s = %v, %v", addr, h, err)
		}
	}
}

func TestTimestampsOnlyGrow(t *testing.T) {
	var ts timestamps
	last := ts.take(1)
	for range 100 {
		const count = maxLogical / 3
		next := ts.take(count)
		if first := next.Logical - count + 1; next.Physical < last.Physical || next.Physical == last.Physical && first <= last.Logical || next.Logical >= maxLogical {
			t.Fatalf("%v after %v", next, last)
		}
		last = next
	}
}
