// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// write writes files, by their names below a new directory.
func write(t testing.TB, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func load(t testing.TB, path string, unit Unit) *Result {
	t.Helper()
	all, err := Load(path, Options{Unit: unit, Percentiles: []float64{75}})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 {
		t.Fatalf("%d results, want one", len(all))
	}
	return all[0]
}

func row(t testing.TB, r *Result, kind, outcome, time string) *Measured {
	t.Helper()
	for i, m := range r.Rows {
		if m.Kind == kind && m.Outcome == outcome && m.Time == time {
			return &r.Rows[i]
		}
	}
	t.Fatalf("no row %s %s %s in %+v", kind, outcome, time, r.Rows)
	return nil
}

func contains(t testing.TB, what string, lines []string, want string) {
	t.Helper()
	if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, want) }) {
		t.Errorf("%s %q: want one with %q", what, lines, want)
	}
}

// sample is an operation as a client has measured it.
type sample struct {
	kind      string
	start, us int64
}

// csvOf writes samples in any order, as goroutines do.
func csvOf(samples []sample, rng *rand.Rand) string {
	var b strings.Builder
	b.WriteString(csvHeader + "\n")
	for _, i := range rng.Perm(len(samples)) {
		fmt.Fprintf(&b, "%s,%d,%d\n", samples[i].kind, samples[i].start, samples[i].us)
	}
	return b.String()
}

const epoch = int64(1_760_000_000_000_000) // µs

// fleetOf makes the samples of clients that run for so many seconds, at a rate each.
func fleetOf(clients, seconds, rate int, rng *rand.Rand) [][]sample {
	all := make([][]sample, clients)
	for c := range all {
		for i := range seconds * rate {
			kind := []string{"READ", "READ", "UPDATE"}[i%3]
			us := int64(math.Exp(rng.NormFloat64()+6)) + 1
			all[c] = append(all[c], sample{kind, epoch + int64(i)*second/int64(rate), us})
		}
	}
	return all
}

// percentile is the plain one: sort, and take the value of that rank.
func percentile(sorted []int64, percent float64) int64 {
	return sorted[max(1, int(percent/100*float64(len(sorted))+0.5))-1]
}

