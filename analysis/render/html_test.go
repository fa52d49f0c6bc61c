// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/analysis/internal/largerun"
	"github.com/kvbench/kvbench/analysis/render/chart"
)

// maxPage is how long the page of a run of 15 workers, 10 minutes and all kinds of operations may be.
const maxPage = 500_000

// The page of a large run is small enough to be sent around, needs nothing from elsewhere, and has all that was measured.
func TestPageOfALargeRun(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("reads 15 workers × 10 minutes")
	}
	dir, err := largerun.Run{ID: "large", Workers: 15, Seconds: 600, PerSecond: 120, Disturbed: true, Event: "killed a store", Servers: 3}.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r, err := analysis.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	if err := Document(&page, analysis.Summarize(r), HTML, Style{}); err != nil {
		t.Fatal(err)
	}
	if page.Len() > maxPage {
		t.Errorf("%d bytes, want %d at most", page.Len(), maxPage)
	}
	if found := regexp.MustCompile(`(?:src|href|url)\s*[=(]\s*["']?(?:https?:)?//`).FindString(page.String()); found != "" {
		t.Errorf("it needs something from elsewhere: %s", found)
	}
	for what, want := range map[string]int{"<figure": 8 + 7 + 4*15 + 2 + 9 + 3, `class="heat"`: 2, "killed a store": 1, `id="r1-events"`: 1} {
		if got := strings.Count(page.String(), what); got < want {
			t.Errorf("%s is there %d times, want %d", what, got, want)
		}
	}
	if keep := os.Getenv("KVBENCH_KEEP"); keep != "" {
		if err := os.WriteFile(filepath.Join(keep, "large.html"), page.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d bytes", page.Len())
}

// Where nothing was measured a line has a gap, and the data for the script says so.
func TestGapInChart(t *testing.T) {
	t.Parallel()
	r := &analysis.Report{Paced: true, Series: []analysis.Point{
		{S: 0, Phase: "window", Workers: 1, OpsPerS: 10, Target: 10}, {S: 1, Phase: "window"}, {S: 2, Phase: "window", Workers: 1, OpsPerS: 0, Target: 10}}}
	tl := newTimeline(r, "r1")
	l := tl.line("answered", "c0", func(p *analysis.Point) float64 { return p.OpsPerS }, loaded)
	if l.Values[0] != 10 || !math.IsNaN(l.Values[1]) || l.Values[2] != 0 {
		t.Errorf("%v", l.Values)
	}
	d := drawing{prefix: "x"}
	if markup := string(d.draw(tl.chart("rate", "", chart.Axis{Unit: chart.Rate}, l))); !strings.Contains(markup, `"v":[10,null,0]`) || strings.Count(markup, "l0 0") != 2 {
		t.Errorf("no gap in %s", markup)
	}
}

// What stores told lies on the run's clock: what they did in the middle of the time from one reading to the next, what they
// were at the nearest reading; and where they did not tell there is a gap.
func TestFiguresOverTime(t *testing.T) {
	t.Parallel()
	one, two, three := 1.0, 2.0, 3.0
	series := []analysis.ServerPoint{{S: 0.1, Leaders: &one}, {S: 5.1, Leaders: &two, CPU: &two}, {S: 10.1}, {S: 15.1, Leaders: &three}, {S: 20.1, Leaders: &three, CPU: &three}}
	at := []float64{2.5, 7.5, 12.5, 17.5, 22.5, 27.5}
	cpu := func(p *analysis.ServerPoint) *float64 { return p.CPU }
	leaders := func(p *analysis.ServerPoint) *float64 { return p.Leaders }
	for _, c := range []struct {
		got  []float64
		want string
	}{
		{valuesAt(series, at, 5, cpu, false), "[2 NaN NaN 3 NaN NaN]"},
		{valuesAt(series, at, 5, leaders, true), "[1 2 NaN 3 3 NaN]"},
		{valuesAt(nil, at[:2], 5, leaders, true), "[NaN NaN]"},
		{[]float64{rounded(0), rounded(123456), rounded(0.012345), rounded(-2)}, "[0 123500 0.01235 -2]"},
	} {
		if got := fmt.Sprint(c.got); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	if apart := readingsApart([]analysis.ServerRow{{Series: series}, {}}); apart != 5 {
		t.Errorf("%g s apart", apart)
	}
	var many []chart.Line
	for i := range 20 {
		many = append(many, chart.Line{Name: fmt.Sprint(i), Values: []float64{math.NaN(), float64(i)}})
	}
	if lines := styled(many); lines[0].Name != "19" || lines[7].Name != "12" {
		t.Errorf("of many, the first are not the highest: %+v", lines[:8])
	}
}

// A load says how long it took, and what each store had to take of it, those among them that got nothing.
func TestLoadByStore(t *testing.T) {
	t.Parallel()
	r := &analysis.Report{Phase: "load", Operations: 20_000, MeasuredS: 2, OpsPerS: 10_000, Traffic: &analysis.Traffic{}}
	r.Cluster.Stores = []string{"a:1", "b:1", "c:1"}
	r.Traffic.Stores = []analysis.StoreRow{{Store: "b:1", Sent: analysis.Sent{CommandsPS: 300}}, {Store: "c:1", Sent: analysis.Sent{CommandsPS: 100}}}
	if got, want := loadOf(r), "20,000 records in 2 s, 10,000/s; commands by store: b:1 300/s (75 %), c:1 100/s (25 %), a:1 0/s (0 %)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for i := range 9 {
		r.Cluster.Stores = append(r.Cluster.Stores, fmt.Sprintf("d%d:1", i))
	}
	if got := loadOf(r); !strings.HasSuffix(got, "; commands by store, of 12: the most b:1 300/s (75 %), the least d8:1 0/s (0 %)") {
		t.Error(got)
	}
	if r.Phase = "run"; loadOf(r) != "" {
		t.Error("a run has loaded something")
	}
}

// Several runs get a list with links to each, and lie over each other; more than there are colours are in the list alone.
func TestSeveralRuns(t *testing.T) {
	t.Parallel()
	var doc analysis.Document
	for i := range 10 {
		doc.Runs = append(doc.Runs, &analysis.Report{RunID: string(rune('a' + i)), Series: []analysis.Point{{Workers: 1, Phase: "window", OpsPerS: float64(i), ServiceP99: 5}},
			Kinds: []analysis.KindRow{{Kind: analysis.AllKinds, ServiceUS: &analysis.Latency{P50: 77}}}, Curves: []analysis.Curve{{Kind: "READ", Time: "service", Points: [][2]float64{{0, 1}, {50, 2}}}}})
	}
	var page bytes.Buffer
	if err := Document(&page, &doc, HTML, Style{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"10 runs", `<a href="#r10">j</a>`, `<article id="r10">`, `"name":"h"`, "The first 8; 2 more are in the table alone"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("%s is not there", want)
		}
	}
	if overlay, _, _ := strings.Cut(page.String(), "<article"); strings.Contains(overlay, `"name":"i"`) {
		t.Error("the ninth run is in the charts")
	}
}

// BenchmarkHTML makes the page of 15 workers, 10 minutes and all kinds, from reading the results on.
func BenchmarkHTML(b *testing.B) {
	dir, err := largerun.Run{ID: "large", Workers: 15, Seconds: 600, PerSecond: 3000}.Write(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		r, err := analysis.Load(dir)
		if err != nil {
			b.Fatal(err)
		}
		if err := Document(io.Discard, analysis.Summarize(r), HTML, Style{}); err != nil {
			b.Fatal(err)
		}
	}
}
