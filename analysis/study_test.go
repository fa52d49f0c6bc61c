// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/workload"
)

// cellOf is a cell with a run of each fixture.
func cellOf(t *testing.T, fixtures ...*fixture) *Cell {
	t.Helper()
	c := NewCell("")
	for i, f := range fixtures {
		change := f.change
		f.change = func(r *results.Run) {
			r.RunID = fmt.Sprintf("20260314-150926-%06x", i)
			if change != nil {
				change(r)
			}
		}
		r, err := Load(f.write(t))
		if err != nil {
			t.Fatal(err)
		}
		c.Add(r, i+1)
	}
	return c
}

// A percentile over several runs is that of all their operations together, and not a mean of the runs' own.
func TestPercentilesOfRepeatsArePooled(t *testing.T) {
	t.Parallel()
	slow := func(r *rand.Rand) time.Duration { return 4 * exponential(r) }
	fixtures := []*fixture{
		{seed: 1, window: 4 * time.Second, target: 900},
		{seed: 2, window: 4 * time.Second, target: 300, took: slow},
		{seed: 3, window: 4 * time.Second, target: 600},
	}
	c := cellOf(t, fixtures...)
	s := NewStudy("s", "s")
	s.Cells = append(s.Cells, c)
	s.Finish()
	var all []float64
	for _, f := range fixtures {
		for _, o := range f.pooled {
			if o.outcome == workload.OK {
				all = append(all, float64(o.service.Microseconds()))
			}
		}
	}
	slices.Sort(all)
	for _, p := range []struct {
		percent float64
		found   Pooled
	}{{50, c.ServiceUS.P50}, {99, c.ServiceUS.P99}, {99.9, c.ServiceUS.P999}} {
		want := all[int(math.Ceil(float64(len(all))*p.percent/100))-1]
		if math.Abs(p.found.Value-want) > 2+want/500 {
			t.Errorf("p%v is %v, want %v", p.percent, p.found.Value, want)
		}
		if !(p.found.Min < p.found.Value && p.found.Value < p.found.Max) {
			t.Errorf("p%v %+v does not lie between those of the runs", p.percent, p.found)
		}
	}
	if v := c.OpsPerS; v.Median != 600 || v.Min != 300 || v.Max != 900 {
		t.Errorf("rate %+v", v)
	}
	if !c.Paced || c.ResponseUS == nil || c.Latency() != c.ResponseUS || c.TargetOps.Median != 600 {
		t.Errorf("paced %v, response %+v, target %+v", c.Paced, c.ResponseUS, c.TargetOps)
	}
}

// A run whose client was the limit is counted, and a cell without runs has no numbers.
func TestCellSaysWhenTheClientWasTheLimit(t *testing.T) {
	t.Parallel()
	c := cellOf(t, &fixture{seed: 1, window: 5 * time.Second, achieved: 1000, cpu: 0.98, machine: 0.99},
		&fixture{seed: 2, window: 5 * time.Second, achieved: 1000, cpu: 0.2, machine: 0.3})
	empty := NewCell("B")
	empty.Fail(CellRun{RunID: "x", Repeat: 1, Code: 4, Text: "no"})
	s := NewStudy("s", "s")
	s.Cells = append(s.Cells, c, empty)
	s.Finish()
	if c.ClientLimit != 1 || c.Runs[0].LimitBy != ByClient {
		t.Errorf("%d runs with the client as the limit: %+v", c.ClientLimit, c.Runs)
	}
	if math.Abs(c.ClientCPU.Max-0.98) > 0.02 || math.Abs(c.ClientCPU.Min-0.2) > 0.02 {
		t.Errorf("CPU %+v", c.ClientCPU)
	}
	if empty.OpsPerS != nil || empty.Latency() != nil {
		t.Errorf("a cell without runs has numbers: %+v", empty)
	}
}
