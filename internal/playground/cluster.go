// SPDX-License-Identifier: Apache-2.0

// Package playground provides a TiKV-compatible development cluster in one process: a PD and several stores, each on its own port
// over real gRPC, for the raw API and for transactions. TiKV's client libraries cannot tell it from a small real cluster: regions have epochs, peers and
// leaders; stale clients get true region errors; stores can be stopped, stalled and slowed while it runs.
//
// All stores share one Pebble database. Nothing is replicated: peers and elections are bookkeeping, which is what makes the
// cluster small, fast and consistent under every disturbance, and unfit for data that matters.
package playground

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
)

// Banner is what a program that starts a playground says first.
const Banner = "playground: a development cluster that speaks TiKV's raw and transactional APIs; one process, NOT replicated, not for data that matters"

// Cluster is a running playground.
type Cluster struct {
	id        uint64
	keyspaces []string // by id
	opts      Options
	log       *slog.Logger
	storage   *storage
	topology  *topology
	pd        *pd
	stores    []*store    // ids 1, 2, …
	admin     *httpServer // nil: there is none
	started   time.Time

	mu        sync.Mutex // orders disturbances, elections and the end
	elections sync.WaitGroup
	closing   chan struct{}
}

// Start starts a cluster. The context bounds the start; Close ends the cluster.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("playground: %w", err)
	}
	c := &Cluster{opts: opts, log: opts.Logger, closing: make(chan struct{}), started: time.Now()}
	if err := errors.Join(c.start(), ctx.Err()); err != nil {
		return nil, fmt.Errorf("playground: %w", errors.Join(err, c.Close()))
	}
	return c, nil
}

func (c *Cluster) start() error {
	tlsConfig, err := c.opts.TLS.server()
	if err != nil {
		return err
	}
	if c.storage, err = openStorage(c.opts.DataDir, c.opts.APIVersion, c.log); err != nil {
		return err
	}
	c.topology = &topology{bounds: boundCodec{memcomparable: c.opts.APIVersion == V2}, save: c.save}
	if err := c.restoreOrBootstrap(); err != nil {
		return err
	}
	c.pd = &pd{cluster: c, topology: c.topology}
	c.storage.txn.seen(composeTS(c.pd.tso.take(1))) // what was read before is not known any more
	c.pd.server = server{name: "PD", tls: tlsConfig, addr: c.opts.PDAddr, register: c.pd.register, web: c.pd.web()}
	for i := range c.opts.Stores {
		s := &store{id: uint64(i + 1), cluster: c, storage: c.storage, topology: c.topology}
		port := c.opts.StorePort
		if port != 0 {
			port += i
		}
		s.server = server{
			name: fmt.Sprintf("store %d", s.id), tls: tlsConfig, register: s.register,
			addr: net.JoinHostPort(c.opts.StoreHost, strconv.Itoa(port)),
		}
		statusPort := c.opts.StatusPort
		if statusPort != 0 {
			statusPort += i
		}
		s.status = httpServer{
			name: fmt.Sprintf("status of store %d", s.id), tls: tlsConfig, log: c.log, handler: s.statusHandler(),
			addr: net.JoinHostPort(c.opts.StoreHost, strconv.Itoa(statusPort)),
		}
		c.stores = append(c.stores, s)
	}
	for _, s := range c.stores {
		s.disturb(func(now *trouble) { now.queue = newQueue(c.opts.Service) })
		if err := s.start(); err != nil {
			return err
		}
	}
	if err := c.pd.server.start(); err != nil {
		return err
	}
	if c.opts.AdminAddr != "" {
		c.admin = &httpServer{name: "admin endpoint", addr: c.opts.AdminAddr, tls: tlsConfig, log: c.log, handler: adminHandler(c)}
		return c.admin.start()
	}
	return nil
}

// restoreOrBootstrap takes the regions from the data directory, or makes the first ones.
func (c *Cluster) restoreOrBootstrap() error {
	m, err := c.storage.loadManifest()
	if err != nil {
		return err
	}
	if m != nil {
		return c.restore(m)
	}
	c.id = rand.Uint64N(1<<63-1) + 1
	c.keyspaces = append([]string{defaultKeyspace}, c.opts.Keyspaces...)
	stores := make([]uint64, c.opts.Stores)
	for i := range stores {
		stores[i] = uint64(i + 1)
	}
	c.topology.nextID = uint64(len(stores) + 1)
	return c.topology.bootstrap(stores, c.opts.firstSplitKeys(c.keyspaces))
}

func (c *Cluster) restore(m *manifest) error {
	if m.APIVersion != string(c.opts.APIVersion) || m.Stores != c.opts.Stores {
		return fmt.Errorf("data directory %q holds a cluster of %d stores with API version %s, not %d with %s: start it so, or choose another directory",
			c.opts.DataDir, m.Stores, m.APIVersion, c.opts.Stores, c.opts.APIVersion)
	}
	c.id, c.keyspaces = m.ClusterID, m.Keyspaces
	for _, name := range c.opts.Keyspaces {
		if _, ok := keyspaceID(c.keyspaces, name); !ok {
			c.keyspaces = append(c.keyspaces, name)
		}
	}
	c.topology.nextID = m.NextID
	var all []*region
	for _, kept := range m.Regions {
		start, okStart := c.topology.bounds.decode(kept.Meta.GetStartKey())
		end, okEnd := c.topology.bounds.decode(kept.Meta.GetEndKey())
		if kept.Meta == nil || kept.Meta.RegionEpoch == nil || !okStart || !okEnd {
			return fmt.Errorf("data directory %q: broken region in the manifest: %v", c.opts.DataDir, kept.Meta)
		}
		r := &region{meta: kept.Meta, start: start, end: end}
		r.leader = r.peerOn(kept.LeaderStore)
		all = append(all, r)
	}
	kept := (&routes{byID: map[uint64]*region{}}).with(all)
	if err := kept.check(c.opts.Stores); err != nil {
		return fmt.Errorf("data directory %q: broken manifest: %w", c.opts.DataDir, err)
	}
	return c.topology.publish(kept)
}

