// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/workload"
)

// Row numbers what is counted separately: a kind of operation with an outcome,
// and for failed ones the class of the error.
type Row uint8

const (
	perKind = workload.Outcomes - 1 + store.Classes - 1
	// Rows is the number of rows.
	Rows = workload.Kinds * perKind
)

// RowOf returns the row of a kind, an outcome and, if that is Failed, a class.
func RowOf(k workload.Kind, o workload.Outcome, c store.Class) Row {
	row := int(k)*perKind + int(o)
	if o == workload.Failed {
		if c == store.OK || int(c) >= store.Classes {
			c = store.Other
		}
		row += int(c) - 1
	}
	return Row(row)
}

// Kind returns the row's kind of operation.
func (r Row) Kind() workload.Kind { return workload.Kind(int(r) / perKind) }

// Outcome returns the row's outcome.
func (r Row) Outcome() workload.Outcome {
	return workload.Outcome(min(int(r)%perKind, int(workload.Failed)))
}

// Class returns the row's class of error, [store.OK] for rows that did not fail.
func (r Row) Class() store.Class {
	return store.Class(max(0, int(r)%perKind-int(workload.Failed)+1))
}

// Name returns the row's outcome as it stands in results, as in "ok" or "error.timeout".
func (r Row) Name() string {
	if r.Outcome() == workload.Failed {
		return "error." + r.Class().String()
	}
	return r.Outcome().String()
}

// String returns the row's name as it stands in results, as in "READ.error.timeout".
func (r Row) String() string { return r.Kind().String() + "." + r.Name() }

var rowsByName = func() map[string]Row {
	m := make(map[string]Row, Rows)
	for r := range Row(Rows) {
		m[r.String()] = r
	}
	return m
}()

// ParseRow is the inverse of [Row.String].
func ParseRow(name string) (Row, bool) {
	r, ok := rowsByName[name]
	return r, ok
}
