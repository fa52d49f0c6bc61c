// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"errors"
	"fmt"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
)

// SplitRegion splits the region that holds key so that a region starts at it, and returns the id of the new, left part. The key is as
// requests carry it: under API V2, with the prefix of its keyspace (see Key).
func (c *Cluster) SplitRegion(key []byte) (uint64, error) {
	_, created, err := c.topology.split([][]byte{key})
	if err != nil {
		return 0, fmt.Errorf("split at %q: %w", key, err)
	}
	return created[0], nil
}

// MergeRegion merges the region that holds key into its right neighbour, and returns that one's id.
func (c *Cluster) MergeRegion(key []byte) (uint64, error) {
	r, err := c.topology.merge(key)
	if err != nil {
		return 0, fmt.Errorf("merge: %w", err)
	}
	return r.id(), nil
}

// Key returns a client's key as regions are split at it: under API V2, after the prefix of the keyspace (empty is DEFAULT); under V1, one
// of a transaction in memcomparable form.
func (c *Cluster) Key(keyspace string, key []byte) ([]byte, error) {
	if c.opts.APIVersion != V2 {
		if keyspace != "" {
			return nil, errors.New(errKeyspacesWithoutV2)
		}
		if c.opts.API == TxnAPI {
			return encodeKey(key), nil
		}
		return key, nil
	}
	if keyspace == "" {
		keyspace = defaultKeyspace
	}
	id, ok := keyspaceID(c.keyspaces, keyspace)
	if !ok {
		return nil, fmt.Errorf("keyspace %q does not exist", keyspace)
	}
	return append(c.opts.API.keyspacePrefix(id), key...), nil
}

// MoveLeader makes another store the leader of a region; store 0 picks a random one that is up. The region's epoch stays.
func (c *Cluster) MoveLeader(regionID, storeID uint64) error {
	r := c.topology.routes.Load().byID[regionID]
	switch {
	case r == nil:
		return fmt.Errorf("region %d does not exist", regionID)
	case storeID != 0 && r.peerOn(storeID) == nil:
		return fmt.Errorf("region %d has no peer on store %d", regionID, storeID)
	case storeID != 0 && !c.storeUp(storeID):
		return fmt.Errorf("store %d is down", storeID)
	}
	_, err := c.topology.relead(func(r *region) *metapb.Peer {
		if r.id() != regionID {
			return r.leader
		}
		if p := r.peerOn(storeID); p != nil {
			return p
		}
		return c.otherLeader(r, r.leader)
	})
	return err
}

// MoveLeaders gives every region another leader, at random, and returns how many moved.
func (c *Cluster) MoveLeaders() (int, error) {
	return c.topology.relead(func(r *region) *metapb.Peer { return c.otherLeader(r, r.leader) })
}

// lookup returns a store by the id that a user gave.
func (c *Cluster) lookup(id uint64) (*store, error) {
	s := c.store(id)
	if s == nil {
		return nil, fmt.Errorf("store %d does not exist: want 1 to %d", id, len(c.stores))
	}
	return s, nil
}

var errClosed = errors.New("the cluster is closed")

// change runs a change of what is up, one at a time, while the cluster is open.
func (c *Cluster) change(do func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.closing:
		return errClosed
	default:
		return do()
	}
}

// StopStore ends a store as a crash would: its port is closed, its connections too. After the election delay its regions get leaders
// among the stores that are up, where these are a majority of a region's peers. Commands in service are cut off; their writes may be
// in effect.
func (c *Cluster) StopStore(id uint64) error {
	s, err := c.lookup(id)
	if err != nil {
		return err
	}
	return c.change(func() error {
		s.stop()
		c.scheduleElection()
		return nil
	})
}

