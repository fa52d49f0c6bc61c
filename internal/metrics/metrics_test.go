// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"

	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// measured runs record on a recorder and returns the intervals, added to run.
func measured(run *Run, target float64, record func(*measure.Recorder)) {
	c := measure.NewCollector(measure.Config{Paced: true}, 1)
	record(c.Recorder(0))
	c.Recorder(0).Finish(time.Second)
	c.Run(func(iv *measure.Interval) { run.Add(iv, target) })
}

// series gathers everything and returns the values of counters and gauges by
// name{labels}, histograms by their count.
func series(t *testing.T, m *Metrics) map[string]float64 {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, metric := range f.Metric {
			var labels []string
			for _, l := range metric.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			value := metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			got[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = value
		}
	}
	return got
}

func TestRun(t *testing.T) {
	t.Parallel()
	m := New("v1.2.3")
	run := m.Begin(Info{RunID: "r1", Phase: "run", Driver: "rawkv"})
	const ms = time.Millisecond
	cost := &store.Cost{Transactions: 2, Timestamps: 3}
	cost.Commands[store.TxnGet], cost.Phases[store.Reading] = 2, ms
	measured(run, 500, func(r *measure.Recorder) {
		r.Started(workload.Read, 0, 25)
		r.Record(&measure.Sample{Kind: workload.Read, Result: &workload.Result{Count: [4]int32{9, 1}, RPCs: 2, Retries: 1, Cost: cost}, Slot: 1 * ms, Start: 2 * ms, End: 5 * ms, Seen: 5 * ms})
		r.Record(&measure.Sample{Kind: workload.Read, Result: &workload.Result{Count: [4]int32{8, 0, 0, 2}, RPCs: 3, Class: store.Timeout, Err: errors.New("late")}, Slot: 2 * ms, Start: 2 * ms, End: 9 * ms, Seen: 9 * ms})
		r.CutOff(workload.Read, 0, 0, ms, 2)
		r.Skipped(3*ms, ms, 7, false)
		r.Queued(3*ms, 4)
	})
	for range 2 {
		run.AddTraffic([]store.Traffic{{Store: "s1", Messages: 3, Commands: 10, Fallbacks: map[string]int64{"busy": 2}}, {Store: "quiet"}})
	}
	got := series(t, m)
	for name, want := range map[string]float64{
		`kvbench_run_info{driver="rawkv",phase="run",run_id="r1"}`:                     1,
		`kvbench_run_active{run_id="r1"}`:                                              1,
		`kvbench_target_operations_per_second{run_id="r1"}`:                            500,
		`kvbench_due_operations_total{run_id="r1"}`:                                    500,
		`kvbench_started_operations_total{kind="READ",run_id="r1"}`:                    25,
		`kvbench_operations_total{kind="READ",outcome="ok",run_id="r1"}`:               17,
		`kvbench_operations_total{kind="READ",outcome="not_found",run_id="r1"}`:        1,
		`kvbench_operations_total{kind="READ",outcome="wrong",run_id="r1"}`:            0,
		`kvbench_operations_total{kind="READ",outcome="error",run_id="r1"}`:            2,
		`kvbench_batches_total{kind="READ",outcome="not_found",run_id="r1"}`:           1,
		`kvbench_batches_total{kind="READ",outcome="error",run_id="r1"}`:               1,
		`kvbench_rpcs_total{kind="READ",run_id="r1"}`:                                  5,
		`kvbench_retries_total{kind="READ",run_id="r1"}`:                               1,
		`kvbench_transactions_total{kind="READ",run_id="r1"}`:                          2,
		`kvbench_transaction_timestamps_total{kind="READ",run_id="r1"}`:                3,
		`kvbench_transaction_commands_total{command="kv_get",kind="READ",run_id="r1"}`: 2,
		`kvbench_transaction_phase_seconds{kind="READ",phase="read",run_id="r1"}`:      1,
		`kvbench_errors_total{class="timeout",kind="READ",run_id="r1"}`:                2,
		`kvbench_errors_total{class="server_busy",kind="READ",run_id="r1"}`:            0,
		`kvbench_in_flight_operations{run_id="r1"}`:                                    25 - 20 - 2,
		`kvbench_cut_off_operations_total{run_id="r1"}`:                                2,
		`kvbench_queued_operations_total{run_id="r1"}`:                                 4,
		`kvbench_skipped_slots_total{run_id="r1"}`:                                     7,
		`kvbench_messages_total{run_id="r1",store="s1"}`:                               6,
		`kvbench_commands_total{run_id="r1",store="s1"}`:                               20,
		`kvbench_fallbacks_total{cause="busy",run_id="r1",store="s1"}`:                 4,
		`kvbench_stream_breaks_total{run_id="r1",store="s1"}`:                          0,
		`kvbench_clamped_values_total{run_id="r1"}`:                                    0,
		`kvbench_service_seconds{kind="READ",outcome="error",run_id="r1"}`:             1,
		`kvbench_response_seconds{kind="READ",outcome="not_found",run_id="r1"}`:        1,
		`kvbench_lag_seconds{run_id="r1"}`:                                             2,
		`kvbench_lane_delay_seconds{run_id="r1"}`:                                      2,
		`kvbench_build_info{go_version="` + goVersion(got) + `",version="v1.2.3"}`:     1,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s: %v (there: %v), want %v", name, v, ok, want)
		}
	}
	for name := range got {
		if strings.Contains(name, "UPDATE") || strings.Contains(name, "quiet") {
			t.Errorf("%s: nothing of that kind was started", name)
		}
	}

	run.End()
	got = series(t, m)
	for name, want := range map[string]float64{
		`kvbench_run_active{run_id="r1"}`:                                0,
		`kvbench_target_operations_per_second{run_id="r1"}`:              0,
		`kvbench_due_operations_total{run_id="r1"}`:                      500,
		`kvbench_in_flight_operations{run_id="r1"}`:                      0,
		`kvbench_operations_total{kind="READ",outcome="ok",run_id="r1"}`: 17,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("after the end, %s: %v (there: %v), want %v", name, v, ok, want)
		}
	}
}

