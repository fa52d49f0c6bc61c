// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kvbench/kvbench/analysis/stats"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/units"
	"github.com/kvbench/kvbench/internal/workload"
)

// Comparison is what changed from the runs A to the runs B.
type Comparison struct {
	Version     int      `json:"version"`
	Summary     string   `json:"summary"` // in a sentence
	A           string   `json:"a"`       // run ids, separated by spaces
	B           string   `json:"b"`
	Basis       Basis    `json:"basis"`
	Spread      float64  `json:"spread,omitempty"` // what runs of the same thing are assumed to differ by, if that is not measured
	Differences []string `json:"differences"`      // properties and fleet that differ
	Deltas      []Delta  `json:"deltas"`
	Notes       []string `json:"notes"`

	// Value is nil if no prices are known.
	Value *Value `json:"price_for_performance,omitempty"`
}

// Basis is from what noise is judged.
type Basis string

// The bases.
const (
	WithinRuns  Basis = "within runs"  // one run each: how much each varied within itself, and an assumed spread
	BetweenRuns Basis = "between runs" // how much the runs of a side differ from each other
)

// Delta is one metric of both sides: geometric means over their runs.
type Delta struct {
	Kind   string  `json:"kind"`
	Metric string  `json:"metric"` // "ops_per_s", "service_us_p99", …
	A      float64 `json:"a"`
	B      float64 `json:"b"`
	Change float64 `json:"change"` // B/A - 1

	// How much the runs of a side differ from each other: their standard deviation as a share; absent for one run.
	SpreadA *float64 `json:"spread_a,omitempty"`
	SpreadB *float64 `json:"spread_b,omitempty"`

	// Noise is the half width of the interval in which the change lies, such that those of all judged metrics
	// hold together with 95 % confidence; P is the probability of such a change without a cause, corrected for their number.
	// Both are absent where nothing can be said.
	Noise  *float64 `json:"noise,omitempty"`
	P      *float64 `json:"p,omitempty"`
	Judged Judged   `json:"judged"`
	Why    string   `json:"why,omitempty"` // nothing can be said
}

// Judged says what to think of a change.
type Judged string

// The judgements.
const (
	Better    Judged = "better"
	Worse     Judged = "worse"
	Noise     Judged = "within noise"
	Unknown   Judged = "unknown"    // too little to tell; Why says of what
	NotJudged Judged = "not judged" // no headline: the more is judged, the more is found by chance
)

const (
	// DefaultSpread is by how much runs of the same thing are taken to differ where there is one of each: their
	// standard deviation as a share.
	DefaultSpread = 0.05
	// falseClaims is how likely a comparison of equals may claim anything.
	falseClaims = 0.05
	// resolution is below which share nothing is a difference: histograms tell values apart by 0.1 %, schedules by a slot.
	resolution = 0.002
)

// Compare says what changed from the runs a to the runs b, of which there must be one of each at least. A few headline
// metrics are judged, and by how much runs of the same thing differ: as they do where there are several
// of a side, else by spread, which is assumed, and by how much each varied within itself.
func Compare(a, b []*Run, spread float64) *Comparison {
	c := &Comparison{Version: DocumentVersion, Basis: BetweenRuns, Deltas: []Delta{}, Differences: []string{}, Notes: []string{}}
	reportsA, reportsB := reports(a), reports(b)
	c.A, c.B = ids(reportsA), ids(reportsB)
	if len(a) == 1 && len(b) == 1 {
		c.Basis, c.Spread = WithinRuns, spread
	}
	c.Differences = append(c.Differences, differences(reportsA[0], reportsB[0])...)
	why := c.invalid(append(reportsA, reportsB...))
	c.note(reportsA, reportsB)

	all := slices.Concat(a, b)
	headlines, totals := headlinesOf(all), numbersOf(all, anyKind)
	var judged []stats.Difference
	for i, found := range c.differencesOf(headlines, a, b, totals) {
		name := headlines[i].name
		d := newDelta(AllKinds, name, metricOf(totals[:len(a)], name), metricOf(totals[len(a):], name))
		if d.Why = cmp.Or(why, found.unknown); d.Why != "" {
			d.Judged = Unknown
		} else {
			judged = append(judged, found.Difference)
		}
		c.Deltas = append(c.Deltas, d)
	}
	c.judge(judged)
	c.Value = newValue(c.rate(), a, b, reportsA, reportsB)
	c.rest(totals, len(a), AllKinds)
	for k := range workload.Kind(workload.Kinds) {
		c.rest(numbersOf(all, func(o workload.Kind) bool { return o == k }), len(a), k.String())
	}
	c.Summary = c.summarize()
	return c
}

