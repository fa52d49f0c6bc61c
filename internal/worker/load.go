// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/lane"
	"github.com/kvbench/kvbench/internal/manifest"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/workload"
)

// loading is a worker's part of a load: what is there already, what its lanes
// have added, and where that is remembered.
type loading struct {
	plan   *manifest.Plan
	keeper *manifest.Keeper // nil: the user has forbidden it
	run    string
	lanes  []*loadingLane
}

// loadingLane is the source of a lane of a load: it leaves out the batches that
// are in the store already, and notes which of its own the store has acknowledged.
type loadingLane struct {
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

func newLoadingLane(source lane.Source, plan *manifest.Plan, p workload.Place, s *spec.Spec) *loadingLane {
	l := &loadingLane{Source: source, plan: plan, place: p, batch: int64(s.Batch), count: s.InsertCount, turn: make(map[int]int64)}
	l.turns = l.atOrAfter(workload.Batches(s))
	return l
}

// atOrAfter returns the lane's first turn whose index is at least that.
func (l *loadingLane) atOrAfter(index int64) int64 {
	step := l.place.Index(1) - l.place.Index(0)
	return max(0, (index-l.place.Index(0)+step-1)/step)
}

// Begin implements [lane.Source]. The lane's own count of operations is not that
// of the load's batches, because some are left out.
func (l *loadingLane) Begin(op *workload.Operation, _ int64) bool {
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
func (l *loadingLane) Continue(op *workload.Operation) bool {
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
func (l *loadingLane) progress(run string) manifest.Lane {
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

func (l *loading) progress() []manifest.Lane {
	all := make([]manifest.Lane, len(l.lanes))
	for i, lane := range l.lanes {
		all[i] = lane.progress(l.run)
	}
	return all
}

// Writing down how far a load has come.
const (
	rememberEvery   = 2 * time.Second
	rememberTimeout = time.Second
	rememberTries   = 10 // at the end, unless somebody waits for it
)

// remember writes down how far the load has come, until the lanes have ended, and
// then that it is complete, if this worker is the last one. What cannot be written is
// tried again later; a load does not end for it. The error is that it could not be
// written at the end either.
func (l *loading) remember(ended, released <-chan struct{}, warn func(string, ...any)) error {
	if l.keeper == nil {
		<-ended
		return nil
	}
	begun := false
	write := func() error {
		if !begun {
			if err := l.keeper.Write(l.plan.Manifest); err != nil {
				return err
			}
			begun = true
		}
		return l.keeper.WriteLanes(l.plan.Manifest.LoadID, l.progress())
	}
	tick := time.NewTicker(rememberEvery)
	defer tick.Stop()
	for {
		if err := write(); err != nil {
			warn("how far the load has come cannot be written down; it is tried again", "error", err)
		}
		select {
		case <-tick.C:
			continue
		case <-ended:
		}
		break
	}
	for try := 1; ; try++ {
		err := write()
		if err == nil {
			err = l.complete()
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

// complete writes down that the load is complete, if all lanes of all workers are
// through. Whichever worker comes last sees that; when two do, they write the same.
func (l *loading) complete() error {
	load := l.plan.Manifest.LoadID
	lanes, err := l.keeper.Lanes(load)
	if err != nil || !manifest.Finished(lanes, l.run, l.lanes[0].place.Workers) {
		return err
	}
	// Somebody may have begun another load since.
	if m, err := l.keeper.Read(); err != nil || m == nil || m.LoadID != load {
		return err
	}
	if err := l.keeper.Write(l.plan.Done()); err != nil {
		return err
	}
	return l.keeper.Forget(load)
}

// missing returns how many batches of this worker's share are not in the store.
func (l *loading) missing() int64 {
	var n int64
	for _, lane := range l.lanes {
		lane.known.Lock()
		n += lane.turns - lane.done.Len()
		lane.known.Unlock()
	}
	return n
}

// refusal is an error that the properties must be changed for.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// recall asks what is remembered of the table and whether this run fits it.
func (r *run) recall() error {
	s := r.spec
	keeper := &manifest.Keeper{Session: r.sessions[0], Clock: &r.clock, Table: s.Key.Table, Timeout: recallTimeout}
	var m *manifest.Manifest
	var err error
	if s.Manifest == spec.InStore {
		if m, err = keeper.Read(); err != nil {
			return err
		}
	}
	switch {
	case r.asking:
		loaded, err := m.Records()
		if err != nil {
			return refusal{err}
		}
		if loaded.Count > 0 {
			r.loaded = &workerpb.Range{Start: loaded.Start, Count: loaded.Count}
		}
		return nil
	case s.Phase == spec.Load:
		return r.planLoad(keeper, m)
	case s.Manifest == spec.None:
		r.warnings = append(r.warnings, "manifest=none: not checked whether the table holds the data that this run expects")
		return nil
	case m != nil:
		warnings, err := manifest.ForRun(s, m)
		r.warnings = append(r.warnings, warnings...)
		if err != nil {
			return refusal{err}
		}
	}
	if s.Phase == spec.Run {
		return r.look(keeper, m != nil)
	}
	return nil
}

const recallTimeout = 5 * time.Second

func (r *run) planLoad(keeper *manifest.Keeper, m *manifest.Manifest) error {
	var lanes []manifest.Lane
	var err error
	if m != nil && m.Pending != nil {
		if lanes, err = keeper.Lanes(m.LoadID); err != nil {
			return err
		}
	}
	plan, err := manifest.ForLoad(r.spec, r.id, m, lanes)
	if err != nil {
		return refusal{err}
	}
	r.warnings = append(r.warnings, plan.Warnings...)
	if plan.Complete {
		_, found, _, err := r.lookUp(keeper)
		if err != nil {
			return err
		}
		if found == 0 {
			return refusal{fmt.Errorf("table %q is remembered as loaded, and none of the records looked up is there: load it again with -p reload=true", r.spec.Key.Table)}
		}
	}
	r.loading = &loading{plan: plan, run: r.id}
	if r.spec.Manifest != spec.InStore {
		return nil
	}
	session, err := r.driver.Open(len(r.sessions), 1, &r.clock)
	if err != nil {
		return err
	}
	r.loading.keeper = &manifest.Keeper{Session: session, Clock: &r.clock, Table: r.spec.Key.Table, Timeout: rememberTimeout}
	return nil
}

// probes is how many records are looked up when nothing is known of a table.
const probes = 16

// lookUp looks up a few records of the table, and returns how many of n it found,
// and what is wrong with their rows.
func (r *run) lookUp(keeper *manifest.Keeper) (n, found int64, wrong, err error) {
	s := r.spec
	generator, err := workload.New(s, workload.Place{Worker: r.worker, Workers: r.workers, Lanes: 1})
	if err != nil {
		return 0, 0, nil, err
	}
	call := &store.Call{Verb: store.Get}
	n = min(probes, s.InsertCount)
	for i := range n {
		record := s.InsertStart
		if n > 1 {
			record += int64(float64(s.InsertCount-1) / float64(n-1) * float64(i))
		}
		call.Keys = append(call.Keys, generator.Key(nil, record))
	}
	if err := store.Do(keeper.Session, call, keeper.Clock, keeper.Timeout); err != nil {
		return 0, 0, nil, fmt.Errorf("looking up %d records: %w", n, err)
	}
	for i, row := range call.Found {
		if row == nil {
			continue
		}
		found++
		if err := generator.Check(call.Keys[i], row); err != nil {
			wrong = errors.Join(wrong, err)
		}
	}
	return n, found, wrong, nil
}

// look warns of what a few records of the table tell.
func (r *run) look(keeper *manifest.Keeper, remembered bool) error {
	s := r.spec
	n, found, wrong, err := r.lookUp(keeper)
	if err != nil {
		return err
	}
	warn := func(format string, args ...any) { r.warnings = append(r.warnings, fmt.Sprintf(format, args...)) }
	unknown := ""
	if s.Manifest == spec.InStore && !remembered {
		unknown = fmt.Sprintf("nothing is remembered of a load of table %q; ", s.Key.Table)
	}
	p := &s.Proportions
	switch {
	case found == 0 && p.Insert == p.Sum():
	case found == 0:
		warn("%snone of %d records looked up is there: READS WILL MISS. Load first (kvbench load), or check table, keyprefix, insertorder and recordcount", unknown, n)
	case wrong != nil:
		warn("%sthe rows that are there do not look as this run expects: %s", unknown, firstLine(wrong))
	case found < n:
		warn("%sonly %d of %d records looked up are there: other reads will miss", unknown, found, n)
	case unknown != "":
		warn("%s%d of %d records looked up are there, so it was loaded by another tool or with manifest=none", unknown, found, n)
	}
	return nil
}
