// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// exchange is one BatchCommands message and the answers to it. It is used again for the next message of its stream, with all its
// memory, so that serving a load allocates nothing.
type exchange struct {
	call
	arrived  time.Time
	contexts contexts
	buf      mem.Buffer // what the requests alias
	slots    []*slot
	used     int
	ids      []uint64
	answers  tikvpb.BatchCommandsResponse
}

// slot is one command: its request, and the response that will be sent for it.
type slot struct {
	id  uint64
	cmd command

	get      getSlot
	put      putSlot
	del      deleteSlot
	batchGet batchGetSlot
	batchPut batchPutSlot
	other    tikvpb.BatchCommandsRequest_Request

	answer tikvpb.BatchCommandsResponse_Response
}

type getSlot struct {
	req  kvrpcpb.RawGetRequest
	resp kvrpcpb.RawGetResponse
	tikvpb.BatchCommandsResponse_Response_RawGet
}

type putSlot struct {
	req  kvrpcpb.RawPutRequest
	resp kvrpcpb.RawPutResponse
	tikvpb.BatchCommandsResponse_Response_RawPut
}

type deleteSlot struct {
	req  kvrpcpb.RawDeleteRequest
	resp kvrpcpb.RawDeleteResponse
	tikvpb.BatchCommandsResponse_Response_RawDelete
}

type batchGetSlot struct {
	req  kvrpcpb.RawBatchGetRequest
	resp kvrpcpb.RawBatchGetResponse
	tikvpb.BatchCommandsResponse_Response_RawBatchGet
}

type batchPutSlot struct {
	req  kvrpcpb.RawBatchPutRequest
	resp kvrpcpb.RawBatchPutResponse
	tikvpb.BatchCommandsResponse_Response_RawBatchPut
}

func newExchange() *exchange { return &exchange{contexts: contexts{}} }

// free gives the message's buffer back.
func (x *exchange) free() {
	if x.buf != nil {
		x.buf.Free()
		x.buf = nil
	}
}

// readFrom decodes a BatchCommandsRequest, and keeps its buffer until the next one or free.
func (x *exchange) readFrom(buf mem.Buffer) error {
	x.free()
	x.buf, x.used, x.ids = buf, 0, x.ids[:0]
	f := fields{rest: buf.ReadOnlyData()}
	for f.next() {
		switch f.number {
		case 1:
			if f.want(protowire.BytesType) {
				f.err = x.decodeCommand(f.bytes, x.nextSlot())
			}
		case 2:
			f.takeUints(&x.ids)
		}
	}
	// As in TiKV, a request without an id or an id without a request is left alone.
	x.used = min(x.used, len(x.ids))
	for i, s := range x.slots[:x.used] {
		s.id = x.ids[i]
	}
	return f.err
}

func (x *exchange) nextSlot() *slot {
	if x.used == len(x.slots) {
		x.slots = append(x.slots, &slot{})
	}
	x.used++
	return x.slots[x.used-1]
}

func (x *exchange) decodeCommand(b []byte, s *slot) error {
	s.cmd = cmdUnset
	s.other.Cmd = nil
	f := fields{rest: b}
	for f.next() {
		if f.number < 1 || f.number > 255 || commandNames[f.number] == "" {
			continue
		}
		if !f.want(protowire.BytesType) {
			break
		}
		s.cmd = command(f.number)
		switch s.cmd {
		case cmdRawGet:
			f.err = x.contexts.decodeRawGet(f.bytes, &s.get.req)
		case cmdRawPut:
			f.err = x.contexts.decodeRawPut(f.bytes, &s.put.req)
		case cmdRawDelete:
			f.err = x.contexts.decodeRawDelete(f.bytes, &s.del.req)
		case cmdRawBatchGet:
			f.err = x.contexts.decodeRawBatchGet(f.bytes, &s.batchGet.req)
		case cmdRawBatchPut:
			f.err = x.contexts.decodeRawBatchPut(f.bytes, &s.batchPut.req)
		default:
			s.other.Reset()
			f.err = s.other.Unmarshal(b)
		}
	}
	return f.err
}

