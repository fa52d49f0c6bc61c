// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"math"
	"testing"
	"time"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/pace"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/store/memory"
)

// reported is what the analysis says of a run.
func reported(t *testing.T, dir string) *analysis.Report {
	t.Helper()
	run, err := analysis.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	p := run.Report()
	for _, contradiction := range analysis.Contradictions(p) {
		t.Error(contradiction)
	}
	return p
}

// TestTargetIsReached: three workers together start what the target asks for, to
// the slot, whatever its shape; and the result says what that was. The database answers at
// once, so that only a machine without processors to spare can be late.
func TestTargetIsReached(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, target, arrival string
		slots                 float64 // in the window of 2 s, after 1 s of warm-up
		rates                 [3]float64
	}{
		{"100", "100", spec.Uniform, 200, [3]float64{100, 100, 100}},
		{"1000", "1000", spec.Uniform, 2000, [3]float64{1000, 1000, 1000}},
		{"20000", "20000", spec.Uniform, 40000, [3]float64{20000, 20000, 20000}},
		{"poisson", "5000", spec.Poisson, 10000, [3]float64{5000, 5000, 5000}},
		{"ramp", "0..3000@3s,10", spec.Uniform, 4000, [3]float64{500, 1500, 2500}},
		{"steps", "100@1s,1000@1s,3000", spec.Uniform, 4000, [3]float64{100, 1000, 3000}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			db := &memory.DB{}
			f, _ := trio(t, db)
			all := 1.0 // nothing is loaded
			s, err := f.Run(t.Context(), Job{Out: t.TempDir(), Limits: results.Limits{MissShare: &all}, Spec: properties(t, map[string]string{
				"target": tt.target, "arrival": tt.arrival, "warmuptime": "1", "threadcount": "64",
			})})
			if err != nil && exitcode.Of(err) != exitcode.Valid {
				t.Fatal(err)
			}
			p := reported(t, s.Dir)
			tolerated := 3.0 // workers
			if tt.arrival == spec.Poisson {
				tolerated = 5 * math.Sqrt(tt.slots)
			}
			if got := float64(p.Operations + p.Skipped); math.Abs(got-tt.slots) > tolerated {
				t.Errorf("%v slots, want %v", got, tt.slots)
			}
			if math.Abs(p.TargetOps-tt.slots/2) > 0.001*tt.slots {
				t.Errorf("a target of %v/s is reported, want %v", p.TargetOps, tt.slots/2)
			}
			for i, point := range p.Series[:3] {
				if math.Abs(point.Target-tt.rates[i]) > 0.001*tt.rates[i] {
					t.Errorf("second %d: a target of %v/s, want %v", i, point.Target, tt.rates[i])
				}
			}
			t.Logf("%.1f/s of %.1f/s; lag p50 %d µs, p99 %d µs", p.OpsPerS, p.TargetOps, p.LagUS.P50, p.LagUS.P99)
			if p.Skipped > 0 {
				t.Skipf("%d slots came too late on this busy machine", p.Skipped)
			}
			if p.Verdict.Code != exitcode.Valid || p.Limit.By != analysis.ByTarget {
				t.Errorf("%+v, %+v, want the target to be met", p.Verdict, p.Limit)
			}
		})
	}
}

// TestTargetIsChangedInARamp: a live change takes the place of the rest of a profile, at the
// moment that it was agreed on.
func TestTargetIsChangedInARamp(t *testing.T) {
	t.Parallel()
	db := &memory.DB{}
	f, _ := trio(t, db)
	changed := make(chan time.Duration, 1)
	asked := false
	s, err := f.Run(t.Context(), Job{
		RunID: "ramp", Out: t.TempDir(),
		Spec: properties(t, map[string]string{"target": "0..1000@10s", "maxexecutiontime": "4", "threadcount": "64"}),
		Progress: func(p *Snapshot) {
			if asked || p.Stage != Measuring || p.Elapsed < time.Second {
				return
			}
			asked = true
			go func() {
				at, err := f.SetTarget(t.Context(), "ramp", 2000)
				if err != nil {
					t.Error(err)
				}
				changed <- at
			}()
		},
	})
	if err != nil && exitcode.Of(err) != exitcode.Valid {
		t.Fatal(err)
	}
	at := <-changed
	ramp, err := pace.NewProfile(pace.Stage{From: 0, To: 1000, Length: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	want := ramp.Change(at, 2000).Count(4 * time.Second)
	p := reported(t, s.Dir)
	if got := float64(p.Operations + p.Skipped); math.Abs(got-want) > 3 {
		t.Errorf("%v slots with a change at %v, want %v", got, at, want)
	}
	if math.Abs(p.TargetOps-want/4) > 1 {
		t.Errorf("a target of %v/s is reported, want %v", p.TargetOps, want/4)
	}
}
