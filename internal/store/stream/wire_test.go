// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/tikvpb"

	"github.com/kvbench/kvbench/internal/store"
)

func keysOf(n int, format string) [][]byte {
	var ks [][]byte
	for i := range n {
		ks = append(ks, fmt.Appendf(nil, format, i))
	}
	return ks
}

// What is encoded here, the generated code reads as it was meant.
func TestEncode(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	for _, prefix := range []string{"", "r\x00\x00\x01"} {
		r := newRig(t, prefix, Config{})
		r.dialect.end = []byte("END")
		if prefix == "" {
			r.dialect.end = nil
		}
		full := func(k []byte) []byte { return append([]byte(prefix), k...) }
		for i := range 500 {
			r.dialect.cf = []string{"", "lock"}[i%2]
			big := make([]byte, rng.IntN(300)) // lengths of one byte and of two
			ttl := uint64(i % 3 * 100)
			ks := keysOf(1+rng.IntN(20), "key%d")
			vs := make([][]byte, len(ks))
			for j := range vs {
				vs[j] = big[:rng.IntN(len(big)+1)]
			}
			r.Submit(&store.Call{Verb: store.Get, Keys: ks[:1]})
			r.Submit(&store.Call{Verb: store.Put, Keys: ks[:1], Values: vs[:1], TTL: ttl})
			r.Submit(&store.Call{Verb: store.Delete, Keys: ks[:1]})
			r.Submit(&store.Call{Verb: store.Get, Keys: append(ks, []byte("another"))})
			r.Submit(&store.Call{Verb: store.Put, Keys: append(ks, []byte("another")), Values: append(vs, nil), TTL: ttl})
			r.Submit(&store.Call{Verb: store.Delete, Keys: append(ks, []byte("another"))})
			r.Submit(&store.Call{Verb: store.Scan, Keys: ks[:1], Limit: 1 + i, KeyOnly: i%2 == 0})
			r.Submit(&store.Call{Verb: store.Scan, Keys: ks[:1], EndKey: []byte("z"), Limit: 1 + i})
			m := r.sent()
			if m == nil || len(m.Requests) != 8 || len(m.RequestIds) != 8 {
				t.Fatalf("sent %v", m)
			}
			q := m.Requests
			check := func(what string, ok bool) {
				t.Helper()
				if !ok {
					t.Fatalf("%s: %v", what, q)
				}
			}
			cf := r.dialect.cf
			g := q[0].GetRawGet()
			check("get", bytes.Equal(g.Key, full(ks[0])) && g.Cf == cf && g.Context.RegionId == 7 && g.Context.Peer.Id == 3)
			p := q[1].GetRawPut()
			check("put", bytes.Equal(p.Key, full(ks[0])) && bytes.Equal(p.Value, vs[0]) && p.Ttl == ttl && p.Cf == cf && p.Context.RegionId == 7)
			d := q[2].GetRawDelete()
			check("delete", bytes.Equal(d.Key, full(ks[0])) && d.Cf == cf && d.Context.RegionId == 7)
			bg, bp, bd := q[3].GetRawBatchGet(), q[4].GetRawBatchPut(), q[5].GetRawBatchDelete()
			check("batches", len(bg.Keys) == len(ks)+1 && len(bp.Pairs) == len(ks)+1 && len(bd.Keys) == len(ks)+1 &&
				bg.Cf == cf && bp.Cf == cf && bd.Cf == cf && bg.Context.RegionId == 7 && bp.Context.RegionId == 7 && bd.Context.RegionId == 7)
			check("ttls", ttl == 0 && len(bp.Ttls) == 0 || ttl > 0 && len(bp.Ttls) == 1 && bp.Ttls[0] == ttl)
			for j, k := range ks {
				check("keys", bytes.Equal(bg.Keys[j], full(k)) && bytes.Equal(bd.Keys[j], full(k)) &&
					bytes.Equal(bp.Pairs[j].Key, full(k)) && bytes.Equal(bp.Pairs[j].Value, vs[j]))
			}
			s, e := q[6].GetRawScan(), q[7].GetRawScan()
			check("scan", bytes.Equal(s.StartKey, full(ks[0])) && string(s.EndKey) == string(r.dialect.end) && int(s.Limit) == 1+i &&
				s.KeyOnly == (i%2 == 0) && s.Cf == cf && s.Context.RegionId == 7 && !s.Reverse)
			check("scan to an end", bytes.Equal(e.EndKey, full([]byte("z"))) && !e.KeyOnly)
			r.Cancel()
			if n := len(r.wait()); n != 8 {
				t.Fatalf("%d calls came back", n)
			}
		}
	}
}