// reset readies the answers for a new message.
func (x *exchange) reset() {
	x.answers.Responses, x.answers.RequestIds = x.answers.Responses[:0], x.answers.RequestIds[:0]
}

// serve answers one command.
func (x *exchange) serve(s *slot) {
	a := &s.answer
	a.Cmd = nil
	switch s.cmd {
	case cmdRawGet:
		s.get.resp = kvrpcpb.RawGetResponse{}
		s.get.RawGet = &s.get.resp
		x.rawGet(&s.get.req, &s.get.resp)
		a.Cmd = &s.get.BatchCommandsResponse_Response_RawGet
	case cmdRawPut:
		s.put.resp = kvrpcpb.RawPutResponse{}
		s.put.RawPut = &s.put.resp
		x.rawPut(&s.put.req, &s.put.resp)
		a.Cmd = &s.put.BatchCommandsResponse_Response_RawPut
	case cmdRawDelete:
		s.del.resp = kvrpcpb.RawDeleteResponse{}
		s.del.RawDelete = &s.del.resp
		x.rawDelete(&s.del.req, &s.del.resp)
		a.Cmd = &s.del.BatchCommandsResponse_Response_RawDelete
	case cmdRawBatchGet:
		s.batchGet.resp = kvrpcpb.RawBatchGetResponse{Pairs: s.batchGet.resp.Pairs[:0]}
		s.batchGet.RawBatchGet = &s.batchGet.resp
		x.rawBatchGet(&s.batchGet.req, &s.batchGet.resp)
		a.Cmd = &s.batchGet.BatchCommandsResponse_Response_RawBatchGet
	case cmdRawBatchPut:
		s.batchPut.resp = kvrpcpb.RawBatchPutResponse{}
		s.batchPut.RawBatchPut = &s.batchPut.resp
		x.rawBatchPut(&s.batchPut.req, &s.batchPut.resp)
		a.Cmd = &s.batchPut.BatchCommandsResponse_Response_RawBatchPut
	default:
		x.serveOther(&s.other, a)
	}
	x.answers.Responses = append(x.answers.Responses, a)
	x.answers.RequestIds = append(x.answers.RequestIds, s.id)
}

func (x *exchange) serveOther(req *tikvpb.BatchCommandsRequest_Request, answer *tikvpb.BatchCommandsResponse_Response) {
	switch cmd := req.Cmd.(type) {
	case *tikvpb.BatchCommandsRequest_Request_RawBatchDelete:
		resp := &kvrpcpb.RawBatchDeleteResponse{}
		x.rawBatchDelete(cmd.RawBatchDelete, resp)
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_RawBatchDelete{RawBatchDelete: resp}
	case *tikvpb.BatchCommandsRequest_Request_RawScan:
		resp := &kvrpcpb.RawScanResponse{}
		x.rawScan(cmd.RawScan, resp)
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_RawScan{RawScan: resp}
	case *tikvpb.BatchCommandsRequest_Request_RawDeleteRange:
		resp := &kvrpcpb.RawDeleteRangeResponse{}
		x.rawDeleteRange(cmd.RawDeleteRange, resp)
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_RawDeleteRange{RawDeleteRange: resp}
	case *tikvpb.BatchCommandsRequest_Request_RawBatchScan:
		resp := &kvrpcpb.RawBatchScanResponse{}
		x.rawBatchScan(cmd.RawBatchScan, resp)
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_RawBatchScan{RawBatchScan: resp}
	case *tikvpb.BatchCommandsRequest_Request_Empty:
		resp := &tikvpb.BatchCommandsEmptyResponse{TestId: cmd.Empty.TestId}
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_Empty{Empty: resp}
	default:
		if !x.serveTxn(req, answer) {
			refuseOther(req, answer)
		}
	}
}
