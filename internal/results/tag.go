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
)

var quantityNames = [...]string{"service", "response", "lag", "lane", "waited.slot", "waited.service", "waited.response"}

// Tag names a histogram of a journal, as in "READ.ok.service", "READ.waited.service", "lag" or, for
// operations outside of the measured window, "warmup.READ.ok.service".
type Tag struct {
	Warmup   bool
	Row      measure.Row // of Service and Response; of WaitedService and WaitedResponse the kind alone; the others are the worker's
	Quantity Quantity
}

const warmupPrefix = "warmup."

func (t Tag) String() string {
	name := quantityNames[t.Quantity]
	switch t.Quantity {
	case Service, Response:
		name = t.Row.String() + "." + name
	case WaitedService, WaitedResponse:
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
				switch q {
				case Lag, Lane, WaitedSlot:
					tag.Row = 0
				case WaitedService, WaitedResponse:
					tag.Row = measure.RowOf(row.Kind(), workload.OK, store.OK)
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
