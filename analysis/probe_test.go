// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/analysis/availability"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/results"
)

// probed is what a probe of two stores saw that began at a moment; the second stalled for 2 s, 3 s after that.
func probed(start time.Time) *availability.Probe {
	all, most := 1.0, 0.9
	stall := availability.Stall{Store: "b:1", FromS: 3, Seconds: 2, Ended: true}
	return &availability.Probe{
		Start: start, Table: "kvbench.probe", LengthS: 10, IntervalS: 0.1, DeadlineS: 1, Remarks: []string{},
		Cluster: availability.ClusterSeen{Probes: 200, InTime: 190, Availability: &most, UnavailableS: 1, LongestStall: &stall},
		Stores: []availability.StoreSeen{
			{Store: "a:1", ID: 1, Probes: 100, InTime: 100, Availability: &all, Stalls: []availability.Stall{}},
			{Store: "b:1", ID: 2, Probes: 100, InTime: 90, Late: 10, Availability: &most, UnavailableS: 1, LongestS: 2, Stalls: []availability.Stall{stall}},
		},
		ReadBack: &availability.ReadBack{Acknowledged: 200, Right: 200, Complete: true, Findings: []availability.BadWrite{}},
	}
}

// lost makes one of a probe's acknowledged writes a lost one.
func lost(p *availability.Probe) {
	at := 4.0
	p.ReadBack.Right, p.ReadBack.Lost = 199, 1
	p.ReadBack.Findings = append(p.ReadBack.Findings, availability.BadWrite{Key: "k", Problem: "lost", Store: "b:1", AcknowledgedAt: &at})
}

// well makes it one that saw nothing amiss.
func well(p *availability.Probe) {
	all := 1.0
	p.Stores = p.Stores[:1]
	p.Cluster = availability.ClusterSeen{Probes: 100, InTime: 100, Availability: &all}
}

// What a probe saw beside a run is in its report, on the run's clock, and in its verdict.
func TestProbeOfARun(t *testing.T) {
	t.Parallel()
	f := &fixture{window: 30 * time.Second, target: 50, change: func(r *results.Run) { r.Probed = true }}
	dir := f.write(t)
	report := func(p func(*availability.Probe)) *Report {
		t.Helper()
		if p != nil {
			record, err := results.ReadRun(dir)
			if err != nil {
				t.Fatal(err)
			}
			seen := probed(record.Start.Add(17 * time.Second))
			p(seen)
			if err := results.WriteProbe(dir, seen); err != nil {
				t.Fatal(err)
			}
		}
		r, err := Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		return r.Report()
	}
	if r := report(nil); r.Verdict.Code != exitcode.Degraded || !slices.Contains(r.Missing, "what the probe saw") {
		t.Errorf("without it: %+v, missing %q", r.Verdict, r.Missing)
	}
	r := report(lost)
	if p := r.Probe; p.StartS != 17 || p.Stores[1].Stalls[0].FromS != 20 || p.Cluster.LongestStall.FromS != 20 || *p.ReadBack.Findings[0].AcknowledgedAt != 21 {
		t.Errorf("not on the run's clock: %+v", p)
	}
	if r.Verdict.Code != exitcode.Wrong || !strings.Contains(r.Verdict.Text, "1 acknowledged write is lost") {
		t.Errorf("%+v", r.Verdict)
	}
	i := slices.IndexFunc(r.Events, func(e results.Event) bool { return e.Kind == StoreStalled })
	if i < 0 || r.Events[i].S != 20 || r.Events[i].Text != "b:1 acknowledges no small write for 2.00 s" {
		t.Errorf("events: %+v", r.Events)
	}
	if !slices.ContainsFunc(r.Disturbances, func(d Disturbance) bool { return d.AtS == 20 }) {
		t.Errorf("disturbances: %+v", r.Disturbances)
	}
	if r := report(func(*availability.Probe) {}); r.Verdict.Code != exitcode.Degraded || !strings.Contains(r.Verdict.Text, "10 of 200 small writes were not acknowledged within 1.00 s") {
		t.Errorf("%+v", r.Verdict)
	}
	if r := report(well); r.Verdict.Code != exitcode.Valid {
		t.Errorf("%+v", r.Verdict)
	}
	if err := os.WriteFile(filepath.Join(dir, results.ProbeFile), []byte(`{"interval_s": 0`), 0o666); err != nil {
		t.Fatal(err)
	}
	if r := report(nil); r.Verdict.Code != exitcode.Degraded || r.Probe != nil || len(r.Warnings) == 0 {
		t.Errorf("damaged: %+v, warnings %q", r.Verdict, r.Warnings)
	}
}