// answerTo returns a right answer: every value is its key, said twice.
func answerTo(q *tikvpb.BatchCommandsRequest_Request) *tikvpb.BatchCommandsResponse_Response {
	pairs := func(ks [][]byte) (ps []*kvrpcpb.KvPair) {
		for _, k := range ks {
			ps = append(ps, &kvrpcpb.KvPair{Key: k, Value: append(k[:len(k):len(k)], k...)})
		}
		return ps
	}
	switch c := q.Cmd.(type) {
	case *tikvpb.BatchCommandsRequest_Request_RawGet:
		return &tikvpb.BatchCommandsResponse_Response{Cmd: &tikvpb.BatchCommandsResponse_Response_RawGet{
			RawGet: &kvrpcpb.RawGetResponse{Value: append(c.RawGet.Key[:len(c.RawGet.Key):len(c.RawGet.Key)], c.RawGet.Key...)}}}
	case *tikvpb.BatchCommandsRequest_Request_RawPut:
		return &tikvpb.BatchCommandsResponse_Response{Cmd: &tikvpb.BatchCommandsResponse_Response_RawPut{RawPut: &kvrpcpb.RawPutResponse{}}}
	case *tikvpb.BatchCommandsRequest_Request_RawBatchGet:
		return &tikvpb.BatchCommandsResponse_Response{Cmd: &tikvpb.BatchCommandsResponse_Response_RawBatchGet{
			RawBatchGet: &kvrpcpb.RawBatchGetResponse{Pairs: pairs(c.RawBatchGet.Keys)}}}
	case *tikvpb.BatchCommandsRequest_Request_RawScan:
		return &tikvpb.BatchCommandsResponse_Response{Cmd: &tikvpb.BatchCommandsResponse_Response_RawScan{
			RawScan: &kvrpcpb.RawScanResponse{Kvs: pairs([][]byte{c.RawScan.StartKey})}}}
	}
	return nil
}

// Answers come in any order and grouping, late ones and those to calls given up among them.
func TestAnswers(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", Config{})
	rng := rand.New(rand.NewPCG(2, 2))
	type open struct {
		id uint64
		q  *tikvpb.BatchCommandsRequest_Request
	}
	var out []open
	flying := map[*store.Call]bool{}
	for round := range 3000 {
		for i := range rng.IntN(5) {
			c := &store.Call{Verb: store.Get, Keys: keysOf(1+rng.IntN(3), fmt.Sprintf("k%d-%d-%%d", round, i))}
			flying[c] = true
			r.Submit(c)
		}
		if m := r.sent(); m != nil {
			for i := range m.RequestIds {
				out = append(out, open{m.RequestIds[i], m.Requests[i]})
			}
		}
		if round%100 == 99 {
			r.Cancel()
			for _, c := range r.wait() {
				if c.Class != store.Cancelled || !flying[c] {
					t.Fatalf("%v: %v", c.Keys, c.Class)
				}
				delete(flying, c)
			}
		}
		rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
		m := new(tikvpb.BatchCommandsResponse)
		for range rng.IntN(len(out) + 1) {
			o := out[len(out)-1]
			out = out[:len(out)-1]
			m.RequestIds = append(m.RequestIds, o.id)
			m.Responses = append(m.Responses, answerTo(o.q))
		}
		for _, c := range r.respond(m) {
			if !flying[c] || c.Class != store.OK || c.RPCs != 1 {
				t.Fatalf("%q: %v %v, %d RPCs", c.Keys, c.Class, c.Err, c.RPCs)
			}
			delete(flying, c)
			for i, k := range c.Keys {
				if string(c.Found[i]) != string(k)+string(k) {
					t.Fatalf("%q has %q", k, c.Found[i])
				}
			}
		}
	}
	if r.link.state != up {
		t.Error("the stream was given up")
	}
	if len(flying) > len(out) {
		t.Errorf("%d calls in flight, %d commands", len(flying), len(out))
	}
}

