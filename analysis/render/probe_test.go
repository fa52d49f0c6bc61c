// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/analysis/availability"
	"github.com/kvbench/kvbench/analysis/internal/golden"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/results"
)

// probeDocument is of a probe alone that saw much.
func probeDocument() *analysis.Document {
	almost, most, at := 0.99999, 0.9, 6.25
	stall := availability.Stall{Store: "tikv-2:20160", FromS: 3, Seconds: 2, Ended: true}
	open := availability.Stall{Store: "tikv-2:20160", FromS: 9.5, Seconds: 0.5}
	h := measure.NewHDR()
	for us := range int64(1000) {
		_ = h.RecordValue(1000 + us)
	}
	p := &availability.Probe{
		Start: time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC), Table: "kvbench.probe", LengthS: 10, IntervalS: 0.1, DeadlineS: 1,
		Cluster: availability.ClusterSeen{Probes: 100_100, InTime: 100_089, Availability: &almost, UnavailableS: 1, LongestStall: &stall},
		Stores: []availability.StoreSeen{
			{Store: "tikv-1:20160", ID: 1, Probes: 100_000, InTime: 99_999, Failed: map[string]int64{"no_connection": 1}, Availability: &almost, Response: measure.LatencyOf(h)},
			{Store: "tikv-2:20160", ID: 2, Probes: 100, InTime: 90, Late: 10, Availability: &most, UnavailableS: 1, LongestS: 2, UnprobedS: 3, Stalls: []availability.Stall{stall, open}},
			{Store: "tikv-3:20160", ID: 3},
		},
		ReadBack: &availability.ReadBack{Acknowledged: 100_099, Right: 100_097, Lost: 1, Wrong: 1, Undetermined: 1, Complete: true, Findings: []availability.BadWrite{
			{Key: "kvbench.probe:00/p/1", Problem: "lost", Store: "tikv-2:20160", AcknowledgedAt: &at},
			{Key: "kvbench.probe:00/p/2", Problem: "wrong", Store: "tikv-1:20160", Found: "<b>\x1b[0m"},
		}},
		Kept: true, Remarks: []string{"where the keys are is not known at present"},
	}
	return &analysis.Document{Version: analysis.DocumentVersion, Runs: []*analysis.Report{{
		RunID: "20260314-150926-c0ffee", Phase: results.Probing, State: results.Finished, Start: p.Start, Probe: p,
		Verdict: results.Verdict{Code: exitcode.Wrong, Text: p.Bad()}, Cluster: results.Cluster{PD: []string{"pd:2379"}, ID: 7},
	}}}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	for _, f := range Documents {
		var got bytes.Buffer
		if err := Document(&got, probeDocument(), f, Style{}); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		switch f {
		case Text, Markdown:
			golden.Check(t, "probe."+string(f), got.Bytes())
		case HTML:
			for _, want := range []string{"<h2>Probe</h2>", "99.99 %", "tikv-2:20160", "stall of 2.00 s from 3 s on", "kvbench.probe:00/p/1", "&lt;b&gt;"} {
				if !strings.Contains(got.String(), want) {
					t.Errorf("the page does not say %q", want)
				}
			}
			if strings.Contains(got.String(), "<h2>Latency</h2>") {
				t.Error("the page has latencies of a load that was not")
			}
		}
	}
	var narrow bytes.Buffer
	if err := Document(&narrow, probeDocument(), Text, Style{Width: 60}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(narrow.String()) {
		if n := visible(strings.TrimRight(line, "\n")); n > 60 {
			t.Errorf("%d columns on a page of 60: %s", n, line)
		}
	}
}
