// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
)

// call is the working memory of the commands that are served together: those of one BatchCommands message, or one unary call. It
// sees one version of the regions, gathers the writes into one batch, and owns the memory that responses point into.
type call struct {
	*store
	routes  *routes
	fault   fault           // what trouble does to the current command
	trouble *trouble        // of the store when the call began
	done    <-chan struct{} // closed when nobody waits for the answer any more

	batch *pebble.Batch // the writes so far; nil when there are none
	key   []byte        // the stored form of the current key
	arena arena
	pairs pairs
}

// begin readies the call for new commands; what earlier responses point into is overwritten.
func (c *call) begin(s *store) {
	c.store, c.routes, c.fault, c.trouble = s, s.topology.routes.Load(), fault{}, s.trouble.Load()
	c.arena.reset()
	c.pairs.reset()
}

// finish makes the writes visible. Only then may the responses be sent.
func (c *call) finish() error {
	if c.batch == nil {
		return nil
	}
	err := errors.Join(c.storage.commit(c.batch), c.batch.Close())
	c.batch = nil
	return err
}

// write adds to the batch of the call. Writes that must be atomic against compare-and-swap are made at once, one at a time.
func (c *call) write(forCAS bool, add func(*pebble.Batch) error) error {
	if !forCAS {
		if c.batch == nil {
			c.batch = c.storage.db.NewBatch()
		}
		return add(c.batch)
	}
	c.storage.casMu.Lock()
	defer c.storage.casMu.Unlock()
	b := c.storage.db.NewBatch()
	defer b.Close()
	if err := add(b); err != nil {
		return err
	}
	return c.storage.commit(b)
}

// stored returns key as Pebble has it, valid until the next call of stored.
func (c *call) stored(family byte, key []byte) []byte {
	c.key = append(append(c.key[:0], family), key...)
	return c.key
}

