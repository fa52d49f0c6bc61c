// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
)

// The commands of the transactional API as calls of their own.

func (s *store) KvGet(ctx context.Context, req *kvrpcpb.GetRequest) (*kvrpcpb.GetResponse, error) {
	return unary(ctx, s, cmdGet, req, (*call).kvGet)
}

func (s *store) KvScan(ctx context.Context, req *kvrpcpb.ScanRequest) (*kvrpcpb.ScanResponse, error) {
	return unary(ctx, s, cmdScan, req, (*call).kvScan)
}

func (s *store) KvPrewrite(ctx context.Context, req *kvrpcpb.PrewriteRequest) (*kvrpcpb.PrewriteResponse, error) {
	return unary(ctx, s, cmdPrewrite, req, (*call).kvPrewrite)
}

func (s *store) KvCommit(ctx context.Context, req *kvrpcpb.CommitRequest) (*kvrpcpb.CommitResponse, error) {
	return unary(ctx, s, cmdCommit, req, (*call).kvCommit)
}

func (s *store) KvCleanup(ctx context.Context, req *kvrpcpb.CleanupRequest) (*kvrpcpb.CleanupResponse, error) {
	return unary(ctx, s, cmdCleanup, req, (*call).kvCleanup)
}

func (s *store) KvBatchGet(ctx context.Context, req *kvrpcpb.BatchGetRequest) (*kvrpcpb.BatchGetResponse, error) {
	return unary(ctx, s, cmdBatchGet, req, (*call).kvBatchGet)
}

func (s *store) KvBatchRollback(ctx context.Context, req *kvrpcpb.BatchRollbackRequest) (*kvrpcpb.BatchRollbackResponse, error) {
	return unary(ctx, s, cmdBatchRollback, req, (*call).kvBatchRollback)
}

func (s *store) KvScanLock(ctx context.Context, req *kvrpcpb.ScanLockRequest) (*kvrpcpb.ScanLockResponse, error) {
	return unary(ctx, s, cmdScanLock, req, (*call).kvScanLock)
}

func (s *store) KvResolveLock(ctx context.Context, req *kvrpcpb.ResolveLockRequest) (*kvrpcpb.ResolveLockResponse, error) {
	return unary(ctx, s, cmdResolveLock, req, (*call).kvResolveLock)
}

func (s *store) KvDeleteRange(ctx context.Context, req *kvrpcpb.DeleteRangeRequest) (*kvrpcpb.DeleteRangeResponse, error) {
	return unary(ctx, s, cmdDeleteRange, req, (*call).kvDeleteRange)
}

func (s *store) KvPessimisticLock(ctx context.Context, req *kvrpcpb.PessimisticLockRequest) (*kvrpcpb.PessimisticLockResponse, error) {
	return unary(ctx, s, cmdPessimisticLock, req, (*call).kvPessimisticLock)
}

func (s *store) KVPessimisticRollback(ctx context.Context, req *kvrpcpb.PessimisticRollbackRequest) (*kvrpcpb.PessimisticRollbackResponse, error) {
	return unary(ctx, s, cmdPessimisticRollback, req, (*call).kvPessimisticRollback)
}

func (s *store) KvCheckTxnStatus(ctx context.Context, req *kvrpcpb.CheckTxnStatusRequest) (*kvrpcpb.CheckTxnStatusResponse, error) {
	return unary(ctx, s, cmdCheckTxnStatus, req, (*call).kvCheckTxnStatus)
}

func (s *store) KvTxnHeartBeat(ctx context.Context, req *kvrpcpb.TxnHeartBeatRequest) (*kvrpcpb.TxnHeartBeatResponse, error) {
	return unary(ctx, s, cmdTxnHeartBeat, req, (*call).kvTxnHeartBeat)
}

func (s *store) KvCheckSecondaryLocks(ctx context.Context, req *kvrpcpb.CheckSecondaryLocksRequest) (*kvrpcpb.CheckSecondaryLocksResponse, error) {
	return unary(ctx, s, cmdCheckSecondaryLocks, req, (*call).kvCheckSecondaryLocks)
}

