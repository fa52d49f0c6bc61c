// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
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
	dir, err := largerun.Run{ID: "large", Workers: 15, Seconds: 600, PerSecond: 120, Disturbed: true, Event: "killed a store"}.Write(t.TempDir())
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
	for what, want := range map[string]int{"<figure": 8 + 7 + 4*15 + 2, `class="heat"`: 2, "killed a store": 1, `id="r1-events"`: 1} {
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
