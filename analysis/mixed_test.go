// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/analysis/foreign"
	"github.com/kvbench/kvbench/internal/measure"
)

// foreignResult is one of another tool: so many operations a second, and a latency of which all numbers are multiples of scale, in µs.
func foreignResult(name string, kinds []string, perS float64, scale int64) *foreign.Result {
	r := &foreign.Result{Name: name, Path: name, Maker: foreign.TikvBench, Sources: make([]foreign.Source, 2), Settings: map[string]string{"num_threads": "8"}}
	for _, kind := range kinds {
		l := &measure.Latency{Mean: float64(12 * scale), P50: 10 * scale, P90: 20 * scale, P95: 25 * scale, P99: 40 * scale, P999: 80 * scale, P9999: 90 * scale, Max: 100 * scale, Samples: 100_000}
		r.Rows = append(r.Rows, foreign.Measured{Kind: kind, Outcome: foreign.OK, Time: foreign.Service, Samples: l.Samples, PerS: perS, LatencyUS: l})
	}
	return r
}

func sideOf(kinds []string, perS float64, scales ...int64) (s *Set) {
	s = new(Set)
	for i, scale := range scales {
		s.Foreign = append(s.Foreign, foreignResult(fmt.Sprintf("%s-%v-%d", kinds[0], perS, i), kinds, perS+float64(i), scale))
	}
	return s
}

func deltaOf(t *testing.T, c *Comparison, kind, metric string) Delta {
	t.Helper()
	i := slices.IndexFunc(c.Deltas, func(d Delta) bool { return d.Kind == kind && d.Metric == metric })
	if i < 0 {
		t.Fatalf("no %s of %s in %+v", metric, kind, c.Deltas)
	}
	return c.Deltas[i]
}

// Several results of a side are judged by how much they differ among themselves; one of each is shown and not judged.
func TestCompareForeign(t *testing.T) {
	t.Parallel()
	total := []string{AllKinds, "READ"}
	c := CompareSets(sideOf(total, 1000, 1000, 1010, 990), sideOf(total, 1000, 1300, 1310, 1290), DefaultSpread)
	if d := deltaOf(t, c, AllKinds, "service_us_p99"); d.Judged != Worse || d.Change < 0.25 || d.Change > 0.35 {
		t.Errorf("a p99 that is 30 %% higher: %+v", d)
	}
	if d := deltaOf(t, c, AllKinds, rateMetric); d.Judged != Noise {
		t.Errorf("the same rate: %+v", d)
	}
	if d := deltaOf(t, c, "READ", "service_us_p50"); d.Judged != NotJudged {
		t.Errorf("a kind: %+v", d)
	}
	if !c.Worse() || c.Basis != BetweenRuns {
		t.Errorf("worse %v, basis %s", c.Worse(), c.Basis)
	}
	same := CompareSets(sideOf(total, 1000, 1000, 1030, 970), sideOf(total, 1001, 1010, 980, 1020), DefaultSpread)
	if same.Worse() || same.Unknown() {
		t.Errorf("results that are alike: %s", same.Summary)
	}
	one := CompareSets(sideOf(total, 1000, 1000), sideOf(total, 500, 3000), DefaultSpread)
	if d := deltaOf(t, one, AllKinds, "service_us_p99"); d.Judged != Unknown || d.Why == "" || d.A != 40_000 || d.B != 120_000 || one.Basis != NotKnown || one.Worse() {
		t.Errorf("one of each: %+v, basis %s", d, one.Basis)
	}
}

// Nothing is judged where something is missing, where the samples do not carry it, or where no operations are in all results.
func TestCompareForeignUnknown(t *testing.T) {
	t.Parallel()
	total := []string{AllKinds}
	a, b := sideOf(total, 1000, 1000, 1010, 990), sideOf(total, 1000, 1300, 1310, 1290)
	b.Foreign[1].Missing = []string{"a client"}
	if c := CompareSets(a, b, DefaultSpread); !c.Unknown() || !strings.Contains(c.Summary, "not a valid result") {
		t.Errorf("a client is missing: %s", c.Summary)
	}
	few := sideOf(total, 1000, 1300, 1310, 1290)
	few.Foreign[0].Rows[0].Samples = 5000
	c := CompareSets(a, few, DefaultSpread)
	if d := deltaOf(t, c, AllKinds, "service_us_p99_9"); d.Judged != Unknown || !strings.Contains(d.Why, "5,000 operations, of which 5 lie beyond") {
		t.Errorf("few operations: %+v", d)
	}
	if d := deltaOf(t, c, AllKinds, "service_us_p99"); d.Judged != Worse {
		t.Errorf("p99, which they carry: %+v", d)
	}
	if c := CompareSets(a, sideOf([]string{"READ"}, 1000, 1000, 1010), DefaultSpread); !c.Unknown() {
		t.Errorf("no operations are in all: %s", c.Summary)
	}
	reads := CompareSets(sideOf([]string{"READ", "UPDATE"}, 1000, 1000, 1010, 990), sideOf([]string{"READ"}, 1000, 1300, 1310, 1290), DefaultSpread)
	if d := deltaOf(t, reads, "READ", "service_us_p99"); d.Judged != Worse || !slices.Contains(reads.Notes, "What is judged is of READ alone.") {
		t.Errorf("the one kind that is in all: %+v, %q", d, reads.Notes)
	}
	times := sideOf(total, 1000, 1300, 1310, 1290)
	for _, r := range times.Foreign {
		r.Rows[0].Time = foreign.Response
	}
	if d := deltaOf(t, CompareSets(a, times, DefaultSpread), AllKinds, "service_us_p99"); d.Judged != Unknown {
		t.Errorf("service time against response time: %+v", d)
	}
}

// Our own runs against another tool's results: service times, and the tools are named as a difference.
func TestCompareForeignWithOurs(t *testing.T) {
	t.Parallel()
	ours := new(Set)
	for range 3 {
		r, err := Load((&fixture{workers: 1, window: 6 * time.Second, target: 500}).write(t))
		if err != nil {
			t.Fatal(err)
		}
		ours.Runs = append(ours.Runs, r)
	}
	p99 := int64(ours.Runs[0].numbers(anyKind)["service_us_p99"])
	theirs := sideOf([]string{AllKinds}, 500, p99/4, p99/4+1, p99/4+2) // ten times as long
	c := CompareSets(ours, theirs, DefaultSpread)
	if d := deltaOf(t, c, AllKinds, "service_us_p99"); d.Judged != Worse || d.Change < 8 || d.Change > 10 {
		t.Errorf("a service time ten times as long: %+v (%s)", d, c.Summary)
	}
	if d := deltaOf(t, c, AllKinds, "service_us_p99_9"); d.Judged != Unknown {
		t.Errorf("p99.9 of 3,000 operations is judged: %+v", d)
	}
	if !slices.Contains(c.Differences, "tool: kvbench → tikvbench") || !strings.Contains(strings.Join(c.Notes, "\n"), "The tools differ (kvbench, tikvbench)") {
		t.Errorf("differences %q, notes %q", c.Differences, c.Notes)
	}
	if slices.ContainsFunc(c.Deltas, func(d Delta) bool { return strings.HasPrefix(d.Metric, "response_us") }) {
		t.Error("a response time, which only one side has, is compared")
	}
}
