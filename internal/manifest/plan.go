// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"strings"

	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/workload"
)

// Plan is what a load has to do.
type Plan struct {
	// Manifest is to be written when the load begins.
	Manifest *Manifest
	// Present counts the records asked for that are there already.
	Present int64
	// Complete says that all are, and that this is known.
	Complete bool
	// Warnings are for the user.
	Warnings []string

	asked    Range
	progress *workload.Progress // of the pending range
	batch    int64
}

// Skip returns the first batch from index on that is not in the store already.
// Batches are counted from the first record asked for.
func (p *Plan) Skip(index int64) int64 {
	first := index * p.batch
	if first >= p.asked.Count {
		return index
	}
	next := p.next(first)
	if next == p.asked.Count { // the last batch may be a short one
		return (next + p.batch - 1) / p.batch
	}
	return next / p.batch
}

// next returns the first record from n on that is not there, both counted from the
// first one asked for.
func (p *Plan) next(n int64) int64 {
	for n < p.asked.Count {
		reached := p.Manifest.Loaded.Next(p.asked.Start+n) - p.asked.Start
		reached = p.progress.Next(min(reached, p.asked.Count), p.asked.Count)
		if reached == n {
			return n
		}
		n = reached
	}
	return p.asked.Count
}

// ForLoad plans the load that s asks for, by what is remembered: m may be nil.
// The error is for a load that must not begin, and says what to do.
func ForLoad(s *spec.Spec, run string, m *Manifest, lanes []Lane) (*Plan, error) {
	p := &Plan{
		Manifest: &Manifest{Version: Version, LoadID: run, Shape: Shape(s)},
		asked:    Range{s.InsertStart, s.InsertCount},
		progress: &workload.Progress{},
		batch:    int64(s.Batch),
	}
	next := p.Manifest
	next.Pending = &p.asked
	if m == nil {
		return p, nil
	}
	different := differences(m.Shape, next.Shape)
	switch {
	case len(different) > 0 && !s.Reload:
		return nil, fmt.Errorf("table %q holds a load of another shape: %s.\n%s", s.Key.Table, strings.Join(different, ", "),
			"Use the same properties, or another table (-p table=…), or -p reload=true to load over it: rows under other keys then stay")
	case len(different) > 0:
		p.Warnings = append(p.Warnings, fmt.Sprintf("loading over data of another shape (%s); rows under other keys stay", strings.Join(different, ", ")))
		return p, nil
	case s.Reload:
		next.Loaded = m.Loaded.Without(p.asked.Start, p.asked.Start+p.asked.Count)
		return p, nil
	}
	next.Loaded = m.Loaded
	if old := m.Pending; old != nil {
		if old.Start != p.asked.Start || old.Count > p.asked.Count {
			return nil, fmt.Errorf("table %q holds a load of the records %d to %d that is not complete: finish it first (%s), or begin anew with -p reload=true",
				s.Key.Table, old.Start, old.Start+old.Count-1, old.flags())
		}
		next.LoadID = m.LoadID
		var err error
		if p.progress, err = progressOf(lanes); err != nil {
			return nil, err
		}
	}
	p.count()
	p.Complete = m.Pending == nil && p.Present == p.asked.Count
	return p, nil
}

// flags are those that ask for a range.
func (r Range) flags() string {
	if r.Start == 0 {
		return fmt.Sprintf("-p recordcount=%d", r.Count)
	}
	return fmt.Sprintf("-p recordcount=%d -p insertstart=%d", r.Start+r.Count, r.Start)
}