// What makes no sense ends the stream, and what was on it goes another way.
func TestNonsense(t *testing.T) {
	t.Parallel()
	get := func(value string) *tikvpb.BatchCommandsResponse_Response {
		return &tikvpb.BatchCommandsResponse_Response{Cmd: &tikvpb.BatchCommandsResponse_Response_RawGet{RawGet: &kvrpcpb.RawGetResponse{Value: []byte(value)}}}
	}
	batch := func(pairs ...*kvrpcpb.KvPair) *tikvpb.BatchCommandsResponse_Response {
		return &tikvpb.BatchCommandsResponse_Response{Cmd: &tikvpb.BatchCommandsResponse_Response_RawBatchGet{RawBatchGet: &kvrpcpb.RawBatchGetResponse{Pairs: pairs}}}
	}
	scan := func(keys ...string) *tikvpb.BatchCommandsResponse_Response {
		m := &kvrpcpb.RawScanResponse{}
		for _, k := range keys {
			m.Kvs = append(m.Kvs, &kvrpcpb.KvPair{Key: []byte(k)})
		}
		return &tikvpb.BatchCommandsResponse_Response{Cmd: &tikvpb.BatchCommandsResponse_Response_RawScan{RawScan: m}}
	}
	type responses = []*tikvpb.BatchCommandsResponse_Response
	for _, test := range []struct {
		name string
		make func(ids []uint64) *tikvpb.BatchCommandsResponse // to: get a, get b, batch get a b, scan a..m limit 2
		done int
	}{
		{"an unknown id", func(ids []uint64) *tikvpb.BatchCommandsResponse {
			return &tikvpb.BatchCommandsResponse{RequestIds: []uint64{ids[0] + 1<<40}, Responses: responses{get("x")}}
		}, 0},
		{"an id of no part", func(ids []uint64) *tikvpb.BatchCommandsResponse {
			return &tikvpb.BatchCommandsResponse{RequestIds: []uint64{ids[0] | slotMask}, Responses: responses{get("x")}}
		}, 0},
		{"more ids than answers", func(ids []uint64) *tikvpb.BatchCommandsResponse {
			return &tikvpb.BatchCommandsResponse{RequestIds: ids, Responses: responses{get("x")}}
		}, 0},
		{"two answers to one command", func(ids []uint64) *tikvpb.BatchCommandsResponse {
			return &tikvpb.BatchCommandsResponse{RequestIds: []uint64{ids[0], ids[0]}, Responses: responses{get("x"), get("y")}}
		}, 1},
		{"an answer of another kind", func(ids []uint64) *tikvpb.BatchCommandsResponse {
			return &tikvpb.BatchCommandsResponse{RequestIds: ids[:1], Responses: responses{batch()}}
		}, 0},
		{"an empty answer", func(ids []uint64) *tikvpb.BatchCommandsResponse {
			return &tikvpb.BatchCommandsResponse{RequestIds: ids[:2], Responses: responses{get("x"), {}}}
		}, 1},
		{"a key that was not asked for", func(ids []uint64) *tikvpb.BatchCommandsResponse {
			return &tikvpb.BatchCommandsResponse{RequestIds: ids[2:3], Responses: responses{batch(&kvrpcpb.KvPair{Key: []byte("c")})}}
		}, 0},
		{"a scan beyond its end", func(ids []uint64) *tikvpb.BatchCommandsResponse {
			return &tikvpb.BatchCommandsResponse{RequestIds: ids[3:], Responses: responses{scan("b", "x")}}
		}, 0},
		{"a scan beyond its limit", func(ids []uint64) *tikvpb.BatchCommandsResponse {
			return &tikvpb.BatchCommandsResponse{RequestIds: ids[3:], Responses: responses{scan("b", "c", "d")}}
		}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, "", Config{})
			calls := []*store.Call{
				{Verb: store.Get, Keys: keysOf(1, "a")}, {Verb: store.Get, Keys: keysOf(1, "b")},
				{Verb: store.Get, Keys: [][]byte{[]byte("a"), []byte("b")}},
				{Verb: store.Scan, Keys: keysOf(1, "a"), EndKey: []byte("m"), Limit: 2},
			}
			calls[0].Keys, calls[1].Keys, calls[3].Keys = [][]byte{[]byte("a")}, [][]byte{[]byte("b")}, [][]byte{[]byte("a")}
			for _, c := range calls {
				r.Submit(c)
			}
			done := r.respond(test.make(r.sent().RequestIds))
			if len(done) != test.done || r.link.state != broken || len(r.fallbacks.waiting) != len(calls)-test.done {
				t.Errorf("%d calls done, %d on fallbacks, link state %d", len(done), len(r.fallbacks.waiting), r.link.state)
			}
			if n := len(calls[3].FoundKeys) + len(calls[3].Found); n > 0 {
				t.Error("a scan keeps what it should not have found")
			}
		})
	}
}

func TestRegionErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err    *errorpb.Error
		cause  Cause
		forget bool
	}{
		{&errorpb.Error{NotLeader: &errorpb.NotLeader{Leader: &metapb.Peer{Id: 9}}}, NotLeader, true},
		{&errorpb.Error{NotLeader: &errorpb.NotLeader{}}, NotLeader, true},
		{&errorpb.Error{EpochNotMatch: &errorpb.EpochNotMatch{}}, EpochNotMatch, true},
		{&errorpb.Error{RegionNotFound: &errorpb.RegionNotFound{}}, RegionNotFound, true},
		{&errorpb.Error{ServerIsBusy: &errorpb.ServerIsBusy{}}, Busy, false},
		{&errorpb.Error{Message: "whatever"}, RegionError, true},
	} {
		r := newRig(t, "", Config{})
		r.Submit(&store.Call{Verb: store.Get, Keys: keysOf(1, "k")})
		m := &tikvpb.BatchCommandsResponse{RequestIds: r.sent().RequestIds, Responses: []*tikvpb.BatchCommandsResponse_Response{
			{Cmd: &tikvpb.BatchCommandsResponse_Response_RawGet{RawGet: &kvrpcpb.RawGetResponse{RegionError: test.err}}},
		}}
		if done := r.respond(m); len(done) > 0 || len(r.fallbacks.waiting) != 1 {
			t.Errorf("%v: done %d, fallbacks %d", test.err, len(done), len(r.fallbacks.waiting))
		}
		if n := r.link.connection.count.fallbacks[test.cause].Load(); n != 1 || (len(r.routes.list) == 0) != test.forget || r.link.state != up {
			t.Errorf("%v: counted %d, %d routes left, link state %d", test.err, n, len(r.routes.list), r.link.state)
		}
	}
}

// A message is sent when it is full, or its first command has lingered.
func TestLinger(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", Config{MaxBatch: 3, Linger: 100})
	submit := func() { r.Submit(&store.Call{Verb: store.Get, Keys: keysOf(1, "k")}) }
	submit()
	submit()
	if r.sent() != nil {
		t.Error("sent at once")
	}
	if next := r.flush(store.Forever); next != 100 {
		t.Errorf("wants to be asked again at %d", next)
	}
	submit()
	submit()
	if m := r.sent(); m == nil || len(m.Requests) != 3 {
		t.Errorf("a full message was not sent: %v", m)
	}
	if r.sent() != nil {
		t.Error("the rest was sent at once")
	}
	r.clock.Set(100)
	if m := r.sent(); m == nil || len(m.Requests) != 1 {
		t.Errorf("the rest was not sent in time: %v", m)
	}
	if sent := r.counts.addTo(nil)[1]; sent.Messages != 2 || sent.Commands != 4 || sent.Sizes[1] != 1 || sent.Sizes[3] != 1 {
		t.Errorf("counted %+v", sent)
	}
}

