// SPDX-License-Identifier: Apache-2.0

package tikv

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	tikverr "github.com/tikv/client-go/v2/error"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kvbench/kvbench/internal/store"
)

// kinds of errors that client-go's retries end with: it returns the error that
// stands for what it waited for longest.
var kinds = []struct {
	err   error
	class store.Class
}{
	{tikverr.ErrResultUndetermined, store.Undetermined}, // before what it was lost by
	{context.Canceled, store.Cancelled},
	{context.DeadlineExceeded, store.Timeout},
	{tikverr.ErrTiKVServerBusy, store.ServerBusy},
	{tikverr.ErrTiKVDiskFull, store.ServerBusy},
	{tikverr.ErrRegionUnavailable, store.RegionUnavailable},
	{tikverr.ErrTiKVStaleCommand, store.RegionUnavailable},
	{tikverr.ErrTiKVMaxTimestampNotSynced, store.RegionUnavailable},
	{tikverr.ErrRegionNotInitialized, store.RegionUnavailable},
	{tikverr.ErrRegionDataNotReady, store.RegionUnavailable},
	{tikverr.ErrRegionRecoveryInProgress, store.RegionUnavailable},
	{tikverr.ErrIsWitness, store.RegionUnavailable},
	{tikverr.ErrTiKVServerTimeout, store.NoConnection}, // what failing sends end with
	{tikverr.ErrLockWaitTimeout, store.LockTimeout},
	{tikverr.ErrLockAcquireFailAndNoWaitSet, store.LockTimeout},
	{tikverr.ErrResolveLockTimeout, store.LockTimeout},
	{io.EOF, store.NoConnection},
	{io.ErrUnexpectedEOF, store.NoConnection},
}

// texts of errors that have no type of their own, as client-go 2.0.7 and the PD client write them.
var texts = []struct {
	text  string
	class store.Class
}{
	{"from PD failed", store.PDUnavailable},
	{"[PD:", store.PDUnavailable},
	{"[pd]", store.PDUnavailable},
	{"no available connections", store.NoConnection},
	{"rpcClient is idle", store.NoConnection},
	{"rpcClient is closed", store.NoConnection},
	{"raft_entry_too_large", store.RawError},
	{"PessimisticLockNotFound", store.RolledBack},
	{"PessimisticLockRolledBack", store.RolledBack},
	{"TxnLockNotFound", store.RolledBack},
	{"tikv aborts txn", store.RawError},
	{"flashback", store.RegionUnavailable},
	{"epoch_not_match", store.RegionUnavailable},
	{"not_leader", store.RegionUnavailable},
	{"region_not_found", store.RegionUnavailable},
	{"server_is_busy", store.ServerBusy},
}

// Classify returns the class of an error of client-go, nil being OK. What a
// store answered is not recognised here, since rawkv returns it as bare text: [Trace] knows.
func Classify(err error) store.Class {
	if err == nil {
		return store.OK
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.class
		}
	}
	if pd := (*tikverr.ErrPDServerTimeout)(nil); errors.As(err, &pd) {
		return store.PDUnavailable
	}
	if conflict := (*tikverr.ErrWriteConflict)(nil); errors.As(err, &conflict) {
		if conflict.Reason == kvrpcpb.WriteConflict_SelfRolledBack {
			return store.RolledBack
		}
		return store.Conflict
	}
	if dead := (*tikverr.ErrDeadlock)(nil); errors.As(err, &dead) {
		return store.Deadlock
	}
	text := err.Error()
	for _, t := range texts {
		if strings.Contains(text, t.text) {
			return t.class
		}
	}
	// gRPC's status comes last: both a store's and PD's may be in the chain.
	if s, ok := status.FromError(err); ok {
		switch s.Code() {
		case codes.Unavailable, codes.Canceled: // nobody here cancelled: the other side went away
			return store.NoConnection
		case codes.DeadlineExceeded:
			return store.Timeout
		case codes.ResourceExhausted:
			return store.ServerBusy
		}
	}
	return store.Other
}