// The numbers of a directory are those of all samples sorted, within the histograms' precision; and what is missing is said.
func TestTikvBench(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	fleet := fleetOf(3, 10, 500, rng)
	fleet[0] = append(fleet[0], sample{"READ_ERROR", epoch + second, 30}, sample{"READ", epoch + second, 0})
	files := map[string]string{
		"cmd.txt":  "run_benchmark.py --num_clients=4 --num_threads 8 --duration=10s --target=1500",
		"time.txt": "2026-01-02T03:04:05\n",
	}
	for c, samples := range fleet {
		files[fmt.Sprintf("kvbench-%d/results.csv", c)] = csvOf(samples, rng)
	}
	files["kvbench-1/results.csv"] += "READ,12\nREAD,x,1\n"
	files["kvbench-2/results.csv"] += "READ,17600"
	files["kvbench-3/output.txt"] = "nothing"
	dir := write(t, files)
	r := load(t, dir, 0)

	for _, kind := range []string{"READ", "UPDATE", AllKinds} {
		var all []int64
		for _, samples := range fleet {
			for _, s := range samples {
				if s.kind == kind || kind == AllKinds && s.kind != "READ_ERROR" {
					all = append(all, s.us)
				}
			}
		}
		slices.Sort(all)
		m := row(t, r, kind, OK, Service)
		if m.Samples != int64(len(all)) {
			t.Errorf("%s: %d samples, want %d", kind, m.Samples, len(all))
		}
		for name, percent := range map[string]float64{"p50": 50, "p75": 75, "p99": 99, "max": 100} {
			want := percentile(all, percent)
			if got, ok := m.Number(name); !ok || got < float64(want) || got > float64(want)*1.001+1 {
				t.Errorf("%s %s: %v µs (%v), want %d", kind, name, got, ok, want)
			}
		}
		if want := map[string]float64{"READ": 1000, "UPDATE": 500, AllKinds: 1500}[kind]; math.Abs(m.PerS-want) > want/100 {
			t.Errorf("%s: %.1f/s, want %.0f", kind, m.PerS, want)
		}
	}
	if m := row(t, r, "READ", Failed, Service); m.Samples != 1 {
		t.Errorf("%d errors, want 1", m.Samples)
	}
	if r.LeftOut != 3 || len(r.Problems) != 3 {
		t.Errorf("%d lines left out, %v; want 3", r.LeftOut, r.Problems)
	}
	for _, want := range []string{"kvbench-1", "kvbench-2"} {
		if !slices.ContainsFunc(r.Problems, func(p Unread) bool { return strings.Contains(p.File, want) && p.Line > 5000 }) {
			t.Errorf("no problem names %s and a line: %v", want, r.Problems)
		}
	}
	contains(t, "missing", r.Missing, "No results.csv of kvbench-3")
	contains(t, "missing", r.Missing, "4 clients were asked for, and results of 3")
	contains(t, "notes", r.Notes, "1 operation took 0 µs")
	if r.Whole() || r.Code() == 0 {
		t.Error("a result of which a client is missing is whole")
	}
	if r.Settings["num_threads"] != "8" || r.SourcesExpected != 4 {
		t.Errorf("settings %v, %d clients expected", r.Settings, r.SourcesExpected)
	}

	above, err := Load(filepath.Dir(dir), Options{}) // a folder of runs
	if err != nil || len(above) != 1 {
		t.Errorf("the folder above: %d results, %v", len(above), err)
	}
	alone := load(t, filepath.Join(dir, "kvbench-1", "results.csv"), 0)
	contains(t, "notes", alone.Notes, "One client's samples alone")
	if want := filepath.Join(dir, "kvbench-1", "results.csv") + ":"; !strings.HasPrefix(alone.Problems[0].String(), want) {
		t.Errorf("problem %q, want it to begin with %q", alone.Problems[0], want)
	}
}

// What a client's file can be beside whole.
func TestSamplesOfBrokenClients(t *testing.T) {
	t.Parallel()
	whole := csvHeader + "\n"
	for i := range 20 {
		whole += fmt.Sprintf("READ,%d,100\n", epoch+int64(i)*second)
	}
	for name, tt := range map[string]struct{ text, missing, problem string }{
		"empty":           {"", "results.csv of kvbench-1 is empty", ""},
		"header alone":    {csvHeader + "\n", "results.csv of kvbench-1 has no operation", ""},
		"ended early":     {csvHeader + "\nREAD," + fmt.Sprint(epoch) + ",100\n", "kvbench-1 ended 19 s before", ""},
		"far away":        {whole + "READ,1,1\n", "", "36 h"},
		"long line":       {whole + strings.Repeat("x", 2*chunk) + "\n", "", "longer than"},
		"huge latency":    {whole + fmt.Sprintf("READ,%d,999999999999999999\n", epoch), "", "latency"},
		"no name":         {whole + fmt.Sprintf(",%d,1\n", epoch), "", "operation"},
		"overflow":        {whole + "READ,99999999999999999999999,1\n", "", "timestamp"},
		"torn gzip":       {packed(whole)[:40], "", "the rest cannot be read"},
		"another's lines": {"one\ntwo\n", "has no operation", "want operation,timestamp_us,latency_us"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := load(t, write(t, map[string]string{"cmd.txt": "--num_clients=2", "kvbench-0/results.csv": whole, "kvbench-1/results.csv": tt.text}), 0)
			if tt.missing != "" {
				contains(t, "missing", r.Missing, tt.missing)
			}
			if tt.problem != "" {
				contains(t, "problems", []string{fmt.Sprint(r.Problems)}, tt.problem)
			}
			if r.Whole() {
				t.Error("it is whole")
			}
			if n := row(t, r, "READ", OK, Service).Samples; n < 20 {
				t.Errorf("%d samples, want at least the 20 of the client that is whole", n)
			}
		})
	}
}