// A command that was given up before it was sent is not sent.
func TestGivenUpIsNotSent(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", Config{Timeout: 10, Linger: time.Hour})
	put := func(k string) {
		r.Submit(&store.Call{Verb: store.Put, Keys: [][]byte{[]byte(k)}, Values: keysOf(1, "v"), Start: r.clk.Now()})
	}
	put("early")
	r.clock.Set(5)
	put("late-1")
	put("late-2")
	r.clock.Set(10)
	if done := r.wait(); len(done) != 1 || done[0].Class != store.Timeout || done[0].End != 10 {
		t.Fatalf("%v", done)
	}
	r.config.Linger = 0
	m := r.sent()
	if m == nil || len(m.Requests) != 2 || string(m.Requests[0].GetRawPut().Key) != "late-1" || string(m.Requests[1].GetRawPut().Key) != "late-2" {
		t.Fatalf("sent %v", m)
	}
}

// In steady state the driver allocates nothing for a call, from Submit to Wait.
func TestAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes sync.Pool forgetful")
	}
	for _, verb := range []store.Verb{store.Get, store.Put} {
		for _, n := range []int{1, 20} {
			r := newRig(t, "", Config{Timeout: time.Second})
			const calls = 50
			var cs []*store.Call
			for i := range calls {
				c := &store.Call{Verb: verb, Keys: keysOf(n, fmt.Sprintf("key%d-%%d", i)), Values: keysOf(n, "value%d")}
				cs = append(cs, c)
			}
			// The ids differ from round to round, so the answers are made of the last message.
			var reply []byte
			var made tikvpb.BatchCommandsResponse
			value := []byte("a value")
			getResponse := tikvpb.BatchCommandsResponse_Response{Cmd: &tikvpb.BatchCommandsResponse_Response_RawGet{RawGet: &kvrpcpb.RawGetResponse{Value: value}}}
			putResponse := tikvpb.BatchCommandsResponse_Response{Cmd: &tikvpb.BatchCommandsResponse_Response_RawPut{RawPut: &kvrpcpb.RawPutResponse{}}}
			batchGetResponse := tikvpb.BatchCommandsResponse_Response{Cmd: &tikvpb.BatchCommandsResponse_Response_RawBatchGet{RawBatchGet: &kvrpcpb.RawBatchGetResponse{}}}
			batchPutResponse := tikvpb.BatchCommandsResponse_Response{Cmd: &tikvpb.BatchCommandsResponse_Response_RawBatchPut{RawBatchPut: &kvrpcpb.RawBatchPutResponse{}}}
			response := map[store.Verb]map[int]*tikvpb.BatchCommandsResponse_Response{
				store.Get: {1: &getResponse, 20: &batchGetResponse}, store.Put: {1: &putResponse, 20: &batchPutResponse},
			}[verb][n]
			for range calls {
				made.Responses = append(made.Responses, response)
			}
			round := func() {
				for _, c := range cs {
					r.Submit(c)
				}
				r.flush(store.Forever)
				made.RequestIds = made.RequestIds[:0]
				for _, p := range r.parts {
					if p.link != nil {
						made.RequestIds = append(made.RequestIds, p.id)
					}
				}
				o := <-r.link.out
				buffers.Put(o.data)
				size := made.Size()
				if cap(reply) < size {
					reply = make([]byte, size)
				}
				if _, err := made.MarshalToSizedBuffer(reply[:size]); err != nil {
					t.Fatal(err)
				}
				r.receive(r.link, reply[:size], 0)
				if done := r.wait(); len(done) != calls || done[0].Class != store.OK {
					t.Fatalf("%d calls done, the first: %v", len(done), done[0].Err)
				}
			}
			round()
			round()
			// One is the test's own: the generated code encodes the ids by way of another slice.
			if got := testing.AllocsPerRun(100, round); got > 1 {
				t.Errorf("%v of %d keys: %v allocations for %d calls", verb, n, got, calls)
			}
		}
	}
}
