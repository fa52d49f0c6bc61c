// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"fmt"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
)

// resolveEvery is how often a region's resolved timestamp moves on (TiKV's resolved-ts.advance-ts-interval, which is up to 20 s there).
const resolveEvery = time.Second

// resolved are the timestamps up to which nothing can be committed any more in a region, so that any replica can be read at them.
type resolved struct {
	mu       sync.Mutex
	byRegion map[regionVersion]resolvedAt
}

// regionVersion is a region as long as its bounds stay.
type regionVersion struct{ id, version uint64 }

type resolvedAt struct {
	ts    uint64
	since time.Time
}

// readable is txnHolder for reads at ts: other commands know of the read when it returns.
func (c *call) readable(ctx *kvrpcpb.Context, ts uint64, encoded ...[]byte) *errorpb.Error {
	r, err := c.txnHolder(ctx, encoded...)
	if err != nil {
		return err
	}
	return c.awaitRead(r, ctx, ts, encoded...)
}

// awaitRead readies a read of keys, or of any if there are none. One that may be stale is refused above the region's resolved timestamp; below it,
// nothing is committed any more that it would have to know of.
func (c *call) awaitRead(r *region, ctx *kvrpcpb.Context, ts uint64, encoded ...[]byte) *errorpb.Error {
	if !ctx.GetStaleRead() {
		c.storage.txn.readAt(ts, encoded...)
		return nil
	}
	safe, err := c.resolve(r)
	switch {
	case err != nil:
		return c.refuse("Other", &errorpb.Error{Message: err.Error()})
	case ts > safe:
		return c.refuse("DataIsNotReady", &errorpb.Error{
			Message:        fmt.Sprintf("data is not ready, region %d, read at %d, safe until %d", r.id(), ts, safe),
			DataIsNotReady: &errorpb.DataIsNotReady{RegionId: r.id(), PeerId: ctx.GetPeer().GetId(), SafeTs: safe},
		})
	}
	return nil
}

// resolve returns a region's resolved timestamp. It lies before the oldest transaction that is about to write there.
func (c *call) resolve(r *region) (uint64, error) {
	all := &c.storage.txn.resolved
	all.mu.Lock()
	defer all.mu.Unlock()
	key := regionVersion{r.id(), r.version()}
	was, known := all.byRegion[key]
	if known && time.Since(was.since) < resolveEvery {
		return was.ts, nil
	}
	ts := composeTS(c.cluster.pd.tso.take(1))
	c.storage.txn.readAt(ts) // commits at earlier timestamps are over or have left their locks
	_, err := c.locksIn(r, scanRange{}, func(l *kvrpcpb.LockInfo) bool {
		if l.LockType != kvrpcpb.Op_PessimisticLock {
			ts = min(ts, l.LockVersion-1)
		}
		return false
	}, 0)
	if err != nil {
		return 0, err
	}
	if all.byRegion == nil {
		all.byRegion = map[regionVersion]resolvedAt{}
	}
	was = resolvedAt{max(ts, was.ts), time.Now()}
	all.byRegion[key] = was
	return was.ts, nil
}
