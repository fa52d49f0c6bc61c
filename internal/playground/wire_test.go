// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"github.com/tikv/client-go/v2/util/codec"
	"google.golang.org/grpc/mem"
)

// contextOf is the request context of a client that knows the region of key as it is now.
func contextOf(c *Cluster, key []byte) *kvrpcpb.Context {
	r := c.topology.routes.Load().find(key)
	ctx := &kvrpcpb.Context{RegionId: r.id(), RegionEpoch: r.meta.RegionEpoch, Peer: r.leader}
	if c.opts.APIVersion == V2 {
		ctx.ApiVersion = kvrpcpb.APIVersion_V2
	}
	return ctx
}

func get(ctx *kvrpcpb.Context, key string) *tikvpb.BatchCommandsRequest_Request {
	return &tikvpb.BatchCommandsRequest_Request{Cmd: &tikvpb.BatchCommandsRequest_Request_RawGet{
		RawGet: &kvrpcpb.RawGetRequest{Context: ctx, Key: []byte(key)},
	}}
}

// talk opens a BatchCommands stream to the store that leads the region of key. Its functions send commands with ids, and receive
// the ids of one answer.
func talk(t *testing.T, c *Cluster, key string) (send func(ids []uint64, reqs ...*tikvpb.BatchCommandsRequest_Request), receive func() *tikvpb.BatchCommandsResponse) {
	t.Helper()
	leader := c.topology.routes.Load().find([]byte(key)).leader.StoreId
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	stream, err := tikvpb.NewTikvClient(dial(t, c.StoreAddrs()[leader-1])).BatchCommands(ctx)
	if err != nil {
		t.Fatal(err)
	}
	send = func(ids []uint64, reqs ...*tikvpb.BatchCommandsRequest_Request) {
		t.Helper()
		if err := stream.Send(&tikvpb.BatchCommandsRequest{Requests: reqs, RequestIds: ids}); err != nil {
			t.Fatal(err)
		}
	}
	receive = func() *tikvpb.BatchCommandsResponse {
		t.Helper()
		resp, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if len(resp.Responses) != len(resp.RequestIds) {
			t.Fatalf("%d responses for %d ids", len(resp.Responses), len(resp.RequestIds))
		}
		return resp
	}
	return send, receive
}

func TestDelayedCommandHoldsUpNone(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Regions: 1})
	send, receive := talk(t, c, "k")
	ctx := contextOf(c, []byte("k"))
	slow := &tikvpb.BatchCommandsRequest_Request{Cmd: &tikvpb.BatchCommandsRequest_Request_Empty{
		Empty: &tikvpb.BatchCommandsEmptyRequest{TestId: 7, DelayTime: 300},
	}}
	send([]uint64{1, 2}, slow, get(ctx, "a"))
	send([]uint64{3}, get(ctx, "b"))
	var order []uint64
	for len(order) < 3 {
		resp := receive()
		order = append(order, resp.RequestIds...)
		for i, id := range resp.RequestIds {
			if id == 1 && resp.Responses[i].GetEmpty().GetTestId() != 7 {
				t.Errorf("answer to the slow command: %v", resp.Responses[i])
			}
		}
	}
	if !slices.Equal(order, []uint64{2, 3, 1}) {
		t.Errorf("answers came as %v", order)
	}
}

