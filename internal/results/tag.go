// SPDX-License-Identifier: Apache-2.0

package results

import (
	"strings"

	"github.com/kvbench/kvbench/internal/measure"
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
	WaitedService
	WaitedResponse
)

var quantityNames = [...]string{"service", "response", "lag", "lane", "waited.service", "waited.response"}

// Tag names a histogram of a journal, as in "READ.ok.service", "lag" or, for
// operations outside of the measured window, "warmup.READ.ok.service".
type Tag struct {
	Warmup   bool
	Row      measure.Row // of Service and Response; the others are the worker's
	Quantity Quantity
}

const warmupPrefix = "warmup."

func (t Tag) String() string {
	name := quantityNames[t.Quantity]
	if t.Quantity == Service || t.Quantity == Response {
		name = t.Row.String() + "." + name
	}
	if t.Warmup {
		name = warmupPrefix + name
	}
	return name
}

// ParseTag is the inverse of [Tag.String].
func ParseTag(text string) (t Tag, ok bool) {
	text, t.Warmup = strings.CutPrefix(text, warmupPrefix)
	for q := Lag; int(q) < len(quantityNames); q++ {
		if text == quantityNames[q] {
			t.Quantity = q
			return t, true
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
