// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"strings"
	"time"

	"github.com/kvbench/kvbench/analysis/availability"
	"github.com/kvbench/kvbench/internal/units"
)

// Seen returns what Run has seen. The clock's zero was at epoch.
func (p *Probe) Seen(epoch time.Time) *availability.Probe {
	r := &availability.Probe{
		Start: epoch.Add(p.begun).UTC(), Table: p.Table, LengthS: (p.ended - p.begun).Seconds(),
		IntervalS: p.Interval.Seconds(), DeadlineS: p.Deadline.Seconds(), Stores: []availability.StoreSeen{}, Remarks: []string{},
	}
	var tallies []*availability.Tally
	for _, t := range p.targets {
		s := t.tally.Store(t.Address, t.ID, p.over, p.ended-p.begun)
		for i := range s.Stalls {
			s.Stalls[i].FromS = max(0, s.Stalls[i].FromS-p.begun.Seconds())
		}
		r.Stores, tallies = append(r.Stores, s), append(tallies, t.tally)
	}
	r.Cluster = availability.Together(r.Stores, tallies)
	return r
}

// Line shows in one line how the stores are.
func Line(at time.Duration, all []Snapshot) string {
	var parts []string
	for _, s := range all {
		state := "no answer due"
		switch {
		case s.Stall != nil:
			state = "STALLED " + units.Micros(s.Stall.Seconds*1e6)
		case !s.Probed:
			state = "not probed"
		case s.Worst > 0:
			state = units.Micros(float64(s.Worst.Microseconds()))
		}
		if s.Failed > 0 {
			state += fmt.Sprintf(" (%d failed)", s.Failed)
		}
		parts = append(parts, fmt.Sprintf("store %d %s", s.ID, state))
	}
	return fmt.Sprintf("%4.0f s  %s", at.Seconds(), strings.Join(parts, " · "))
}
