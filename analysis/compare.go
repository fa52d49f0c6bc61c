// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/workload"
)

// Comparison is what changed from run A to run B.
type Comparison struct {
	Version     int      `json:"version"`
	A           string   `json:"a"` // run ids
	B           string   `json:"b"`
	Differences []string `json:"differences"` // properties and fleet that differ
	Deltas      []Delta  `json:"deltas"`
	Notes       []string `json:"notes"`
}

// Delta is one metric of both runs.
type Delta struct {
	Kind   string  `json:"kind"`
	Metric string  `json:"metric"` // "ops_per_s", "service_us_p99", …
	A      float64 `json:"a"`
	B      float64 `json:"b"`
	Change float64 `json:"change"` // B/A - 1
	// Noise is the half width of the 99 % confidence interval of Change, as far as
	// it shows in how each run varied within itself; absent if they were too short to tell.
	Noise  *float64 `json:"noise,omitempty"`
	Judged Judged   `json:"judged"`
}

// Judged says what to think of a change.
type Judged string

// The judgements.
const (
	Better  Judged = "better"
	Worse   Judged = "worse"
	Noise   Judged = "within noise"
	Unknown Judged = "unknown" // too short to tell
)

// minBlocks is below which number of blocks a run is too short to judge its noise.
const minBlocks = 5

// Compare says what changed from a to b. Rates are compared by Welch's t-test over the means of
// blocks of the window, which are long enough to be nearly independent; percentiles
// by bootstrap, which draws whole blocks of histograms and merges them.
func Compare(a, b *Run) *Comparison {
	ra, rb := a.Report(), b.Report()
	c := &Comparison{
		Version: DocumentVersion, A: ra.RunID, B: rb.RunID, Deltas: []Delta{},
		Differences: differences(ra, rb),
		Notes:       []string{"Noise is judged from how much each run varied within itself. How much runs of the same thing differ from each other it cannot tell: repeat them."},
	}
	for _, r := range []*Report{ra, rb} {
		if r.Verdict.Code != exitcode.Valid {
			c.Notes = append(c.Notes, fmt.Sprintf("Run %s is not a valid result: %s.", r.RunID, r.Verdict.Text))
		}
	}
	if min(len(a.blocks.all), len(b.blocks.all)) < minBlocks {
		c.Notes = append(c.Notes, fmt.Sprintf("Too short to judge noise: both runs need at least %d s of window.", minBlocks))
	}
	for k := range workload.Kind(workload.Kinds) {
		c.compare(k.String(), a, b, func(o workload.Kind) bool { return o == k })
	}
	c.compare(AllKinds, a, b, func(workload.Kind) bool { return true })
	return c
}

// compare compares what was answered of the kinds that are of this name.
func (c *Comparison) compare(name string, a, b *Run, is func(workload.Kind) bool) {
	rowA, rowB := a.answeredOf(is), b.answeredOf(is)
	if rowA.rate.operations == 0 || rowB.rate.operations == 0 {
		return
	}
	blocks := min(len(a.blocks.all), len(b.blocks.all))
	c.add(Delta{
		Kind: name, Metric: "ops_per_s",
		A: rowA.rate.operations / a.window.seconds(),
		B: rowB.rate.operations / b.window.seconds(),
	}, meanError(a.blocks.rates(is)), meanError(b.blocks.rates(is)), blocks, true)
	for _, l := range []struct {
		name     string
		quantity results.Quantity
		a, b     *Latency
	}{
		{"service_us_", results.Service, measure.LatencyOf(rowA.service), measure.LatencyOf(rowB.service)},
		{"response_us_", results.Response, measure.LatencyOf(rowA.response), measure.LatencyOf(rowB.response)},
	} {
		if l.a == nil || l.b == nil {
			continue
		}
		errA, errB := a.blocks.bootstrap(is, l.quantity), b.blocks.bootstrap(is, l.quantity)
		for i, m := range Metrics {
			if m.Name != "max" { // one sample: nothing can be said of its noise
				c.add(Delta{Kind: name, Metric: l.name + m.Name, A: m.Of(l.a), B: m.Of(l.b)}, errA[i], errB[i], blocks, false)
			}
		}
	}
}

// answeredOf sums up what was answered of some kinds.
func (r *Run) answeredOf(is func(workload.Kind) bool) row {
	return r.fleet.sum(func(row measure.Row) bool { return answered(row) && is(row.Kind()) })
}