// Where operations are made of others there is no row of all: it would count them twice.
func TestNoTotalOfWhatIsCountedTwice(t *testing.T) {
	t.Parallel()
	text := csvHeader + "\n"
	for i := range 8 {
		for _, kind := range []string{"READ", "UPDATE", "READ_MODIFY_WRITE", AllKinds} {
			text += fmt.Sprintf("%s,%d,100\n", kind, epoch+int64(i)*second)
		}
	}
	r := load(t, filepath.Join(write(t, map[string]string{"results.csv": text}), "results.csv"), 0)
	for _, m := range r.Rows {
		if m.Kind == AllKinds {
			t.Errorf("a row of all kinds: %+v", m)
		}
	}
	contains(t, "notes", r.Notes, "8 lines of TOTAL left out")
}

func packed(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text)) // a buffer takes everything
	_ = w.Close()
	return b.String()
}

// logOf writes an interval log with an interval of a second for each histogram.
func logOf(t testing.TB, head, tag string, all ...*hdrhistogram.Histogram) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(head + `"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"` + "\n")
	for i, h := range all {
		text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
		if err != nil {
			t.Fatal(err)
		}
		if tag != "" {
			b.WriteString("Tag=" + tag + ",")
		}
		fmt.Fprintf(&b, "%d.000,1.000,%d.000,%s\n", i, h.Max(), text)
	}
	return b.String()
}

// histograms are some of a log-normal latency, and what they are together.
func histograms(t testing.TB, n int, rng *rand.Rand) (each []*hdrhistogram.Histogram, whole *hdrhistogram.Histogram) {
	t.Helper()
	whole = hdrhistogram.New(1, 60_000_000_000, 3)
	for range n {
		h := hdrhistogram.New(1, 60_000_000_000, 3)
		for range 1000 {
			v := int64(math.Exp(rng.NormFloat64()+8)) + 1
			if err := errors.Join(h.RecordValue(v), whole.RecordValue(v)); err != nil {
				t.Fatal(err)
			}
		}
		each = append(each, h)
	}
	return each, whole
}

// The logs of several clients become one distribution, whatever their tags, their unit, and whether they are packed.
func TestIntervalLogs(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	a, all := histograms(t, 5, rng)
	b, more := histograms(t, 5, rng)
	all.Merge(more)
	const head = "#[StartTime: 1760000000.000 (seconds since epoch), Thu Oct 09 2025]\n#[BaseTime: 1760000000.000 (seconds since epoch)]\n"
	for name, tt := range map[string]struct {
		first, second string // logs
		unit          Unit
		per           float64 // values in a microsecond
	}{
		"microseconds": {logOf(t, head, "READ", a...), logOf(t, head, "READ", b...), 1000, 1},
		"nanoseconds":  {logOf(t, head, "READ", a...), logOf(t, head, "READ", b...), 1, 1000},
		"packed":       {packed(logOf(t, head, "READ", a...)), packed(logOf(t, head, "READ", b...)), 1000, 1},
		"YCSB":         {logOf(t, "#[Logging for: READ]\n"+head, "", a...), logOf(t, "#[Logging for: READ]\n"+head, "", b...), 0, 1},
		"unit told":    {logOf(t, "#[Values are in microseconds]\n"+head, "READ", a...), logOf(t, "#[Values are in microseconds]\n"+head, "READ", b...), 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := load(t, write(t, map[string]string{"a.hdr": tt.first, "b.hlog.gz": tt.second}), tt.unit)
			m := row(t, r, "READ", OK, Either)
			if m.Samples != 10_000 || math.Abs(m.PerS-2000) > 1 || len(r.Sources) != 2 || !r.Whole() {
				t.Errorf("%d samples at %.1f/s of %d sources, %v %v", m.Samples, m.PerS, len(r.Sources), r.Problems, r.Missing)
			}
			if r.Start == nil || r.Start.Unix() != 1_760_000_000 {
				t.Errorf("start %v", r.Start)
			}
			for name, percent := range map[string]float64{"p50": 50, "p99": 99, "max": 100} {
				want := float64(all.ValueAtPercentile(percent)) / tt.per
				if got, ok := m.Number(name); !ok || got < want-1 || got > want*1.0011+1 {
					t.Errorf("%s: %v µs, want %v", name, got, want)
				}
			}
			if got, _ := m.Number("mean"); math.Abs(got/(all.Mean()/tt.per)-1) > 0.001 {
				t.Errorf("mean %v, want %v", got, all.Mean()/tt.per)
			}
		})
	}
	if _, err := Load(write(t, map[string]string{"a.hdr": logOf(t, head, "READ", a...)}), Options{}); !errors.Is(err, ErrUnit) {
		t.Errorf("a log that does not tell its unit: %v", err)
	}
}

