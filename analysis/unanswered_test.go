// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kvbench/kvbench/internal/measure"
)

// Beside the latencies of what was answered stands what they would be at least with what was not: the percentiles of
// all operations, each of the latter as long as it had waited.
func TestNeverAnswered(t *testing.T) {
	t.Parallel()
	f := &fixture{seed: 3, workers: 2, warmup: time.Second, window: 8 * time.Second, target: 1000, threads: 4, hang: 5 * time.Second, connections: 1}
	p := report(t, f.write(t))
	for _, text := range Contradictions(p) {
		t.Error(text)
	}
	if p.Unanswered == nil || p.Unanswered.Calls != 8 || math.Abs(p.Unanswered.OldestS-4) > 0.01 {
		t.Errorf("at the end of the window: %+v", p.Unanswered)
	}
	if p.Hang == nil || p.Hang.Calls != 8 || math.Abs(p.Hang.SinceS-5) > 0.01 || math.Abs(p.Hang.OldestS-9) > 0.01 {
		t.Errorf("hang: %+v", p.Hang)
	}
	all := p.total()
	n := all.NeverAnswered
	if n == nil || n.CutOffCalls != 8 || n.SkippedSlots != p.Skipped || all.Operations+n.Operations != 8000 {
		t.Fatalf("%d answered, %+v", all.Operations, n)
	}
	// Half of the window's operations were never answered, the first due 4 s before its end, and 4 of each worker waited for the grace period as well.
	for name, c := range map[string]struct{ got, want float64 }{
		"p50": {float64(n.ResponseUS.P50), 0}, "p90": {float64(n.ResponseUS.P90), 3.2}, "p99": {float64(n.ResponseUS.P99), 3.92}, "max": {float64(n.ResponseUS.Max), 9},
	} {
		if math.Abs(c.got/1e6-c.want) > 0.02 {
			t.Errorf("response %s is at least %g s, want %g", name, c.got/1e6, c.want)
		}
	}
	if n.ServiceUS.Max < 8_900_000 || n.ServiceUS.P99 > 100_000 {
		t.Errorf("service time: %+v", n.ServiceUS)
	}
	for _, k := range p.Kinds {
		if k.Kind != AllKinds && (k.NeverAnswered == nil || math.Abs(float64(k.NeverAnswered.Operations)-float64(n.Operations)/2) > 0.02*float64(n.Operations)) {
			t.Errorf("%s: %+v, of %+v", k.Kind, k.NeverAnswered, n)
		}
	}
	// Without it there is nothing to say.
	f.hang = 0
	if p := report(t, f.write(t)); p.total().NeverAnswered != nil || p.Hang != nil || p.Unanswered != nil {
		t.Errorf("%+v, %+v, %+v", p.total().NeverAnswered, p.Hang, p.Unanswered)
	}
}

func TestScaled(t *testing.T) {
	t.Parallel()
	h := measure.NewHDR()
	for us := range int64(10_000) {
		_ = h.RecordValue(us)
	}
	for _, part := range []int64{0, 1, 333, 999, 1000} {
		out := scaled(h, part, 1000)
		if got := count(out); got != part*10 {
			t.Errorf("%d/1000 of 10,000 are %d", part, got)
		}
		if part > 100 && math.Abs(float64(out.ValueAtPercentile(50)-h.ValueAtPercentile(50))) > 20 {
			t.Errorf("%d/1000: p50 is %d, of all %d", part, out.ValueAtPercentile(50), h.ValueAtPercentile(50))
		}
	}
}

// A limit holds for a percentile if it does however long what was never answered took.
func TestWithin(t *testing.T) {
	t.Parallel()
	h := hdrhistogram.New(measure.Lowest, measure.Highest, measure.Digits)
	_ = h.RecordValues(100, 990)
	_ = h.RecordValues(500, 10)
	for _, c := range []struct {
		metric      string
		more, limit int64
		want        bool
	}{
		{"p99", 0, 100, true},
		{"p99", 1, 100, false}, // of 1,001 operations p99 is the 991st
		{"p99", 1, 500, true},
		{"p99", 10, 500, true},
		{"p99", 11, 500, false}, // of 1,011 it is the 1,001st
		{"max", 1, 500, false},
		{"mean", 1, 500, false},
	} {
		m := MetricNamed(c.metric)
		if got := m.Within(h, c.more, c.limit); got != c.want {
			t.Errorf("%s within %d with %d more: %v", c.metric, c.limit, c.more, got)
		}
	}
}

// A percentile is not judged where what was never answered could be beyond it; the rate is.
func TestNeverAnsweredIsNotCompared(t *testing.T) {
	t.Parallel()
	r, err := Load((&fixture{window: 20 * time.Second, target: 2000, threads: 4, hang: 19_990 * time.Millisecond}).write(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headlinesOf([]*Run{r}) {
		if why := h.tooFew(r); (why != "") != (h.percent == 99.9) {
			t.Errorf("%s, with %d never answered: %q", h.name, r.fleet.never(), why)
		}
	}
}
