// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"

	"github.com/kvbench/kvbench/internal/store"
)

// FuzzReceive lets the driver receive what a store could never have meant.
func FuzzReceive(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, []byte{})
	f.Add([]byte{0, 0, 4, 4, 8, 8}, []byte{1, 2, 3})
	f.Add([]byte{1, 9, 17, 25}, []byte{0x12, 1, 1})
	f.Fuzz(func(t *testing.T, script, garbage []byte) {
		r := newRig(t, "p", Config{})
		var calls []*store.Call
		for i := range 8 {
			calls = append(calls,
				&store.Call{Verb: store.Get, Keys: keysOf(1, fmt.Sprint("get", i, "-%d"))},
				&store.Call{Verb: store.Put, Keys: keysOf(1, fmt.Sprint("put", i, "-%d")), Values: keysOf(1, "v%d")},
				&store.Call{Verb: store.Get, Keys: keysOf(3, fmt.Sprint("batch", i, "-%d"))},
				&store.Call{Verb: store.Scan, Keys: keysOf(1, fmt.Sprint("scan", i, "-%d")), Limit: 1})
		}
		for i, c := range calls {
			c.Owner = i
			r.Submit(c)
		}
		m := r.sent()
		returned := make([]int, len(calls))
		take := func(done []*store.Call) {
			for _, c := range done {
				returned[c.Owner]++
				if c.Class != store.OK || c.Verb == store.Put {
					continue
				}
				if c.Verb == store.Scan && len(c.Found) != len(c.FoundKeys) {
					t.Fatalf("%d keys and %d values", len(c.FoundKeys), len(c.Found))
				}
				ks := c.Keys
				if c.Verb == store.Scan {
					ks = c.FoundKeys
				}
				for i, v := range c.Found {
					if want := "p" + string(ks[i]) + "p" + string(ks[i]); len(v) > 0 && string(v) != want && !bytes.Contains(garbage, v) {
						t.Fatalf("%q has %q, which nobody said", ks[i], v)
					}
				}
			}
		}
		for i := 0; i+2 < len(script); i += 3 {
			at := int(script[i]) % len(m.RequestIds)
			other := int(script[i+1]) % len(m.RequestIds)
			reply := &tikvpb.BatchCommandsResponse{RequestIds: []uint64{m.RequestIds[at]}, Responses: []*tikvpb.BatchCommandsResponse_Response{answerTo(m.Requests[at])}}
			switch script[i+2] % 8 {
			case 0: // a wrong id
				reply.RequestIds[0] += uint64(script[i+1])
			case 1: // the answer to another command
				if fmt.Sprintf("%T", m.Requests[at].Cmd) != fmt.Sprintf("%T", m.Requests[other].Cmd) || at == other {
					reply.Responses[0] = answerTo(m.Requests[other])
				}
			case 2: // twice
				reply.RequestIds = append(reply.RequestIds, reply.RequestIds[0])
				reply.Responses = append(reply.Responses, reply.Responses[0])
			case 3: // nothing in it
				reply.Responses[0] = &tikvpb.BatchCommandsResponse_Response{}
			case 4: // an answer missing
				reply.RequestIds = append(reply.RequestIds, m.RequestIds[other])
			case 5: // garbage
				take(r.reply(garbage))
				continue
			case 6: // cut off
				data, _ := reply.Marshal()
				take(r.reply(data[:int(script[i+1])%(len(data)+1)]))
				continue
			}
			take(r.respond(reply))
		}
		r.Cancel()
		take(r.wait())
		for i, n := range returned {
			if n != 1 {
				t.Fatalf("call %d came back %d times", i, n)
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	m, _ := (&tikvpb.BatchCommandsResponse{RequestIds: []uint64{1, 300}, Responses: []*tikvpb.BatchCommandsResponse_Response{
		answerTo(&tikvpb.BatchCommandsRequest_Request{Cmd: &tikvpb.BatchCommandsRequest_Request_RawGet{RawGet: &kvrpcpb.RawGetRequest{Key: []byte("k")}}}),
		answerTo(&tikvpb.BatchCommandsRequest_Request{Cmd: &tikvpb.BatchCommandsRequest_Request_RawBatchGet{RawBatchGet: &kvrpcpb.RawBatchGetRequest{Keys: keysOf(3, "k%d")}}}),
	}}).Marshal()
	f.Add(m)
	f.Fuzz(func(t *testing.T, data []byte) {
		var want tikvpb.BatchCommandsResponse
		wantErr := want.Unmarshal(data)
		var got responses
		if err := got.parse(data); err != nil || wantErr != nil {
			return // the generated code is lenient here, strict there; what both take must be the same
		}
		if fmt.Sprint(got.ids) != fmt.Sprint(want.RequestIds) {
			t.Fatalf("ids %v, want %v", got.ids, want.RequestIds)
		}
		for i, body := range got.bodies {
			var a answer
			if a.parse(body, cmdRawGet) != nil {
				continue
			}
			g := want.Responses[i].GetRawGet()
			if g == nil || !bytes.Equal(a.value, g.Value) || a.notFound != g.NotFound || string(a.text) != g.Error || (a.regionError != nil) != (g.RegionError != nil) {
				t.Fatalf("%+v, want %v", a, g)
			}
		}
	})
}
