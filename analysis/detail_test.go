// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/store"
)

// What charts show adds up to what was measured; of what was not measured they show nothing, and not zero.
func TestDetail(t *testing.T) {
	t.Parallel()
	f := &fixture{seed: 5, workers: 3, warmup: time.Second, window: 9 * time.Second, target: 900, result: mixed(0, 50, 0), cpu: 0.4, threads: 4,
		lost: map[int]time.Duration{2: 4 * time.Second},
		sent: []store.Traffic{{Store: "10.0.0.1:20160", Messages: 10, Commands: 100, Breaks: 1}, {Store: "10.0.0.2:20160", Messages: 5, Commands: 5}}}
	p := report(t, f.write(t))
	if len(p.Detail.Heat) != 2 || len(p.Detail.Workers) != 3 || len(p.Detail.Stores) != 2 || p.Detail.Width != 1 {
		t.Fatalf("%+v", p.Detail)
	}
	var answered float64
	for _, s := range p.Series {
		answered += s.OpsPerS
	}
	for _, h := range p.Detail.Heat {
		var all int64
		for _, column := range h.Columns {
			for row, n := range column {
				all += n
				if from := HeatFrom(row); n > 0 && (from < 230 || from > 1e5) {
					t.Errorf("%s: %d operations from %g µs on", h.Time, n, from)
				}
			}
		}
		if math.Abs(float64(all)-answered) > 1 {
			t.Errorf("%s: the heat map holds %d operations, the series %g", h.Time, all, answered)
		}
	}
	for i, w := range p.Detail.Workers {
		for s, rate := range w.Rate[:10] {
			measured := i < 2 || s < 4
			if measured != (rate.Low > 290 && rate.High < 310 && w.P99[s] > 300 && w.CPU[s].High == 0.4) {
				t.Errorf("%s, second %d: %+v, p99 %g, CPU %+v; measured: %v", w.Name, s, rate, w.P99[s], w.CPU[s], measured)
			}
			if unknown := math.IsNaN(rate.Low) && math.IsNaN(w.P99[s]) && math.IsNaN(w.CPU[s].Low) && math.IsNaN(w.Sick[s].Low); unknown == measured {
				t.Errorf("%s, second %d: %+v, measured: %v", w.Name, s, rate, measured)
			}
		}
	}
	for s, rate := range p.Detail.Stores[0].Rate[:9] {
		workers := 3.0
		if s >= 4 {
			workers = 2
		}
		if want := 100 * workers; rate != (Span{want, want}) || p.Detail.Stores[0].Sick[s].High != workers || p.Series[s].Workers != workers {
			t.Errorf("second %d: %+v, want %g of %g workers", s, rate, want, p.Series[s].Workers)
		}
	}
	for _, s := range p.Series[1:9] {
		if s.Errors["timeout"] != s.ErrorsPerS || s.ErrorsPerS == 0 || s.CPUMax != 0.4 {
			t.Errorf("%+v", s)
		}
	}
}

// Of a stretch that no journal tells of, nothing is known.
func TestSeriesHasGaps(t *testing.T) {
	t.Parallel()
	dir := (&fixture{seed: 6, workers: 1, window: 10 * time.Second, target: 300}).write(t)
	edit(t, dir, "w0", results.SecondsFile, func(line string) bool { return line[0] >= '3' && line[0] <= '5' })
	p := report(t, dir)
	for _, s := range p.Series[:10] {
		if known := s.S < 3 || s.S > 5; known != (s.Workers == 1) || known != (s.OpsPerS > 0) || known != !math.IsNaN(p.Detail.Workers[0].Rate[int(s.S)].Low) {
			t.Errorf("%+v, %+v", s, p.Detail.Workers[0].Rate[int(s.S)])
		}
	}
}

// edit leaves out the lines of a worker's file that match.
func edit(t *testing.T, dir, worker, file string, out func(line string) bool) {
	t.Helper()
	path := filepath.Join(dir, worker, file)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	kept := ""
	for line := range strings.Lines(string(text)) {
		if !out(line) {
			kept += line
		}
	}
	if err := os.WriteFile(path, []byte(kept), 0o666); err != nil {
		t.Fatal(err)
	}
}
