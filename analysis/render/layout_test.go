// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/results"
)

func TestWrap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		words string
		width int
		want  []string
	}{
		{"", 10, []string{""}},
		{"one two three", 7, []string{"one two", "three"}},
		{"one two three", 100, []string{"one two three"}},
		{"averyveryverylongword and more", 8, []string{"averyveryverylongword", "and more"}},
		{"it took 12.5 ms", 12, []string{"it took", "12.5 ms"}},                    // a number and its unit
		{"all of 99.5 % of", 12, []string{"all of", "99.5 % of"}},                  // and a percent sign
		{"a \x1b[1mbold word\x1b[0m", 7, []string{"a \x1b[1mbold", "word\x1b[0m"}}, // colours take no place
		{"µµµ µµµ", 7, []string{"µµµ µµµ"}},                                        // columns, not bytes
	} {
		if got := wrap(c.words, c.width); !slices.Equal(got, c.want) {
			t.Errorf("%q in %d columns: %q, want %q", c.words, c.width, got, c.want)
		}
	}
}

// Columns go in the documented order, and no more of them than must.
func TestFit(t *testing.T) {
	t.Parallel()
	rows := [][]string{{"kind", "a", "b", "c"}, {"READ", "1234567890", "1234567890", "1234567890"}}
	for width, want := range map[int]string{60: "", 40: "", 39: "b", 27: "b a"} {
		page := text{style: Style{Width: width}}
		if width < minWidth { // [Columns] keeps pages wider
			rows := slices.Clone(rows)
			pad := strings.Repeat(" ", minWidth-width)
			rows[1] = append([]string{rows[1][0] + pad}, rows[1][1:]...)
			if left, out := page.fit(rows, "no such", "b", "a"); strings.Join(out, " ") != want || len(left[0])+len(out) != 4 || len(left[1]) != len(left[0]) {
				t.Errorf("%d columns: %q without %q, want without %q", width, left, out, want)
			}
			continue
		}
		if _, out := page.fit(rows, "b"); out != nil {
			t.Errorf("%d columns: without %q", width, out)
		}
	}
}

// A percentile that the samples do not carry is not shown as a number in any table.
func TestTooFewSamples(t *testing.T) {
	t.Parallel()
	h := measure.NewHDR()
	for i := range int64(23) {
		if err := h.RecordValue(1000 + i); err != nil {
			t.Fatal(err)
		}
	}
	l := measure.LatencyOf(h, 75, 98.5)
	r := &analysis.Report{Kinds: []analysis.KindRow{{Kind: "READ", Outcome: "ok", Operations: 23, ServiceUS: l}}}
	doc := &analysis.Document{Runs: []*analysis.Report{r}}
	want := []string{"p99", "p99_9", "p99_99", "p98_5"}
	if !slices.Equal(l.TooFew, want) || l.Samples != 23 {
		t.Fatalf("%d samples: %q, want %q", l.Samples, l.TooFew, want)
	}
	for f, want := range map[Format]string{Text: "1.02 ms    –      –       –  1.02 ms", Markdown: "| – | – | – | 1.02 ms |", HTML: ">–</td>", CSV: ",p99 p99_9 p99_99 p98_5,"} {
		var out strings.Builder
		if err := Document(&out, doc, f, Style{Width: 200}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s lacks %q:\n%s", f, want, &out)
		}
	}
	r.Percentiles = []float64{75, 98.5}
	var out strings.Builder
	if err := Document(&out, doc, Text, Style{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "mean      p75  p98.5      max\n") || !strings.Contains(out.String(), "1.02 ms      –  1.02 ms\n") || !strings.Contains(out.String(), "too few operations") {
		t.Errorf("asked for p75 and p98.5:\n%s", &out)
	}
}

// Of many workers those are shown that did not do their part, and the extremes.
func TestManyWorkers(t *testing.T) {
	t.Parallel()
	r := &analysis.Report{}
	for i := range 100 {
		r.Workers = append(r.Workers, analysis.WorkerRow{Name: fmt.Sprintf("w%02d", i), State: results.Finished, OpsPerS: 100})
	}
	r.Workers[7].State, r.Workers[40].OpsPerS, r.Workers[41].OpsPerS, r.Workers[90].Errors = results.Lost, 50, 200, 3
	if got, want := fmt.Sprint(tellingWorkers(r)), "[0 7 40 41 90]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	var out strings.Builder
	if err := Document(&out, &analysis.Document{Runs: []*analysis.Report{r}}, Text, Style{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "Not shown: 95 workers") {
		t.Errorf("95 workers are silently left out:\n%s", &out)
	}
}
