// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/analysis/internal/golden"
	"github.com/kvbench/kvbench/internal/results"
)

// A document shows as text, CSV and HTML what its JSON says, byte for byte, and its JSON says all of it.
func TestGolden(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile(filepath.Join("..", "testdata", "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var doc analysis.Document
	if err := json.Unmarshal(source, &doc); err != nil {
		t.Fatal(err)
	}
	for _, f := range Documents {
		var got bytes.Buffer
		if err := Document(&got, &doc, f, Style{}); err != nil {
			t.Fatal(err)
		}
		if f == JSON {
			if !bytes.Equal(got.Bytes(), source) {
				t.Errorf("JSON, read and written, differs: %s", golden.FirstDifference(got.Bytes(), source))
			}
			continue
		}
		golden.Check(t, "report."+string(f), got.Bytes())
	}
	for _, width := range []int{80, 120, 160} {
		var got bytes.Buffer
		if err := Document(&got, &doc, Text, Style{Width: width}); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, fmt.Sprintf("report.text%d", width), got.Bytes())
		for line := range strings.Lines(got.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("%d columns in a page of %d: %s", n, width, line)
			}
		}
	}
}

// What is in a results directory may come from anywhere; a page must not run it.
func TestHostileText(t *testing.T) {
	t.Parallel()
	const attack = "<script>alert(1)</script>\x1b[31m"
	p := &analysis.Report{RunID: attack, Series: []analysis.Point{{OpsPerS: 1}},
		Kinds:   []analysis.KindRow{{Kind: attack}},
		Errors:  []analysis.ErrorRow{{Kind: attack, FirstText: attack}},
		Curves:  []analysis.Curve{{Kind: attack, Time: attack, Points: [][2]float64{{0, 1}, {100, 1e9}}}},
		Workers: []analysis.WorkerRow{{Name: attack}}, Spec: map[string]string{attack: attack}}
	doc := &analysis.Document{Runs: []*analysis.Report{p}}
	var page, text bytes.Buffer
	if err := Document(&page, doc, HTML, Style{}); err != nil {
		t.Fatal(err)
	}
	// Ours is the last of the scripts; before it are the charts' data, which no browser runs. Nothing else may be one.
	ours, data := strings.Count(page.String(), "<script>"), strings.Count(page.String(), `<script type="application/json">`)
	if all := strings.Count(page.String(), "<script"); ours != 1 || all != ours+data || data != strings.Count(page.String(), "<figure") {
		t.Errorf("%d scripts: ours %d times, and %d times data", all, ours, data)
	}
	if strings.Contains(page.String(), "alert(1)<") {
		t.Error("text is not escaped")
	}
	var md bytes.Buffer
	if err := Document(&md, doc, Markdown, Style{}); err != nil {
		t.Fatal(err)
	}
	if s := md.String(); strings.Contains(s, "<script") || strings.Contains(s, "\x1b") {
		t.Errorf("the Markdown has a script: %q", s)
	}
	// Kinds and names of workers are checked when they are read.
	p.Kinds, p.Workers, p.Errors[0].Kind = nil, nil, "READ"
	p.Verification = &results.Verification{Problems: []results.Problem{{Key: attack, Text: attack}}, Notes: []string{attack}}
	p.Verdict.Text, p.WorkersLost, p.Warnings = attack, []analysis.LostWorker{{Reason: attack}}, []string{attack}
	if err := Document(&text, doc, Text, Style{}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text.String(), "\x1b") {
		t.Errorf("the text has control characters: %q", &text)
	}
	// Wherever it stands: nothing but our own colours, and in JSON the true text, escaped.
	const moves = "\x1b[2J\u009b2J\u202e"
	p.RunID, p.Phase, p.Verdict.Text, p.Limit.Why, p.Ended.Text, p.Notes = moves, moves, moves, moves, moves, []string{moves}
	for _, f := range []Format{Text, JSON} {
		var out bytes.Buffer
		if err := Document(&out, doc, f, Style{Colour: true}); err != nil {
			t.Fatal(err)
		}
		if s := out.String(); strings.Contains(s, "\x1b[2J") || strings.ContainsAny(s, "\u009b\u202e") {
			t.Errorf("%s moves the cursor: %q", f, s)
		}
		if f == JSON {
			var back analysis.Document
			if err := json.Unmarshal(out.Bytes(), &back); err != nil || back.Runs[0].RunID != moves {
				t.Errorf("JSON: %v, %q", err, back.Runs[0].RunID)
			}
		}
	}
}

func TestJSONIsStable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := Document(&out, analysis.Summarize(), JSON, Style{}); err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil || doc["version"] != 1.0 || doc["runs"] == nil {
		t.Errorf("%v: %s", err, &out)
	}
}

