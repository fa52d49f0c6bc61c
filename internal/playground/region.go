// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/pingcap/kvproto/pkg/metapb"
)

// region is one version of a region. It never changes after it is published: a split, a merge or a move of the leader replaces it.
type region struct {
	meta       *metapb.Region
	start, end []byte       // in the form that requests carry; empty is unbounded
	leader     *metapb.Peer // nil while the region has none
}

func (r *region) id() uint64      { return r.meta.Id }
func (r *region) version() uint64 { return r.meta.RegionEpoch.Version }

func (r *region) contains(key []byte) bool {
	return bytes.Compare(key, r.start) >= 0 && (len(r.end) == 0 || bytes.Compare(key, r.end) < 0)
}

// peerOn returns the region's peer on a store, or nil.
func (r *region) peerOn(store uint64) *metapb.Peer {
	for _, p := range r.meta.Peers {
		if p.StoreId == store {
			return p
		}
	}
	return nil
}

// routes is one consistent view of all regions, immutable, so that commands read it without a lock.
type routes struct {
	ordered []*region // by start key; together they cover every key once
	byID    map[uint64]*region
}

// index returns the position of the region that holds key.
func (t *routes) index(key []byte) int {
	return sort.Search(len(t.ordered), func(i int) bool { return bytes.Compare(t.ordered[i].start, key) > 0 }) - 1
}

func (t *routes) find(key []byte) *region { return t.ordered[t.index(key)] }

// check reports whether the regions cover every key once, with peers on stores that exist.
func (t *routes) check(stores int) error {
	var border []byte
	for i, r := range t.ordered {
		last := i == len(t.ordered)-1
		if !bytes.Equal(r.start, border) || len(r.end) == 0 != last || !last && bytes.Compare(r.start, r.end) >= 0 {
			return fmt.Errorf("region %d [%q, %q) does not begin at %q, where the one before ends", r.id(), r.start, r.end, border)
		}
		for _, p := range r.meta.Peers {
			if p.GetStoreId() < 1 || p.GetStoreId() > uint64(stores) {
				return fmt.Errorf("region %d has a peer on store %d, which does not exist", r.id(), p.GetStoreId())
			}
		}
		border = r.end
	}
	if len(t.ordered) == 0 {
		return errors.New("there is no region")
	}
	return nil
}

// with returns the routes after some regions have been replaced or added (by id) and others removed.
func (t *routes) with(changed []*region, removed ...uint64) *routes {
	next := &routes{byID: maps.Clone(t.byID)}
	for _, id := range removed {
		delete(next.byID, id)
	}
	for _, r := range changed {
		next.byID[r.id()] = r
	}
	next.ordered = slices.SortedFunc(maps.Values(next.byID), func(a, b *region) int { return bytes.Compare(a.start, b.start) })
	return next
}

// topology is the placement of regions on stores: what PD knows. Readers load its routes; changes are serialized, and saved before
// they are seen.
type topology struct {
	bounds boundCodec
	save   func(*routes, uint64) error // keeps routes and the next id

	mu     sync.Mutex
	nextID uint64
	routes atomic.Pointer[routes]
}

var errNoSplitKey = errors.New("no valid key found for split")

func (t *topology) publish(next *routes) error {
	if err := t.save(next, t.nextID); err != nil {
		return fmt.Errorf("keep the regions: %w", err)
	}
	t.routes.Store(next)
	return nil
}

func (t *topology) allocID() uint64 {
	t.nextID++
	return t.nextID - 1
}

// newRegion builds a region from its bounds in request form.
func (t *topology) newRegion(id uint64, start, end []byte, epoch metapb.RegionEpoch, peers []*metapb.Peer) *region {
	return &region{
		meta: &metapb.Region{
			Id: id, StartKey: t.bounds.encode(start), EndKey: t.bounds.encode(end), RegionEpoch: &epoch, Peers: peers,
		},
		start: start, end: end,
	}
}

// maxReplicas is PD's default number of peers per region.
const maxReplicas = 3

// bootstrap lays out the first regions, split at the given sorted keys, with peers and leaders in turn over the stores.
func (t *topology) bootstrap(stores []uint64, splitKeys [][]byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	edges := append([][]byte{nil}, splitKeys...)
	edges = append(edges, nil)
	all := make([]*region, 0, len(edges)-1)
	for i := range len(edges) - 1 {
		id := t.allocID()
		peers := make([]*metapb.Peer, min(maxReplicas, len(stores)))
		for j := range peers {
			peers[j] = &metapb.Peer{Id: t.allocID(), StoreId: stores[(i+j)%len(stores)]}
		}
		r := t.newRegion(id, edges[i], edges[i+1], metapb.RegionEpoch{ConfVer: 1, Version: 1}, peers)
		r.leader = peers[0]
		all = append(all, r)
	}
	return t.publish((&routes{byID: map[uint64]*region{}}).with(all))
}

