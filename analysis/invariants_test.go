// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/results"
)

// randomFixture is a run of any kind.
func randomFixture(r *rand.Rand) *fixture {
	chance := func(p float64) bool { return r.Float64() < p }
	f := &fixture{
		seed: r.Uint64(), workers: 1 + r.IntN(4), threads: 1 + r.IntN(16), cpu: 1.5 * r.Float64(), machine: r.Float64(), cpuWait: r.Float64(),
		achieved: float64(100 + r.IntN(400)), connections: r.IntN(3), result: mixed(r.IntN(20), r.IntN(20), r.IntN(3)*500),
	}
	switch {
	case chance(0.3): // by count
		for range f.workers {
			f.count = append(f.count, int64(r.IntN(600)))
		}
	default:
		f.window = time.Duration(20+r.IntN(5000)) * time.Millisecond
		f.warmup = time.Duration(r.IntN(2)*r.IntN(1500)) * time.Millisecond
	}
	if chance(0.6) {
		f.target = f.achieved * (0.9 + 0.5*r.Float64())
		f.wait, f.queued = stall, r.Float64()
	}
	if chance(0.3) {
		f.sent = sent
	}
	if chance(0.3) {
		f.throttled, f.stalls = r.Float64(), time.Duration(r.Int64N(int64(500*time.Millisecond)))
	}
	if chance(0.3) {
		f.pause = pause{at: time.Duration(r.IntN(3000)) * time.Millisecond, length: time.Duration(r.IntN(3000)) * time.Millisecond, worker: r.IntN(f.workers)}
	}
	if f.window > 0 && chance(0.3) {
		f.lost = map[int]time.Duration{r.IntN(f.workers): f.warmup + time.Duration(r.Int64N(int64(f.window)))}
	}
	if f.window > 0 && f.lost == nil && chance(0.3) {
		f.hang = 1 + f.warmup + time.Duration(r.Int64N(int64(f.window)))
	}
	limit, ttl := r.Float64(), chance(0.5)
	stopped := f.window > 0 && chance(0.2)
	f.change = func(run *results.Run) {
		run.Limits.ErrorShare = &limit
		if ttl {
			run.Spec["ttl"] = "60"
		}
		if stopped {
			at := run.WarmupS + run.WindowS/2
			run.StoppedS, run.State = &at, results.Interrupted
		}
	}
	return f
}

// No report contradicts itself, whatever the run did and whatever became of its files; and what is
// not whole is never valid.
func TestContradictions(t *testing.T) {
	t.Parallel()
	runs := 150
	if testing.Short() {
		runs = 30
	}
	for seed := range uint64(runs) {
		r := rand.New(rand.NewPCG(seed, 13))
		f := randomFixture(r)
		dir := f.write(t)
		check := func(what string) *Report {
			p := report(t, dir)
			for _, text := range Contradictions(p) {
				t.Errorf("seed %d, %s: %s", seed, what, text)
			}
			return p
		}
		if p := check("whole"); len(p.Missing) > 0 && len(f.lost) == 0 {
			t.Errorf("seed %d: of a whole run is missing: %q", seed, p.Missing)
		}
		path := filepath.Join(dir, "w0", journalFiles[r.IntN(len(journalFiles))])
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) < 20 {
			continue
		}
		damage := damages[r.IntN(len(damages))]
		if damage.do == nil {
			remove(t, path)
		} else if err := os.WriteFile(path, damage.do(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if p := check(filepath.Base(path) + " " + damage.name); p.Verdict.Code == exitcode.Valid {
			t.Errorf("seed %d: valid, with %s %s", seed, path, damage.name)
		}
	}
}

// The check finds what it is for.
func TestContradictionsAreFound(t *testing.T) {
	t.Parallel()
	whole := (&fixture{workers: 2, window: 2 * time.Second, target: 300, cpu: 0.2, machine: 0.5}).write(t)
	if found := Contradictions(report(t, whole)); len(found) > 0 {
		t.Fatal(found)
	}
	for name, spoil := range map[string]func(*Report){
		"threads":       func(p *Report) { p.InFlight = 17 },
		"cores":         func(p *Report) { p.Workers[0].CPUShare = 23 },
		"processor":     func(p *Report) { p.Workers[1].CPUS = 5 },
		"rate":          func(p *Report) { p.OpsPerS *= 1.01 },
		"operations":    func(p *Report) { p.Operations++ },
		"kinds":         func(p *Report) { p.Kinds[0].Operations-- },
		"worker":        func(p *Report) { p.Workers[1].Errors++ },
		"percentiles":   func(p *Report) { p.Kinds[0].ServiceUS.P99 = p.Kinds[0].ServiceUS.P90 - 1 },
		"maximum":       func(p *Report) { p.Kinds[0].ResponseUS.Max = 1 },
		"missing":       func(p *Report) { p.Missing = []string{"w0"} },
		"unanswered":    func(p *Report) { p.Unanswered = &Unanswered{Calls: 17} },
		"never":         func(p *Report) { p.Kinds[0].NeverAnswered = &NeverAnswered{CutOffCalls: 1, Operations: 1} },
		"hang":          func(p *Report) { p.Hang = &Hang{Calls: 1} },
		"one is absent": func(p *Report) { p.WorkersExpected++ },
	} {
		p := report(t, whole)
		spoil(p)
		if len(Contradictions(p)) == 0 {
			t.Errorf("%s: nothing found", name)
		}
	}
}