// Lines of which something is wrong are left out and named; the others count.
func TestBrokenIntervalLog(t *testing.T) {
	t.Parallel()
	each, _ := histograms(t, 3, rand.New(rand.NewPCG(5, 6)))
	good := logOf(t, "", "READ", each...)
	for name, tail := range map[string]string{
		"torn":         strings.TrimSuffix(good[strings.LastIndex(strings.TrimSpace(good), "\n")+1:], "\n")[:60],
		"no histogram": "Tag=READ,4.0,1.0,7.0\n",
		"no base64":    "Tag=READ,4.0,1.0,7.0,HISTx\n",
		"no tag":       "Tag=,4.0,1.0,7.0,HISTx\n",
		"no time":      "Tag=READ,x,1.0,7.0,HISTx\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := load(t, write(t, map[string]string{"a.hdr": good + tail}), 1000)
			if m := row(t, r, "READ", OK, Either); m.Samples != 3000 || r.LeftOut != 1 || r.Problems[0].Line != 5 {
				t.Errorf("%d samples, %d left out: %v", m.Samples, r.LeftOut, r.Problems)
			}
		})
	}
}

// Logs that other programs wrote, which come with the library: all values are there, and percentiles lie in their buckets.
func TestLogsOfOthers(t *testing.T) {
	t.Parallel()
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/HdrHistogram/hdrhistogram-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(strings.TrimSpace(string(module)), "test")
	r := load(t, filepath.Join(dir, "jHiccup-2.0.7S.logV2.hlog"), 1)
	m := row(t, r, "jHiccup-2.0.7S.logV2", OK, Either)
	// 48,761, and 1,745,879,039 ns at p99.9 and 1,796,210,687 at most, says HdrHistogram's own test, with buckets of two digits counted at their lower ends.
	p999, _ := m.Number("p99_9")
	highest, _ := m.Number("max")
	if m.Samples != 48_761 || p999 < 1_745_879 || p999 > 1.01*1_745_879 || highest < 1_796_210 || highest > 1.01*1_796_210 {
		t.Errorf("%d samples, p99.9 %v µs, max %v µs", m.Samples, p999, highest)
	}
	tagged := load(t, filepath.Join(dir, "tagged-Log.logV2.hlog"), 1)
	if a, b := row(t, tagged, "A", OK, Either), row(t, tagged, "tagged-Log.logV2", OK, Either); a.Samples != b.Samples || a.LatencyUS.P99 != b.LatencyUS.P99 {
		t.Errorf("two tags of the same values differ: %+v, %+v", a, b)
	}
	if old := load(t, filepath.Join(dir, "jHiccup-2.0.6.logV1.hlog"), 1); old.Whole() || old.LeftOut == 0 {
		t.Errorf("a log of encoding V1, which is not read, is whole: %+v", old)
	}
}

