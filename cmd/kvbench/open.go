// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"

	"github.com/tikv/client-go/v2/kv"
	"github.com/tikv/client-go/v2/txnkv/txnsnapshot"
	"github.com/tikv/client-go/v2/txnkv/txnutil"

	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/store/rawkv"
	"github.com/kvbench/kvbench/internal/store/stream"
	"github.com/kvbench/kvbench/internal/store/tikv"
	"github.com/kvbench/kvbench/internal/store/txnkv"
)

// The words of the properties as client-go has them.
var (
	priorities = map[string]txnutil.Priority{spec.Low: txnutil.PriorityLow, spec.Normal: txnutil.PriorityNormal, spec.High: txnutil.PriorityHigh}
	isolations = map[string]txnsnapshot.IsoLevel{spec.Snapshot: txnsnapshot.SI, spec.RC: txnsnapshot.RC, spec.RCCheckTS: txnsnapshot.RCCheckTS}
	replicas   = map[string]kv.ReplicaReadType{spec.Leader: kv.ReplicaReadLeader, spec.Follower: kv.ReplicaReadFollower, spec.Mixed: kv.ReplicaReadMixed}
)

// opener returns what opens the driver that a spec asks for. The client library logs to w.
func opener(w io.Writer) func(context.Context, *spec.Spec) (store.Driver, error) {
	return func(ctx context.Context, s *spec.Spec) (store.Driver, error) {
		t := &s.TiKV
		cfg := tikv.Config{
			PD: t.PD, CA: t.CA, Cert: t.Cert, Key: t.Key,
			APIVersion: t.APIVersion, Keyspace: t.Keyspace, ColumnFamily: t.ColumnFamily, TTL: s.TTL > 0,
			Clients: t.Clients, GrpcConnectionCount: uint(t.ConnCount),
			MaxBatchSize: t.MaxBatchSize, MaxBatchWaitTime: t.BatchWaitTime, BatchWaitSize: uint(t.BatchWaitSize),
			OverloadThreshold: uint(t.OverloadThreshold),
			Log:               w,
		}
		if cfg.MaxBatchSize == 0 {
			cfg.MaxBatchSize = -1 // client-go's 0: no messages of several
		}
		switch s.Driver {
		case spec.RawKV:
			d, err := rawkv.Open(ctx, cfg, t.Timeout)
			if err != nil { // a nil driver must not become an interface that is not
				return nil, err
			}
			return d, nil
		case spec.TxnKV:
			x := &s.Txn
			d, err := txnkv.Open(ctx, cfg, txnkv.Options{
				Pessimistic: x.Mode == spec.Pessimistic, LockWait: x.LockWait,
				AsyncCommit: x.AsyncCommit, OnePhase: x.OnePhase, Causal: x.Causal,
				Priority: priorities[x.Priority], Replicas: replicas[x.Replicas],
				Isolation: isolations[x.Isolation], Staleness: x.Staleness,
			}, t.Timeout)
			if err != nil {
				return nil, err
			}
			return d, nil
		case spec.Stream:
			cfg.GrpcConnectionCount = 1 // client-go has the fallbacks alone; each connection more costs 64 KB and goroutines, for each store
			d, err := stream.Open(ctx, cfg, stream.Config{
				MaxBatch: s.StreamOpts.MaxBatch, Linger: s.StreamOpts.Linger, Streams: s.StreamOpts.Streams, Timeout: t.Timeout,
			})
			if err != nil {
				return nil, err
			}
			return d, nil
		default:
			return nil, fmt.Errorf("there is no driver named %q", s.Driver)
		}
	}
}
