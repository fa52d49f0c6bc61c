// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"strconv"
	"sync/atomic"
	"time"
)

// State is a snapshot of a cluster.
type State struct {
	ClusterID  uint64        `json:"cluster_id"`
	APIVersion APIVersion    `json:"api_version"`
	Keyspaces  []string      `json:"keyspaces,omitempty"` // by id, under API V2
	DataDir    string        `json:"data_dir,omitempty"`  // empty: in memory
	PD         PDState       `json:"pd"`
	Stores     []StoreState  `json:"stores"`
	Regions    []RegionState `json:"regions"` // in key order
}

// PDState is a snapshot of PD.
type PDState struct {
	Addr     string            `json:"addr"`
	Up       bool              `json:"up"`
	Requests map[string]uint64 `json:"requests"` // by gRPC method
}

// StoreState is a snapshot of a store. Counts are since the start of the cluster.
type StoreState struct {
	ID      uint64 `json:"id"`
	Addr    string `json:"addr"`
	Status  string `json:"status_addr"` // metrics and configuration over HTTP
	Up      bool   `json:"up"`
	Regions int    `json:"regions"`
	Leaders int    `json:"leaders"`

	Queue       *QueueState       `json:"queue,omitempty"`
	Disturbance *DisturbanceState `json:"disturbance,omitempty"`

	Commands     map[string]uint64 `json:"commands"`      // that came in BatchCommands messages
	Unary        map[string]uint64 `json:"unary"`         // that came as calls of their own
	Messages     uint64            `json:"messages"`      // BatchCommands messages received
	MessageSizes map[string]uint64 `json:"message_sizes"` // messages by their number of commands: "1", "2-3", "4-7", …
	RegionErrors map[string]uint64 `json:"region_errors"` // answers by type of region error
	SilentFaults map[string]uint64 `json:"silent_faults"` // writes, or rows of scans, that fell to each
}

// QueueState is a store's servers, and how long they would let a command wait that comes now.
type QueueState struct {
	ServiceMS float64 `json:"service_ms"`
	Spread    Spread  `json:"spread"`
	Servers   int     `json:"servers"`
	Capacity  float64 `json:"capacity_per_s"` // commands
	WaitMS    float64 `json:"wait_ms"`
}

// DisturbanceState is what goes wrong on a store at present.
type DisturbanceState struct {
	StalledForMS float64 `json:"stalled_for_ms,omitempty"`
	SlowByMS     float64 `json:"slow_by_ms,omitempty"`
	SlowShare    float64 `json:"slow_share,omitempty"`
	BusyShare    float64 `json:"busy_share,omitempty"`
	ErrorShare   float64 `json:"error_share,omitempty"`
	ErrorText    string  `json:"error_text,omitempty"`

	SilentShares map[string]float64 `json:"silent_shares,omitempty"` // of writes, or rows of scans, by silent fault
}

// RegionState is a snapshot of a region. Keys are as requests carry them, quoted as in Go where they are not printable.
type RegionState struct {
	ID      uint64   `json:"id"`
	Start   string   `json:"start"`
	End     string   `json:"end"`
	Version uint64   `json:"version"`
	ConfVer uint64   `json:"conf_ver"`
	Leader  uint64   `json:"leader"` // store id; 0 for none
	Peers   []uint64 `json:"peers"`  // store ids
}

// State returns a snapshot of the cluster.
func (c *Cluster) State() State {
	t := c.topology.routes.Load()
	st := State{
		ClusterID: c.id, APIVersion: c.opts.APIVersion, DataDir: c.opts.DataDir,
		PD: PDState{Addr: c.PDAddr(), Up: c.pd.server.running(), Requests: map[string]uint64{}},
	}
	if c.opts.APIVersion == V2 {
		st.Keyspaces = c.keyspaces
	}
	c.pd.requests.Range(func(method, n any) bool {
		st.PD.Requests[method.(string)] = n.(*atomic.Uint64).Load()
		return true
	})
	for _, s := range c.stores {
		st.Stores = append(st.Stores, s.state())
	}
	for _, r := range t.ordered {
		rs := RegionState{
			ID: r.id(), Start: printable(r.start), End: printable(r.end),
			Version: r.version(), ConfVer: r.meta.RegionEpoch.ConfVer, Leader: r.leader.GetStoreId(),
		}
		for _, p := range r.meta.Peers {
			rs.Peers = append(rs.Peers, p.StoreId)
			st.Stores[p.StoreId-1].Regions++
		}
		if rs.Leader != 0 {
			st.Stores[rs.Leader-1].Leaders++
		}
		st.Regions = append(st.Regions, rs)
	}
	return st
}

func (s *store) state() StoreState {
	st := StoreState{
		ID: s.id, Addr: s.cluster.advertised(s.server.addr), Status: s.cluster.advertised(s.status.addr), Up: s.up.Load(),
		Commands: map[string]uint64{}, Unary: map[string]uint64{},
		Messages: s.stats.messages.Load(), MessageSizes: map[string]uint64{}, RegionErrors: s.stats.refusedByType(),
		SilentFaults: map[string]uint64{},
	}
	for cmd, name := range commandNames {
		if n := s.stats.batched[cmd].Load(); n > 0 {
			st.Commands[name] = n
		}
		if n := s.stats.unary[cmd].Load(); n > 0 {
			st.Unary[name] = n
		}
	}
	for i := range s.stats.sizes {
		if n := s.stats.sizes[i].Load(); n > 0 {
			st.MessageSizes[sizeBucket(i)] = n
		}
	}
	for f := range silentFaults {
		if n := s.stats.silent[f].Load(); n > 0 {
			st.SilentFaults[f.String()] = n
		}
	}
	d, now := s.trouble.Load(), time.Now()
	if d == nil {
		return st
	}
	if q := d.queue; q != nil {
		st.Queue = &QueueState{ServiceMS: milliseconds(q.Time), Spread: q.Spread, Servers: q.Servers, Capacity: q.Capacity(), WaitMS: milliseconds(q.wait(now))}
	}
	if d.disturbs(now) {
		st.Disturbance = &DisturbanceState{
			StalledForMS: milliseconds(max(0, d.stalledUntil.Sub(now))), SlowByMS: milliseconds(d.slowBy), SlowShare: d.slowShare,
			BusyShare: d.busyShare, ErrorShare: d.errorShare, ErrorText: d.errorText, SilentShares: map[string]float64{},
		}
		for f, on := range d.silent {
			if on != nil {
				st.Disturbance.SilentShares[SilentFault(f).String()] = on.share
			}
		}
	}
	return st
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func printable(key []byte) string {
	quoted := strconv.QuoteToASCII(string(key))
	return quoted[1 : len(quoted)-1]
}
