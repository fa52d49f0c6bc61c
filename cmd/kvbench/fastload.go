// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/kvbench/kvbench/internal/spec"
)

// What a load takes when nobody says how many: one call in flight loads a cluster at a small part of what it takes.
const (
	loadThreads    = 32
	loadBatch      = 100
	loadBatchBytes = 1 << 20 // of the rows of a call, at most
)

// fastLoad returns the properties that make a load fast, of those that nobody has written, and says which they are. A paced load keeps
// its batches: they would make its slots few and far apart.
func fastLoad(s *spec.Spec) (pairs []spec.Pair, said string) {
	if s.Phase != spec.Load {
		return nil, ""
	}
	var unset, taken []string
	take := func(name string, value int, what string) {
		if s.IsDefault(name) {
			pairs = append(pairs, spec.Pair{Key: name, Value: fmt.Sprint(value), Where: "kvbench load"})
			unset, taken = append(unset, name), append(taken, fmt.Sprintf("%d %s", value, what))
		}
	}
	take("threadcount", loadThreads, "calls in flight per worker")
	if row := s.Row.Fields * s.Row.FieldLength; !s.Paced() {
		take("batch.size", max(1, min(loadBatch, loadBatchBytes/max(1, row))), "records in a call")
	}
	if len(pairs) == 0 {
		return nil, ""
	}
	verb := "is"
	if len(unset) > 1 {
		verb = "are"
	}
	return pairs, fmt.Sprintf("%s %s not set: a load takes %s", strings.Join(unset, " and "), verb, strings.Join(taken, ", "))
}