const goYCSBPlain = `***************** properties *****************
"threadcount"="8"
"tikv.pd"="127.0.0.1:2379"
**********************************************
READ   - Takes(s): 1.0, Count: 50, OPS: 50.0, Avg(us): 1000, Min(us): 500, Max(us): 2000, 50th(us): 900, 90th(us): 1500, 95th(us): 1700, 99th(us): 1900, 99.9th(us): 2000, 99.99th(us): 2000
Run finished, takes 2.000s
READ   - Takes(s): 2.0, Count: 100, OPS: 50.0, Avg(us): 1100, Min(us): 500, Max(us): 4000, 50th(us): 901, 90th(us): 1501, 95th(us): 1701, 99th(us): 1901, 99.9th(us): 4000, 99.99th(us): 4000
TOTAL  - Takes(s): 2.0, Count: 100, OPS: 50.0, Avg(us): 1100, Min(us): 500, Max(us): 4000, 50th(us): 901, 90th(us): 1501, 95th(us): 1701, 99th(us): 1901, 99.9th(us): 4000, 99.99th(us): 4000
UPDATE_ERROR - Takes(s): 2.0, Count: 3, OPS: 1.5, Avg(us): 9, Min(us): 9, Max(us): 9, 50th(us): 9, 90th(us): 9, 95th(us): 9, 99th(us): 9, 99.9th(us): 9, 99.99th(us): 9
`

const goYCSBTable = `+-----------+----------+-------+------+---------+---------+---------+----------+----------+----------+----------+------------+-------------+
| OPERATION | TAKES(S) | COUNT | OPS  | AVG(US) | MIN(US) | MAX(US) | 50TH(US) | 90TH(US) | 95TH(US) | 99TH(US) | 99.9TH(US) | 99.99TH(US) |
+-----------+----------+-------+------+---------+---------+---------+----------+----------+----------+----------+------------+-------------+
| READ      |      2.0 |   100 | 50.0 |    1100 |     500 |    4000 |      901 |     1501 |     1701 |     1901 |       4000 |        4000 |
+-----------+----------+-------+------+---------+---------+---------+----------+----------+----------+----------+------------+-------------+
Run finished, takes 2.000s
`

const goYCSBJSON = `Run finished, takes 2.000s
[{"50th(us)":"901","90th(us)":"1501","95th(us)":"1701","99.99th(us)":"4000","99.9th(us)":"4000","99th(us)":"1901","Avg(us)":"1100","Count":"100","Max(us)":"4000","Min(us)":"500","OPS":"50.0","Operation":"READ","Takes(s)":"2.0"}]
`

const ycsbText = `[OVERALL], RunTime(ms), 2000
[OVERALL], Throughput(ops/sec), 50.0
[TOTAL_GC_TIME_G1_Young_Generation], Time(ms), 12
[CLEANUP], Operations, 8
[CLEANUP], AverageLatency(us), 3.5
[CLEANUP], 99thPercentileLatency(us), 4
[READ], Operations, 100
[READ], AverageLatency(us), 1100.0
[READ], MinLatency(us), 500
[READ], MaxLatency(us), 4000
[READ], 95thPercentileLatency(us), 1701
[READ], 99thPercentileLatency(us), 1901
[READ], Return=OK, 98
[READ], Return=NOT_FOUND, 2
[Intended-READ], Operations, 100
[Intended-READ], 99thPercentileLatency(us), 90000
`

