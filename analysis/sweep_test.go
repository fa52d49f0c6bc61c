// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/exitcode"
)

// swept is a study whose cells have runs of these rates, with the targets given if they are paced.
func swept(key string, variants []string, at []string, rates map[string][][]float64, targets []float64, limit string) *Study {
	s := NewStudy("s", "s")
	s.Varied = append(s.Varied, key)
	for i, value := range at {
		for _, variant := range variants {
			c := NewCell(variant)
			c.Values = append(c.Values, value)
			for n, rate := range rates[variant][i] {
				p := &Report{OpsPerS: rate, Limit: Limit{By: limit}}
				if targets != nil {
					p.Paced, p.TargetOps = true, targets[i]
				}
				c.Runs = append(c.Runs, CellRun{RunID: fmt.Sprint(variant, i, n), OpsPerS: rate, LimitBy: limit, report: p})
			}
			s.Cells = append(s.Cells, c)
		}
	}
	s.Finish()
	return s
}

func TestSweepFindsKnees(t *testing.T) {
	t.Parallel()
	at := []string{"8", "1", "2", "4"} // in any order
	s := swept("threadcount", []string{"A", "B"}, at, map[string][][]float64{
		"A": {{405, 398, 401}, {100, 101, 99}, {200, 199, 202}, {400, 401, 402}},
		"B": {{800, 801, 802}, {100, 101, 99}, {200, 202, 199}, {400, 402, 404}},
	}, nil, ByServer)
	if s.Sweep == nil || s.Sweep.Key != "threadcount" || len(s.Sweep.Curves) != 2 {
		t.Fatalf("%+v", s.Sweep)
	}
	a, b := s.Sweep.Curves[0], s.Sweep.Curves[1]
	if fmt.Sprint(a.At) != "[1 2 4 8]" || a.Title != "A" || s.Cells[a.Cells[3]].Values[0] != "8" {
		t.Errorf("the curve of A: %+v", a)
	}
	if k := a.Knee; k == nil || *k.At != 4 || *k.Above != 2 || *k.UpTo != 4 || !k.Known || k.Client || k.Rule != BySaturation {
		t.Errorf("A: %+v", k)
	}
	if k := b.Knee; k == nil || k.At != nil || k.UpTo != nil || !strings.Contains(k.Text, "still rises at threadcount=8") {
		t.Errorf("B: %+v", k)
	}
}

func TestKneeOfTargets(t *testing.T) {
	t.Parallel()
	at, targets := []string{"100", "200", "300"}, []float64{100, 200, 300}
	for _, c := range []struct {
		rates       [][]float64
		at          string
		above, upTo string
	}{
		{[][]float64{{100}, {200}, {250}}, "200", "200", "300"},
		{[][]float64{{100}, {200}, {300}}, "none", "none", "none"},
		{[][]float64{{50}, {60}, {70}}, "none", "none", "100"},
	} {
		s := swept("target", []string{""}, at, map[string][][]float64{"": c.rates}, targets, ByServer)
		k := s.Sweep.Curves[0].Knee
		show := func(v *float64) string {
			if v == nil {
				return "none"
			}
			return fmt.Sprint(*v)
		}
		if show(k.At) != c.at || show(k.Above) != c.above || show(k.UpTo) != c.upTo || k.Known || k.Rule != ByTargets {
			t.Errorf("%v: at %s, above %s, up to %s: %s", c.rates, show(k.At), show(k.Above), show(k.UpTo), k.Text)
		}
	}
}

// What cannot be known is not said: of few points, of rates that were asked for, and of a cluster whose client was the limit.
func TestKneeSaysNoMoreThanItKnows(t *testing.T) {
	t.Parallel()
	rates := [][]float64{{100}, {200}, {201}, {202}}
	at := []string{"1", "2", "4", "8"}
	s := swept("threadcount", []string{""}, at, map[string][][]float64{"": rates}, nil, ByClient)
	if k := s.Sweep.Curves[0].Knee; !k.Client || !strings.Contains(k.Text, "not the cluster's") || !strings.Contains(k.Text, "one run of each cannot show") {
		t.Errorf("the client's knee: %+v", k)
	}
	s = swept("threadcount", []string{""}, at, map[string][][]float64{"": rates}, []float64{200, 200, 200, 200}, ByServer)
	if k := s.Sweep.Curves[0].Knee; k != nil {
		t.Errorf("threads at one target have a knee: %+v", k)
	}
	s = swept("threadcount", []string{""}, at[:2], map[string][][]float64{"": rates}, nil, ByServer)
	if s.Sweep != nil {
		t.Errorf("two points are a sweep: %+v", s.Sweep)
	}
	s = swept("driver", []string{""}, []string{"a", "b", "c", "d"}, map[string][][]float64{"": rates}, nil, ByServer)
	if s.Sweep != nil {
		t.Errorf("words are a sweep: %+v", s.Sweep)
	}
	s = swept("threadcount", []string{""}, at, map[string][][]float64{"": {{}, {200}, {201}, {0}}}, nil, ByServer)
	if k := s.Sweep.Curves[0].Knee; k != nil {
		t.Errorf("a knee of two points: %+v", k)
	}
}

// The sentence of two variants says what is more than noise, and what is not shown.
func TestVersus(t *testing.T) {
	t.Parallel()
	cell := func(name string, rate float64) (*Cell, []*Run) {
		c := NewCell(name)
		var runs []*Run
		for i := range 3 {
			f := &fixture{seed: uint64(i) + uint64(rate), window: 8 * time.Second, achieved: rate + 2*float64(i)}
			r, err := Load(f.write(t))
			if err != nil {
				t.Fatal(err)
			}
			c.Add(r, i+1)
			runs = append(runs, r)
		}
		return c, runs
	}
	a, runsA := cell("old", 500)
	b, runsB := cell("new", 600)
	b.Runs[0].Code = exitcode.SLO
	v := NewVersus(a, b, runsA, runsB)
	for _, want := range []string{"new answers 19.", " more than old; ", "service p99: no difference shown (", "; new broke its objectives in 1 of 3 runs"} {
		if !strings.Contains(v.Text, want) {
			t.Errorf("%q has no %q", v.Text, want)
		}
	}
	if v := NewVersus(b, a, runsB, runsA); !strings.Contains(v.Text, "old answers 16.") || !strings.Contains(v.Text, " less than new") {
		t.Errorf("the other way: %s", v.Text)
	}
	one := NewVersus(a, b, runsA[:1], runsB[:1])
	if !strings.Contains(one.Text, "unknown, since") && !strings.Contains(one.Text, "no difference shown") {
		t.Errorf("of one run each: %s", one.Text)
	}
}
