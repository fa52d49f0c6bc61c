// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kvbench/kvbench/internal/store"
)

// How the part of the key space that probes write to is divided, and how often it is looked at.
const (
	slotsPerStore = 4   // so that PD can give each store one to lead
	mostSlots     = 256 // two hexadecimal digits
	lookPause     = time.Second
	lookTime      = 3 * time.Second
	spreadTime    = 10 * time.Second // for PD to give each store a region at the start
	lackTime      = 10 * time.Second // without one, before PD is asked again
	spreadPause   = 30 * time.Second // between two such requests
)

// layout is where the slots are, as PD has it.
type layout struct {
	stores  []store.Member
	regions []store.Region
	leaders []uint64 // by slot; 0: none at present
}

// region returns the region of a slot.
func (l *layout) region(key []byte) *store.Region {
	for i := range l.regions {
		r := &l.regions[i]
		if bytes.Compare(r.Start, key) <= 0 && (len(r.End) == 0 || bytes.Compare(key, r.End) < 0) {
			return r
		}
	}
	return nil
}

// lacking returns the stores that lead no slot.
func (l *layout) lacking() (ids []uint64) {
	for _, s := range l.stores {
		if !slices.Contains(l.leaders, s.ID) {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// ground is the part of the key space that probes write to. Its methods may be called from any goroutine.
type ground struct {
	admin store.Admin
	table string
	id    string
	slots int

	mu   sync.Mutex
	used map[int]bool // slots that are written to
}

// slot is what the keys of a slot begin with.
func (g *ground) slot(i int) []byte { return fmt.Appendf(nil, "%s:%02x", g.table, i) }

// prefix is what the keys of this probe in a slot begin with.
func (g *ground) prefix(slot int) []byte { return fmt.Appendf(g.slot(slot), "/%s/", g.id) }

// bounds are those of all slots.
func (g *ground) bounds() (first, end []byte) { return g.slot(0), []byte(g.table + ";") }

func (g *ground) use(slots map[int]bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used = slots
}

// look asks PD where the slots are.
func (g *ground) look(ctx context.Context) (*layout, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	stores, err := g.admin.Stores(ctx)
	if err != nil {
		return nil, err
	}
	first, end := g.bounds()
	regions, err := g.admin.Regions(ctx, first, end)
	if err != nil {
		return nil, err
	}
	l := &layout{stores: stores, regions: regions}
	for i := range g.slots {
		leader := uint64(0)
		if r := l.region(g.prefix(i)); r != nil {
			leader = r.Leader
		}
		l.leaders = append(l.leaders, leader)
	}
	return l, nil
}

// spread asks PD for a region for each slot, and that those be spread over the stores which nothing is written to.
func (g *ground) spread(ctx context.Context, l *layout) error {
	ctx, cancel := context.WithTimeout(ctx, spreadTime)
	defer cancel()
	first, end := g.bounds()
	borders := [][]byte{first, end}
	for i := 1; i < g.slots; i++ {
		borders = append(borders, g.slot(i))
	}
	there := make(map[string]bool)
	for _, r := range l.regions {
		there[string(r.Start)], there[string(r.End)] = true, true
	}
	borders = slices.DeleteFunc(borders, func(key []byte) bool { return there[string(key)] })
	var split error
	if len(borders) > 0 {
		split = g.admin.Split(ctx, borders)
	}
	l, err := g.look(ctx)
	if err != nil {
		return err
	}
	inUse := make(map[uint64]bool)
	g.mu.Lock()
	for slot := range g.used {
		if r := l.region(g.prefix(slot)); r != nil {
			inUse[r.ID] = true
		}
	}
	g.mu.Unlock()
	var spare []uint64
	for _, r := range l.regions {
		// What lies beyond the slots as well is other people's.
		if !inUse[r.ID] && bytes.Compare(r.Start, first) >= 0 && len(r.End) > 0 && bytes.Compare(r.End, end) <= 0 {
			spare = append(spare, r.ID)
		}
	}
	if len(spare) == 0 {
		return split
	}
	if err := g.admin.Scatter(ctx, spare, "kvbench-"+g.table); err != nil {
		return err
	}
	return split
}

// prepare sees to it that each store leads a slot, if that can be done in time.
func (g *ground) prepare(ctx context.Context, split bool, say func(string)) (*layout, error) {
	l, err := g.look(ctx)
	if err != nil || !split {
		return l, err
	}
	var refused error
	for deadline, asked := time.Now().Add(spreadTime), false; ; {
		if len(l.lacking()) == 0 {
			return l, nil
		}
		if time.Now().After(deadline) {
			if refused != nil {
				say(fmt.Sprintf("PD has not given each store a region to probe: %v", refused))
			}
			return l, nil // who lacks one is said, and looked for meanwhile
		}
		if !asked || refused != nil {
			asked, refused = true, g.spread(ctx, l)
		}
		if l, err = g.look(ctx); err != nil {
			return nil, err
		}
		if len(l.lacking()) == 0 {
			return l, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lookPause / 4):
		}
	}
}

// follow looks where the slots are until ctx ends, and hands over what is new. When a store has led none
// for some time (it was down and is back, or regions were merged), PD is asked to spread those that nothing is written to.
func (g *ground) follow(ctx context.Context, split bool, say func(string), found func(*layout)) {
	ticks := time.NewTicker(lookPause)
	defer ticks.Stop()
	lacked := make(map[uint64]time.Time)
	var asked time.Time
	silent := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		l, err := g.look(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			if !silent {
				say(fmt.Sprintf("where the keys are is not known at present; probes go on where they were: %v", err))
			}
			silent = true
			continue
		}
		silent = false
		found(l)
		now, long := time.Now(), false
		lacking := l.lacking()
		for id := range lacked {
			if !slices.Contains(lacking, id) {
				delete(lacked, id)
			}
		}
		for _, id := range lacking {
			if since, ok := lacked[id]; !ok {
				lacked[id] = now
			} else if now.Sub(since) >= lackTime {
				long = true
			}
		}
		if split && long && now.Sub(asked) >= spreadPause {
			asked = now
			_ = g.spread(ctx, l) // the next look shows what has come of it
		}
	}
}