// rate is the change of the rate of all operations, which is always there.
func (c *Comparison) rate() *Delta {
	return &c.Deltas[slices.IndexFunc(c.Deltas, func(d Delta) bool { return d.Kind == AllKinds && d.Metric == rateMetric })]
}

// Worse tells whether a headline is worse in B.
func (c *Comparison) Worse() bool {
	for _, d := range c.Deltas {
		if d.Judged == Worse {
			return true
		}
	}
	return false
}

// Unknown tells whether nothing could be judged.
func (c *Comparison) Unknown() bool {
	for _, d := range c.Deltas {
		if d.Judged != Unknown && d.Judged != NotJudged {
			return false
		}
	}
	return true
}

// judge judges all headlines of which something is known, as one family.
func (c *Comparison) judge(differences []stats.Difference) {
	p := make([]float64, len(differences))
	for i, d := range differences {
		p[i] = d.P()
	}
	p = stats.Holm(p)
	i := 0
	for j := range c.Deltas {
		d := &c.Deltas[j]
		if d.Judged == Unknown {
			continue
		}
		noise := min(math.MaxFloat64, math.Expm1(differences[i].HalfWidth(1-falseClaims/float64(len(differences)))))
		d.Noise, d.P = &noise, &p[i]
		switch {
		case p[i] > falseClaims || math.Abs(d.B-d.A) <= finest(d.Metric, d.A):
			d.Judged = Noise
		case (d.B > d.A) == (d.Metric == rateMetric):
			d.Judged = Better
		default:
			d.Judged = Worse
		}
		i++
	}
}

// difference is that of the logarithms of a headline.
type difference struct {
	stats.Difference
	unknown string // why nothing is known of it
}

// differencesOf returns those of headlines, of which totals holds the values.
func (c *Comparison) differencesOf(headlines []headline, a, b []*Run, totals []numbers) []difference {
	found := make([]difference, len(headlines))
	if c.Basis == WithinRuns {
		inA, inB := a[0].within(headlines), b[0].within(headlines)
		spread := math.Log1p(c.Spread)
		for i := range found {
			found[i] = difference{stats.Sub(inB[i].Widened(spread*spread), inA[i].Widened(spread*spread)), cmp.Or(inA[i].unknown, inB[i].unknown)}
		}
		return found
	}
	for i, h := range headlines {
		for _, r := range slices.Concat(a, b) {
			found[i].unknown = cmp.Or(found[i].unknown, h.tooFew(r))
		}
		if found[i].unknown == "" {
			va, vb := metricOf(totals[:len(a)], h.name), metricOf(totals[len(a):], h.name)
			found[i].Difference = stats.Between(logs(vb), logs(va), finest(h.name, va[0])/va[0])
		}
	}
	return found
}

// rest adds what is shown of a kind and not judged: of the numbers of all runs, the first so many are A's.
func (c *Comparison) rest(all []numbers, a int, kind string) {
	for _, name := range metricNames() {
		if slices.ContainsFunc(c.Deltas, func(d Delta) bool { return d.Kind == kind && d.Metric == name }) {
			continue
		}
		if d := newDelta(kind, name, metricOf(all[:a], name), metricOf(all[a:], name)); d.A > 0 && d.B > 0 {
			d.Judged = NotJudged
			c.Deltas = append(c.Deltas, d)
		}
	}
}

func numbersOf(runs []*Run, is func(workload.Kind) bool) []numbers {
	all := make([]numbers, len(runs))
	for i, r := range runs {
		all[i] = r.numbers(is)
	}
	return all
}

// metricOf returns one metric of each; 0 where it is missing.
func metricOf(all []numbers, name string) []float64 {
	v := make([]float64, len(all))
	for i, n := range all {
		v[i] = n[name]
	}
	return v
}

// newDelta is the change of a metric, not judged yet; all 0 if it was not measured in every run.
func newDelta(kind, metric string, a, b []float64) Delta {
	d := Delta{Kind: kind, Metric: metric}
	if d.A, d.SpreadA = centre(a); d.A == 0 {
		return d
	}
	if d.B, d.SpreadB = centre(b); d.B > 0 {
		d.Change = d.B/d.A - 1
	}
	return d
}

// centre returns the geometric mean of values and how much they differ as a share; 0 if one of them is.
func centre(v []float64) (mean float64, spread *float64) {
	for _, x := range v {
		if x <= 0 {
			return 0, nil
		}
	}
	if len(v) == 1 {
		return v[0], nil
	}
	e := stats.Mean(logs(v))
	s := math.Expm1(math.Sqrt(e.Variance * float64(len(v))))
	return math.Exp(e.Value), &s
}

func logs(v []float64) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = math.Log(x)
	}
	return out
}

func reports(runs []*Run) []*Report {
	all := make([]*Report, len(runs))
	for i, r := range runs {
		all[i] = r.Report()
	}
	return all
}