// Printed summaries, each in the forms that its tool has.
func TestSummaries(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text, maker string
		numbers     map[string]float64
	}{
		"go-ycsb":        {goYCSBPlain, GoYCSB, map[string]float64{"mean": 1100, "min": 500, "p50": 901, "p99": 1901, "p99_9": 4000, "max": 4000}},
		"go-ycsb, table": {goYCSBTable, GoYCSB, map[string]float64{"mean": 1100, "p50": 901, "p99": 1901, "p99_9": 4000, "p99_99": 4000}},
		"go-ycsb, JSON":  {goYCSBJSON, GoYCSB, map[string]float64{"mean": 1100, "p50": 901, "p99": 1901, "p99_9": 4000}},
		"YCSB":           {ycsbText, YCSB, map[string]float64{"mean": 1100, "min": 500, "max": 4000, "p95": 1701, "p99": 1901}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := load(t, filepath.Join(write(t, map[string]string{"output.txt": tt.text}), "output.txt"), 0)
			m := row(t, r, "READ", OK, Service)
			if r.Maker != tt.maker || m.Samples != 100 || m.PerS != 50 || m.LatencyUS != nil || !r.Whole() {
				t.Errorf("%s, %d samples, %v/s, %v, %v %v", r.Maker, m.Samples, m.PerS, m.LatencyUS, r.Problems, r.Missing)
			}
			for name, want := range tt.numbers {
				if got, ok := m.Number(name); !ok || got != want {
					t.Errorf("%s: %v (%v), want %v", name, got, ok, want)
				}
			}
			if _, ok := m.Number("p42"); ok {
				t.Error("a percentile that was not printed is known")
			}
			contains(t, "unknown", r.Unknown, "never merged")
		})
	}
	plain := load(t, filepath.Join(write(t, map[string]string{"output.txt": goYCSBPlain}), "output.txt"), 0)
	if m := row(t, plain, "UPDATE", Failed, Service); m.Samples != 3 || plain.Sources[0].Failed != 3 || plain.Sources[0].Samples != 100 {
		t.Errorf("%+v, %+v", m, plain.Sources)
	}
	if plain.Settings["threadcount"] != "8" {
		t.Errorf("settings %v", plain.Settings)
	}
	java := load(t, filepath.Join(write(t, map[string]string{"output.txt": ycsbText}), "output.txt"), 0)
	if v, _ := row(t, java, "READ", OK, Response).Number("p99"); v != 90_000 {
		t.Errorf("intended p99 %v", v)
	}
	contains(t, "notes", java.Notes, "2 of 100 calls returned NOT_FOUND")
}

// A summary that is cut off says so; the summaries of two runs are not one, since percentiles cannot be merged.
func TestSummariesThatAreNotOne(t *testing.T) {
	t.Parallel()
	file := func(text string) string { return filepath.Join(write(t, map[string]string{"x": text}), "x") }
	for _, text := range []string{goYCSBPlain + goYCSBPlain, ycsbText + ycsbText} {
		if _, err := Load(file(text), Options{}); err == nil || !strings.Contains(err.Error(), "cannot be merged") {
			t.Errorf("two summaries: %v", err)
		}
	}
	torn := load(t, file(ycsbText[strings.Index(ycsbText, "[READ]"):]), 0)
	contains(t, "missing", torn.Missing, "cut off")
	cut := load(t, file(goYCSBPlain[:strings.Index(goYCSBPlain, "Run finished")]), 0)
	contains(t, "notes", cut.Notes, "cut off")
	line := load(t, file(goYCSBPlain+"READ   - Takes(s): 3.0, Count: 1"), 0)
	if line.Whole() || row(t, line, "READ", OK, Service).Samples != 100 {
		t.Errorf("a torn line counts, or is not said: %v", line.Problems)
	}
}

func TestNothingOfOthers(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"empty": "", "text": "hello\nworld\n", "folder/x": "y", "torn.gz": packed("hello")[:12]})
	for name, want := range map[string]string{"empty": "empty", "text": "no results of another tool", "folder": "no results of another tool", "none": "no such file", "torn.gz": "EOF"} {
		if _, err := Load(filepath.Join(dir, name), Options{}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want it to name the path and %q", name, err, want)
		}
	}
	only := write(t, map[string]string{"cmd.txt": "", "kvbench-0/output.txt": goYCSBPlain})
	if _, err := Load(only, Options{}); err == nil || !strings.Contains(err.Error(), "cannot be merged") {
		t.Errorf("a run without samples: %v", err)
	}
}