// The dashboard, the alerts and their recording rules ask for nothing that is not there.
func TestWhatIsAskedForIsThere(t *testing.T) {
	t.Parallel()
	m := New("")
	run := m.Begin(Info{})
	measured(run, 1, func(r *measure.Recorder) {
		r.Started(workload.Read, 0, 1)
		r.Record(&measure.Sample{Kind: workload.Read, Result: &workload.Result{Count: [4]int32{1}}, Slot: 1, Start: 2, End: 3, Seen: 4})
	})
	run.AddTraffic([]store.Traffic{{Store: "s", Messages: 1, Commands: 1, Fallbacks: map[string]int64{"busy": 1}}})
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	there := make(map[string]bool)
	for _, f := range families {
		there[f.GetName()] = true
	}
	for _, file := range []string{"rules.yaml", "kvbench.json"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "monitoring", file))
		if err != nil {
			t.Fatal(err)
		}
		asked := regexp.MustCompile(`\b(kvbench|go|process)_\w+`).FindAllString(string(text), -1)
		if len(asked) < 5 {
			t.Errorf("%s asks for %v", file, asked)
		}
		for _, name := range asked {
			bare := name
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				bare = strings.TrimSuffix(bare, suffix)
			}
			if !there[name] && !there[bare] {
				t.Errorf("%s asks for %s, which no worker has", file, name)
			}
		}
	}
}

func goVersion(got map[string]float64) string {
	for name := range got {
		if rest, ok := strings.CutPrefix(name, `kvbench_build_info{go_version="`); ok {
			return rest[:strings.IndexByte(rest, '"')]
		}
	}
	return ""
}

// However many runs a worker has seen, the series do not grow.
func TestRunsAreForgotten(t *testing.T) {
	t.Parallel()
	m := New("")
	var sizes []int
	for i := range 20 {
		run := m.Begin(Info{RunID: fmt.Sprint("r", i%19)}) // one comes twice
		measured(run, 1, func(r *measure.Recorder) {
			r.Started(workload.Update, 0, 1)
			r.Record(&measure.Sample{Kind: workload.Update, Result: &workload.Result{Count: [4]int32{1}}})
		})
		run.End()
		sizes = append(sizes, len(series(t, m)))
	}
	if slices.Max(sizes[1:]) != slices.Min(sizes[1:]) || sizes[1] <= sizes[0] {
		t.Errorf("number of series after each run: %v", sizes)
	}
	if got := series(t, m); got[`kvbench_operations_total{kind="UPDATE",outcome="ok",run_id="r18"}`] != 1 ||
		got[`kvbench_operations_total{kind="UPDATE",outcome="ok",run_id="r0"}`] != 1 {
		t.Error("the last two runs are not shown")
	}
}