func TestStalledAndSlowStore(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Regions: 1})
	send, receive := talk(t, c, "k")
	ctx := contextOf(c, []byte("k"))
	leader := ctx.Peer.StoreId

	begin := time.Now()
	if err := c.StallStore(leader, 200*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	send([]uint64{1}, get(ctx, "a"))
	if receive(); time.Since(begin) < 200*time.Millisecond {
		t.Errorf("a stalled store answered after %v", time.Since(begin))
	}

	if err := c.StallStore(leader, time.Hour); err != nil {
		t.Fatal(err)
	}
	send([]uint64{2}, get(ctx, "a"))
	eventually(t, "the command has arrived", func() bool { return c.State().Stores[leader-1].Messages == 2 })
	if err := c.Restore(); err != nil {
		t.Fatal(err)
	}
	receive() // or the test hangs: the end of a stall releases what it held

	if err := c.SlowStore(leader, 100*time.Millisecond, 0.5); err != nil {
		t.Fatal(err)
	}
	var ids []uint64
	var reqs []*tikvpb.BatchCommandsRequest_Request
	for i := range uint64(100) {
		ids, reqs = append(ids, i), append(reqs, get(ctx, fmt.Sprint(i)))
	}
	begin = time.Now()
	send(ids, reqs...)
	fast, at := len(receive().RequestIds), time.Since(begin)
	slow, later := len(receive().RequestIds), time.Since(begin)
	if fast+slow != 100 || fast < 20 || slow < 20 || later < 100*time.Millisecond || at > later-50*time.Millisecond {
		t.Errorf("%d answers after %v, %d after %v", fast, at, slow, later)
	}
	if err := c.SlowStore(leader, 0, 0); err != nil {
		t.Fatal(err)
	}
	if d := c.State().Stores[leader-1].Disturbance; d != nil {
		t.Errorf("still disturbed: %+v", d)
	}
}

func TestRegionErrors(t *testing.T) {
	c := start(t, Options{SplitKeys: [][]byte{[]byte("f"), []byte("m")}})
	s := c.stores[c.topology.routes.Load().find([]byte("g")).leader.StoreId-1]
	follower := c.stores[s.id%3]
	change := func(f func(*kvrpcpb.Context)) *kvrpcpb.Context {
		ctx := *contextOf(c, []byte("g"))
		f(&ctx)
		return &ctx
	}
	for _, tt := range []struct {
		name  string
		store *store
		ctx   *kvrpcpb.Context
		key   string
		want  func(*errorpb.Error) bool
	}{
		{"none", s, contextOf(c, []byte("g")), "g", func(e *errorpb.Error) bool { return e == nil }},
		{"no context", s, nil, "g", func(e *errorpb.Error) bool { return e.GetStoreNotMatch().GetActualStoreId() == s.id }},
		{"other store", follower, contextOf(c, []byte("g")), "g", func(e *errorpb.Error) bool {
			return e.GetStoreNotMatch().GetRequestStoreId() == s.id
		}},
		{"unknown region", s, change(func(x *kvrpcpb.Context) { x.RegionId = 99 }), "g", func(e *errorpb.Error) bool {
			return e.GetRegionNotFound().GetRegionId() == 99
		}},
		{"other peer", s, change(func(x *kvrpcpb.Context) { x.Peer = &metapb.Peer{Id: 999, StoreId: s.id} }), "g", func(e *errorpb.Error) bool {
			return strings.Contains(e.GetMessage(), "mismatch peer id")
		}},
		{
			"follower", follower,
			change(func(x *kvrpcpb.Context) {
				x.Peer = c.topology.routes.Load().find([]byte("g")).peerOn(follower.id)
			}), "g",
			func(e *errorpb.Error) bool { return e.GetNotLeader().GetLeader().GetStoreId() == s.id },
		},
		{"older epoch", s, change(func(x *kvrpcpb.Context) { x.RegionEpoch = &metapb.RegionEpoch{ConfVer: 1} }), "g", func(e *errorpb.Error) bool {
			current := e.GetEpochNotMatch().GetCurrentRegions()
			return len(current) == 2 && string(current[0].StartKey) == "f" && string(current[1].EndKey) == "f"
		}},
		{"other conf_ver", s, change(func(x *kvrpcpb.Context) { x.RegionEpoch = &metapb.RegionEpoch{ConfVer: 9, Version: 1} }), "g", func(e *errorpb.Error) bool {
			return e == nil
		}},
		{"key below", s, contextOf(c, []byte("g")), "e", func(e *errorpb.Error) bool {
			return string(e.GetKeyNotInRegion().GetStartKey()) == "f" && string(e.GetKeyNotInRegion().GetEndKey()) == "m"
		}},
		{"key at the end", s, contextOf(c, []byte("g")), "m", func(e *errorpb.Error) bool { return e.GetKeyNotInRegion() != nil }},
	} {
		resp, err := tt.store.RawGet(t.Context(), &kvrpcpb.RawGetRequest{Context: tt.ctx, Key: []byte(tt.key)})
		if err != nil || !tt.want(resp.RegionError) {
			t.Errorf("%s: %v, %v", tt.name, resp, err)
		}
	}

	// A hint must not point to a store that is gone.
	if err := c.StopStore(s.id); err != nil {
		t.Fatal(err)
	}
	ctx := contextOf(c, []byte("g"))
	ctx.Peer = c.topology.routes.Load().find([]byte("g")).peerOn(follower.id)
	resp, err := follower.RawGet(t.Context(), &kvrpcpb.RawGetRequest{Context: ctx, Key: []byte("g")})
	if err != nil || resp.RegionError.GetNotLeader() == nil || resp.RegionError.NotLeader.Leader != nil {
		t.Errorf("follower of a lost leader: %v, %v", resp, err)
	}
}

