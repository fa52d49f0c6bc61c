// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"bytes"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/workload"
)

// The account of what was injected is right within its resolution.
func TestDisturbances(t *testing.T) {
	t.Parallel()
	const s = time.Second
	one := func(t *testing.T, f *fixture) Disturbance {
		t.Helper()
		all := report(t, f.write(t)).Disturbances
		if len(all) != 1 {
			t.Fatalf("%d disturbances: %+v", len(all), all)
		}
		return all[0]
	}
	near := func(t *testing.T, what string, got, want, by float64) {
		t.Helper()
		if math.Abs(got-want) > by {
			t.Errorf("%s is %g, want %g ± %g", what, got, want, by)
		}
	}
	t.Run("nothing happened", func(t *testing.T) {
		t.Parallel()
		if all := report(t, (&fixture{workers: 2, window: 40 * s, target: 500}).write(t)).Disturbances; all == nil || len(all) > 0 {
			t.Errorf("%+v", all)
		}
	})
	t.Run("a stop after an annotation", func(t *testing.T) {
		t.Parallel()
		d := one(t, &fixture{workers: 2, window: 40 * s, target: 500, pause: pause{at: 20*s + 300*time.Millisecond, length: 2 * s},
			events: []results.Event{{S: 19.9, Kind: results.Annotation, Text: "killed tikv-2"}}})
		if !d.Dip || d.Open || len(d.Events) != 1 || d.Events[0].Text != "killed tikv-2" || d.NoAnswer == nil {
			t.Fatalf("%+v", d)
		}
		near(t, "begin", d.AtS, 20.3, 0.05)
		near(t, "end", d.ToS, 22.3, 1)
		near(t, "gap", d.NoAnswer.S, 2, 0.05)
		near(t, "depth", d.Depth, 1, 0.01)
		near(t, "rate before", d.Before.OpsPerS, 500, 5)
		near(t, "rate after", d.After.OpsPerS, 500, 5)
		near(t, "longest response", float64(d.During.ResponseUS.Max), 2e6, 0.05e6)
		if d.Before.ResponseUS.Max > 100_000 || d.After.ResponseUS.Max > 100_000 {
			t.Errorf("longest responses before %d µs and after %d µs contain the stop", d.Before.ResponseUS.Max, d.After.ResponseUS.Max)
		}
	})
	t.Run("a worker is lost", func(t *testing.T) {
		t.Parallel()
		for _, target := range []float64{500, 0} {
			d := one(t, &fixture{workers: 2, window: 40 * s, target: target, achieved: 500, lost: map[int]time.Duration{1: 25 * s},
				events: []results.Event{{S: 30, Kind: results.WorkerLost, Worker: "w1"}}})
			if !d.Dip || !d.Open || len(d.Events) != 1 || d.Unseen != 1 {
				t.Errorf("%+v", d)
			}
			near(t, "begin", d.AtS, 25, 1)
			near(t, "depth", d.Depth, 0.5, 0.02)
		}
	})
	t.Run("errors", func(t *testing.T) {
		t.Parallel()
		const from, to = 250 * 25, 250 * 28
		d := one(t, &fixture{workers: 2, window: 40 * s, target: 500, result: func(i int) workload.Result {
			if i >= from && i < to {
				return failing(i)
			}
			return okay(i)
		}})
		near(t, "begin", d.AtS, 25, 1)
		near(t, "end", d.ToS, 28, 1)
		if len(d.Errors) != 1 || d.Errors[0] != (ClassCount{"timeout", 2 * (to - from)}) {
			t.Errorf("%+v", d.Errors)
		}
	})
	t.Run("an event that changes nothing", func(t *testing.T) {
		t.Parallel()
		d := one(t, &fixture{workers: 2, window: 40 * s, target: 500, events: []results.Event{{S: 20, Kind: results.Annotation, Text: "moved a leader"}}})
		if d.Dip || d.Depth != 0 || d.NoAnswer != nil || len(d.Errors) > 0 || d.Before == nil || d.During == nil || d.After == nil {
			t.Errorf("%+v", d)
		}
	})
	t.Run("an event soon after another", func(t *testing.T) {
		t.Parallel()
		f := fixture{workers: 2, window: 40 * s, target: 500, events: []results.Event{
			{S: 20, Kind: results.Annotation, Text: "moved a leader"}, {S: 24, Kind: results.TargetChanged, Text: "800/s, 500/s before"}}}
		all := report(t, f.write(t)).Disturbances
		if len(all) != 2 || all[0].ToS != 24 || all[0].During == nil || all[0].After != nil || all[1].Before == nil {
			t.Fatalf("%+v", all)
		}
		near(t, "end of what was during the first", all[0].During.ToS, 24, 1e-9)
		near(t, "begin of what was before the second", all[1].Before.FromS, 20, all[1].Resolve)
		near(t, "end of what was during the second", all[1].During.ToS, 34, all[1].Resolve)
	})
	t.Run("what workers were told is told once", func(t *testing.T) {
		t.Parallel()
		told := []results.Event{{S: 20, Kind: results.Annotation, Text: "moved a leader"}, {S: 30, Kind: results.TargetChanged, Text: "800/s, 500/s before"}}
		f := fixture{workers: 3, window: 40 * s, target: 500, told: told}
		p := report(t, f.write(t))
		var heard []string
		for _, e := range p.Events {
			if e.Kind != "start" {
				heard = append(heard, e.Text)
				if want := p.Start.Add(results.Duration(e.S)); !e.At.Equal(want) {
					t.Errorf("%s was at %v, want %v by the run's own clock", e.Text, e.At, want)
				}
			}
		}
		if want := []string{told[0].Text, told[1].Text}; !slices.Equal(heard, want) {
			t.Errorf("events %q, want %q", heard, want)
		}
		if len(p.Disturbances) != 2 || p.Disturbances[0].Dip || p.Disturbances[1].Dip || p.Disturbances[1].AtS != 30 {
			t.Errorf("%+v", p.Disturbances)
		}
	})
	t.Run("what workers were told is not here", func(t *testing.T) {
		t.Parallel()
		dir := (&fixture{workers: 2, window: 12 * s, target: 500, told: []results.Event{{S: 11, Kind: results.Annotation, Text: "x"}}}).write(t)
		if err := os.Remove(dir + "/w1/" + results.EventsFile); err != nil {
			t.Fatal(err)
		}
		if p := report(t, dir); len(p.Missing) == 0 || !strings.Contains(p.Missing[0], "w1: "+results.EventsFile) {
			t.Errorf("missing: %q", p.Missing)
		}
	})
	t.Run("part of a journal is not here", func(t *testing.T) {
		t.Parallel()
		dir := (&fixture{workers: 2, window: 40 * s, target: 500, pause: pause{at: 20 * s, length: 2 * s}}).write(t)
		cutLine(t, dir+"/w1/"+results.SecondsFile, 15)
		if all := report(t, dir).Disturbances; all != nil {
			t.Errorf("%+v", all)
		}
	})
}

// cutLine takes a line out of a file.
func cutLine(t *testing.T, path string, number int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.Collect(bytes.Lines(text))
	if err := os.WriteFile(path, bytes.Join(slices.Delete(lines, number, number+1), nil), 0o666); err != nil {
		t.Fatal(err)
	}
}
