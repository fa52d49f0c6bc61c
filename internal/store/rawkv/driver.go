// SPDX-License-Identifier: Apache-2.0

// Package rawkv is the driver over client-go's raw client: what an application
// in Go gets from TiKV, with the library's own batching, routing and retries.
//
// The library blocks its caller, so each virtual thread has a goroutine, which
// is started at the thread's first call and kept. When its call has come back, it takes the
// lane's turn and goes on with the next call that the lane gives it there.
package rawkv

import (
	"context"
	"time"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/store/kit"
	"github.com/kvbench/kvbench/internal/store/tikv"
)

// Driver implements [store.Driver].
type Driver struct {
	cluster  *tikv.Cluster
	timeout  time.Duration
	perStore int // connections
}

// Open connects to a cluster. Calls take at most timeout each; 0 leaves that to
// client-go, whose retries end after 40 s of waiting or more. Open itself takes at most 10 s.
func Open(ctx context.Context, c tikv.Config, timeout time.Duration) (*Driver, error) {
	cl, err := tikv.Connect(ctx, c)
	if err != nil {
		return nil, err
	}
	return &Driver{cluster: cl, timeout: timeout, perStore: c.ConnectionsPerStore()}, nil
}

// Cluster implements [store.Described].
func (d *Driver) Cluster() store.Cluster { return d.cluster.Info().Described() }

// ConnectionsPerStore implements [store.Connected].
func (d *Driver) ConnectionsPerStore() int { return d.perStore }

// Servers implements [store.Monitored].
func (d *Driver) Servers() store.Servers { return d.cluster.Servers() }

// Traffic implements [store.TrafficCounter].
func (d *Driver) Traffic() []store.Traffic { return d.cluster.Traffic() }

// Open implements [store.Driver]. The virtual threads of all lanes are dealt to
// the client instances in turn.
func (d *Driver) Open(lane, threads int, clk clock.Clock) (store.Session, error) {
	return kit.NewSession(threads, clk, d.timeout, func(i int) kit.Caller { return tikv.NewCaller(d.cluster.Client(lane + i)) }), nil
}

// Close implements [store.Driver].
func (d *Driver) Close() error { return d.cluster.Close() }

// Admin implements [store.Administered].
func (d *Driver) Admin() store.Admin { return d.cluster }