// serveTxn answers a command of the transactional API that came in a message, and tells whether it was one.
func (c *call) serveTxn(req *tikvpb.BatchCommandsRequest_Request, answer *tikvpb.BatchCommandsResponse_Response) bool {
	switch cmd := req.Cmd.(type) {
	case *tikvpb.BatchCommandsRequest_Request_Get:
		resp := &kvrpcpb.GetResponse{}
		c.kvGet(cmd.Get, resp)
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_Get{Get: resp}
	case *tikvpb.BatchCommandsRequest_Request_Scan:
		resp := &kvrpcpb.ScanResponse{}
		c.kvScan(cmd.Scan, resp)
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_Scan{Scan: resp}
	case *tikvpb.BatchCommandsRequest_Request_Prewrite:
		resp := &kvrpcpb.PrewriteResponse{}
		c.kvPrewrite(cmd.Prewrite, resp)
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_Prewrite{Prewrite: resp}
	case *tikvpb.BatchCommandsRequest_Request_Commit:
		resp := &kvrpcpb.CommitResponse{}
		c.kvCommit(cmd.Commit, resp)
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_Commit{Commit: resp}
	case *tikvpb.BatchCommandsRequest_Request_Cleanup:
		resp := &kvrpcpb.CleanupResponse{}
		c.kvCleanup(cmd.Cleanup, resp)
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_Cleanup{Cleanup: resp}
	case *tikvpb.BatchCommandsRequest_Request_BatchGet:
		resp := &kvrpcpb.BatchGetResponse{}
		c.kvBatchGet(cmd.BatchGet, resp)
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_BatchGet{BatchGet: resp}
	case *tikvpb.BatchCommandsRequest_Request_BatchRollback:
		resp := &kvrpcpb.BatchRollbackResponse{}
		c.kvBatchRollback(cmd.BatchRollback, resp)
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_BatchRollback{BatchRollback: resp}
	case *tikvpb.BatchCommandsRequest_Request_ScanLock:
		resp := &kvrpcpb.ScanLockResponse{}
		c.kvScanLock(cmd.ScanLock, resp)
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_ScanLock{ScanLock: resp}
	case *tikvpb.BatchCommandsRequest_Request_ResolveLock:
		resp := &kvrpcpb.ResolveLockResponse{}
		c.kvResolveLock(cmd.ResolveLock, resp)
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_ResolveLock{ResolveLock: resp}
	case *tikvpb.BatchCommandsRequest_Request_DeleteRange:
		resp := &kvrpcpb.DeleteRangeResponse{}
		c.kvDeleteRange(cmd.DeleteRange, resp)
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_DeleteRange{DeleteRange: resp}
	case *tikvpb.BatchCommandsRequest_Request_PessimisticLock:
		resp := &kvrpcpb.PessimisticLockResponse{}
		c.kvPessimisticLock(cmd.PessimisticLock, resp)
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_PessimisticLock{PessimisticLock: resp}
	case *tikvpb.BatchCommandsRequest_Request_PessimisticRollback:
		resp := &kvrpcpb.PessimisticRollbackResponse{}
		c.kvPessimisticRollback(cmd.PessimisticRollback, resp)
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_PessimisticRollback{PessimisticRollback: resp}
	case *tikvpb.BatchCommandsRequest_Request_CheckTxnStatus:
		resp := &kvrpcpb.CheckTxnStatusResponse{}
		c.kvCheckTxnStatus(cmd.CheckTxnStatus, resp)
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_CheckTxnStatus{CheckTxnStatus: resp}
	case *tikvpb.BatchCommandsRequest_Request_TxnHeartBeat:
		resp := &kvrpcpb.TxnHeartBeatResponse{}
		c.kvTxnHeartBeat(cmd.TxnHeartBeat, resp)
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_TxnHeartBeat{TxnHeartBeat: resp}
	case *tikvpb.BatchCommandsRequest_Request_CheckSecondaryLocks:
		resp := &kvrpcpb.CheckSecondaryLocksResponse{}
		c.kvCheckSecondaryLocks(cmd.CheckSecondaryLocks, resp)
		answer.Cmd = &tikvpb.BatchCommandsResponse_Response_CheckSecondaryLocks{CheckSecondaryLocks: resp}
	default:
		return false
	}
	return true
}
