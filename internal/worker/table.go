// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/manifest"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/workload"
)

// table looks, before a run, at what a store remembers of its table and holds of it.
type table struct {
	*assignment
	keeper *manifest.Keeper
}

const recallTimeout = 5 * time.Second

func newTable(e *engine) *table {
	return &table{e.assignment, &manifest.Keeper{Session: e.sessions[0], Clock: &e.clock, Table: e.spec.Key.Table, Timeout: recallTimeout}}
}

// refusal is an error that the properties must be changed for.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// manifest returns what the store remembers; nil if that is nothing, or not to be asked.
func (t *table) manifest() (*manifest.Manifest, error) {
	if t.spec.Manifest != spec.InStore {
		return nil, nil
	}
	return t.keeper.Read()
}

// fits checks whether the run fits what the store remembers, if it remembers anything.
func (t *table) fits(found *workerpb.PrepareResponse) (remembered bool, err error) {
	if t.spec.Manifest == spec.None {
		found.Warnings = append(found.Warnings, "manifest=none: not checked whether the table holds the data that this run expects")
	}
	m, err := t.manifest()
	if m == nil || err != nil {
		return false, err
	}
	warnings, err := manifest.ForRun(t.spec, m)
	found.Warnings = append(found.Warnings, warnings...)
	if err != nil {
		err = refusal{err}
	}
	return true, err
}

// probes is how many records are looked up when nothing is known of a table.
const probes = 16

// lookUp looks up a few records of the table, and returns how many of n it found,
// and what is wrong with their rows.
func (t *table) lookUp() (n, found int64, wrong, err error) {
	s := t.spec
	generator, err := workload.New(s, workload.Place{Worker: t.worker, Workers: t.workers, Lanes: 1})
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
	if err := store.Insist(t.keeper.Session, call, t.keeper.Clock, t.keeper.Timeout); err != nil {
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
func (t *table) look(remembered bool, to *workerpb.PrepareResponse) error {
	s := t.spec
	if s.Manifest == spec.None {
		return nil
	}
	n, found, wrong, err := t.lookUp()
	if err != nil {
		return err
	}
	warn := func(format string, args ...any) { to.Warnings = append(to.Warnings, fmt.Sprintf(format, args...)) }
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

// firstLine is the first line of an error's text.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
