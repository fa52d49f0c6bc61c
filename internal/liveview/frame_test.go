// SPDX-License-Identifier: Apache-2.0

package liveview

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/coordinator"
	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/objective"
	"github.com/kvbench/kvbench/internal/results"
)

// fleet is a paced run of n workers in its 42nd second, of which the seventh is lost and the ninth has errors.
func fleet(n int) *coordinator.Snapshot {
	h := measure.NewHDR()
	for us := range int64(5000) {
		_ = h.RecordValue(us + 100)
	}
	s := &coordinator.Snapshot{
		RunID: "20260102-150405-abcdef", Stage: coordinator.Measuring, Elapsed: 42 * time.Second, Length: 70 * time.Second,
		Threads: n * 64,
		Total: coordinator.Total{View: coordinator.View{
			Operations: 4_200_000, Rate: 99_000, RPCs: 99_000, Target: 100_000, Errors: 12, ByClass: map[string]int64{"busy": 2, "timeout": 10},
			InFlight: 61.2, Commands: map[string]float64{"tikv-1:20160": 25_000, "tikv-0:20160": 75_000}, LagP99: 60 * time.Microsecond,
		}, Service: h, Response: h},
	}
	for i := range n {
		w := coordinator.WorkerView{Name: fmt.Sprintf("kvbench-%d", i), State: results.Running}
		w.Rate, w.P50, w.P99, w.LagP99 = 6_600+float64(i), 2600*time.Microsecond, 5050*time.Microsecond, 60*time.Microsecond
		switch i {
		case 6:
			w.State, w.Reason, w.Rate = results.Lost, "connection refused", 0
		case 8:
			w.Errors = 12
		}
		s.Workers = append(s.Workers, w)
	}
	return s
}

// judged gives a run objectives of every state.
func judged(s *coordinator.Snapshot) *coordinator.Snapshot {
	for _, v := range []struct {
		text  string
		found objective.Finding
	}{
		{"errors < 1%", objective.Finding{State: objective.Kept, Text: "0.02 % (12 of 60,000 operations)"}},
		{"READ response p99.99 < 5ms", objective.Finding{Why: "too few"}},
		{"READ response p99 < 5ms", objective.Finding{State: objective.Broken, Text: "5.05 ms", Why: "READ response p99 is 5.05 ms, above 5.00 ms"}},
		{"rate >= 90%", objective.Finding{State: objective.Kept, Text: "99 % of the target"}},
		{"rate >= 5/s", objective.Finding{State: objective.Kept, Text: "99,000/s"}},
	} {
		o, err := objective.Parse(v.text)
		if err != nil {
			panic(err)
		}
		s.Objectives = append(s.Objectives, coordinator.ObjectiveView{Objective: o, Finding: v.found, Since: 30 * time.Second})
	}
	return s
}

// What is broken comes first, then what is unknown, and many have a line together.
func TestThresholds(t *testing.T) {
	want := []string{
		"BROKEN since 30 s: READ response p99 is 5.05 ms, above 5.00 ms",
		"unknown  READ response p99.99 < 5.00 ms",
		"kept  errors < 1 %: 0.02 % (12 of 60,000 operations)",
		"and 2 more objectives",
	}
	if got := thresholds(judged(fleet(3))); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := thresholds(fleet(3)); got != nil {
		t.Errorf("without objectives: %q", got)
	}
}

func TestFrameFits(t *testing.T) {
	for _, size := range []struct{ width, height int }{{1, 1}, {20, 5}, {40, 14}, {80, 14}, {80, 24}, {120, 40}, {200, 60}} {
		for _, workers := range []int{1, 2, 15, 300} {
			for _, helping := range []bool{false, true} {
				lines := frame(judged(fleet(workers)), size.width, size.height, true, helping)
				if len(lines) > size.height {
					t.Errorf("%d workers on %d×%d: %d lines", workers, size.width, size.height, len(lines))
				}
				for _, l := range lines {
					if n := len([]rune(l)); n > size.width {
						t.Errorf("%d workers on %d×%d: %d characters: %q", workers, size.width, size.height, n, l)
					}
				}
			}
		}
	}
}

func TestFrameShowsWhatDiffers(t *testing.T) {
	text := strings.Join(frame(fleet(15), 80, 14, true, false), "\n")
	for _, want := range []string{
		"measuring  42s  run 20260102-150405-abcdef", "] 28s left", "99,000 op/s of 100,000 (99 %)", "errors 12 (timeout 10, busy 2)",
		"in flight 61.2 of 960 threads   to the stores tikv-0:20160 75 %, tikv-1:20160",
		"kvbench-6  lost", "connection refused", "kvbench-8  running", "more", keys,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	all := strings.Join(frame(fleet(15), 100, 40, false, false), "\n")
	if strings.Contains(all, "more") || strings.Contains(all, keys) || strings.Count(all, "kvbench-") != 15 {
		t.Errorf("not all workers, or keys where there are none:\n%s", all)
	}
}

func TestBarOfALoad(t *testing.T) {
	s := fleet(1)
	s.Length, s.Operations, s.Total.Operations, s.Total.Rate = 0, 1_000_000, 250_000, 10_000
	if got := bar(s, 80); !strings.Contains(got, "1m15s left, 250,000 of 1,000,000") {
		t.Errorf("bar of a load: %q", got)
	}
	s.Operations = 0
	if got := bar(s, 80); got != "" {
		t.Errorf("bar of a load of unknown size: %q", got)
	}
}
