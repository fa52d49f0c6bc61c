// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/kvbench/kvbench/analysis"
)

// writeOpenMetrics writes the numbers of runs for a file that Prometheus' node exporter reads, or a push gateway: gauges without
// times, labelled with the run.
func writeOpenMetrics(w io.Writer, d *analysis.Document) error {
	var o openMetrics
	for _, r := range d.Runs {
		o.report(r)
	}
	_, err := io.WriteString(w, o.text())
	return err
}

// openMetrics are families of metrics, of which all samples stand together.
type openMetrics struct{ families []*family }

type family struct {
	name, help string
	samples    []string
}

// labels are pairs of a name and a value.
type labels []string

func (o *openMetrics) add(name, help string, value float64, l labels) {
	var f *family
	for _, known := range o.families {
		if known.name == name {
			f = known
		}
	}
	if f == nil {
		f = &family{name: name, help: help}
		o.families = append(o.families, f)
	}
	var pairs []string
	for i := 0; i < len(l); i += 2 {
		pairs = append(pairs, l[i]+`="`+labelValue.Replace(strings.ToValidUTF8(l[i+1], "\uFFFD"))+`"`)
	}
	f.samples = append(f.samples, fmt.Sprintf("%s{%s} %s", name, strings.Join(pairs, ","), strconv.FormatFloat(value, 'g', -1, 64)))
}

// labelValue escapes what has a meaning in the value of a label.
var labelValue = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func (o *openMetrics) text() string {
	var b strings.Builder
	for _, f := range o.families {
		fmt.Fprintf(&b, "# TYPE %s gauge\n# HELP %[1]s %s\n%s\n", f.name, f.help, strings.Join(f.samples, "\n"))
	}
	return b.String() + "# EOF\n"
}

func (o *openMetrics) report(r *analysis.Report) {
	run := labels{"run", printable(r.RunID)}
	with := func(more ...string) labels { return append(run[:len(run):len(run)], more...) }
	o.add("kvbench_result_info", "What was run.", 1, with("phase", printable(r.Phase), "workload", printable(r.Workload), "version", printable(r.Versions["kvbench"])))
	if !r.Start.IsZero() {
		o.add("kvbench_result_start_time_seconds", "When it started, since the epoch.", float64(r.Start.UnixMilli())/1000, run)
	}
	o.add("kvbench_result_window_seconds", "The time over which rates are taken.", r.WindowS, run)
	o.add("kvbench_result_verdict_code", "0 is valid; kvbench help exit-codes says what the others are.", float64(r.Verdict.Code), run)
	o.add("kvbench_result_workers_expected", "Workers that were to take part.", float64(r.WorkersExpected), run)
	o.add("kvbench_result_workers_finished", "Workers that did their whole part.", float64(r.WorkersFinished), run)
	if r.TargetOps > 0 {
		o.add("kvbench_result_target_operations_per_second", "Operations asked for, over the fleet.", r.TargetOps, run)
	}
	o.add("kvbench_result_operations_per_second", "Answered operations, over the fleet.", r.OpsPerS, run)
	o.add("kvbench_result_errors_per_second", "Operations that failed or gave a wrong value.", r.ErrorsPerS, run)
	for _, objective := range r.Objectives {
		kept := math.NaN()
		if objective.Kept != nil {
			if kept = 0; *objective.Kept {
				kept = 1
			}
		}
		o.add("kvbench_result_objective_kept", "1 if an objective was kept, 0 if not, NaN if that is unknown.", kept, with("objective", printable(objective.Text)))
	}
	for i := range r.Kinds {
		k := &r.Kinds[i]
		of := with("kind", printable(k.Kind), "outcome", printable(k.Outcome))
		o.add("kvbench_result_kind_operations", "Operations of the window, by kind and outcome.", float64(k.Operations), of)
		o.latency(k.ServiceUS, analysis.MetricsOf(r), append(of[:len(of):len(of)], "time", "service"))
		o.latency(k.ResponseUS, analysis.MetricsOf(r), append(of[:len(of):len(of)], "time", "response"))
	}
}

// latency adds what a latency is known for.
func (o *openMetrics) latency(l *analysis.Latency, metrics []analysis.Metric, of labels) {
	if l == nil {
		return
	}
	for _, m := range metrics {
		seconds := m.Of(l) / 1e6
		switch {
		case !m.Known(l):
		case m.Percent == 0:
			o.add("kvbench_result_latency_mean_seconds", "Mean latency.", seconds, of)
		case m.Percent == 100:
			o.add("kvbench_result_latency_max_seconds", "Longest latency.", seconds, of)
		default:
			o.add("kvbench_result_latency_seconds", "Percentiles of latencies, of the merged histograms of all workers.", seconds,
				append(of[:len(of):len(of)], "quantile", strconv.FormatFloat(m.Percent/100, 'g', 8, 64)))
		}
	}
}
