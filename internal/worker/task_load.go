// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"
	"sync"
	"time"

	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/lane"
	"github.com/kvbench/kvbench/internal/manifest"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/workload"
)

// loadTask is a worker's part of a load: what is there already, what its lanes
// have added, and where that is remembered.
type loadTask struct {
	*engine
	plan    *manifest.Plan
	sources []*loadSource    // by lane
	keeper  *manifest.Keeper // nil: the user has forbidden it
	begun   bool             // the keeper has written that the load has begun
}

// before plans the load by what is remembered, and opens a session to remember it by.
func (k *loadTask) before(t *table, found *workerpb.PrepareResponse) error {
	m, err := t.manifest()
	if err != nil {
		return err
	}
	var lanes []manifest.Lane
	if m != nil && m.Pending != nil {
		if lanes, err = t.keeper.Lanes(m.LoadID); err != nil {
			return err
		}
	}
	if k.plan, err = manifest.ForLoad(k.spec, k.id, m, lanes); err != nil {
		return refusal{err}
	}
	found.Warnings = append(found.Warnings, k.plan.Warnings...)
	found.Present, found.Complete = k.plan.Present, k.plan.Complete
	if k.plan.Complete {
		_, there, _, err := t.lookUp()
		if err != nil {
			return err
		}
		if there == 0 {
			return refusal{fmt.Errorf("table %q is remembered as loaded, and none of the records looked up is there: load it again with -p reload=true", k.spec.Key.Table)}
		}
	}
	if k.spec.Manifest != spec.InStore {
		return nil
	}
	session, err := k.session(1)
	if err != nil {
		return err
	}
	k.keeper = &manifest.Keeper{Session: session, Clock: &k.clock, Table: k.spec.Key.Table, Timeout: rememberTimeout}
	return nil
}

func (k *loadTask) source(p workload.Place) (lane.Source, error) {
	generator, err := workload.New(k.spec, p)
	if err != nil {
		return nil, err
	}
	l := newLoadSource(generator, k.plan, p, k.spec)
	k.sources = append(k.sources, l)
	return l, nil
}

// Writing down how far a load has come.
const (
	rememberEvery   = 2 * time.Second
	rememberTimeout = time.Second
	rememberTries   = 10 // at the end, unless somebody waits for it
)

// beside writes down how far the load has come. What cannot be written is tried again
// later; a load does not end for it.
func (k *loadTask) beside(ended <-chan struct{}) {
	tick := time.NewTicker(rememberEvery)
	defer tick.Stop()
	for {
		if err := k.remember(); err != nil {
			k.log.Warn("how far the load has come cannot be written down; it is tried again", "error", err)
		}
		select {
		case <-tick.C:
		case <-ended:
			return
		}
	}
}

// after writes down that the load is complete, if this worker is the last one.
func (k *loadTask) after(r *run, _ *results.End) error {
	forgotten := k.rememberEnd(r.released)
	if n := k.missing(); n > 0 {
		return fmt.Errorf("%d of its batches could not be inserted: run kvbench load again, it makes up for them", n)
	}
	if forgotten != nil {
		return fmt.Errorf("every record is in the store, but that could not be written down (%w): run kvbench load again", forgotten)
	}
	return nil
}

func (k *loadTask) rememberEnd(released <-chan struct{}) error {
	tick := time.NewTicker(rememberEvery)
	defer tick.Stop()
	for try := 1; ; try++ {
		err := k.remember()
		if err == nil {
			err = k.complete()
		}
		if err == nil || try == rememberTries {
			return err
		}
		select {
		case <-released:
			return err
		case <-tick.C:
		}
	}
}

// remember writes down how far the load has come, if it may.
func (k *loadTask) remember() error {
	if k.keeper == nil {
		return nil
	}
	if !k.begun {
		if err := k.keeper.Write(k.plan.Manifest); err != nil {
			return err
		}
		k.begun = true
	}
	all := make([]manifest.Lane, len(k.sources))
	for i, l := range k.sources {
		all[i] = l.progress(k.id)
	}
	return k.keeper.WriteLanes(k.plan.Manifest.LoadID, all)
}