// save keeps the regions when there is a data directory.
func (c *Cluster) save(t *routes, nextID uint64) error {
	if c.opts.DataDir == "" {
		return nil
	}
	m := &manifest{
		ClusterID: c.id, APIVersion: string(c.opts.APIVersion), Keyspaces: c.keyspaces, Stores: c.opts.Stores, NextID: nextID,
	}
	for _, r := range t.ordered {
		m.Regions = append(m.Regions, manifestRegion{Meta: r.meta, LeaderStore: r.leader.GetStoreId()})
	}
	return c.storage.saveManifest(m)
}

// Close stops all servers and closes the database. A second Close does nothing.
func (c *Cluster) Close() error {
	c.mu.Lock()
	select {
	case <-c.closing:
		c.mu.Unlock()
		return nil
	default:
		close(c.closing)
	}
	c.mu.Unlock()
	c.elections.Wait()
	if c.admin != nil {
		c.admin.drain()
	}
	if c.pd != nil {
		c.pd.server.stop()
	}
	for _, s := range c.stores {
		s.stop()
	}
	if c.storage == nil {
		return nil
	}
	return c.storage.close()
}

// ClusterID is the id that PD gives the cluster; it stays with the data directory.
func (c *Cluster) ClusterID() uint64 { return c.id }

// PDAddr is the host:port that clients are given.
func (c *Cluster) PDAddr() string { return c.advertised(c.pd.server.addr) }

// StoreAddrs are the stores' host:port, by id.
func (c *Cluster) StoreAddrs() []string {
	addrs := make([]string, len(c.stores))
	for i, s := range c.stores {
		addrs[i] = c.advertised(s.server.addr)
	}
	return addrs
}

// StatusAddrs are the host:port of the stores' metrics and configuration over HTTP, by id.
func (c *Cluster) StatusAddrs() []string {
	addrs := make([]string, len(c.stores))
	for i, s := range c.stores {
		addrs[i] = c.advertised(s.status.addr)
	}
	return addrs
}

// AdminAddr is the host:port of the admin endpoint, empty when there is none.
func (c *Cluster) AdminAddr() string {
	if c.admin == nil {
		return ""
	}
	return c.admin.addr
}

// advertised is a server's address as clients are told it.
func (c *Cluster) advertised(addr string) string {
	if c.opts.AdvertiseHost == "" {
		return addr
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return net.JoinHostPort(c.opts.AdvertiseHost, port)
}

// store returns a store by its id, or nil.
func (c *Cluster) store(id uint64) *store {
	if id < 1 || id > uint64(len(c.stores)) {
		return nil
	}
	return c.stores[id-1]
}

func (c *Cluster) storeUp(id uint64) bool {
	s := c.store(id)
	return s != nil && s.up.Load()
}

// scheduleElection lets the regions elect new leaders after the election delay. c.mu must be held.
func (c *Cluster) scheduleElection() {
	select {
	case <-c.closing:
		return
	default:
	}
	c.elections.Go(func() {
		timer := time.NewTimer(c.opts.ElectionDelay)
		defer timer.Stop()
		select {
		case <-c.closing:
		case <-timer.C:
			if n, err := c.topology.relead(c.elect); err != nil {
				c.log.Error("election", "error", err)
			} else if n > 0 {
				c.log.Info("regions changed leader", "regions", n)
			}
		}
	})
}

// elect keeps a leader that is up. Otherwise one of the peers that are up follows, if they are a majority; without one a region has
// no leader, also when its old one is up.
func (c *Cluster) elect(r *region) *metapb.Peer {
	var up []*metapb.Peer
	for _, p := range r.meta.Peers {
		if c.storeUp(p.StoreId) {
			up = append(up, p)
		}
	}
	if len(up) <= len(r.meta.Peers)/2 {
		return nil
	}
	if r.leader != nil && c.storeUp(r.leader.StoreId) {
		return r.leader
	}
	return up[r.id()%uint64(len(up))]
}

// scatter spreads regions evenly over the stores that are up: first their peers, then their leaders.
func (c *Cluster) scatter(ids []uint64) error {
	var up []uint64
	for _, s := range c.stores {
		if s.up.Load() {
			up = append(up, s.id)
		}
	}
	return c.topology.scatter(ids, up)
}

// otherLeader picks a random peer on a store that is up, other than not if it can.
func (c *Cluster) otherLeader(r *region, not *metapb.Peer) *metapb.Peer {
	var choices []*metapb.Peer
	for _, p := range r.meta.Peers {
		if p != not && c.storeUp(p.StoreId) {
			choices = append(choices, p)
		}
	}
	if len(choices) == 0 {
		return r.leader
	}
	return choices[rand.IntN(len(choices))]
}
