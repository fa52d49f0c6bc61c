// SPDX-License-Identifier: Apache-2.0

// Package txnkv is the driver over client-go's transactional client: each call is a transaction, and a Get for update is one with the
// Put that follows it.
package txnkv

import (
	"context"
	"errors"
	"time"

	"github.com/tikv/client-go/v2/kv"
	"github.com/tikv/client-go/v2/txnkv/transaction"
	"github.com/tikv/client-go/v2/txnkv/txnsnapshot"
	"github.com/tikv/client-go/v2/txnkv/txnutil"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/store/kit"
	"github.com/kvbench/kvbench/internal/store/tikv"
)

// Options say how transactions are made. The zero value is client-go's default: optimistic, in two phases.
type Options struct {
	Pessimistic bool          // lock what will be written, instead of finding conflicts when it is committed
	LockWait    time.Duration // pessimistic: for how long a lock is waited for; 0: not at all
	AsyncCommit bool          // committed once all keys are prewritten
	OnePhase    bool          // committed by its prewrite, if all keys lie in one region
	Causal      bool          // a commit need not be later than those that ended before it began, unless it has read them
	Priority    txnutil.Priority
	Replicas    kv.ReplicaReadType // which ones calls that only read may ask

	// Of relaxed calls.
	Isolation txnsnapshot.IsoLevel
	Staleness time.Duration // how long ago they read, in whole milliseconds; 0: now
}

// Driver implements [store.Driver].
type Driver struct {
	cluster  *tikv.Transactional
	timeout  time.Duration
	options  Options
	perStore int // connections
	held     held
}

// Open connects to a cluster. Calls take at most timeout each; 0 leaves that to
// client-go, whose retries end after 40 s of waiting or more. Open itself takes at most 10 s.
func Open(ctx context.Context, c tikv.Config, o Options, timeout time.Duration) (*Driver, error) {
	if o.LockWait < 0 {
		return nil, errors.New("the time that locks are waited for must not be negative")
	}
	cl, err := tikv.ConnectTransactional(ctx, c)
	if err != nil {
		return nil, err
	}
	return &Driver{
		cluster: cl, timeout: timeout, options: o, perStore: c.ConnectionsPerStore(),
		held: held{all: map[*transaction.KVTxn]struct{}{}},
	}, nil
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
	return kit.NewSession(threads, clk, d.timeout, func(i int) kit.Caller {
		c := &caller{client: d.cluster.Client(lane + i), options: d.options, held: &d.held}
		c.trace.CountCosts()
		return c
	}), nil
}

// Close implements [store.Driver]. Locks that calls have left behind are given up.
func (d *Driver) Close() error { return errors.Join(d.held.rollBack(), d.cluster.Close()) }

// Admin implements [store.Administered].
func (d *Driver) Admin() store.Admin { return d.cluster }
