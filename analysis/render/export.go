// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvbench/kvbench/analysis"
	clean "github.com/kvbench/kvbench/internal/printable"
)

// writeJSON writes the document for scripts; docs/json.md describes it.
func writeJSON(w io.Writer, d any) error {
	var document bytes.Buffer
	e := json.NewEncoder(&document)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(d); err != nil {
		return err
	}
	_, err := w.Write(clean.JSON(document.Bytes()))
	return err
}

// atLeast names the numbers that values beyond the histograms' range decide.
func atLeast(l *analysis.Latency) string {
	if l == nil {
		return ""
	}
	return strings.Join(l.AtLeast, " ")
}

// tooFewOf names the percentiles that the samples do not carry.
func tooFewOf(l *analysis.Latency) string {
	if l == nil {
		return ""
	}
	return strings.Join(l.TooFew, " ")
}

// furtherMetrics are those that a document was asked for beside those that every one has.
func furtherMetrics(d *analysis.Document) (further []analysis.Metric) {
	for _, r := range d.Runs {
		for _, m := range analysis.MetricsOf(r) {
			same := func(o analysis.Metric) bool { return o.Name == m.Name }
			if !slices.ContainsFunc(analysis.Metrics, same) && !slices.ContainsFunc(further, same) {
				further = append(further, m)
			}
		}
	}
	return further
}

// writeCSV writes a line per run, kind and outcome, latencies in microseconds.
func writeCSV(w io.Writer, d *analysis.Document) error {
	header := []string{"run_id", "start", "phase", "window_s", "workers", "threads", "batch", "target_ops", "verdict",
		"kind", "outcome", "operations", "ops_per_s", "batches", "rpcs"}
	for _, prefix := range []string{"service_us_", "response_us_"} {
		for _, m := range analysis.Metrics {
			header = append(header, prefix+m.Name)
		}
	}
	header = append(header, "cut_off_calls", "skipped_slots")
	for _, prefix := range []string{"service_us_with_never_answered_", "response_us_with_never_answered_"} {
		for _, m := range analysis.Metrics {
			header = append(header, prefix+m.Name)
		}
	}
	header = append(header, "service_us_at_least", "response_us_at_least", "service_us_too_few", "response_us_too_few")
	further := furtherMetrics(d)
	for _, prefix := range []string{"service_us_", "response_us_"} {
		for _, m := range further {
			header = append(header, prefix+m.Name)
		}
	}
	if len(d.Foreign) > 0 {
		header = append(header, "tool")
		for _, m := range analysis.Metrics {
			header = append(header, "unknown_time_us_"+m.Name)
		}
	}
	out := csv.NewWriter(w)
	if err := out.Write(header); err != nil {
		return err
	}
	float := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	integer := func(n int64) string { return strconv.FormatInt(n, 10) }
	for _, r := range d.Runs {
		run := []string{r.RunID, r.Start.Format(time.RFC3339), r.Phase, float(r.WindowS), strconv.Itoa(r.WorkersExpected),
			strconv.Itoa(r.Threads), strconv.Itoa(r.Plan.Batch), float(r.TargetOps), strconv.Itoa(r.Verdict.Code)}
		for _, k := range r.Kinds {
			line := append(run[:len(run):len(run)], k.Kind, k.Outcome, integer(k.Operations), float(k.OpsPerS), integer(k.Batches), integer(k.RPCs))
			latencies := func(metrics []analysis.Metric, all ...*analysis.Latency) {
				for _, l := range all {
					for _, m := range metrics {
						if l == nil {
							line = append(line, "")
						} else {
							line = append(line, float(m.Of(l)))
						}
					}
				}
			}
			latencies(analysis.Metrics, k.ServiceUS, k.ResponseUS)
			never := k.NeverAnswered
			if never == nil {
				never = &analysis.NeverAnswered{}
			}
			line = append(line, integer(never.CutOffCalls), integer(never.SkippedSlots))
			latencies(analysis.Metrics, never.ServiceUS, never.ResponseUS)
			line = append(line, atLeast(k.ServiceUS), atLeast(k.ResponseUS), tooFewOf(k.ServiceUS), tooFewOf(k.ResponseUS))
			latencies(further, k.ServiceUS, k.ResponseUS)
			if len(line) < len(header) { // the other tools' columns
				line = append(line, make([]string, len(header)-len(line))...)
			}
			if err := out.Write(line); err != nil {
				return err
			}
		}
	}
	for _, r := range d.Foreign {
		for i := range r.Rows {
			if err := out.Write(foreignLine(header, r, &r.Rows[i])); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}