// DrainStore moves a store's leaders to other stores and then ends it, as TiKV does when it is told to stop; TiKV takes its time
// over that. It returns how many leaders moved.
func (c *Cluster) DrainStore(id uint64) (moved int, err error) {
	s, err := c.lookup(id)
	if err != nil {
		return 0, err
	}
	err = c.change(func() error {
		moved, err = c.topology.relead(func(r *region) *metapb.Peer {
			if r.leader.GetStoreId() != id {
				return r.leader
			}
			return c.otherLeader(r, r.leader)
		})
		if err != nil {
			return err
		}
		s.stop()
		c.scheduleElection() // of regions that no other store could lead
		return nil
	})
	return moved, err
}

// StartStore starts a stopped store at its old address. It leads no region, except those that had no leader, until leaders move.
func (c *Cluster) StartStore(id uint64) error {
	s, err := c.lookup(id)
	if err != nil {
		return err
	}
	return c.change(func() error {
		if err := s.start(); err != nil {
			return err
		}
		c.scheduleElection()
		return nil
	})
}

// StallStore lets a store answer no command for a time, as a stalled disk would; its connections and health checks work. Zero ends it.
func (c *Cluster) StallStore(id uint64, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("stall of %v is negative", d)
	}
	return c.disturb(id, func(now *trouble) { now.stalledUntil = time.Now().Add(d) })
}

// SlowStore serves a share (0 to 1) of a store's commands later by a latency. Zero latency or share ends it.
func (c *Cluster) SlowStore(id uint64, latency time.Duration, share float64) error {
	if latency < 0 {
		return fmt.Errorf("latency of %v is negative", latency)
	}
	if latency == 0 {
		share = 0
	}
	return c.disturbShare(id, share, func(now *trouble) { now.slowBy, now.slowShare = latency, share })
}

// SetBusy answers a share (0 to 1) of a store's commands with the region error ServerIsBusy. Zero ends it.
func (c *Cluster) SetBusy(id uint64, share float64) error {
	return c.disturbShare(id, share, func(now *trouble) { now.busyShare = share })
}

// SetRawError answers a share (0 to 1) of a store's commands with an error that clients do not retry. Zero ends it.
func (c *Cluster) SetRawError(id uint64, share float64, text string) error {
	if share > 0 && text == "" {
		return errors.New("the text of a raw error must not be empty")
	}
	return c.disturbShare(id, share, func(now *trouble) { now.errorShare, now.errorText = share, text })
}

func (c *Cluster) disturb(id uint64, change func(*trouble)) error {
	s, err := c.lookup(id)
	if err == nil {
		s.disturb(change)
	}
	return err
}

func (c *Cluster) disturbShare(id uint64, share float64, change func(*trouble)) error {
	if !(share >= 0 && share <= 1) {
		return fmt.Errorf("share %v: want 0 to 1", share)
	}
	return c.disturb(id, change)
}

// ResetConnections resets all connections to a store, and returns how many they were. The store goes on listening.
func (c *Cluster) ResetConnections(id uint64) (int, error) {
	s, err := c.lookup(id)
	if err != nil {
		return 0, err
	}
	return s.server.reset(), nil
}

// StopPD ends PD as a crash would. Clients go on with the regions they know.
func (c *Cluster) StopPD() error {
	return c.change(func() error { c.pd.server.stop(); return nil })
}

// StartPD starts PD again at its old address.
func (c *Cluster) StartPD() error { return c.change(c.pd.server.start) }

// Restore ends all disturbances: PD and all stores are up and undisturbed, with the queues and leaders spread over the stores as at
// the start. Splits and merges stay.
func (c *Cluster) Restore() error {
	return c.change(func() error {
		err := c.pd.server.start()
		for _, s := range c.stores {
			s.disturb(func(now *trouble) { *now = trouble{queue: newQueue(c.opts.Service)} })
			err = errors.Join(err, s.start())
		}
		_, leadErr := c.topology.relead(func(r *region) *metapb.Peer {
			if p := r.meta.Peers[0]; c.storeUp(p.StoreId) {
				return p
			}
			return r.leader
		})
		return errors.Join(err, leadErr)
	})
}
