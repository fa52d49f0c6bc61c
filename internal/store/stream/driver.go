// SPDX-License-Identifier: Apache-2.0

// Package stream is the driver over TiKV's own protocol: it shows what the
// cluster can do, at a small part of the client's usual cost.
//
// Each lane has BatchCommands streams of its own to every store, and puts all
// that it has to say to a store into one message. No goroutine waits for a
// call; an answer finds its call through a table. The lane routes by a table of its own, filled from client-go's cache of regions.
//
// This is the fast path: a call that is answered without an error of a region is finished
// here. Everything else (a region that moved, a stream that broke, a region that is not known yet) is a
// fallback: the call, or the part of it that is concerned, goes through rawkv with its full rules
// for retrying, in a bounded pool of goroutines, while its time goes on. Fallbacks are counted by cause.
//
// The price is in the label: commands share messages far more than an
// application's would, which makes them cheaper for the server too. The driver counts
// how many commands its messages carried.
package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/store/tikv"
)

// Config is what can be set. Zero values are the defaults.
type Config struct {
	MaxBatch int           // commands in one message at most; 0 is 128. 1 compares with a client that does not batch
	Linger   time.Duration // how long a command may wait for others; 0: a message goes as soon as its lane has nothing else to do
	Streams  int           // streams of one lane to each store; 0 is 1
	Timeout  time.Duration // of a call; 0 is none, and then client-go's retries end it
}

func (c Config) withDefaults() (Config, error) {
	c.MaxBatch = cmp.Or(c.MaxBatch, 128)
	c.Streams = cmp.Or(c.Streams, 1)
	switch {
	case c.MaxBatch < 0 || c.MaxBatch > 1<<16:
		return c, fmt.Errorf("%d commands in a message: want 1 to %d", c.MaxBatch, 1<<16)
	case c.Streams < 0 || c.Streams > 64:
		return c, fmt.Errorf("%d streams to each store: want 1 to 64", c.Streams)
	case c.Linger < 0 || c.Timeout < 0:
		return c, errors.New("linger and timeout must not be negative")
	}
	return c, nil
}

// Driver implements [store.Driver].
type Driver struct {
	cluster *tikv.Cluster
	config  Config

	mu       sync.Mutex
	counters []*counters // of all sessions that were ever open
}

// Open connects to a cluster. It takes at most 10 s.
func Open(ctx context.Context, c tikv.Config, config Config) (*Driver, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	cl, err := tikv.Connect(ctx, c)
	if err != nil {
		return nil, err
	}
	return &Driver{cluster: cl, config: config}, nil
}

// Cluster implements [store.Described].
func (d *Driver) Cluster() store.Cluster { return d.cluster.Info().Described() }

// Open implements [store.Driver].
func (d *Driver) Open(lane, threads int, clk clock.Clock) (store.Session, error) {
	c := newCounters()
	d.mu.Lock()
	d.counters = append(d.counters, c)
	d.mu.Unlock()
	return newSession(d.cluster.Client(lane), d.cluster.Credentials(), d.cluster.ColumnFamily(), d.config, threads, clk, c), nil
}

// ConnectionsPerStore implements [store.Connected]. Those for fallbacks are not among them.
func (d *Driver) ConnectionsPerStore() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.counters) * d.config.Streams
}

// Servers implements [store.Monitored].
func (d *Driver) Servers() store.Servers { return d.cluster.Servers() }

// Close implements [store.Driver].
func (d *Driver) Close() error { return d.cluster.Close() }

// Traffic returns what the driver has sent by its own streams since it was opened, by
// store. Any goroutine may call it.
func (d *Driver) Traffic() []store.Traffic {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []store.Traffic
	for _, c := range d.counters {
		all = c.addTo(all)
	}
	return all
}

// Admin implements [store.Administered].
func (d *Driver) Admin() store.Admin { return d.cluster }
