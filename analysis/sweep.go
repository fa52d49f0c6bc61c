// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kvbench/kvbench/analysis/stats"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/units"
)

// Sweep is a study along one property that takes numbers.
type Sweep struct {
	Key    string       `json:"key"`
	Curves []SweepCurve `json:"curves"`
}

// SweepCurve are the cells that differ in nothing else.
type SweepCurve struct {
	Title string    `json:"title"` // what they have in common of what is varied; empty: nothing
	At    []float64 `json:"at"`    // rising
	Cells []int     `json:"cells"` // indexes in the study
	Knee  *Knee     `json:"knee,omitempty"`
}

// Knee is from where on more does not help, or where targets are no longer met.
type Knee struct {
	Rule string `json:"rule"` // BySaturation or ByTargets
	// At is where it is seen, nil if that is beyond the sweep; Above and UpTo between which it lies, by the steps of the sweep and, if Known,
	// by how much repeats differ, with 95 % confidence. Nil: it may lie beyond that end of the sweep.
	At    *float64 `json:"at"`
	Above *float64 `json:"above"`
	UpTo  *float64 `json:"up_to"`
	Known bool     `json:"spread_known"`
	// Client tells whether the client, or others on its machine, was the limit where the rate was highest: then this says nothing of the cluster.
	Client bool   `json:"client"`
	Text   string `json:"text"`
}

// The rules.
const (
	BySaturation = "95 % of the highest rate"
	ByTargets    = "99 % of the target"
)

const (
	targetKey = "target"
	minPoints = 3 // of a curve that has a knee
)

// sweep finds the curves of a study: along its first property that takes three numbers or more. Nil if there is none.
func (s *Study) sweep() *Sweep {
	for k, key := range s.Varied {
		values, numbers := make(map[float64]bool), true
		for _, c := range s.Cells {
			v, err := spec.ParseRate(c.Values[k])
			numbers = numbers && err == nil
			values[v] = true
		}
		if numbers && len(values) >= minPoints {
			return s.along(k, key)
		}
	}
	return nil
}

// along parts the cells into curves along one property.
func (s *Study) along(k int, key string) *Sweep {
	sweep := &Sweep{Key: key}
	for i, c := range s.Cells {
		title := s.titleWithout(c, k)
		n := slices.IndexFunc(sweep.Curves, func(v SweepCurve) bool { return v.Title == title })
		if n < 0 {
			n = len(sweep.Curves)
			sweep.Curves = append(sweep.Curves, SweepCurve{Title: title, At: []float64{}, Cells: []int{}})
		}
		sweep.Curves[n].Cells = append(sweep.Curves[n].Cells, i)
	}
	for n := range sweep.Curves {
		v := &sweep.Curves[n]
		at := func(cell int) float64 {
			x, _ := spec.ParseRate(s.Cells[cell].Values[k]) // a number, as sweep has made sure
			return x
		}
		slices.SortStableFunc(v.Cells, func(a, b int) int { return cmp.Compare(at(a), at(b)) })
		for _, cell := range v.Cells {
			v.At = append(v.At, at(cell))
		}
		v.Knee = s.knee(v, key)
	}
	return sweep
}

// knee finds that of a curve, from the cells that were measured; nil if these are too few.
func (s *Study) knee(v *SweepCurve, key string) *Knee {
	var (
		at      []float64
		cells   []*Cell
		repeats [][]float64
		targets []float64
	)
	for i, n := range v.Cells {
		c := s.Cells[n]
		if c.OpsPerS == nil || c.OpsPerS.Min <= 0 {
			continue
		}
		var rates []float64
		for _, r := range c.Runs {
			rates = append(rates, r.OpsPerS)
		}
		at, cells, repeats = append(at, v.At[i]), append(cells, c), append(repeats, rates)
		if c.TargetOps != nil {
			targets = append(targets, c.TargetOps.Median)
		}
	}
	if len(at) < minPoints || len(targets) > 0 && (key != targetKey || len(targets) < len(at)) {
		return nil // a rate that is asked for does not tell what there is
	}
	k := &Knee{Rule: BySaturation}
	var found stats.Knee
	// Where it lies by the steps: a saturation up to the point that shows it, a target that is met from that point on.
	below, above := -1, 0
	if key == targetKey {
		k.Rule, below, above = ByTargets, 0, 1
		found = stats.KneeOf(repeats, stats.Met(targets, targetShare))
	} else {
		found = stats.KneeOf(repeats, stats.Saturation)
	}
	point := func(i int) *float64 {
		if i < 0 || i >= len(at) {
			return nil
		}
		return &at[i]
	}
	k.At, k.Above, k.UpTo, k.Known = point(found.At), point(found.Low+below), point(found.High+above), found.Known
	highest := 0
	for i, c := range cells {
		if c.OpsPerS.Median > cells[highest].OpsPerS.Median {
			highest = i
		}
	}
	clients := 0
	for _, r := range cells[highest].Runs {
		if r.LimitBy == ByClient || r.LimitBy == ByOthers {
			clients++
		}
	}
	k.Client = 2*clients > len(cells[highest].Runs)
	k.Text = k.text(key, at, found.At)
	return k
}

// text says it in a sentence.
func (k *Knee) text(key string, at []float64, found int) string {
	shown := func(v float64) string { return key + "=" + units.Number(v) }
	last := at[len(at)-1]
	var text string
	switch {
	case k.Rule == ByTargets && found < 0:
		text = "not even " + shown(at[0]) + " is met"
	case k.Rule == ByTargets && k.At == nil:
		text = "every target is met, up to " + shown(last) + ": what the cluster sustains lies above"
	case k.Rule == ByTargets:
		text = "targets are met up to " + shown(*k.At)
	case k.At == nil:
		text = "the rate still rises at " + shown(last) + ": the knee lies behind it"
	default:
		text = "from " + shown(*k.At) + " on more does not help: " + BySaturation + " is reached there"
	}
	switch {
	case k.Above != nil && k.UpTo != nil:
		text += fmt.Sprintf("; it lies between %s and %s", units.Number(*k.Above), units.Number(*k.UpTo))
	case k.Above != nil && k.At != nil:
		text += fmt.Sprintf("; it lies above %s", units.Number(*k.Above))
	case k.UpTo != nil && k.At != nil:
		text += fmt.Sprintf("; it lies at %s at most", units.Number(*k.UpTo))
	}
	if k.Known {
		text += " (95 % confidence)"
	} else {
		text += " by the steps of the sweep; how sure that is, one run of each cannot show"
	}
	if k.Client {
		text += ". The client, or its machine, was the limit at the highest rate: this is its knee and not the cluster's"
	}
	return text
}
