// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/kvbench/kvbench/analysis"
)

// writeBenchstat writes runs as results of Go benchmarks, which benchstat compares: several runs of a file are samples of the same.
func writeBenchstat(w io.Writer, d *analysis.Document) error {
	var b strings.Builder
	b.WriteString("Unit ops/s better=higher\n")
	for _, r := range d.Runs {
		// What differs from run to run is no configuration: benchstat would warn of it.
		fmt.Fprintf(&b, "\n# run %s, %s: %s\n", printable(r.RunID), r.Start.UTC().Format("2006-01-02 15:04:05 UTC"), printable(r.Verdict.Text))
		for _, f := range []fact{
			{"phase", r.Phase}, {"workload", r.Workload},
			{"workers", fmt.Sprint(r.WorkersExpected)}, {"threads", fmt.Sprint(r.Plan.Threads)}, {"target", fmt.Sprint(r.Spec["target"])},
		} {
			fmt.Fprintf(&b, "%s: %s\n", f.name, printable(f.text))
		}
		for i := range r.Kinds {
			benchmarks(&b, &r.Kinds[i], analysis.MetricsOf(r))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// benchmarks writes a line for the rate and each of the latencies of a kind and outcome.
func benchmarks(b *strings.Builder, k *analysis.KindRow, metrics []analysis.Metric) {
	if k.Operations == 0 {
		return
	}
	name := "BenchmarkKV/op=" + benchName(k.Kind)
	if k.Outcome != "ok" {
		name += "/outcome=" + benchName(k.Outcome)
	}
	fmt.Fprintf(b, "%s %d %g ops/s\n", name, k.Operations, k.OpsPerS)
	for _, l := range []struct {
		time string
		of   *analysis.Latency
	}{{"service", k.ServiceUS}, {"response", k.ResponseUS}} {
		if l.of == nil {
			continue
		}
		fmt.Fprintf(b, "%s/time=%s %d", name, l.time, l.of.Samples)
		for _, m := range metrics {
			if m.Known(l.of) {
				fmt.Fprintf(b, " %.0f %s-ns", 1000*m.Of(l.of), m.Title())
			}
		}
		b.WriteString("\n")
	}
}

// benchName makes a part of a benchmark's name of text: blanks would end it, and a hyphen and a number stand for processors.
func benchName(s string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r == '-' || r == '/' {
			return '_'
		}
		return r
	}, printable(s))
}
