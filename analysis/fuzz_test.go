// SPDX-License-Identifier: Apache-2.0

package analysis_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/analysis/render"
	"github.com/kvbench/kvbench/internal/results"
)

// Whatever stands in run.json, there is an error or a report in every form.
func FuzzRun(f *testing.F) {
	dir := analysis.SmallRun(f)
	path := filepath.Join(dir, results.RunFile)
	text, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"version": 1, "window_s": 1e9, "stopped_s": -1, "paced": true, "target_ops": 1e308, "fleet": [{"name": "w0"}]}`))
	f.Add([]byte(`{"version": 1, "fleet": [{"name": "w0", "lost_at_s": -1e300}], "limits": {"slo": [{"kind": "TOTAL"}]}}`))
	f.Add([]byte(`{"version": 1, "window_s": 6, "plan": {"workers": 3}, "fleet": [{"name": "gone"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o666); err != nil {
			t.Fatal(err)
		}
		r, err := analysis.Load(dir)
		if err != nil {
			return
		}
		for _, form := range render.Documents {
			if err := render.Document(io.Discard, analysis.Summarize(r), form, render.Style{Colour: true}); err != nil {
				t.Errorf("%s: %v", form, err)
			}
		}
		if err := render.Comparison(io.Discard, analysis.Compare([]*analysis.Run{r}, []*analysis.Run{r}, analysis.DefaultSpread), render.Text, render.Style{Colour: true}); err != nil {
			t.Error(err)
		}
	})
}
