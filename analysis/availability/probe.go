// SPDX-License-Identifier: Apache-2.0

package availability

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/kvbench/kvbench/internal/units"
)

// Probe is what a probe has seen, and what became of its writes. Where it is kept, moments are seconds from its first write on;
// [Probe.Shift] moves them to another clock.
type Probe struct {
	Start  time.Time `json:"start"`   // of the first write
	StartS float64   `json:"start_s"` // the same, on the clock of all moments here
	Table  string    `json:"table"`   // that the keys are in

	LengthS   float64 `json:"length_s"` // in which writes were begun
	IntervalS float64 `json:"interval_s"`
	DeadlineS float64 `json:"deadline_s"` // to be acknowledged in time, from when a write was due

	Cluster  ClusterSeen `json:"cluster"`
	Stores   []StoreSeen `json:"stores"`
	ReadBack *ReadBack   `json:"read_back"` // null: it was not begun
	Kept     bool        `json:"kept"`      // the keys are still there

	Remarks []string `json:"remarks"` // what was said meanwhile
}

// ReadBack is what became of the writes.
type ReadBack struct {
	Acknowledged int64      `json:"acknowledged"` // writes; each has a key of its own
	Right        int64      `json:"right"`        // of these, that are there as they were written
	Lost         int64      `json:"lost"`         // that are not there
	Wrong        int64      `json:"wrong"`        // keys that hold another value, of acknowledged writes and others
	Unread       int64      `json:"unread"`       // acknowledged writes whose keys could not be read: nothing is known of them
	Undetermined int64      `json:"undetermined"` // writes that were not acknowledged: they may have happened
	Happened     int64      `json:"happened"`     // of these, that are there. The others are not, could not be read, or may happen yet
	Findings     []BadWrite `json:"findings"`     // lost and wrong ones, up to 100 of each
	Complete     bool       `json:"complete"`     // false: it was given up
}

// Bad tells how many are lost or wrong.
func (r *ReadBack) Bad() int64 { return r.Lost + r.Wrong }

// MostNamed is how many findings of a kind are kept.
const MostNamed = 100

// BadWrite is a key that does not hold what was acknowledged.
type BadWrite struct {
	Key            string   `json:"key"`
	Problem        string   `json:"problem"`           // "lost" or "wrong"
	Store          string   `json:"store"`             // that it was written to
	AcknowledgedAt *float64 `json:"acknowledged_at_s"` // null: it was not
	Found          string   `json:"found,omitempty"`   // the other value
}

// The bounds of what is kept of a probe.
const (
	MaxBytes   = 64 << 20
	maxStores  = 1 << 16
	maxSeconds = 1e9
)

// Parse reads and checks what is kept of a probe.
func Parse(text []byte) (*Probe, error) {
	var p Probe
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, err
	}
	for _, s := range []float64{p.LengthS, p.Cluster.UnavailableS} {
		if s < 0 || s > maxSeconds {
			return nil, fmt.Errorf("%g seconds of length or unavailable cannot be", s)
		}
	}
	if p.IntervalS <= 0 || p.IntervalS > maxSeconds || p.DeadlineS <= 0 || p.DeadlineS > maxSeconds {
		return nil, fmt.Errorf("an interval of %g s and a deadline of %g s cannot be", p.IntervalS, p.DeadlineS)
	}
	if len(p.Stores) > maxStores {
		return nil, fmt.Errorf("it names %d stores, and a probe has %d at most", len(p.Stores), maxStores)
	}
	if c := &p.Cluster; c.InTime < 0 || c.Probes < c.InTime {
		return nil, fmt.Errorf("%d of %d writes in time cannot be", c.InTime, c.Probes)
	}
	for i := range p.Stores {
		s := &p.Stores[i]
		if s.InTime < 0 || s.Late < 0 || s.Probes < s.InTime+s.Late {
			return nil, fmt.Errorf("store %d: %d writes in time and %d late of %d cannot be", s.ID, s.InTime, s.Late, s.Probes)
		}
		for _, stall := range append([]Stall{{Seconds: s.LongestS}, {Seconds: s.UnavailableS}, {Seconds: s.UnprobedS}}, s.Stalls...) {
			if stall.Seconds < 0 || stall.Seconds > maxSeconds || stall.FromS < 0 || stall.FromS > maxSeconds {
				return nil, fmt.Errorf("store %d: %g s from %g s on cannot be", s.ID, stall.Seconds, stall.FromS)
			}
		}
	}
	return &p, nil
}

// Shift moves all moments by so many seconds.
func (p *Probe) Shift(s float64) {
	p.StartS += s
	for i := range p.Stores {
		for j := range p.Stores[i].Stalls {
			p.Stores[i].Stalls[j].FromS += s
		}
	}
	if p.Cluster.LongestStall != nil {
		p.Cluster.LongestStall.FromS += s
	}
	if p.ReadBack == nil {
		return
	}
	for i := range p.ReadBack.Findings {
		if at := p.ReadBack.Findings[i].AcknowledgedAt; at != nil {
			*at += s
		}
	}
}

// Bad says which acknowledged writes are lost or wrong; "" if none is known to be.
func (p *Probe) Bad() string {
	b := p.ReadBack
	if b == nil || b.Bad() == 0 {
		return ""
	}
	var parts []string
	if b.Lost > 0 {
		parts = append(parts, fmt.Sprintf("%s acknowledged %s lost", units.Count(b.Lost), units.Plural(b.Lost, "write is", "writes are")))
	}
	if b.Wrong > 0 {
		parts = append(parts, fmt.Sprintf("%s %s a wrong value", units.Count(b.Wrong), units.Plural(b.Wrong, "key holds", "keys hold")))
	}
	return strings.Join(parts, ", ")
}

// Lacks says what was not acknowledged in time, and what is not known.
func (p *Probe) Lacks() (all []string) {
	if missed := p.Cluster.Probes - p.Cluster.InTime; missed > 0 {
		all = append(all, fmt.Sprintf("%s of %s small writes %s not acknowledged within %s",
			units.Count(missed), units.Count(p.Cluster.Probes), units.Plural(missed, "was", "were"), units.Micros(p.DeadlineS*1e6)))
	}
	if len(p.Stores) == 0 || p.Cluster.Probes == 0 {
		all = append(all, "nothing was probed")
	} else if text := p.unprobed(); text != "" {
		all = append(all, text)
	}
	switch b := p.ReadBack; {
	case b == nil || !b.Complete:
		all = append(all, "what was acknowledged was not read back")
	case b.Unread > 0:
		all = append(all, fmt.Sprintf("%s acknowledged %s could not be read back", units.Count(b.Unread), units.Plural(b.Unread, "write", "writes")))
	}
	return all
}

// unprobed says of which stores nothing is known for a time.
func (p *Probe) unprobed() string {
	var parts []string
	for _, s := range p.Stores {
		if s.UnprobedS > 0 {
			parts = append(parts, fmt.Sprintf("store %d for %s", s.ID, units.Seconds(s.UnprobedS)))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "nothing is known of " + strings.Join(parts, ", ")
}
