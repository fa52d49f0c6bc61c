// SPDX-License-Identifier: Apache-2.0

package tikv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	perrors "github.com/pkg/errors"
	tikverr "github.com/tikv/client-go/v2/error"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kvbench/kvbench/internal/store"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want store.Class
	}{
		{nil, store.OK},
		{context.Canceled, store.Cancelled},
		{perrors.WithStack(context.Canceled), store.Cancelled},
		{perrors.WithMessage(context.DeadlineExceeded, "wait recvLoop"), store.Timeout}, // 30 s in one attempt
		{status.Error(codes.DeadlineExceeded, "context deadline exceeded"), store.Timeout},
		{perrors.WithStack(tikverr.ErrTiKVServerBusy), store.ServerBusy},
		{perrors.WithStack(tikverr.ErrTiKVDiskFull), store.ServerBusy},
		{perrors.WithStack(tikverr.ErrRegionUnavailable), store.RegionUnavailable},
		{perrors.WithStack(tikverr.ErrRegionNotInitialized), store.RegionUnavailable},
		{perrors.New("epoch_not_match:<> "), store.RegionUnavailable},
		{perrors.New("region 7 is in flashback progress, FlashbackStartTS is 3"), store.RegionUnavailable},
		{perrors.WithStack(tikverr.ErrTiKVServerTimeout), store.NoConnection},
		{perrors.WithStack(perrors.New("no available connections")), store.NoConnection},
		{perrors.Errorf("rpcClient is idle"), store.NoConnection},
		{perrors.WithStack(io.EOF), store.NoConnection},
		{perrors.WithStack(status.Error(codes.Unavailable, "connection refused")), store.NoConnection},
		{status.Error(codes.Canceled, "the server is going away"), store.NoConnection},
		{perrors.WithStack(tikverr.NewErrPDServerTimeout("")), store.PDUnavailable},
		{perrors.Errorf("loadRegion from PD failed, key: %q, err: %v", "k", "rpc error: code = Unavailable"), store.PDUnavailable},
		{errors.New("[PD:client:ErrClientGetLeader]get leader from [] error"), store.PDUnavailable},
		{perrors.New(`message:"too large" raft_entry_too_large:<region_id:2 entry_size:9000000 >`), store.RawError},
		{status.Error(codes.ResourceExhausted, "memory"), store.ServerBusy},
		{perrors.WithStack(&tikverr.ErrWriteConflict{WriteConflict: &kvrpcpb.WriteConflict{Reason: kvrpcpb.WriteConflict_Optimistic}}), store.Conflict},
		{perrors.WithStack(&tikverr.ErrWriteConflict{WriteConflict: &kvrpcpb.WriteConflict{Reason: kvrpcpb.WriteConflict_SelfRolledBack}}), store.RolledBack},
		{perrors.WithStack(&tikverr.ErrDeadlock{Deadlock: &kvrpcpb.Deadlock{}}), store.Deadlock},
		{perrors.WithStack(&tikverr.ErrRetryable{Retryable: "TxnLockNotFound: start_ts 3"}), store.RolledBack},
		{perrors.New("tikv aborts txn: PessimisticLockNotFound: start_ts 3"), store.RolledBack},
		{perrors.New("tikv aborts txn: something is broken"), store.RawError},
		{errors.Join(perrors.WithStack(tikverr.ErrLockWaitTimeout), nil), store.LockTimeout},
		{perrors.WithStack(tikverr.ErrLockAcquireFailAndNoWaitSet), store.LockTimeout},
		{perrors.WithStack(tikverr.ErrResultUndetermined), store.Undetermined},
		{perrors.WithStack(tikverr.ErrBodyMissing), store.Other},
		{fmt.Errorf("a surprise"), store.Other},
	} {
		if got := Classify(test.err); got != test.want {
			t.Errorf("%v: %v, want %v", test.err, got, test.want)
		}
	}
}