// Both forms of a histogram agree with the values recorded.
func TestLatency(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	var values []int64 // µs
	for range 5000 {
		values = append(values, int64(math.Exp(rnd.Float64()*math.Log(60e6))))
	}
	values = append(values, 0, 1, 100, 101, 60_000_000)
	run := New("").Begin(Info{})
	measured(run, 0, func(r *measure.Recorder) {
		for _, us := range values {
			r.Record(&measure.Sample{Result: &workload.Result{Count: [4]int32{1}}, End: time.Duration(us) * time.Microsecond})
		}
	})
	h := run.kinds[workload.Read].service[workload.OK].dto()
	if h.GetSampleCount() != uint64(len(values)) {
		t.Fatalf("count %d, want %d", h.GetSampleCount(), len(values))
	}
	var sum float64
	for _, us := range values {
		sum += float64(us) / 1e6
	}
	if got := h.GetSampleSum(); math.Abs(got-sum) > sum/1000 {
		t.Errorf("sum %v, want %v", got, sum)
	}
	for _, b := range h.Bucket {
		var atMost, slack uint64 // what lies within a bucket of 0.1 % may be on either side
		for _, us := range values {
			if float64(us) <= b.GetUpperBound()*1e6 {
				atMost++
			} else if float64(us) <= b.GetUpperBound()*1e6*1.001 {
				slack++
			}
		}
		if got := b.GetCumulativeCount(); got < atMost || got > atMost+slack {
			t.Errorf("le %v: %d, want %d (+%d)", b.GetUpperBound(), got, atMost, slack)
		}
	}
	native := decodeNative(h)
	want := map[int]uint64{}
	for _, us := range values {
		if us > 0 {
			want[nativeBucket(us)]++
		}
	}
	var difference uint64
	for i := -200; i < 100; i++ {
		difference += max(native[i], want[i]) - min(native[i], want[i])
	}
	if difference > uint64(len(values)/100) {
		t.Errorf("%d of %d values are in another native bucket", difference, len(values))
	}
	if h.GetZeroCount() != 1 {
		t.Errorf("zero bucket: %d", h.GetZeroCount())
	}
}

// decodeNative reads the buckets as Prometheus does.
func decodeNative(h *dto.Histogram) map[int]uint64 {
	buckets := map[int]uint64{}
	index, value, delta := 0, int64(0), 0
	for _, span := range h.PositiveSpan {
		index += int(span.GetOffset())
		for range span.GetLength() {
			value += h.PositiveDelta[delta]
			buckets[index] = uint64(value)
			index++
			delta++
		}
	}
	return buckets
}

func TestNativeBucket(t *testing.T) {
	t.Parallel()
	for us := int64(1); us <= measure.Highest; us += 1 + us/50 {
		i, s := nativeBucket(us), float64(us)/1e6
		lower, upper := math.Exp2(float64(i-1)/(1<<schema)), math.Exp2(float64(i)/(1<<schema))
		if s <= lower*(1-1e-12) || s > upper*(1+1e-12) {
			t.Fatalf("%d µs is in bucket %d, which is (%v, %v]", us, i, lower, upper)
		}
	}
}

// A collector must be consistent whatever it holds.
func TestPedantic(t *testing.T) {
	t.Parallel()
	m := New("")
	run := m.Begin(Info{RunID: "r"})
	measured(run, 1, func(r *measure.Recorder) {
		for k := range workload.Kind(workload.Kinds) {
			r.Started(k, 0, 1)
			r.Record(&measure.Sample{Kind: k, Result: &workload.Result{Count: [4]int32{1}}, End: time.Second})
		}
	})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	if _, err := registry.Gather(); err != nil {
		t.Fatal(err)
	}
}
