// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/workload"
)

// simulated describes runs whose latency wanders: its logarithm is a first order autoregressive process,
// one value a second, and operations are spread around that. A run is unpaced, so its rate follows its latency.
type simulated struct {
	seconds   int
	perSecond int
	phi       float64 // how much of a second's level the next one keeps
	wander    float64 // standard deviation of the level
	spread    float64 // standard deviation of a run's level between runs
	slower    float64 // by which share latency is longer
}

func (s simulated) run(t testing.TB, id int, random *rand.Rand) *Run {
	t.Helper()
	r := &Run{
		record: &results.Run{RunID: fmt.Sprintf("run-%d", id), Phase: "run", State: results.Finished, Start: time.Unix(1e9+int64(id)*1000, 0), WindowS: float64(s.seconds)},
		window: window{to: time.Duration(s.seconds) * time.Second, whole: true},
	}
	r.window.finish = r.window.to
	r.workers = []*worker{{journal: true, end: r.window.to, worked: true, info: results.Worker{Name: "w0", State: results.Finished, Ended: results.ByDuration}}}
	r.byWorker = []*totals{&r.fleet}
	r.blocks = newBlocks(&r.window)
	row := measure.RowOf(workload.Read, workload.OK, store.OK)
	level, own := random.NormFloat64()*s.wander, math.Log1p(s.slower)+random.NormFloat64()*s.spread
	merged := measure.NewHDR()
	for i := range s.seconds {
		merged.Reset()
		median := 1000 * math.Exp(own+level)
		operations := max(1, int64(math.Round(float64(s.perSecond)*1000/median)))
		for range operations {
			us := int64(median * math.Exp(0.5*random.NormFloat64()))
			if err := merged.RecordValue(min(max(us, 1), measure.Highest)); err != nil {
				t.Fatal(err)
			}
		}
		packed := hdrhistogram.NewPacked(measure.Lowest, measure.Highest, measure.Digits)
		packed.MergeFrom(merged)
		iv := &results.Interval{
			Second:     results.Second{Start: time.Duration(i) * time.Second, End: time.Duration(i+1) * time.Second},
			Histograms: []results.Histogram{{Tag: results.Tag{Row: row, Quantity: results.Service}, PackedHistogram: packed}},
		}
		iv.Window.Rows[row] = results.Count{Operations: operations, Batches: operations, RPCs: operations}
		r.fleet.add(iv, &r.window)
		r.blocks.add(iv)
		level = s.phi*level + math.Sqrt(1-s.phi*s.phi)*s.wander*random.NormFloat64()
	}
	r.blocks.close()
	return r
}

// compare returns in how many of some comparisons something was claimed, and in how many that B is worse.
func (s simulated) compare(t testing.TB, comparisons, runs int, spread, slower float64) (claimed, worse int) {
	t.Helper()
	random := rand.New(rand.NewPCG(uint64(100*s.phi), uint64(s.seconds)))
	slow := s
	slow.slower = slower
	for range comparisons {
		var a, b []*Run
		for i := range runs {
			a, b = append(a, s.run(t, 2*i, random)), append(b, slow.run(t, 2*i+1, random))
		}
		c := Compare(a, b, spread)
		if slices.ContainsFunc(c.Deltas, func(d Delta) bool { return d.Judged == Better || d.Judged == Worse }) {
			claimed++
		}
		if c.Worse() {
			worse++
		}
	}
	return claimed, worse
}

// phis is how much of a second's level the next one keeps.
var phis = []float64{0, 0.5, 0.9, 0.97}

// Comparisons of equals claim something in at most 5 % of the cases; those of what differs much find it.
func TestSimulated(t *testing.T) {
	t.Parallel()
	const comparisons = 40
	for _, phi := range phis {
		pair := simulated{seconds: 60, perSecond: 200, phi: phi, wander: 0.1}
		set := simulated{seconds: 20, perSecond: 200, phi: phi, wander: 0.03, spread: 0.03}
		// 5 % of 40 are 2; up to 5 come about by chance once in 30 times, and the seeds are fixed.
		if claimed, _ := pair.compare(t, comparisons, 1, DefaultSpread, 0); claimed > 5 {
			t.Errorf("phi %g: %d of %d pairs of equal runs differ", phi, claimed, comparisons)
		}
		if claimed, _ := set.compare(t, comparisons, 3, 0, 0); claimed > 5 {
			t.Errorf("phi %g: %d of %d sets of equal runs differ", phi, claimed, comparisons)
		}
		if _, worse := set.compare(t, comparisons/4, 5, 0, 0.2); worse < comparisons/4-1 {
			t.Errorf("phi %g: sets of runs that are slower by 20 %% are worse in %d of %d cases", phi, worse, comparisons/4)
		}
	}
	pair := simulated{seconds: 60, perSecond: 200, wander: 0.03}
	if _, worse := pair.compare(t, comparisons/4, 1, DefaultSpread, 0.3); worse < comparisons/4-3 { // some look too short for how slowly they vary
		t.Errorf("runs that are slower by 30 %% are worse in %d of %d cases", worse, comparisons/4)
	}
}

// The tables of docs/compare.md: make compare-simulation.
func TestSimulatedTables(t *testing.T) {
	if os.Getenv("KVBENCH_SIMULATE") == "" {
		t.Skip("takes minutes: make compare-simulation")
	}
	const comparisons = 1000
	share := func(n int) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/comparisons) }
	type row struct {
		what         string
		of           simulated
		runs         int
		spread       float64
		slower, more float64
	}
	for _, phi := range phis {
		for _, r := range []row{
			{"pair of 60 s", simulated{seconds: 60, perSecond: 200, phi: phi, wander: 0.1}, 1, DefaultSpread, 0.1, 0.25},
			{"pair of 60 s, --spread 0%", simulated{seconds: 60, perSecond: 200, phi: phi, wander: 0.1}, 1, 0, 0.05, 0.1},
			{"3 and 3 of 20 s, spread 2 %", simulated{seconds: 20, perSecond: 200, phi: phi, wander: 0.03, spread: 0.02}, 3, 0, 0.05, 0.1},
			{"5 and 5 of 20 s, spread 2 %", simulated{seconds: 20, perSecond: 200, phi: phi, wander: 0.03, spread: 0.02}, 5, 0, 0.05, 0.1},
			{"5 and 5 of 20 s, spread 5 %", simulated{seconds: 20, perSecond: 200, phi: phi, wander: 0.03, spread: 0.05}, 5, 0, 0.05, 0.1},
		} {
			claimed, _ := r.of.compare(t, comparisons, r.runs, r.spread, 0)
			_, some := r.of.compare(t, comparisons, r.runs, r.spread, r.slower)
			_, more := r.of.compare(t, comparisons, r.runs, r.spread, r.more)
			t.Logf("| %s | %g | %s | %g %%: %s | %g %%: %s |", r.what, phi, share(claimed), 100*r.slower, share(some), 100*r.more, share(more))
			if claimed > comparisons/20 && !(r.runs == 1 && r.spread == 0) { // without a spread, nothing is said of other runs
				t.Errorf("%s, phi %g: something is claimed of %s of equals", r.what, phi, share(claimed))
			}
		}
	}
}