// Why service and response time differ, or do not, is said in a sentence.
func TestGap(t *testing.T) {
	t.Parallel()
	near := &analysis.Latency{Mean: 700, P50: 600, P90: 1200, P95: 1500, P99: 2100, P999: 3000, P9999: 4000, Max: 5000}
	far := &analysis.Latency{Mean: 9000, P50: 700, P90: 2000, P95: 3000, P99: 800_000, P999: 950_000, P9999: 990_000, Max: 1_000_000}
	for _, c := range []struct {
		paced    bool
		response *analysis.Latency
		want     string
	}{
		{true, far, "at p99.9 they are 950 ms and 3.00 ms, so operations had to wait"},
		{true, near, "hardly any had to wait"},
		{false, nil, "There is no response time"},
	} {
		r := &analysis.Report{Paced: c.paced, Kinds: []analysis.KindRow{{Kind: analysis.AllKinds, ServiceUS: near, ResponseUS: c.response}}}
		if got := gap(r); !strings.Contains(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// A comparison says the same in both of its formats.
func TestComparison(t *testing.T) {
	t.Parallel()
	noise, p, spread := 0.01, 0.002, 0.034
	c := &analysis.Comparison{Summary: "B is worse", A: "a", B: "b", Basis: analysis.BetweenRuns, Differences: []string{"workers: 1 → 2"}, Notes: []string{"a note"}, Deltas: []analysis.Delta{
		{Kind: analysis.AllKinds, Metric: "service_us_p99", A: 1000, B: 1500, Change: 0.5, Noise: &noise, P: &p, SpreadA: &spread, Judged: analysis.Worse},
		{Kind: analysis.AllKinds, Metric: "service_us_p99_9", Judged: analysis.Unknown, Why: "run b has none"},
		{Kind: "READ", Metric: "service_us_max", A: 2000, B: 1000, Change: -0.5, Judged: analysis.NotJudged}}}
	var text, doc bytes.Buffer
	if err := Comparison(&text, c, Text, Style{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"differs  workers: 1 → 2", "service p99  ", "1.50 ms", "+50.0 %", "± 1 %", "0.002", "3.4 %", "worse",
		"service p99.9 is unknown: run b has none", "READ        service max", "-50.0 %", "note: a note"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, &text)
		}
	}
	if !strings.HasPrefix(text.String(), "B is worse\n") {
		t.Errorf("what was found does not come first:\n%s", &text)
	}
	if err := Comparison(&doc, c, JSON, Style{}); err != nil {
		t.Fatal(err)
	}
	var back analysis.Comparison
	if err := json.Unmarshal(doc.Bytes(), &back); err != nil || len(back.Deltas) != 3 || *back.Deltas[0].Noise != noise {
		t.Errorf("%v: %s", err, &doc)
	}
}

// What lies beyond the histograms' range is shown as that in every format.
func TestBeyondTheRange(t *testing.T) {
	t.Parallel()
	const hour = 3_600_000_000
	l := &analysis.Latency{Mean: hour / 50, P50: 600, P90: 1200, P95: 1500, P99: hour, P999: hour, P9999: hour, Max: hour,
		Beyond: 3, Range: hour, AtLeast: []string{"mean", "p99", "p99_9", "p99_99", "max"}}
	worker := analysis.WorkerRow{Name: "w0", ServiceUS: l, LagUS: l}
	r := &analysis.Report{Kinds: []analysis.KindRow{{Kind: "READ", ServiceUS: l}, {Kind: analysis.AllKinds, ServiceUS: l}}, Workers: []analysis.WorkerRow{worker, {Name: "w1", OpsPerS: 9}},
		Series: []analysis.Point{{Workers: 1, ServiceMax: hour, AtLeast: []string{"service_max_us"}}}, Curves: []analysis.Curve{{Kind: "READ", Time: "service", Range: hour, Points: [][2]float64{{0, 1}, {100, hour}}}}}
	for f, wants := range map[Format]map[string]int{
		Text: {"> 1 h": 4 + 2, "≥ 72.0 s": 1},
		HTML: {">&gt; 1 h</td>": 4 + 2, ">≥ 72.0 s</td>": 1, beyond + "</label>": 2},
		CSV:  {",mean p99 p99_9 p99_99 max,": 2},
	} {
		var out bytes.Buffer
		if err := Document(&out, &analysis.Document{Runs: []*analysis.Report{r}}, f, Style{Width: 200}); err != nil {
			t.Fatal(err)
		}
		for text, want := range wants {
			if got := strings.Count(out.String(), text); got != want {
				t.Errorf("%s: %q is there %d times, want %d:\n%s", f, text, got, want, &out)
			}
		}
	}
}
