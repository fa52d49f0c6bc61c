// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"math"
	"strings"

	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/units"
)

// Versus is a comparison of two variants of a study that agree in all else.
type Versus struct {
	A          string      `json:"a"` // variants
	B          string      `json:"b"`
	Values     []string    `json:"values"` // of what is varied
	Text       string      `json:"text"`   // in a sentence
	Comparison *Comparison `json:"comparison"`
}

// NewVersus compares the runs of two cells, of each of which there must be one.
func NewVersus(a, b *Cell, runsA, runsB []*Run) *Versus {
	v := &Versus{A: a.Variant, B: b.Variant, Values: a.Values, Comparison: Compare(runsA, runsB, DefaultSpread)}
	v.Text = v.sentence(a, b)
	return v
}

// sentence says what was found of each headline, and whether objectives were kept.
func (v *Versus) sentence(a, b *Cell) string {
	var parts, unknown []string
	why := "" // of those in unknown
	for i, d := range v.Comparison.Deltas {
		if d.Judged == Unknown {
			unknown, why = append(unknown, Title(d.Metric)), d.Why
			if next := v.Comparison.Deltas[i+1:]; len(next) == 0 || next[0].Judged != Unknown || next[0].Why != why {
				parts, unknown = append(parts, strings.Join(unknown, ", ")+": unknown, since "+why), nil
			}
		} else if d.Judged != NotJudged {
			parts = append(parts, v.part(d))
		}
	}
	if value := v.Comparison.Value; value != nil {
		parts = append(parts, value.Text())
	}
	text := strings.Join(parts, "; ")
	for _, c := range []*Cell{a, b} {
		broken := 0
		for _, r := range c.Runs {
			if r.Code == exitcode.SLO {
				broken++
			}
		}
		if broken > 0 {
			text += fmt.Sprintf("; %s broke its objectives in %d of %d runs", c.Variant, broken, len(c.Runs))
		}
	}
	return text
}

// part says what was found of one headline, of which something is known.
func (v *Versus) part(d Delta) string {
	name := Title(d.Metric)
	change := fmt.Sprintf("%s %s", units.Percent(math.Abs(d.Change)), d.NoiseText())
	switch {
	case d.Judged == Noise:
		return fmt.Sprintf("%s: no difference shown (%+.1f %% %s)", name, 100*d.Change, d.NoiseText())
	case d.Metric == rateMetric:
		return fmt.Sprintf("%s answers %s %s than %s", v.B, change, map[bool]string{true: "more", false: "less"}[d.Change > 0], v.A)
	}
	return fmt.Sprintf("%s is %s %s", name, change, map[bool]string{true: "longer", false: "shorter"}[d.Change > 0])
}