// add judges a change by the standard errors of both values, each from so many blocks at least.
func (c *Comparison) add(d Delta, errA, errB float64, blocks int, moreIsBetter bool) {
	d.Judged = Unknown
	if d.A > 0 {
		d.Change = d.B/d.A - 1
	}
	if blocks >= minBlocks && d.A > 0 {
		va, vb := errA*errA, errB*errB
		freedom := math.Inf(1)
		if va+vb > 0 { // Welch-Satterthwaite
			freedom = (va + vb) * (va + vb) / ((va*va + vb*vb) / float64(blocks-1))
		}
		noise := studentT(0.995, freedom) * math.Sqrt(va+vb) / d.A
		d.Noise = &noise
		// A histogram tells values apart by 0.1 % at best, a schedule rates by a slot.
		switch precise := math.Abs(d.Change) > max(noise, 0.002); {
		case !precise:
			d.Judged = Noise
		case (d.Change > 0) == moreIsBetter:
			d.Judged = Better
		default:
			d.Judged = Worse
		}
	}
	c.Deltas = append(c.Deltas, d)
}

// rates returns the rate of some kinds in every block.
func (b *blocks) rates(is func(workload.Kind) bool) []float64 {
	rates := make([]float64, len(b.all))
	for i := range b.all {
		for k, n := range b.all[i].operations {
			if is(workload.Kind(k)) {
				rates[i] += n / b.width.Seconds()
			}
		}
	}
	return rates
}

// meanError returns the standard error of the mean of values.
func meanError(v []float64) float64 {
	if len(v) < 2 {
		return 0
	}
	mean := 0.0
	for _, x := range v {
		mean += x / float64(len(v))
	}
	sum := 0.0
	for _, x := range v {
		sum += (x - mean) * (x - mean)
	}
	return math.Sqrt(sum / float64(len(v)-1) / float64(len(v)))
}

// draws is how many samples the bootstrap draws: enough for a standard error to about 5 %.
const draws = 200

// bootstrap returns the standard errors of the metrics of the latency of some kinds.
func (b *blocks) bootstrap(is func(workload.Kind) bool, q results.Quantity) []float64 {
	errs := make([]float64, len(Metrics))
	n := len(b.all)
	if n < minBlocks {
		return errs
	}
	random := rand.New(rand.NewPCG(1, uint64(n))) // the same comparison gives the same answer
	drawn := make([][]float64, len(Metrics))
	var merged *hdrhistogram.Histogram
	for range draws {
		if merged != nil {
			merged.Reset()
		}
		for range n {
			for k, of := range b.all[random.IntN(n)].latencies {
				if h := of[q]; h != nil && is(workload.Kind(k)) {
					mergePacked(&merged, h)
				}
			}
		}
		if l := measure.LatencyOf(merged); l != nil {
			for i, m := range Metrics {
				drawn[i] = append(drawn[i], m.Of(l))
			}
		}
	}
	for i, v := range drawn {
		// The spread of the drawn values is itself the standard error.
		errs[i] = meanError(v) * math.Sqrt(float64(len(v)))
	}
	return errs
}

// studentT returns the quantile p of Student's t distribution with f degrees of
// freedom, by the expansion in Abramowitz and Stegun, 26.7.5. From 4 degrees on it is good to 1 %.
func studentT(p, f float64) float64 {
	x := math.Sqrt2 * math.Erfinv(2*p-1)
	x3, x5, x7 := x*x*x, x*x*x*x*x, x*x*x*x*x*x*x
	return x +
		(x3+x)/(4*f) +
		(5*x5+16*x3+3*x)/(96*f*f) +
		(3*x7+19*x5+17*x3-15*x)/(384*f*f*f)
}

// differences lists what was not the same in two runs.
func differences(a, b *Report) []string {
	diffs := []string{}
	note := func(what, va, vb string) {
		if va != vb {
			diffs = append(diffs, fmt.Sprintf("%s: %s → %s", what, orNone(va), orNone(vb)))
		}
	}
	note("workers", fmt.Sprint(a.WorkersExpected), fmt.Sprint(b.WorkersExpected))
	noteMaps(note, "", a.Spec, b.Spec)
	noteMaps(note, "version of ", a.Versions, b.Versions)
	return diffs
}

func noteMaps(note func(what, a, b string), prefix string, a, b map[string]string) {
	keys := make(map[string]bool)
	for _, m := range []map[string]string{a, b} {
		for k := range m {
			keys[k] = true
		}
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		note(prefix+k, a[k], b[k])
	}
}

func orNone(s string) string {
	if s == "" {
		return "(none)"
	}
	return s
}
