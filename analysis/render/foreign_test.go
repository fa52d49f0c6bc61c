// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/analysis/foreign"
	"github.com/kvbench/kvbench/analysis/internal/golden"
	"github.com/kvbench/kvbench/internal/measure"
)

// others are results of two tools: of one the distribution is known, and something is missing; of the other a few numbers are.
func others() *analysis.Document {
	start := time.Unix(1_760_000_000, 0).UTC()
	l := &measure.Latency{Mean: 800, P50: 700, P90: 1400, P95: 1700, P99: 2600, P999: 4100, P9999: 6300, Max: 6300, Samples: 2000, TooFew: []string{"p99_99"}}
	return &analysis.Document{Version: analysis.DocumentVersion, Runs: []*analysis.Report{}, Foreign: []*foreign.Result{{
		Name: "kvbench-20251009-085320", Path: "results/kvbench-20251009-085320", Maker: foreign.TikvBench, Start: &start, SpanS: 20.4, Rated: "the 20 s in which all clients ran",
		Settings: map[string]string{"num_clients": "3", "target": "150"}, SourcesExpected: 3,
		Sources: []foreign.Source{{Name: "kvbench-0", Samples: 1000, EndS: 20, ServiceUS: l}, {Name: "kvbench-1", Samples: 1000, Failed: 3, StartS: 0.4, EndS: 20.4}},
		Rows: []foreign.Measured{
			{Kind: "READ", Outcome: foreign.OK, Time: foreign.Service, Samples: 2000, PerS: 100, LatencyUS: l},
			{Kind: "READ", Outcome: foreign.Failed, Time: foreign.Service, Samples: 3},
		},
		LeftOut: 12, Problems: []foreign.Unread{{File: "kvbench-1/results.csv", Line: 1004, Text: "torn: the last line has no end"}},
		Missing: []string{"No results.csv of kvbench-2."}, Notes: []string{"The clients began up to 400 ms apart, by their own clocks."}, Unknown: []string{"Response times."},
	}, {
		Name: "output.txt", Path: "output.txt", Maker: foreign.YCSB, Settings: map[string]string{}, Sources: []foreign.Source{{Name: "output.txt", Samples: 100}},
		Rows: []foreign.Measured{
			{Kind: "READ", Outcome: foreign.OK, Time: foreign.Response, Samples: 100, PerS: 50, Printed: map[string]float64{"mean": 1100, "p95": 1701, "p99": 1901}},
			{Kind: "SCAN", Outcome: foreign.OK, Time: foreign.Either, Samples: 7, Printed: map[string]float64{"p99": 3000}},
		},
	}}}
}

func TestForeign(t *testing.T) {
	t.Parallel()
	for _, f := range Documents {
		err := Check(others(), f)
		if f == OpenMetrics || f == Benchstat {
			if err == nil {
				t.Errorf("%s has no place for what results of other tools cannot tell, and takes them", f)
			}
			continue
		}
		var got bytes.Buffer
		if err := Document(&got, others(), f, Style{}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"kvbench-20251009-085320", "READ", "YCSB"} {
			if !strings.Contains(got.String(), want) {
				t.Errorf("%s has no %q:\n%s", f, want, &got)
			}
		}
		switch f {
		case Text, Markdown:
			golden.Check(t, "foreign."+string(f), got.Bytes())
		case JSON:
			var back analysis.Document
			if err := json.Unmarshal(got.Bytes(), &back); err != nil || len(back.Foreign) != 2 || back.Foreign[0].LeftOut != 12 {
				t.Errorf("read back: %v, %+v", err, back.Foreign)
			}
		}
	}
}

// Each number stands in CSV under the time that it is of, and nothing under another.
func TestForeignCSV(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	if err := Document(&got, others(), CSV, Style{}); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&got).ReadAll()
	if err != nil || len(lines) != 5 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	for i, want := range []map[string]string{
		{"service_us_p99": "2600", "service_us_p99_99": "", "ops_per_s": "100", "tool": "tikvbench", "verdict": "4"},
		{"outcome": "failed", "service_us_p99": "", "ops_per_s": ""},
		{"response_us_p99": "1901", "service_us_p99": "", "response_us_p50": "", "unknown_time_us_p99": "", "verdict": "0"},
		{"unknown_time_us_p99": "3000", "response_us_p99": "", "service_us_p99": ""},
	} {
		for j, column := range lines[0] {
			if value, ok := want[column]; ok && lines[i+1][j] != value {
				t.Errorf("row %d, %s: %q, want %q", i+1, column, lines[i+1][j], value)
			}
		}
	}
}

// Names, settings and texts come from files; none of them is run by a page, or moves a terminal's cursor.
func TestForeignHostileText(t *testing.T) {
	t.Parallel()
	const attack = "<script>alert(1)</script>\x1b[31m\n"
	doc := &analysis.Document{Foreign: []*foreign.Result{{Name: attack, Path: attack, Maker: foreign.YCSB, Rated: attack, Settings: map[string]string{attack: attack},
		Sources: []foreign.Source{{Name: attack}, {Name: attack}}, Rows: []foreign.Measured{{Kind: attack, Outcome: foreign.OK, Time: foreign.Either}},
		Problems: []foreign.Unread{{File: attack, Text: attack}}, LeftOut: 1, Missing: []string{attack}, Notes: []string{attack}, Unknown: []string{attack}}}}
	for _, f := range withForeign {
		var got bytes.Buffer
		if err := Document(&got, doc, f, Style{Colour: f == Text}); err != nil {
			t.Fatal(err)
		}
		if f == HTML && (strings.Contains(got.String(), "<script>alert") || strings.Contains(got.String(), "\x1b")) || f == Markdown && strings.Contains(got.String(), "<script>") {
			t.Errorf("%s runs what stands in results", f)
		}
		if f == Text && strings.Contains(strings.NewReplacer("\x1b[1m", "", "\x1b[0m", "", "\x1b[31m", "", "\x1b[33m", "", "\x1b[32m", "").Replace(got.String()), "\x1b") {
			t.Errorf("%s moves the cursor: %q", f, &got)
		}
	}
}