func ids(reports []*Report) string {
	all := make([]string, len(reports))
	for i, p := range reports {
		all[i] = p.RunID
	}
	return strings.Join(all, " ")
}

// invalid notes which runs are no valid results, and says why nothing can be judged, if it cannot.
func (c *Comparison) invalid(reports []*Report) (why string) {
	for _, p := range reports {
		if !invalid(p) {
			continue
		}
		if !judgeable(p) {
			why = cmp.Or(why, fmt.Sprintf("run %s is not a valid result", p.RunID))
		}
		c.Notes = append(c.Notes, fmt.Sprintf("Run %s is not a valid result: %s.", p.RunID, p.Verdict.Text))
	}
	return why
}

func invalid(p *Report) bool { return p.Verdict.Code != exitcode.Valid }

// judgeable tells whether what a run did is known, valid or not.
func judgeable(p *Report) bool {
	return slices.Contains([]int{exitcode.Valid, exitcode.Target, exitcode.SLO}, p.Verdict.Code)
}

// note says what the comparison cannot see.
func (c *Comparison) note(a, b []*Report) {
	add := func(format string, args ...any) { c.Notes = append(c.Notes, fmt.Sprintf(format, args...)) }
	switch {
	case c.Basis == WithinRuns && c.Spread == 0:
		add("One run of each, and no spread between runs assumed: whatever is claimed is of these two runs alone. Whether others of the same things differ so, only repeating them tells.")
	case c.Basis == WithinRuns:
		add("One run of each cannot show how much runs of the same thing differ; it is assumed to be %s (--spread). To see smaller changes repeat both in turn, three times at least: kvbench compare A1 A2 A3 --with B1 B2 B3", units.Percent(c.Spread))
	case len(a) == 1 || len(b) == 1:
		add("One side is a single run: it is taken to vary as much as those of the other do.")
	}
	for _, side := range []struct {
		name string
		runs []*Report
	}{{"A", a}, {"B", b}} {
		for _, p := range side.runs[1:] {
			for _, d := range differences(side.runs[0], p) {
				add("The runs of %s are not of the same thing: %s (%s and %s).", side.name, d, side.runs[0].RunID, p.RunID)
			}
		}
	}
	if c.Basis == BetweenRuns && (apart(a, b) || apart(b, a)) {
		add("All runs of one side were made before those of the other: what else changed in the meantime looks like a difference. Make them in turn.")
	}
}

// apart tells whether all of a began before all of b.
func apart(a, b []*Report) bool {
	for _, p := range a {
		for _, q := range b {
			if !p.Start.Before(q.Start) {
				return false
			}
		}
	}
	return true
}

// summarize says in a sentence what was found.
func (c *Comparison) summarize() string {
	var better, worse, same, unknown []string
	for _, d := range c.Deltas {
		switch d.Judged {
		case Better:
			better = append(better, d.text())
		case Worse:
			worse = append(worse, d.text())
		case Noise:
			same = append(same, fmt.Sprintf("%s (%s)", Title(d.Metric), d.NoiseText()))
		case Unknown:
			unknown = append(unknown, Title(d.Metric))
		}
	}
	var parts []string
	if len(worse) > 0 {
		parts = append(parts, "B is worse than A: "+strings.Join(worse, ", "))
	}
	if len(better) > 0 {
		parts = append(parts, "B is better than A: "+strings.Join(better, ", "))
	}
	switch {
	case len(same) > 0 && len(parts) == 0:
		parts = append(parts, "no difference shown: "+strings.Join(same, ", ")+" within noise")
	case len(same) > 0:
		parts = append(parts, strings.Join(same, ", ")+" within noise")
	case len(parts) == 0:
		return "nothing can be said: " + c.Deltas[0].Why
	}
	if len(unknown) > 0 {
		parts = append(parts, strings.Join(unknown, ", ")+" unknown")
	}
	return strings.Join(parts, "; ")
}

// text shows a change that is claimed, as in "rate -12.3 % (± 4.0 %)".
func (d Delta) text() string {
	return fmt.Sprintf("%s %+.1f %% (%s)", Title(d.Metric), 100*d.Change, d.NoiseText())
}

// NoiseText shows the noise, which must be known, as in "± 4.0 %".
func (d Delta) NoiseText() string { return noiseText(*d.Noise) }

func noiseText(noise float64) string {
	const most = 10 // from there on it is the same: nothing can be told
	if noise > most {
		return "± more than " + units.Percent(most)
	}
	return "± " + units.Percent(noise)
}

// Title shows a metric's name to people: "service p99.9" for "service_us_p99_9".
func Title(metric string) string {
	if metric == rateMetric {
		return "rate"
	}
	return strings.NewReplacer("_us_", " ", "_", ".").Replace(metric)
}