func TestRangesKeepToTheirRegion(t *testing.T) {
	c := start(t, Options{SplitKeys: [][]byte{[]byte("f"), []byte("m")}})
	s := c.stores[c.topology.routes.Load().find([]byte("g")).leader.StoreId-1]
	ctx := contextOf(c, []byte("g"))
	for _, tt := range []struct {
		start, end string
		want       func(*errorpb.Error) bool
	}{
		{"g", "m", func(e *errorpb.Error) bool { return e == nil }},
		{"g", "n", func(e *errorpb.Error) bool { return e.GetKeyNotInRegion() != nil }},
		{"a", "g", func(e *errorpb.Error) bool { return e.GetKeyNotInRegion() != nil }},
		{"g", "", func(e *errorpb.Error) bool { return e.GetKeyNotInRegion() != nil }},
		{"h", "g", func(e *errorpb.Error) bool { return e.GetMessage() != "" && e.GetKeyNotInRegion() == nil }},
	} {
		resp, err := s.RawDeleteRange(t.Context(), &kvrpcpb.RawDeleteRangeRequest{Context: ctx, StartKey: []byte(tt.start), EndKey: []byte(tt.end)})
		if err != nil || resp.Error != "" || !tt.want(resp.RegionError) {
			t.Errorf("RawDeleteRange [%s, %s) = %v, %v", tt.start, tt.end, resp, err)
		}
	}
	scan, err := s.RawScan(t.Context(), &kvrpcpb.RawScanRequest{Context: ctx, StartKey: []byte("n"), Limit: 1})
	if err != nil || scan.RegionError.GetKeyNotInRegion() == nil {
		t.Errorf("RawScan from outside = %v, %v", scan, err)
	}
}

