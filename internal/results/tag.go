// SPDX-License-Identifier: Apache-2.0

package results

import (
	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/workload"
)

// Quantity is what a histogram of a journal holds.
type Quantity uint8

// The quantities, each in microseconds.
const (
	Service  Quantity = iota // call start to call end
	Response                 // slot to call end
	Lag                      // slot to call start
	Lane                     // call end to when the lane saw it

	// How long what was never answered had waited when it was given up, see [measure.Set].
	WaitedSlot
	WaitedService
	WaitedResponse

	firstPhase // of a transaction: see [PhaseTime]
)

// PhaseTime is the quantity that is the time of a phase of transactions.
func PhaseTime(p store.Phase) Quantity { return firstPhase + Quantity(p) }

// Phase returns the phase whose time the quantity is; not ok if it is another one.
func (q Quantity) Phase() (p store.Phase, ok bool) {
	return store.Phase(q - firstPhase), q >= firstPhase
}

var quantityNames = func() []string {
	names := []string{"service", "response", "lag", "lane", "waited.slot", "waited.service", "waited.response"}
	for p := range store.Phases {
		names = append(names, "phase."+store.Phase(p).String())
	}
	return names
}()

// Tag names a histogram of a journal, as in "READ.ok.service", "READ.waited.service", "READ.phase.commit", "lag" or, for
// operations outside of the measured window, "warmup.READ.ok.service".
type Tag struct {
	Warmup   bool
	Row      measure.Row // of Service and Response; of WaitedService, WaitedResponse and phases the kind alone; the others are the worker's
	Quantity Quantity
}

const warmupPrefix = "warmup."

func (t Tag) String() string {
	name := quantityNames[t.Quantity]
	switch {
	case t.Quantity <= Response:
		name = t.Row.String() + "." + name
	case t.Quantity >= WaitedService:
		name = t.Row.Kind().String() + "." + name
	}
	if t.Warmup {
		name = warmupPrefix + name
	}
	return name
}

// tagsByName are all tags that there are.
var tagsByName = func() map[string]Tag {
	tags := make(map[string]Tag)
	for _, warmup := range []bool{false, true} {
		for q := range Quantity(len(quantityNames)) {
			for row := range measure.Row(measure.Rows) {
				tag := Tag{warmup, row, q}
				switch {
				case q >= WaitedService:
					tag.Row = measure.RowOf(row.Kind(), workload.OK, store.OK)
				case q >= Lag:
					tag.Row = 0
				}
				tags[tag.String()] = tag
			}
		}
	}
	return tags
}()

// ParseTag is the inverse of [Tag.String].
func ParseTag(text []byte) (t Tag, ok bool) {
	t, ok = tagsByName[string(text)]
	return t, ok
}