// A probe alone is judged by what it saw.
func TestProbeAlone(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		state results.State
		saw   func(*availability.Probe) // nil: it is not there
		code  int
		text  string
	}{
		{"well", results.Finished, well, exitcode.Valid, "valid; every write was acknowledged in time, and is there"},
		{"interrupted", results.Interrupted, well, exitcode.Interrupted, "interrupted"},
		{"late", results.Finished, func(*availability.Probe) {}, exitcode.Degraded, "10 of 200 small writes were not acknowledged within 1.00 s"},
		{"lost", results.Interrupted, lost, exitcode.Wrong, "1 acknowledged write is lost; interrupted; 10 of 200 small writes"},
		{"not known", results.Finished, func(p *availability.Probe) { well(p); p.Stores[0].UnprobedS = 5 }, exitcode.Degraded, "nothing is known of store 1 for 5 s"},
		{"not read back", results.Finished, func(p *availability.Probe) { well(p); p.ReadBack = nil }, exitcode.Degraded, "what was acknowledged was not read back"},
		{"unread", results.Finished, func(p *availability.Probe) { well(p); p.ReadBack.Unread = 3 }, exitcode.Degraded, "3 acknowledged writes could not be read back"},
		{"nothing", results.Finished, func(p *availability.Probe) { p.Stores, p.Cluster = nil, availability.ClusterSeen{} }, exitcode.Degraded, "nothing was probed"},
		{"killed", results.Running, nil, exitcode.Degraded, "the probe never ended: it runs still, or was killed; missing: what the probe saw"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			start := time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)
			if err := results.WriteRun(dir, &results.Run{RunID: "p", Phase: results.Probing, State: test.state, Start: start}); err != nil {
				t.Fatal(err)
			}
			if test.saw != nil {
				seen := probed(start)
				test.saw(seen)
				if err := results.WriteProbe(dir, seen); err != nil {
					t.Fatal(err)
				}
			}
			r, err := Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			if v := r.Report().Verdict; v.Code != test.code || !strings.HasPrefix(v.Text, test.text) {
				t.Errorf("%+v", v)
			}
		})
	}
}

// The probe's own writes are none of somebody else's.
func TestProbeIsCounted(t *testing.T) {
	t.Parallel()
	p := probed(time.Time{})
	p.Shift(5)
	r := &Run{probe: p, sent: newSentBins(30 * time.Second)}
	to := &sentTo{all: make([]float64, r.sent.bins), kinds: make(map[string][]float64)}
	r.sent.stores["b:1"] = to // the run sent nothing to the other one
	r.countProbe()
	for _, bins := range [][]float64{to.all, to.kinds["raw_put"]} {
		if n := r.sent.between(bins, 0, 30*time.Second); math.Abs(n-100) > 1e-6 {
			t.Errorf("%v writes, want 100", n)
		}
		if n := r.sent.between(bins, 7*time.Second, 8*time.Second); math.Abs(n-10) > 1e-6 {
			t.Errorf("%v writes in a second, want 10", n)
		}
	}
	if to.sum != 100 || to.named != 100 {
		t.Errorf("%v writes, %v of a kind", to.sum, to.named)
	}
}
