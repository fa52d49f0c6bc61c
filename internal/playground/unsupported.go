// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"github.com/pingcap/kvproto/pkg/coprocessor"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
)

const errUnsupported = "the playground does not serve this"

// refuseOther answers commands that are not served with a final error in the response that belongs to the command: clients
// panic on any other type. A request without a command gets a response without one, as in TiKV.
func refuseOther(req *tikvpb.BatchCommandsRequest_Request, answer *tikvpb.BatchCommandsResponse_Response) {
	abort := &kvrpcpb.KeyError{Abort: errUnsupported}
	switch req.Cmd.(type) {
	case *tikvpb.BatchCommandsRequest_Request_Import:
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_Import{Import: &kvrpcpb.ImportResponse{Error: errUnsupported}}
	case *tikvpb.BatchCommandsRequest_Request_GC:
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_GC{GC: &kvrpcpb.GCResponse{Error: abort}}
	case *tikvpb.BatchCommandsRequest_Request_Coprocessor:
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_Coprocessor{Coprocessor: &coprocessor.Response{OtherError: errUnsupported}}
	case *tikvpb.BatchCommandsRequest_Request_RawCoprocessor:
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_RawCoprocessor{RawCoprocessor: &kvrpcpb.RawCoprocessorResponse{Error: errUnsupported}}
	case *tikvpb.BatchCommandsRequest_Request_FlashbackToVersion:
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_FlashbackToVersion{FlashbackToVersion: &kvrpcpb.FlashbackToVersionResponse{Error: errUnsupported}}
	case *tikvpb.BatchCommandsRequest_Request_PrepareFlashbackToVersion:
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_PrepareFlashbackToVersion{PrepareFlashbackToVersion: &kvrpcpb.PrepareFlashbackToVersionResponse{Error: errUnsupported}}
	}
}