func (c *call) lookup(family byte, key []byte) (value []byte, found bool, err error) {
	stored, closer, err := c.storage.db.Get(c.stored(family, key))
	if err == pebble.ErrNotFound {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	e := c.storage.openValue(stored)
	if found = c.storage.live(e); found {
		value = c.keep(e.value)
	}
	return value, found, closer.Close()
}

func (c *call) keep(b []byte) []byte { return c.arena.keep(b) }

func (c *call) pair(key, value []byte) *kvrpcpb.KvPair {
	p := c.pairs.next()
	p.Key, p.Value = key, value
	return p
}

// accept checks what does not depend on the region, and returns the column family.
func (c *call) accept(ctx *kvrpcpb.Context, cmd command, cf string, keys ...[]byte) (byte, error) {
	if c.fault.text != "" {
		return 0, errors.New(c.fault.text)
	}
	want := kvrpcpb.APIVersion_V1 // V1TTL is asked for as V1
	if c.storage.version == V2 {
		want = kvrpcpb.APIVersion_V2
	}
	if got := ctx.GetApiVersion(); got != want {
		return 0, fmt.Errorf("Api version in request does not match with TiKV storage, cmd: %v, storage: %v, request: %v",
			cmd, c.storage.version, got)
	}
	for _, key := range keys {
		if err := c.checkKeyMode(cmd, key); err != nil {
			return 0, err
		}
	}
	return c.storage.family(cf)
}

// checkKeyMode demands the prefix of raw keys under API V2.
func (c *call) checkKeyMode(cmd command, key []byte) error {
	if c.storage.version == V2 && (len(key) < 4 || key[0] != 'r') {
		return fmt.Errorf("Key mode mismatched with the request mode, cmd: %v, storage: V2, mode: raw, key: %X", cmd, key)
	}
	return nil
}

// region finds the region that a request names, when this store leads it at the version that the client knows.
func (c *call) region(ctx *kvrpcpb.Context) (*region, *errorpb.Error) {
	if c.fault.busy {
		return nil, c.refuse("ServerIsBusy", &errorpb.Error{
			Message: "server is busy", ServerIsBusy: &errorpb.ServerIsBusy{Reason: "scheduler is busy"},
		})
	}
	id, peer := ctx.GetRegionId(), ctx.GetPeer()
	if peer.GetStoreId() != c.id {
		return nil, c.refuse("StoreNotMatch", &errorpb.Error{
			Message:       fmt.Sprintf("to store id %d, mine %d", peer.GetStoreId(), c.id),
			StoreNotMatch: &errorpb.StoreNotMatch{RequestStoreId: peer.GetStoreId(), ActualStoreId: c.id},
		})
	}
	r := c.routes.byID[id]
	var mine *metapb.Peer
	if r != nil {
		mine = r.peerOn(c.id)
	}
	switch {
	case mine == nil:
		return nil, c.refuse("RegionNotFound", &errorpb.Error{
			Message: fmt.Sprintf("region %d not found", id), RegionNotFound: &errorpb.RegionNotFound{RegionId: id},
		})
	case mine.Id != peer.GetId():
		return nil, c.refuse("MismatchPeerId", &errorpb.Error{
			Message: fmt.Sprintf("mismatch peer id %d != %d", peer.GetId(), mine.Id),
		})
	case r.leader != mine && !ctx.GetStaleRead() && !(ctx.GetReplicaRead() && r.leader != nil):
		return nil, c.notLeader(r)
	case ctx.GetRegionEpoch().GetVersion() != r.version():
		return nil, c.epochNotMatch(r)
	}
	return r, nil
}

// holder is region for a request whose keys must lie in it.
func (c *call) holder(ctx *kvrpcpb.Context, keys ...[]byte) (*region, *errorpb.Error) {
	r, err := c.region(ctx)
	for i := 0; err == nil && i < len(keys); i++ {
		err = c.checkKey(r, keys[i])
	}
	return r, err
}

// notLeader names the leader, unless it is gone and the others have not elected a new one.
func (c *call) notLeader(r *region) *errorpb.Error {
	hint := r.leader
	if hint != nil && !c.cluster.storeUp(hint.StoreId) {
		hint = nil
	}
	return c.refuse("NotLeader", &errorpb.Error{
		Message:   fmt.Sprintf("peer is not leader for region %d, leader may %v", r.id(), hint),
		NotLeader: &errorpb.NotLeader{RegionId: r.id(), Leader: hint},
	})
}

// epochNotMatch shows the current region and its left neighbour, which is where a split puts the new part.
func (c *call) epochNotMatch(r *region) *errorpb.Error {
	current := []*metapb.Region{r.meta}
	if i := c.routes.index(r.start); i > 0 && c.routes.ordered[i-1].peerOn(c.id) != nil {
		current = append(current, c.routes.ordered[i-1].meta)
	}
	return c.refuse("EpochNotMatch", &errorpb.Error{
		Message:       fmt.Sprintf("current epoch of region %d is %v", r.id(), r.meta.RegionEpoch),
		EpochNotMatch: &errorpb.EpochNotMatch{CurrentRegions: current},
	})
}

func (c *call) checkKey(r *region, key []byte) *errorpb.Error {
	if r.contains(key) {
		return nil
	}
	return c.keyNotInRegion(r, key)
}

// checkSeek demands that a scan starts in the region, or just at its end; a reverse scan may start from nowhere, meaning the end.
func (c *call) checkSeek(r *region, from []byte, reverse bool) *errorpb.Error {
	if reverse && len(from) == 0 || r.contains(from) || bytes.Equal(from, r.end) {
		return nil
	}
	return c.keyNotInRegion(r, from)
}

func (c *call) keyNotInRegion(r *region, key []byte) *errorpb.Error {
	return c.refuse("KeyNotInRegion", &errorpb.Error{
		Message: fmt.Sprintf("key %X is not in region %d [%X, %X)", key, r.id(), r.meta.StartKey, r.meta.EndKey),
		KeyNotInRegion: &errorpb.KeyNotInRegion{
			Key: bytes.Clone(key), RegionId: r.id(), StartKey: r.meta.StartKey, EndKey: r.meta.EndKey,
		},
	})
}

func (c *call) checkEntry(r *region, size int) *errorpb.Error {
	if size <= maxRaftEntry {
		return nil
	}
	return c.refuse("RaftEntryTooLarge", &errorpb.Error{
		Message:           fmt.Sprintf("raft entry is too large, region %d, entry size %d", r.id(), size),
		RaftEntryTooLarge: &errorpb.RaftEntryTooLarge{RegionId: r.id(), EntrySize: uint64(size)},
	})
}

// refuse counts a region error.
func (c *call) refuse(kind string, err *errorpb.Error) *errorpb.Error {
	c.stats.refused(kind)
	return err
}

// arena keeps copies of bytes until it is reset. It grows by whole chunks, so that earlier copies stay where they are.
type arena struct{ chunk []byte }

const (
	arenaChunk = 64 << 10
	arenaKept  = 4 << 20 // a larger chunk is not kept for the next use
)

func (a *arena) reset() {
	if cap(a.chunk) > arenaKept {
		a.chunk = nil
	}
	a.chunk = a.chunk[:0]
}

func (a *arena) keep(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	if cap(a.chunk)-len(a.chunk) < len(b) {
		a.chunk = make([]byte, 0, max(arenaChunk, len(b)))
	}
	n := len(a.chunk)
	a.chunk = append(a.chunk, b...)
	return a.chunk[n:len(a.chunk):len(a.chunk)]
}

// pairs hands out pairs that are used again after a reset.
type pairs struct {
	all  []*kvrpcpb.KvPair
	used int
}

const (
	pairsChunk = 32
	pairsKept  = 4096
)

func (p *pairs) reset() {
	if len(p.all) > pairsKept {
		p.all = nil
	}
	p.used = 0
}

func (p *pairs) next() *kvrpcpb.KvPair {
	if p.used == len(p.all) {
		chunk := make([]kvrpcpb.KvPair, pairsChunk)
		for i := range chunk {
			p.all = append(p.all, &chunk[i])
		}
	}
	p.used++
	pair := p.all[p.used-1]
	*pair = kvrpcpb.KvPair{}
	return pair
}
