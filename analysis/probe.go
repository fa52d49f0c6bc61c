// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/kvbench/kvbench/analysis/availability"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/units"
)

// readProbe reads what a probe of the stores has seen, and puts it on the run's clock.
func (r *Run) readProbe(dir string) {
	p, err := results.ReadProbe(dir)
	expected := r.record.Probed || r.record.Phase == results.Probing
	switch {
	case err == nil:
		p.Shift(p.Start.Sub(r.record.Start).Seconds())
		r.probe = p
	case !errors.Is(err, fs.ErrNotExist):
		r.warn("", err)
		r.missing = append(r.missing, "what the probe saw cannot be read")
	case expected:
		r.missing = append(r.missing, "what the probe saw")
	}
}

// countProbe adds the probe's writes to what the run sent: they are not somebody else's.
func (r *Run) countProbe() {
	if r.probe == nil || r.sent == nil || r.probe.LengthS <= 0 {
		return
	}
	start := results.Duration(r.probe.StartS)
	for i := range r.probe.Stores {
		s := &r.probe.Stores[i]
		if to := r.sent.stores[s.Store]; to != nil {
			r.sent.put(to, "raw_put", start, start+results.Duration(r.probe.LengthS), float64(s.InTime+s.Late))
		}
	}
}

// StoreStalled is the kind of an event: a store acknowledged no small write for longer than their deadline.
const StoreStalled = "store-stalled"

// mostStallEvents is how many of a run's stalls are events, the longest.
const mostStallEvents = 20

// withStalls adds the stalls that the probe saw to a run's events.
func (r *Run) withStalls(events []results.Event) []results.Event {
	if r.probe == nil {
		return events
	}
	var stalls []availability.Stall
	for _, s := range r.probe.Stores {
		for _, stall := range s.Stalls {
			if stall.Seconds > r.probe.DeadlineS {
				stalls = append(stalls, stall)
			}
		}
	}
	slices.SortStableFunc(stalls, func(a, b availability.Stall) int { return cmp.Compare(b.Seconds, a.Seconds) })
	for _, s := range stalls[:min(len(stalls), mostStallEvents)] {
		events = append(events, results.Event{
			At: r.record.Start.Add(time.Duration(s.FromS * float64(time.Second))), S: s.FromS, Kind: StoreStalled,
			Text: fmt.Sprintf("%s acknowledges no small write for %s", s.Store, units.Micros(s.Seconds*1e6)),
		})
	}
	slices.SortStableFunc(events, func(a, b results.Event) int { return a.At.Compare(b.At) })
	return events
}

// probeReport completes the report on a probe in which no worker took part.
func (r *Run) probeReport(p *Report) *Report {
	p.Kinds, p.Workers, p.Disturbances = []KindRow{}, []WorkerRow{}, []Disturbance{}
	p.Limit = Limit{By: ByUnknown, Why: "a probe asks little"}
	p.Ended = Ended{By: EndDuration}
	if r.record.State == results.Interrupted {
		p.Ended = Ended{By: EndInterrupted, Text: "interrupted by the user"}
	}
	if r.probe != nil {
		p.Ended.AtS = r.probe.StartS + r.probe.LengthS
	}
	v := &p.Verdict
	v.Code = exitcode.Valid
	var findings []string
	find := func(code int, text string) {
		if v.Code == exitcode.Valid {
			v.Code = code
		}
		findings = append(findings, text)
	}
	// In the order of gravity.
	if r.probe != nil && r.probe.Bad() != "" {
		find(exitcode.Wrong, r.probe.Bad())
	}
	switch r.record.State {
	case results.Interrupted:
		find(exitcode.Interrupted, "interrupted")
	case results.Finished:
	default:
		find(exitcode.Degraded, "the probe never ended: it runs still, or was killed")
	}
	for _, text := range p.Missing {
		find(exitcode.Degraded, "missing: "+text)
	}
	if r.probe != nil {
		for _, text := range r.probe.Lacks() {
			find(exitcode.Degraded, text)
		}
	}
	v.Text = cmp.Or(strings.Join(findings, "; "), "valid; every write was acknowledged in time, and is there")
	return p
}