// progressOf joins the lanes of a load. A last batch that the end of a lane's range
// cut short counts as not done, because in a longer range it is a whole one.
func progressOf(lanes []Lane) (*workload.Progress, error) {
	all := make([]workload.LaneProgress, 0, len(lanes))
	for _, l := range lanes {
		if l.Workers > 0 && l.Lanes > 0 && l.Batch > 0 && l.Count%l.Batch != 0 {
			place := workload.Place{Worker: l.Worker, Workers: l.Workers, Lane: l.Lane, Lanes: l.Lanes}
			if j, ok := place.Turn(l.Count / l.Batch); ok {
				l.Done = l.Done.Without(j, j+1)
			}
		}
		all = append(all, l.LaneProgress)
	}
	p, err := workload.NewProgress(all...)
	if err != nil {
		return nil, fmt.Errorf("what is remembered of the load cannot be used: %w; begin anew with -p reload=true", err)
	}
	return p, nil
}

// mostSteps bounds the time that counting takes.
const mostSteps = 1 << 24

// count counts what is there; of a load with very many gaps, only the first part.
func (p *Plan) count() {
	n := int64(0)
	for step := 0; n < p.asked.Count && step < mostSteps; step++ {
		next := p.next(n)
		p.Present += next - n
		n = next + min(p.batch, p.asked.Count-next)
	}
}

// Done is the manifest after the load.
func (p *Plan) Done() *Manifest {
	m := *p.Manifest
	m.Loaded = workload.Done{}
	m.Loaded.Union(p.Manifest.Loaded)
	m.Loaded.AddRange(p.asked.Start, p.asked.Start+p.asked.Count)
	m.Pending = nil
	return &m
}

// ForRun checks whether a run, or a verification, would meet the data that it
// expects. The error is for one that must not begin, and says what to do.
func ForRun(s *spec.Spec, m *Manifest) (warnings []string, err error) {
	shape := Shape(s)
	there := m.Shape
	if there["dataintegrity"] == "true" && shape["dataintegrity"] == "false" {
		shape["dataintegrity"] = "true" // what can be checked need not be
		if writes(s) {
			warnings = append(warnings, "the table was loaded with dataintegrity=true and this run writes rows without: later runs with dataintegrity=true will find those wrong")
		}
	}
	if different := differences(there, shape); len(different) > 0 {
		return nil, fmt.Errorf("table %q was loaded with other keys or rows: %s.\n%s", s.Key.Table, strings.Join(different, ", "),
			"Use the same properties as the load, or load again with -p reload=true; -p manifest=none skips this check")
	}
	first, end := s.InsertStart, s.InsertStart+s.InsertCount
	if have := m.Loaded.CountIn(first, end); have < s.InsertCount {
		if m.Pending != nil {
			return nil, fmt.Errorf("the load of table %q is not complete (records known to be there: %s): run kvbench load again, it goes on where it stood; -p manifest=none skips this check",
				s.Key.Table, describe(&m.Loaded))
		}
		return nil, fmt.Errorf("table %q holds the records %s, and the run uses %d to %d: load the rest (kvbench load %s), or use fewer; -p manifest=none skips this check",
			s.Key.Table, describe(&m.Loaded), first, end-1, Range{first, end - first}.flags())
	}
	if s.Row.Format == spec.Balance && (m.Pending != nil || m.Loaded.Len() > s.InsertCount) {
		return nil, fmt.Errorf("table %q holds the accounts %s, more of them perhaps if a load is not complete, and a sum is that of all: run kvbench load again if it was broken off, and leave out recordcount; -p manifest=none skips this check",
			s.Key.Table, describe(&m.Loaded))
	}
	if s.Phase == spec.Verify && m.Loaded.Len() > s.InsertCount {
		return nil, fmt.Errorf("table %q holds the records %s: verify all of them (-p recordcount=… -p insertstart=…), or the others would count as unexpected; -p manifest=none skips this check",
			s.Key.Table, describe(&m.Loaded))
	}
	if m.Pending != nil {
		warnings = append(warnings, "a load that would extend the table is not complete")
	}
	return warnings, nil
}

func writes(s *spec.Spec) bool {
	p := &s.Proportions
	return s.Phase == spec.Run && p.Update+p.Insert+p.ReadModifyWrite > 0
}