// split cuts regions at keys, as TiKV does: keys on a bound are dropped, the old id keeps the rightmost part, and the version of
// every part grows by the number of new regions. It returns all parts of the regions that were cut, in order, and the ids of the new ones.
func (t *topology) split(keys [][]byte) (parts []*region, created []uint64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.routes.Load()
	keys = slices.CompactFunc(slices.SortedFunc(slices.Values(keys), bytes.Compare), bytes.Equal)
	cuts := map[*region][][]byte{}
	var order []*region
	for _, key := range keys {
		r := now.find(key)
		if bytes.Equal(key, r.start) {
			continue
		}
		if len(cuts[r]) == 0 {
			order = append(order, r)
		}
		cuts[r] = append(cuts[r], bytes.Clone(key))
	}
	if len(order) == 0 {
		return nil, nil, errNoSplitKey
	}
	for _, old := range order {
		epoch := *old.meta.RegionEpoch
		epoch.Version += uint64(len(cuts[old]))
		start := old.start
		for _, key := range cuts[old] {
			part := t.newPart(old, start, key, epoch)
			parts, created = append(parts, part), append(created, part.id())
			start = key
		}
		last := t.newRegion(old.id(), start, old.end, epoch, old.meta.Peers)
		last.leader = old.leader
		parts = append(parts, last)
	}
	return parts, created, t.publish(now.with(parts))
}

// newPart is a new region on the stores of old, led by the same store.
func (t *topology) newPart(old *region, start, end []byte, epoch metapb.RegionEpoch) *region {
	id := t.allocID()
	peers := make([]*metapb.Peer, len(old.meta.Peers))
	for i, p := range old.meta.Peers {
		peers[i] = &metapb.Peer{Id: t.allocID(), StoreId: p.StoreId}
	}
	r := t.newRegion(id, start, end, epoch, peers)
	if old.leader != nil {
		r.leader = r.peerOn(old.leader.StoreId)
	}
	return r
}

// merge joins the region that holds key with its right neighbour, which keeps its id; the version becomes one more than the larger.
func (t *topology) merge(key []byte) (*region, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.routes.Load()
	i := now.index(key)
	if i+1 >= len(now.ordered) {
		return nil, fmt.Errorf("region %d is the last one, it has no right neighbour to merge with", now.ordered[i].id())
	}
	source, target := now.ordered[i], now.ordered[i+1]
	epoch := metapb.RegionEpoch{
		ConfVer: max(source.meta.RegionEpoch.ConfVer, target.meta.RegionEpoch.ConfVer),
		Version: max(source.version(), target.version()) + 1,
	}
	joined := t.newRegion(target.id(), source.start, target.end, epoch, target.meta.Peers)
	joined.leader = target.leader
	return joined, t.publish(now.with([]*region{joined}, source.id()))
}

// relead asks choose for the leader of every region and publishes what differs. It returns how many did.
func (t *topology) relead(choose func(*region) *metapb.Peer) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.routes.Load()
	var changed []*region
	for _, r := range now.ordered {
		if leader := choose(r); leader != r.leader {
			moved := *r
			moved.leader = leader
			changed = append(changed, &moved)
		}
	}
	if len(changed) == 0 {
		return 0, nil
	}
	return len(changed), t.publish(now.with(changed))
}

// scatter spreads regions over stores, those that have the fewest of them first. A region without leader stays as it is, and so do the
// peers of one that has more than there are stores.
func (t *topology) scatter(ids, stores []uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.routes.Load()
	peers, leaders := map[uint64]int{}, map[uint64]int{} // of these regions, by store
	var changed []*region
	for _, id := range ids {
		old := now.byID[id]
		if old == nil || old.leader == nil {
			continue
		}
		moved := *old
		if n := len(old.meta.Peers); n < len(stores) {
			chosen := fewest(stores, peers)[:n]
			epoch := *old.meta.RegionEpoch
			placed := make([]*metapb.Peer, n)
			for i, store := range chosen {
				if placed[i] = old.peerOn(store); placed[i] == nil {
					placed[i] = &metapb.Peer{Id: t.allocID(), StoreId: store}
					epoch.ConfVer += 2 // one added, one removed
				}
			}
			moved = *t.newRegion(id, old.start, old.end, epoch, placed)
		}
		var candidates []uint64
		for _, p := range moved.meta.Peers {
			peers[p.StoreId]++
			if slices.Contains(stores, p.StoreId) {
				candidates = append(candidates, p.StoreId)
			}
		}
		moved.leader = old.leader
		if len(candidates) > 0 {
			moved.leader = moved.peerOn(fewest(candidates, leaders)[0])
		}
		leaders[moved.leader.StoreId]++
		changed = append(changed, &moved)
	}
	if len(changed) == 0 {
		return nil
	}
	return t.publish(now.with(changed))
}

// fewest returns the stores with the fewest regions first, and of equal ones the one with the smaller id.
func fewest(stores []uint64, regions map[uint64]int) []uint64 {
	return slices.SortedFunc(slices.Values(stores), func(a, b uint64) int {
		return cmp.Or(cmp.Compare(regions[a], regions[b]), cmp.Compare(a, b))
	})
}

// indexOfBound is index for a key in the form that PD is asked with.
func (t *routes) indexOfBound(bound []byte) int {
	return sort.Search(len(t.ordered), func(i int) bool { return bytes.Compare(t.ordered[i].meta.StartKey, bound) > 0 }) - 1
}