func TestRequestErrors(t *testing.T) {
	v1, v2 := start(t, Options{Stores: 1}), start(t, Options{Stores: 1, APIVersion: V2})
	ttl := start(t, Options{Stores: 1, APIVersion: V1TTL})
	background := t.Context()
	at := func(c *Cluster, version kvrpcpb.APIVersion) *kvrpcpb.Context {
		ctx := *contextOf(c, []byte("r\x00\x00\x00k"))
		ctx.ApiVersion = version
		return &ctx
	}
	abort := func(pairs []*kvrpcpb.KvPair) string {
		if len(pairs) != 1 {
			return ""
		}
		return pairs[0].GetError().GetAbort()
	}
	key := []byte("r\x00\x00\x00k")
	for name, tt := range map[string]struct {
		got  func() string
		want string
	}{
		"V2 request to V1": {func() string {
			r, _ := v1.stores[0].RawGet(background, &kvrpcpb.RawGetRequest{Context: at(v1, kvrpcpb.APIVersion_V2), Key: key})
			return r.Error
		}, "Api version in request does not match"},
		"V1 request to V2": {func() string {
			r, _ := v2.stores[0].RawBatchGet(background, &kvrpcpb.RawBatchGetRequest{Context: at(v2, kvrpcpb.APIVersion_V1), Keys: [][]byte{key}})
			return abort(r.Pairs)
		}, "Api version in request does not match"},
		"V1TTL request to V1TTL": {func() string {
			r, _ := ttl.stores[0].RawGet(background, &kvrpcpb.RawGetRequest{Context: at(ttl, kvrpcpb.APIVersion_V1TTL), Key: key})
			return r.Error
		}, "Api version in request does not match"},
		"no prefix under V2": {func() string {
			r, _ := v2.stores[0].RawScan(background, &kvrpcpb.RawScanRequest{Context: at(v2, kvrpcpb.APIVersion_V2), StartKey: []byte("k"), Limit: 1})
			return abort(r.Kvs)
		}, "Key mode mismatched"},
		"column family under V2": {func() string {
			r, _ := v2.stores[0].RawPut(background, &kvrpcpb.RawPutRequest{Context: at(v2, kvrpcpb.APIVersion_V2), Key: key, Cf: "default"})
			return r.Error
		}, "invalid cf name"},
		"number of TTLs": {func() string {
			r, _ := ttl.stores[0].RawBatchPut(background, &kvrpcpb.RawBatchPutRequest{
				Context: at(ttl, kvrpcpb.APIVersion_V1), Pairs: make3(key), Ttls: []uint64{1, 2},
			})
			return r.Error
		}, "length of ttls"},
		"TTL of a key under V1": {func() string {
			r, _ := v1.stores[0].RawGetKeyTTL(background, &kvrpcpb.RawGetKeyTTLRequest{Context: at(v1, kvrpcpb.APIVersion_V1), Key: key})
			return r.Error
		}, "ttl is not enabled"},
	} {
		if got := tt.got(); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	r, err := v1.stores[0].RawPut(background, &kvrpcpb.RawPutRequest{Context: at(v1, kvrpcpb.APIVersion_V1), Key: key, Value: make([]byte, maxRaftEntry)})
	if err != nil || r.RegionError.GetRaftEntryTooLarge() == nil {
		t.Errorf("RawPut of 8 MiB: %v, %v", r.RegionError, err)
	}
	// A deleted key of API V2 is still there, without a TTL; one that never was is not.
	del, err := v2.stores[0].RawDelete(background, &kvrpcpb.RawDeleteRequest{Context: at(v2, kvrpcpb.APIVersion_V2), Key: key})
	if err != nil || del.Error != "" || del.RegionError != nil {
		t.Fatalf("RawDelete = %v, %v", del, err)
	}
	left, err := v2.stores[0].RawGetKeyTTL(background, &kvrpcpb.RawGetKeyTTLRequest{Context: at(v2, kvrpcpb.APIVersion_V2), Key: key})
	if err != nil || left.NotFound || left.Ttl != 0 || left.Error != "" || left.RegionError != nil {
		t.Errorf("RawGetKeyTTL of a deleted key = %v, %v", left, err)
	}
}

func make3(key []byte) (pairs []*kvrpcpb.KvPair) {
	for i := range 3 {
		pairs = append(pairs, &kvrpcpb.KvPair{Key: append(slices.Clone(key), byte(i))})
	}
	return pairs
}

func TestUnarySplitRegion(t *testing.T) {
	for _, version := range []APIVersion{V1, V2} {
		c := start(t, Options{Stores: 1, Regions: 1, APIVersion: version})
		k := []byte("r\x00\x00\x00k")
		resp, err := c.stores[0].SplitRegion(t.Context(), &kvrpcpb.SplitRegionRequest{Context: contextOf(c, k), SplitKeys: [][]byte{k}, IsRawKv: true})
		if err != nil || resp.RegionError != nil || len(resp.Regions) != 2 {
			t.Fatalf("%s: SplitRegion = %v, %v", version, resp, err)
		}
		want := k
		if version == V2 {
			want = codec.EncodeBytes(nil, k)
		}
		if string(resp.Right.StartKey) != string(want) || string(resp.Left.EndKey) != string(want) {
			t.Errorf("%s: split at %q, want %q", version, resp.Right.StartKey, want)
		}
	}
}

// TestEveryCommandGetsItsResponse sends every command that a BatchCommands message can hold: a client panics on a response of
// another type.
func TestEveryCommandGetsItsResponse(t *testing.T) {
	c := start(t, Options{Regions: 1})
	send, receive := talk(t, c, "k")
	for _, alternative := range (*tikvpb.BatchCommandsRequest_Request)(nil).XXX_OneofWrappers() {
		wrapper := reflect.New(reflect.TypeOf(alternative).Elem())
		field := wrapper.Elem().Field(0)
		field.Set(reflect.New(field.Type().Elem()))
		req := &tikvpb.BatchCommandsRequest_Request{}
		reflect.ValueOf(req).Elem().FieldByName("Cmd").Set(wrapper)
		send([]uint64{5}, req)
		resp := receive()
		if len(resp.Responses) != 1 || resp.Responses[0].Cmd == nil {
			t.Errorf("%T: %v", alternative, resp)
			continue
		}
		got := reflect.TypeOf(resp.Responses[0].Cmd).Elem().Field(0).Name
		if want := wrapper.Elem().Type().Field(0).Name; got != want {
			t.Errorf("command %s is answered as %s", want, got)
		}
	}
	send([]uint64{6}, &tikvpb.BatchCommandsRequest_Request{})
	if resp := receive(); len(resp.Responses) != 1 || resp.Responses[0].Cmd != nil {
		t.Errorf("a request without a command is answered by %v", resp)
	}
}

func load(x *exchange, message []byte) error {
	return x.readFrom(mem.NewBuffer(&message, nil))
}

// FuzzBatchCommands gives arbitrary bytes to the decoder of messages, which must agree with the generated one, and what decodes to
// a store.
func FuzzBatchCommands(f *testing.F) {
	c, err := Start(f.Context(), Options{Stores: 1, Regions: 1, APIVersion: V1TTL})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { c.Close() })
	ctx := contextOf(c, nil)
	raw := []*tikvpb.BatchCommandsRequest_Request{
		get(ctx, "k"),
		{Cmd: &tikvpb.BatchCommandsRequest_Request_RawPut{RawPut: &kvrpcpb.RawPutRequest{Context: ctx, Key: []byte("k"), Value: []byte("v"), Ttl: 3, ForCas: true, Cf: "lock"}}},
		{Cmd: &tikvpb.BatchCommandsRequest_Request_RawBatchPut{RawBatchPut: &kvrpcpb.RawBatchPutRequest{Context: ctx, Pairs: make3([]byte("k")), Ttls: []uint64{1, 2, 3}, Ttl: 4}}},
		{Cmd: &tikvpb.BatchCommandsRequest_Request_RawBatchGet{RawBatchGet: &kvrpcpb.RawBatchGetRequest{Context: ctx, Keys: [][]byte{[]byte("k"), nil}}}},
		{Cmd: &tikvpb.BatchCommandsRequest_Request_RawDelete{RawDelete: &kvrpcpb.RawDeleteRequest{Context: ctx, Key: []byte("k")}}},
		{Cmd: &tikvpb.BatchCommandsRequest_Request_RawBatchDelete{RawBatchDelete: &kvrpcpb.RawBatchDeleteRequest{Context: ctx, Keys: [][]byte{[]byte("k")}}}},
		{Cmd: &tikvpb.BatchCommandsRequest_Request_RawScan{RawScan: &kvrpcpb.RawScanRequest{Context: ctx, Limit: 3, Reverse: true}}},
		{Cmd: &tikvpb.BatchCommandsRequest_Request_RawDeleteRange{RawDeleteRange: &kvrpcpb.RawDeleteRangeRequest{Context: ctx, StartKey: []byte("a")}}},
		{Cmd: &tikvpb.BatchCommandsRequest_Request_Get{Get: &kvrpcpb.GetRequest{Key: []byte("k")}}},
		{},
	}
	seed := &tikvpb.BatchCommandsRequest{}
	for i, req := range raw {
		one := &tikvpb.BatchCommandsRequest{Requests: []*tikvpb.BatchCommandsRequest_Request{req}, RequestIds: []uint64{uint64(i)}}
		data, err := one.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		seed.Requests, seed.RequestIds = append(seed.Requests, req), append(seed.RequestIds, uint64(i))
	}
	data, err := seed.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte{0x0a, 0xff, 0xff})
	x := newExchange()
	f.Fuzz(func(t *testing.T, message []byte) {
		want := &tikvpb.BatchCommandsRequest{}
		wantErr := want.Unmarshal(message)
		if err := load(x, message); err != nil {
			return
		}
		if wantErr == nil {
			agree(t, x, want)
		}
		x.begin(c.stores[0])
		x.reset()
		for _, s := range x.slots[:x.used] {
			x.serve(s)
		}
		if err := x.finish(); err != nil {
			t.Fatal(err)
		}
		if _, err := x.answers.Marshal(); err != nil {
			t.Fatal(err)
		}
	})
}

