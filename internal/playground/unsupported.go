// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"github.com/pingcap/kvproto/pkg/coprocessor"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
)

const errUnsupported = "the playground serves the raw API only"

// refuseOther answers the commands of the transactional API with a final error in the response that belongs to the command: clients
// panic on any other type. A request without a command gets a response without one, as in TiKV.
func refuseOther(req *tikvpb.BatchCommandsRequest_Request, answer *tikvpb.BatchCommandsResponse_Response) {
	abort := &kvrpcpb.KeyError{Abort: errUnsupported}
	aborts := []*kvrpcpb.KeyError{abort}
	switch req.Cmd.(type) {
	case *tikvpb.BatchCommandsRequest_Request_Get:
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_Get{Get: &kvrpcpb.GetResponse{Error: abort}}
	case *tikvpb.BatchCommandsRequest_Request_Scan:
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_Scan{Scan: &kvrpcpb.ScanResponse{Error: abort}}
	case *tikvpb.BatchCommandsRequest_Request_Prewrite:
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_Prewrite{Prewrite: &kvrpcpb.PrewriteResponse{Errors: aborts}}
	case *tikvpb.BatchCommandsRequest_Request_Commit:
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_Commit{Commit: &kvrpcpb.CommitResponse{Error: abort}}
	case *tikvpb.BatchCommandsRequest_Request_Import:
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_Import{Import: &kvrpcpb.ImportResponse{Error: errUnsupported}}
	case *tikvpb.BatchCommandsRequest_Request_Cleanup:
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_Cleanup{Cleanup: &kvrpcpb.CleanupResponse{Error: abort}}
	case *tikvpb.BatchCommandsRequest_Request_BatchGet:
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_BatchGet{BatchGet: &kvrpcpb.BatchGetResponse{Error: abort}}
	case *tikvpb.BatchCommandsRequest_Request_BatchRollback:
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_BatchRollback{BatchRollback: &kvrpcpb.BatchRollbackResponse{Error: abort}}
	case *tikvpb.BatchCommandsRequest_Request_ScanLock:
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_ScanLock{ScanLock: &kvrpcpb.ScanLockResponse{Error: abort}}
	case *tikvpb.BatchCommandsRequest_Request_ResolveLock:
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_ResolveLock{ResolveLock: &kvrpcpb.ResolveLockResponse{Error: abort}}
	case *tikvpb.BatchCommandsRequest_Request_GC:
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_GC{GC: &kvrpcpb.GCResponse{Error: abort}}
	case *tikvpb.BatchCommandsRequest_Request_DeleteRange:
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_DeleteRange{DeleteRange: &kvrpcpb.DeleteRangeResponse{Error: errUnsupported}}
	case *tikvpb.BatchCommandsRequest_Request_Coprocessor:
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_Coprocessor{Coprocessor: &coprocessor.Response{OtherError: errUnsupported}}
	case *tikvpb.BatchCommandsRequest_Request_PessimisticLock:
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_PessimisticLock{PessimisticLock: &kvrpcpb.PessimisticLockResponse{Errors: aborts}}
	case *tikvpb.BatchCommandsRequest_Request_PessimisticRollback:
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_PessimisticRollback{PessimisticRollback: &kvrpcpb.PessimisticRollbackResponse{Errors: aborts}}
	case *tikvpb.BatchCommandsRequest_Request_CheckTxnStatus:
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_CheckTxnStatus{CheckTxnStatus: &kvrpcpb.CheckTxnStatusResponse{Error: abort}}
	case *tikvpb.BatchCommandsRequest_Request_TxnHeartBeat:
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_TxnHeartBeat{TxnHeartBeat: &kvrpcpb.TxnHeartBeatResponse{Error: abort}}
	case *tikvpb.BatchCommandsRequest_Request_CheckSecondaryLocks:
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_CheckSecondaryLocks{CheckSecondaryLocks: &kvrpcpb.CheckSecondaryLocksResponse{Error: abort}}
	case *tikvpb.BatchCommandsRequest_Request_RawCoprocessor:
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_RawCoprocessor{RawCoprocessor: &kvrpcpb.RawCoprocessorResponse{Error: errUnsupported}}
	case *tikvpb.BatchCommandsRequest_Request_FlashbackToVersion:
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_FlashbackToVersion{FlashbackToVersion: &kvrpcpb.FlashbackToVersionResponse{Error: errUnsupported}}
	case *tikvpb.BatchCommandsRequest_Request_PrepareFlashbackToVersion:
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_PrepareFlashbackToVersion{PrepareFlashbackToVersion: &kvrpcpb.PrepareFlashbackToVersionResponse{Error: errUnsupported}}
	}
}
