// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
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
	const longest = 1_000_000 // µs: far above all that is simulated, and quicker to merge than histograms of an hour
	row := measure.RowOf(workload.Read, workload.OK, store.OK)
	level, own := random.NormFloat64()*s.wander, math.Log1p(s.slower)+random.NormFloat64()*s.spread
	for i := range s.seconds {
		packed := hdrhistogram.NewPacked(measure.Lowest, longest, measure.Digits)
		median := 1000 * math.Exp(own+level)
		operations := max(1, int64(math.Round(float64(s.perSecond)*1000/median)))
		for range operations {
			us := int64(median * math.Exp(0.5*random.NormFloat64()))
			if err := packed.RecordValue(min(max(us, 1), longest-1)); err != nil {
				t.Fatal(err)
			}
		}
		iv := &results.Interval{
			Second:     results.Second{Start: time.Duration(i) * time.Second, End: time.Duration(i+1) * time.Second},
			Histograms: []results.Histogram{{Tag: results.Tag{Row: row, Quantity: results.Service}, Packed: measure.Pack(packed)}},
		}
		iv.Window.Rows[row] = results.Count{Operations: operations, Batches: operations, RPCs: operations}
		r.fleet.add(iv, &r.window)
		r.blocks.add(iv)
		level = s.phi*level + math.Sqrt(1-s.phi*s.phi)*s.wander*random.NormFloat64()
	}
	r.blocks.close()
	return r
}

// found is in how many comparisons something was claimed, and in how many that B is worse.
type found struct{ claimed, worse int }

// compare makes comparisons of sets of so many runs A with sets B, which are slower by each of some shares.
func (s simulated) compare(t testing.TB, comparisons, runs int, spread float64, slower ...float64) []found {
	t.Helper()
	random := rand.New(rand.NewPCG(uint64(100*s.phi), uint64(s.seconds)))
	all := make([]found, len(slower))
	for range comparisons {
		var a []*Run
		for i := range runs {
			a = append(a, s.run(t, 2*i, random))
		}
		for i, by := range slower {
			slow := s
			slow.slower = by
			var b []*Run
			for i := range runs {
				b = append(b, slow.run(t, 2*i+1, random))
			}
			c := Compare(a, b, spread)
			if slices.ContainsFunc(c.Deltas, func(d Delta) bool { return d.Judged == Better || d.Judged == Worse }) {
				all[i].claimed++
			}
			if c.Worse() {
				all[i].worse++
			}
		}
	}
	return all
}

// phis is how much of a second's level the next one keeps.
var phis = []float64{0, 0.5, 0.9, 0.97}

// Comparisons of equals claim something in at most 5 % of the cases; those of what differs much find it.
func TestSimulated(t *testing.T) {
	if testing.Short() {
		t.Skip("arithmetic of one goroutine, slow under the race detector")
	}
	t.Parallel()
	const comparisons = 40
	for _, phi := range phis {
		pair := simulated{seconds: 60, perSecond: 200, phi: phi, wander: 0.1}
		set := simulated{seconds: 20, perSecond: 200, phi: phi, wander: 0.03, spread: 0.03}
		// 5 % of 40 are 2; up to 5 come about by chance once in 30 times, and the seeds are fixed.
		if f := pair.compare(t, comparisons, 1, DefaultSpread, 0); f[0].claimed > 5 {
			t.Errorf("phi %g: %d of %d pairs of equal runs differ", phi, f[0].claimed, comparisons)
		}
		if f := set.compare(t, comparisons, 3, 0, 0); f[0].claimed > 5 {
			t.Errorf("phi %g: %d of %d sets of equal runs differ", phi, f[0].claimed, comparisons)
		}
		if f := set.compare(t, comparisons/4, 5, 0, 0.2); f[0].worse < comparisons/4-1 {
			t.Errorf("phi %g: sets of runs that are slower by 20 %% are worse in %d of %d cases", phi, f[0].worse, comparisons/4)
		}
	}
	pair := simulated{seconds: 60, perSecond: 200, wander: 0.03}
	if f := pair.compare(t, comparisons/4, 1, DefaultSpread, 0.3); f[0].worse < comparisons/4-3 { // some look too short for how slowly they vary
		t.Errorf("runs that are slower by 30 %% are worse in %d of %d cases", f[0].worse, comparisons/4)
	}
}

// The tables of docs/compare.md: make compare-simulation.
func TestSimulatedTables(t *testing.T) {
	if os.Getenv("KVBENCH_SIMULATE") == "" {
		t.Skip("takes minutes: make compare-simulation")
	}
	const comparisons = 1000
	slower := []float64{0, 0.05, 0.1, 0.25}
	pair := simulated{seconds: 60, perSecond: 200, wander: 0.1}
	set := simulated{seconds: 20, perSecond: 200, wander: 0.03}
	rows := []struct {
		what   string
		of     simulated
		runs   int
		spread float64 // of the comparison, and in truth between runs
		truth  float64
	}{
		{"one of 60 s each", pair, 1, DefaultSpread, 0},
		{"one of 60 s each, `--spread 0%`", pair, 1, 0, 0},
		{"one of 60 s each, which differ by 5 %", pair, 1, DefaultSpread, 0.05},
		{"3 of 20 s each, which differ by 2 %", set, 3, 0, 0.02},
		{"5 of 20 s each, which differ by 2 %", set, 5, 0, 0.02},
		{"5 of 20 s each, which differ by 5 %", set, 5, 0, 0.05},
	}
	lines := make([]string, len(phis)*len(rows))
	t.Run("all", func(t *testing.T) {
		for i := range lines {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				r := rows[i/len(phis)]
				r.of.phi, r.of.spread = phis[i%len(phis)], r.truth
				asked := slower
				if r.runs > 1 { // which find 10 %
					asked = slower[:3]
				}
				found := r.of.compare(t, comparisons, r.runs, r.spread, asked...)
				lines[i] = fmt.Sprintf("| %s | %g |", r.what, r.of.phi)
				for j, f := range found {
					n := f.worse
					if slower[j] == 0 {
						n = f.claimed
					}
					lines[i] += fmt.Sprintf(" %.1f %% |", 100*float64(n)/comparisons)
				}
				t.Log(lines[i])                  // as soon as it is known
				const most = comparisons/20 + 21 // 5 %, and three standard errors of that
				if n := found[0].claimed; n > most {
					t.Errorf("%s, phi %g: something is claimed of %d of %d pairs of equals", r.what, r.of.phi, n, comparisons)
				}
			})
		}
	})
	t.Log("\n| runs | phi | claims of equals | 5 % slower | 10 % slower | 25 % slower |\n|---|---|---|---|---|---|\n" + strings.Join(lines, "\n"))
}