// agree compares a decoded message with what the generated decoder makes of it, as far as the decoder of this package cares.
func agree(t *testing.T, x *exchange, want *tikvpb.BatchCommandsRequest) {
	t.Helper()
	if n := min(len(want.Requests), len(want.RequestIds)); n != x.used {
		t.Fatalf("%d commands, want %d", x.used, n)
	}
	for i, s := range x.slots[:x.used] {
		var got, expect fmt.Stringer
		switch cmd := want.Requests[i].Cmd.(type) {
		case *tikvpb.BatchCommandsRequest_Request_RawGet:
			cmd.RawGet.XXX_unrecognized = nil
			got, expect = &s.get.req, cmd.RawGet
		case *tikvpb.BatchCommandsRequest_Request_RawPut:
			cmd.RawPut.XXX_unrecognized = nil
			got, expect = &s.put.req, cmd.RawPut
		case *tikvpb.BatchCommandsRequest_Request_RawDelete:
			cmd.RawDelete.XXX_unrecognized = nil
			got, expect = &s.del.req, cmd.RawDelete
		case *tikvpb.BatchCommandsRequest_Request_RawBatchGet:
			cmd.RawBatchGet.XXX_unrecognized = nil
			got, expect = &s.batchGet.req, cmd.RawBatchGet
		case *tikvpb.BatchCommandsRequest_Request_RawBatchPut:
			cmd.RawBatchPut.XXX_unrecognized = nil
			for _, pair := range cmd.RawBatchPut.Pairs {
				pair.Error, pair.XXX_unrecognized = nil, nil
			}
			got, expect = &s.batchPut.req, cmd.RawBatchPut
		case nil:
			got, expect = s.cmd, cmdUnset
		default:
			got, expect = &s.other, want.Requests[i]
		}
		if s.id != want.RequestIds[i] || got.String() != expect.String() {
			t.Fatalf("command %d: %v\nwant %v", i, got, expect)
		}
	}
}

func TestServingAllocatesNothing(t *testing.T) {
	c := start(t, Options{Stores: 1, Regions: 1})
	ctx := contextOf(c, nil)
	req := &tikvpb.BatchCommandsRequest{}
	for i := range uint64(100) {
		put := &tikvpb.BatchCommandsRequest_Request{Cmd: &tikvpb.BatchCommandsRequest_Request_RawPut{
			RawPut: &kvrpcpb.RawPutRequest{Context: ctx, Key: fmt.Appendf(nil, "k%d", i), Value: []byte("value")},
		}}
		req.Requests, req.RequestIds = append(req.Requests, put, get(ctx, fmt.Sprintf("k%d", i))), append(req.RequestIds, 2*i, 2*i+1)
	}
	data, err := req.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	x := newExchange()
	serve := func() {
		if err := load(x, data); err != nil {
			t.Fatal(err)
		}
		if err := c.stores[0].serve(c.stores[0].stats.thread(t.Context()), x, x.slots[:x.used], nil, func(*exchange) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	serve()
	// Pools lose some of what they hold under the race detector.
	if perCommand := testing.AllocsPerRun(100, serve) / float64(len(req.Requests)); perCommand > 0.5 {
		t.Errorf("%.2f allocations per command", perCommand)
	}
}
