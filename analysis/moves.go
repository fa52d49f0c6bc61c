// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"slices"
	"time"

	"github.com/kvbench/kvbench/internal/results"
)

// Kinds of events that are seen in the stores' own figures, each between two readings.
const (
	leadersMoved  = "leaders"
	regionsMoved  = "regions"
	storeSilent   = "store-silent"
	storeAnswers  = "store-back"
	maxMoveEvents = 100
)

// moves are what happened to the stores, in the order of time: leaders and regions that came or went, and
// stores whose status address fell silent.
func (r *Run) moves() (events []results.Event) {
	for _, address := range r.storesRead() {
		var before *results.ServerSample
		silent := false
		for i := range r.servers[address] {
			s := &r.servers[address][i]
			event := func(kind, format string, args ...any) {
				events = append(events, results.Event{
					At: r.record.Start.Add(time.Duration(s.S * float64(time.Second))), S: s.S, Kind: kind, Text: address + " " + fmt.Sprintf(format, args...),
				})
			}
			switch {
			case s.Figures == nil && before != nil && !silent:
				silent = true
				event(storeSilent, "does not tell its figures any more: %s", s.Missing)
			case s.Figures != nil && silent:
				silent = false
				event(storeAnswers, "tells its figures again")
			}
			if s.Figures == nil {
				continue
			}
			if before != nil {
				for _, m := range []struct{ kind, name, verb string }{{leadersMoved, "leaders", "leads"}, {regionsMoved, "regions", "holds"}} {
					was, now := figure(before, m.name), figure(s, m.name)
					if was != nil && now != nil && *was != *now {
						event(m.kind, "%s %.0f regions, %.0f before", m.verb, *now, *was)
					}
				}
			}
			before = s
		}
	}
	slices.SortStableFunc(events, func(a, b results.Event) int { return a.At.Compare(b.At) })
	if n := len(events); n > maxMoveEvents {
		events = events[:maxMoveEvents]
		last := events[maxMoveEvents-1]
		events = append(events, results.Event{At: last.At, S: last.S, Kind: regionsMoved, Text: fmt.Sprintf("and %d more such changes, which are left out", n-maxMoveEvents)})
	}
	return events
}

// withMoves merges moves into what the coordinator has noted, both in the order of time.
func withMoves(noted, moves []results.Event) []results.Event {
	all := append(append([]results.Event{}, noted...), moves...)
	if len(moves) > 0 {
		slices.SortStableFunc(all, func(a, b results.Event) int { return a.At.Compare(b.At) })
	}
	return all
}
