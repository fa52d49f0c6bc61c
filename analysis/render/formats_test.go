// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/results"
)

// judged is a run with objectives of every fate, and text that means something to the formats.
func judged() *analysis.Document {
	yes, no := true, false
	l := &analysis.Latency{Mean: 1234.5, P50: 1000, P90: 2000, P95: 2500, P99: 5000, P999: 9000, P9999: 9000, Max: 9000, Samples: 2000, TooFew: []string{"p99_99"}}
	return &analysis.Document{Runs: []*analysis.Report{{
		RunID: `r"1\`, Phase: "run", WindowS: 10, OpsPerS: 200, Workload: "READ\n<100 %>", Verdict: results.Verdict{Code: 7, Text: "objective missed: \x1b[31m <p99>"},
		Objectives: []analysis.ObjectiveRow{{Text: "READ service p99 < 9 ms", Kept: &yes, Seen: "5.00 ms"}, {Text: "READ service p50 < 1 µs", Kept: &no, Found: "objective missed"}, {Text: "SCAN service p50 < 1 µs", Found: "not measured"}},
		Kinds:      []analysis.KindRow{{Kind: "READ", Outcome: "ok", Operations: 2000, OpsPerS: 200, ServiceUS: l}},
	}}}
}

func TestJUnit(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := Document(&out, judged(), JUnit, Style{}); err != nil {
		t.Fatal(err)
	}
	var back junitSuites
	if err := xml.Unmarshal(out.Bytes(), &back); err != nil {
		t.Fatalf("%v:\n%s", err, &out)
	}
	if back.Tests != 4 || back.Failures != 2 || back.Errors != 1 || len(back.Suites) != 1 || len(back.Suites[0].Cases) != 4 {
		t.Errorf("%d tests, %d failures, %d errors, want 4, 2, 1:\n%s", back.Tests, back.Failures, back.Errors, &out)
	}
	c := back.Suites[0].Cases
	if c[0].Failure == nil || c[0].Failure.Type != "exit code 7" || c[1].Failure != nil || c[1].Error != nil || c[2].Failure == nil || c[3].Error == nil || c[3].Failure != nil {
		t.Errorf("the tests end otherwise than the objectives:\n%s", &out)
	}
}

// Prometheus reads the numbers that the document has, and no percentile that the samples do not carry.
func TestOpenMetrics(t *testing.T) {
	t.Parallel()
	doc := judged()
	var out bytes.Buffer
	if err := Document(&out, doc, OpenMetrics, Style{}); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(out.String(), "\n# EOF\n") {
		t.Errorf("it does not end with # EOF:\n%s", &out)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(out.Bytes()))
	if err != nil {
		t.Fatalf("%v:\n%s", err, &out)
	}
	values := make(map[string]float64)
	for name, f := range families {
		for _, m := range f.Metric {
			key := name
			for _, l := range m.Label {
				switch l.GetName() {
				case "run":
					if l.GetValue() != printable(doc.Runs[0].RunID) {
						t.Errorf("run %q", l.GetValue())
					}
				case "quantile", "objective":
					key += " " + l.GetValue()
				}
			}
			values[key] = m.GetGauge().GetValue()
		}
	}
	for key, want := range map[string]float64{
		"kvbench_result_verdict_code": 7, "kvbench_result_operations_per_second": 200, "kvbench_result_kind_operations": 2000,
		"kvbench_result_latency_seconds 0.5": 0.001, "kvbench_result_latency_seconds 0.999": 0.009, "kvbench_result_latency_max_seconds": 0.009, "kvbench_result_latency_mean_seconds": 0.0012345,
		"kvbench_result_objective_kept READ service p99 < 9 ms": 1, "kvbench_result_objective_kept READ service p50 < 1 µs": 0,
	} {
		if got, ok := values[key]; !ok || math.Abs(got-want) > 1e-12 {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	if v, ok := values["kvbench_result_objective_kept SCAN service p50 < 1 µs"]; !ok || !math.IsNaN(v) {
		t.Errorf("an objective of which nothing is known is %v", v)
	}
	if v, ok := values["kvbench_result_latency_seconds 0.9999"]; ok {
		t.Errorf("p99.99 of 2,000 operations is %v", v)
	}
}

// Lines are as golang.org/design/14313-benchmark-format has them.
func TestBenchstat(t *testing.T) {
	t.Parallel()
	doc := judged()
	doc.Runs[0].Kinds[0].Kind = "READ -8/x" // would end the name, or be taken for processors
	var out bytes.Buffer
	if err := Document(&out, doc, Benchstat, Style{}); err != nil {
		t.Fatal(err)
	}
	allowed := regexp.MustCompile(`^(|#.*|Unit \S+ better=higher|[a-z][^\s:A-Z]*: .*|[a-z]+: |Benchmark[^\s-]+ \d+( [0-9.e+]+ \S+)+)$`)
	benchmarks := 0
	for line := range strings.Lines(out.String()) {
		line = strings.TrimSuffix(line, "\n")
		if !allowed.MatchString(line) {
			t.Errorf("benchstat does not read %q", line)
		}
		if strings.HasPrefix(line, "Benchmark") {
			benchmarks++
		}
	}
	if want := "BenchmarkKV/op=READ__8_x/time=service 2000 1234500 mean-ns 1000000 p50-ns 2000000 p90-ns 2500000 p95-ns 5000000 p99-ns 9000000 p99.9-ns 9000000 max-ns\n"; benchmarks != 2 || !strings.Contains(out.String(), want) {
		t.Errorf("%d benchmarks, want 2, one of them\n%s:\n%s", benchmarks, want, &out)
	}
}

// A spectrum has as many operations as the histogram, and percentiles that rise to all of them.
func TestSpectrum(t *testing.T) {
	t.Parallel()
	h := measure.NewHDR()
	for i := range int64(10_000) {
		if err := h.RecordValue(100 + i); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := Spectrum(&out, &analysis.Spectrum{Run: "r", Kind: "READ", Time: "service", Histogram: h}); err != nil {
		t.Fatal(err)
	}
	var last [3]float64
	points := 0
	for line := range strings.Lines(out.String()) {
		f := strings.Fields(line) // as the plotters take them: four numbers, and no comment
		if strings.HasPrefix(line, "#") || len(f) != 4 || f[0] == "Value" {
			continue
		}
		var now [3]float64
		for i := range now {
			v, err := strconv.ParseFloat(f[i], 64)
			if err != nil || v < last[i] {
				t.Fatalf("%q after %v: %v", line, last, err)
			}
			now[i] = v
		}
		if want := 0.1 + now[1]*10; math.Abs(now[0]-want) > 0.02 { // milliseconds
			t.Errorf("percentile %g is %g ms, want %g", now[1], now[0], want)
		}
		last = now
		points++
	}
	if last != [3]float64{last[0], 1, 10_000} || points < 20 {
		t.Errorf("%d points, the last %v:\n%s", points, last, &out)
	}
}

// Without a folder there is one spectrum, of one run.
func TestSpectra(t *testing.T) {
	t.Parallel()
	if err := Spectra(&bytes.Buffer{}, ""); err == nil || !strings.Contains(err.Error(), "-o") {
		t.Errorf("of no run: %v", err)
	}
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := Spectra(nil, dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(fmt.Errorf("the folder is not made: %w", err))
	}
}

// What became of each objective stands in the forms that people read.
func TestObjectives(t *testing.T) {
	t.Parallel()
	for format, want := range map[Format][]string{
		Text:     {"objective                result   seen", "READ service p99 < 9 ms  kept     5.00 ms", "READ service p50 < 1 µs  missed   –", "SCAN service p50 < 1 µs  unknown  –"},
		Markdown: {"| objective | result | seen |", "| READ service p99 &lt; 9 ms | kept | 5.00 ms |", "| READ service p50 &lt; 1 µs | missed | – |", "| SCAN service p50 &lt; 1 µs | unknown | – |"},
		HTML:     {`<tr class="good"><th scope="row" class="l">READ service p99 &lt; 9 ms</th><td class="l">kept</td><td class="l">5.00 ms</td></tr>`, `<tr class="bad"><th scope="row" class="l">READ service p50`, `<tr class="warn"><th scope="row" class="l">SCAN service p50`},
	} {
		var out bytes.Buffer
		if err := Document(&out, judged(), format, Style{}); err != nil {
			t.Fatal(err)
		}
		for _, text := range want {
			if !strings.Contains(out.String(), text) {
				t.Errorf("%s: no %q in\n%s", format, text, &out)
			}
		}
	}
}
