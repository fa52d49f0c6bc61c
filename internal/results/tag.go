// SPDX-License-Identifier: Apache-2.0

package results

import (
	"strings"

	"github.com/kvbench/kvbench/internal/measure"
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

// ParseTag is the inverse of [Tag.String].
func ParseTag(text string) (t Tag, ok bool) {
	text, t.Warmup = strings.CutPrefix(text, warmupPrefix)
	for q := Lag; q <= WaitedSlot; q++ {
		if text == quantityNames[q] {
			t.Quantity = q
			return t, true
		}
	}
	for q := WaitedService; q <= WaitedResponse; q++ {
		if kind, found := strings.CutSuffix(text, "."+quantityNames[q]); found {
			t.Quantity = q
			t.Row, ok = measure.ParseRow(kind + "." + workload.OK.String())
			return t, ok
		}
	}
	dot := strings.LastIndexByte(text, '.')
	if dot < 0 {
		return t, false
	}
	switch text[dot+1:] {
	case quantityNames[Service]:
		t.Quantity = Service
	case quantityNames[Response]:
		t.Quantity = Response
	default:
		return t, false
	}
	t.Row, ok = measure.ParseRow(text[:dot])
	return t, ok
}