// open is a file in memory.
func open(text []byte) *file {
	return &file{name: "x", in: bufio.NewReaderSize(bytes.NewReader(text), 64<<10), close: func() error { return nil }}
}

// Every line counts or is left out, and no operation is both.
func FuzzSamples(f *testing.F) {
	f.Add([]byte(csvHeader + "\nREAD,1760000000000000,120\nREAD_ERROR,1760000000000001,0\nTOTAL,1760000000000000,120\n"))
	f.Add([]byte(csvHeader + "\nREAD,1760000000000000,120\nREAD,17600"))
	f.Add([]byte("x,1,1\r\n,,\n,1,1\nREAD,9,99999999999999999999\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var s sampleFile
		in := open(text)
		s.read(in)
		lines := int64(bytes.Count(text, []byte{'\n'}))
		if len(text) > 0 && text[len(text)-1] != '\n' {
			lines++
		}
		if header := int64(len(bytes.SplitN(text, []byte{'\n'}, 2)[0])); header > 0 && strings.TrimSuffix(string(text[:header]), "\r") == csvHeader && int64(len(text)) > header {
			lines--
		}
		if s.count+s.totals+in.left != lines {
			t.Fatalf("%d operations, %d totals and %d left out of %d lines", s.count, s.totals, in.left, lines)
		}
		var sum int64
		for _, k := range s.kinds {
			sum += k.latency.Count()
		}
		if sum != s.count || s.count > 0 && (s.first <= 0 || s.last < s.first) {
			t.Fatalf("%d in histograms of %d, from %d to %d", sum, s.count, s.first, s.last)
		}
	})
}

// A log is read without panic; nothing is counted that has no line, and times are in order.
func FuzzIntervalLog(f *testing.F) {
	each, _ := histograms(f, 2, rand.New(rand.NewPCG(7, 8)))
	f.Add([]byte(logOf(f, "#[BaseTime: 1760000000.0]\n#[StartTime: 1760000000.0]\n", "READ", each...)))
	f.Add([]byte("#[Logging for: READ]\n" + logOf(f, "", "", each...)))
	f.Add([]byte("Tag=A,0.1,1e300,2,HISTFAAAAEV42pNpmSzMwMCgyAABTBDKT4GBgdnNYMcCBvsPEBEJISEuATEZMQ4uASkhIR4nrxg9v2lMaxhvMekILGZkKmcCAEf2CsI=\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		l := newIntervalLog(1000)
		in := open(text)
		if err := l.read(in); err != nil {
			t.Fatal(err)
		}
		if l.intervals+in.left > int64(bytes.Count(text, []byte{'\n'})+1) {
			t.Fatalf("%d intervals and %d left out of %d lines", l.intervals, in.left, bytes.Count(text, []byte{'\n'})+1)
		}
		if l.intervals > 0 && !(l.firstS <= l.lastS) {
			t.Fatalf("from %v to %v", l.firstS, l.lastS)
		}
		for _, d := range l.tags {
			if d.sum.Count() < 0 || math.IsNaN(d.mean) {
				t.Fatalf("%d values, mean %v", d.sum.Count(), d.mean)
			}
		}
	})
}

// A summary is read without panic, and its numbers are numbers.
func FuzzSummary(f *testing.F) {
	for _, text := range []string{goYCSBPlain, goYCSBTable, goYCSBJSON, ycsbText} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := readSummary("x", open(text), Options{})
		if err != nil {
			return
		}
		for _, m := range r.Rows {
			if m.Samples < 0 || m.PerS < 0 || math.IsNaN(m.PerS) || math.IsInf(m.PerS, 0) {
				t.Fatalf("%+v", m)
			}
			for name, v := range m.Printed {
				if v < 0 || math.IsNaN(v) {
					t.Fatalf("%s of %s is %v", name, m.Kind, v)
				}
			}
		}
	})
}