// complete writes down that the load is complete, if all lanes of all workers are
// through. Whichever worker comes last sees that; when two do, they write the same.
func (k *loadTask) complete() error {
	if k.keeper == nil {
		return nil
	}
	load := k.plan.Manifest.LoadID
	lanes, err := k.keeper.Lanes(load)
	if err != nil || !manifest.Finished(lanes, k.id, k.workers) {
		return err
	}
	// Somebody may have begun another load since.
	if m, err := k.keeper.Read(); err != nil || m == nil || m.LoadID != load {
		return err
	}
	if err := k.keeper.Write(k.plan.Done()); err != nil {
		return err
	}
	return k.keeper.Forget(load)
}

// missing returns how many batches of this worker's share are not in the store.
func (k *loadTask) missing() int64 {
	var n int64
	for _, l := range k.sources {
		l.known.Lock()
		n += l.turns - l.done.Len()
		l.known.Unlock()
	}
	return n
}

// loadSource is the source of a lane of a load: it leaves out the batches that
// are in the store already, and notes which of its own the store has acknowledged.
type loadSource struct {
	lane.Source
	plan  *manifest.Plan
	place workload.Place
	turns int64 // batches of its share
	batch int64
	count int64 // records that are asked for

	next  int64         // the turn to begin next
	turn  map[int]int64 // in flight, by thread
	known sync.Mutex    // guards done; its other user comes every few seconds
	done  workload.Done // turns
}

func newLoadSource(source lane.Source, plan *manifest.Plan, p workload.Place, s *spec.Spec) *loadSource {
	l := &loadSource{Source: source, plan: plan, place: p, batch: int64(s.Batch), count: s.InsertCount, turn: make(map[int]int64)}
	l.turns = l.atOrAfter(workload.Batches(s))
	return l
}

// atOrAfter returns the lane's first turn whose index is at least that.
func (l *loadSource) atOrAfter(index int64) int64 {
	step := l.place.Index(1) - l.place.Index(0)
	return max(0, (index-l.place.Index(0)+step-1)/step)
}

// Begin implements [lane.Source]. The lane's own count of operations is not that
// of the load's batches, because some are left out.
func (l *loadSource) Begin(op *workload.Operation, _ int64) bool {
	for {
		index := l.place.Index(l.next)
		there := l.plan.Skip(index)
		if there <= index {
			break
		}
		to := min(l.atOrAfter(there), l.turns)
		if to <= l.next {
			break
		}
		l.known.Lock()
		l.done.AddRange(l.next, to)
		l.known.Unlock()
		l.next = to
	}
	if !l.Source.Begin(op, l.place.Index(l.next)) {
		return false
	}
	l.turn[op.Call.Owner] = l.next
	l.next++
	return true
}

// Continue implements [lane.Source].
func (l *loadSource) Continue(op *workload.Operation) bool {
	if l.Source.Continue(op) {
		return true
	}
	if op.Result.Count[workload.Failed] == 0 {
		l.known.Lock()
		l.done.Add(l.turn[op.Call.Owner])
		l.known.Unlock()
	}
	return false
}

// progress returns how far the lane has come.
func (l *loadSource) progress(run string) manifest.Lane {
	p := l.place
	progress := manifest.Lane{Run: run, Count: l.count, LaneProgress: workload.LaneProgress{
		Worker: p.Worker, Workers: p.Workers, Lane: p.Lane, Lanes: p.Lanes, Batch: l.batch,
	}}
	l.known.Lock()
	defer l.known.Unlock()
	progress.Done.Union(l.done)
	progress.Finished = progress.Done.Next(0) >= l.turns
	return progress
}
