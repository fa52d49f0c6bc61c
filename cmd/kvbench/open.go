// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/store/cluster"
	"github.com/kvbench/kvbench/internal/store/rawkv"
	"github.com/kvbench/kvbench/internal/store/stream"
	"github.com/kvbench/kvbench/internal/worker"
)

// opener returns what opens the driver that a spec asks for. The client library logs to w.
func opener(w io.Writer) func(context.Context, *spec.Spec) (store.Driver, error) {
	return func(ctx context.Context, s *spec.Spec) (store.Driver, error) {
		t := &s.TiKV
		cfg := cluster.Config{
			PD: t.PD, CA: t.CA, Cert: t.Cert, Key: t.Key,
			APIVersion: t.APIVersion, Keyspace: t.Keyspace, ColumnFamily: t.ColumnFamily,
			Clients: t.Clients, GrpcConnectionCount: uint(t.ConnCount),
			MaxBatchSize: t.MaxBatchSize, NoBatchYield: !t.BatchYield,
			MaxBatchWaitTime: t.BatchWaitTime, BatchWaitSize: uint(t.BatchWaitSize),
			OverloadThreshold: uint(t.OverloadThreshold),
			Log:               w,
		}
		if cfg.MaxBatchSize == 0 {
			cfg.MaxBatchSize = -1 // client-go's 0: no messages of several
		}
		switch s.Driver {
		case spec.RawKV:
			d, err := rawkv.Open(ctx, cfg, t.Timeout)
			if err != nil {
				return nil, err
			}
			return described{d}, nil
		case spec.Stream:
			cfg.GrpcConnectionCount = 1 // client-go has the detours alone; each connection more costs 64 KB and goroutines, for each store
			d, err := stream.Open(ctx, cfg, stream.Config{
				MaxBatch: s.StreamOpts.MaxBatch, Linger: s.StreamOpts.Linger, Streams: s.StreamOpts.Streams, Timeout: t.Timeout,
			})
			if err != nil {
				return nil, err
			}
			return described{d}, nil
		default:
			return nil, fmt.Errorf("there is no driver named %q", s.Driver)
		}
	}
}

// described adds to a driver what a result says of its cluster.
type described struct{ driver }

type driver interface {
	worker.Counted
	Info() cluster.Info
}

// Cluster implements [worker.Described].
func (d described) Cluster() results.Cluster {
	info := d.Info()
	c := results.Cluster{ID: info.ClusterID, Details: map[string]string{}}
	for _, m := range info.PD {
		c.PD = append(c.PD, m.Address)
		c.Details["pd."+m.Name] = m.Version
	}
	for _, s := range info.Stores {
		c.Stores = append(c.Stores, s.Address)
		c.Details["store."+strconv.FormatUint(s.ID, 10)] = s.Version
	}
	return c
}
