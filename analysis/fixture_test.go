// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/workload"
)

// fixture describes a run whose directory is written as workers and coordinator
// would, from samples that follow from the seed.
type fixture struct {
	seed        uint64
	workers     int
	warmup      time.Duration
	window      time.Duration // 0: by count
	target      float64       // over the fleet; 0: unpaced
	achieved    float64       // operations per second over the fleet; 0: the target
	count       []int64       // by count: operations of each worker
	batch       int
	threads     int
	cpu         float64                                // share of the cores
	machine     float64                                // share of the machine, by anyone
	throttled   float64                                // time for which a limit kept a processor from it, as a share of the window
	stalls      time.Duration                          // standstills of each second, ten of the same length
	cpuWait     float64                                // time without a core, as a share of the cores' time
	lost        map[int]time.Duration                  // workers that were killed
	result      func(i int) workload.Result            // of operation i of a worker
	wait        func(slot time.Duration) time.Duration // lag of a slot
	pause       pause                                  // of the database
	hang        time.Duration                          // the database answers nothing from then on, if it is not 0
	ended       results.Cause                          // of each worker
	reason      string                                 // of each worker, if that was before its time
	connections int                                    // of each worker to each store
	queued      float64                                // share of the operations that found no free thread
	took        func(r *rand.Rand) time.Duration
	sent        []store.Traffic // in every interval
	change      func(*results.Run)
	events      []results.Event
	told        []results.Event // to each worker

	pooled []sample // every sample of the window, for comparison
}

type sample struct {
	worker            int
	kind              workload.Kind
	outcome           workload.Outcome
	service, response time.Duration
}

// pause is a time in which the database answers nothing, and works off what has waited thereafter.
type pause struct {
	at, length time.Duration
	worker     int // the only one that it concerns, if it is not 0
}

func (p pause) delay(worker int, s *measure.Sample) {
	if p.length > 0 && (p.worker == 0 || p.worker == worker) && s.End > p.at && s.End < p.at+p.length {
		s.End = p.at + p.length + (s.End-p.at)/100
	}
}

// failing is an operation that is not answered in time.
func failing(int) workload.Result {
	r := workload.Result{RPCs: 1, Class: store.Timeout, Err: errors.New("context deadline exceeded")}
	r.Count[workload.Failed] = 1
	return r
}

func okay(int) workload.Result {
	r := workload.Result{RPCs: 1}
	r.Count[workload.OK] = 1
	return r
}

func exponential(r *rand.Rand) time.Duration {
	return time.Duration(300+r.ExpFloat64()*400) * time.Microsecond
}

// write makes the run's directory.
func (f *fixture) write(t testing.TB) string {
	t.Helper()
	f.workers, f.batch, f.threads = cmp.Or(f.workers, 1), cmp.Or(f.batch, 1), cmp.Or(f.threads, 8)
	if f.result == nil {
		f.result = okay
	}
	if f.took == nil {
		f.took = exponential
	}
	start := time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)
	run := results.Run{
		RunID: "20260314-150926-c0ffee", Phase: "run", State: results.Finished, Start: start,
		WarmupS: f.warmup.Seconds(), WindowS: f.window.Seconds(), GraceS: grace.Seconds(), Paced: f.target > 0, Target: f.target,
		Spec:     map[string]string{"readproportion": "0.5", "recordcount": "100000"},
		Plan:     results.Plan{Workers: f.workers, Threads: f.threads, Batch: f.batch, Records: 100000},
		Versions: map[string]string{"kvbench": "v1.0.0", "go": "go1.26"},
		Cluster:  results.Cluster{PD: []string{"127.0.0.1:2379"}, ID: 7},
	}
	if f.window == 0 {
		run.Phase = "load"
	}
	dir, err := results.CreateRun(t.TempDir(), run.RunID)
	if err != nil {
		t.Fatal(err)
	}
	log, err := results.OpenEvents(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range append([]results.Event{{At: start, Kind: "start"}}, f.events...) {
		if err := log.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	for w := range f.workers {
		m := results.Member{Name: fmt.Sprintf("w%d", w), Index: w, Address: fmt.Sprintf("10.0.0.%d:7070", w+1), State: results.Finished,
			ClockOffsetUS: float64(w * 100), ClockErrorUS: 50, StartSkewUS: float64(w * 10)}
		if at, lost := f.lost[w]; lost {
			s := at.Seconds()
			m.State, m.LostAtS, m.Reason = results.Lost, &s, "no answer for 5s"
		}
		run.Fleet = append(run.Fleet, m)
		f.writeWorker(t, filepath.Join(dir, m.Name), w, start)
	}
	if f.change != nil {
		f.change(&run)
	}
	if err := results.WriteRun(dir, &run); err != nil {
		t.Fatal(err)
	}
	return dir
}

// writeWorker plays a worker: its samples, in the order in which they complete.
func (f *fixture) writeWorker(t testing.TB, dir string, w int, start time.Time) {
	cfg := measure.Config{Paced: f.target > 0, Warmup: f.warmup, Window: f.window}
	achieved := cmp.Or(f.achieved, f.target, 1000) / float64(f.batch)
	n, at := int64(1)<<40, func(i int64) time.Duration {
		return time.Duration(float64(i*int64(f.workers)+int64(w)) / achieved * float64(time.Second))
	}
	if f.window == 0 {
		n = f.count[w]
	}
	random := rand.New(rand.NewPCG(f.seed, uint64(w)))
	var all []measure.Sample
	for i := int64(0); i < n && (f.window == 0 || at(i) < f.warmup+f.window); i++ {
		res := f.result(int(i))
		s := measure.Sample{Kind: workload.Kind(i % 2), Result: &res, Slot: at(i), Start: at(i)}
		if f.wait != nil {
			s.Start += f.wait(s.Slot)
		}
		s.End = s.Start + f.took(random)
		f.pause.delay(w, &s)
		s.Seen = s.End + 5*time.Microsecond
		all = append(all, s)
		if s.Slot >= f.warmup {
			f.pooled = append(f.pooled, sample{w, s.Kind, res.Outcome(), s.End - s.Start, s.End - s.Slot})
		}
	}
	end := f.warmup + f.window
	giveUp := end + grace
	var cut, skipped []measure.Sample
	if f.hang > 0 {
		all, cut, skipped = f.hung(all)
	}
	slices.SortFunc(all, func(a, b measure.Sample) int { return cmp.Compare(a.Seen, b.Seen) })

	j, err := results.CreateJournal(dir, results.Worker{Name: filepath.Base(dir), Index: w, Workers: f.workers, Threads: f.threads, Driver: "rawkv", Lanes: 2, Connections: f.connections, Tuning: map[string]string{"gc_percent": "400"}, Start: start})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range f.told {
		e.At = start.Add(results.Duration(e.S) + time.Duration(w)*time.Millisecond) // by the worker's own clock
		if err := j.WriteEvent(e); err != nil {
			t.Fatal(err)
		}
	}
	dead, lost := f.lost[w]
	errs := make(chan error)
	c := measure.NewCollector(cfg, 1)
	rec := c.Recorder(0)
	rec.Observe(func(at time.Duration) (u measure.Unanswered) {
		for i := range cut {
			if s := &cut[i]; s.Start < at {
				u.Calls++
				u.Oldest = max(u.Oldest, at-s.Start)
			}
		}
		return u
	})
	go func() {
		defer close(errs)
		c.Run(func(iv *measure.Interval) {
			if lost && iv.End > dead {
				errs <- nil
				return
			}
			host := measure.HostSample{CPU: time.Duration(f.cpu * 2 * float64(iv.End-iv.Start)), Cores: 2, Machine: f.machine, CPUWait: time.Duration(f.cpuWait * 2 * float64(iv.End-iv.Start)), SchedP99: 100 * time.Microsecond, RSSBytes: 50e6, Throttled: time.Duration(f.throttled * float64(iv.End-iv.Start))}
			errs <- j.Write(iv, f.target/float64(f.workers), host, f.sent...)
		})
	}()
	tick := func(now time.Duration) {
		for rec.Next() <= now {
			for rec.Behind() {
				runtime.Gosched()
			}
			for i := range 10 * min(1, f.stalls) {
				rec.Stalled(max(0, rec.Next()-(10-i)*100*time.Millisecond), f.stalls/10)
			}
			rec.Tick(rec.Next())
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range all {
		tick(all[i].Seen)
		rec.Started(all[i].Kind, all[i].Slot, f.batch)
		if float64(i%100) < 100*f.queued {
			rec.Queued(all[i].Slot, f.batch)
		}
		rec.Record(&all[i])
		end = max(end, all[i].Seen)
	}
	for i := range cut {
		rec.Started(cut[i].Kind, cut[i].Slot, f.batch)
	}
	for i := range skipped {
		rec.Skipped(skipped[i].Slot, f.warmup+f.window-skipped[i].Slot, 1, true)
	}
	if len(cut) > 0 {
		end = giveUp
		tick(end)
		for i := range cut {
			rec.CutOff(cut[i].Kind, cut[i].Slot, cut[i].Start, end, f.batch)
		}
	}
	tick(end)
	rec.Finish(end)
	for err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	if lost {
		return // killed: nothing is closed
	}
	if err := j.Close(results.End{Cause: f.ended, Reason: f.reason}); err != nil {
		t.Fatal(err)
	}
}

// grace is how long a run of a fixture waits for what is in flight at its end.
const grace = 5 * time.Second

// hung parts what the database answers before it hangs from the calls that wait for it then, one for each
// thread, and from those that are never started, of which there are none where nothing is due.
func (f *fixture) hung(all []measure.Sample) (answered, cut, skipped []measure.Sample) {
	for _, s := range all {
		switch {
		case s.End <= f.hang:
			answered = append(answered, s)
		case len(cut) < f.threads:
			cut = append(cut, s)
		case f.target > 0:
			skipped = append(skipped, s)
		}
	}
	return answered, cut, skipped
}

func report(t testing.TB, dir string) *Report {
	t.Helper()
	r, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r.Report()
}

// mixed has hits, misses, errors and wrong values as asked for.
func mixed(missing, failing, wrong int) func(i int) workload.Result {
	return func(i int) workload.Result {
		r := workload.Result{RPCs: 1}
		switch {
		case missing > 0 && i%missing == 1:
			r.Count[workload.NotFound] = 1
		case failing > 0 && i%failing == 2:
			r.Count[workload.Failed], r.Class, r.Err = 1, store.Timeout, errors.New("context deadline exceeded")
		case wrong > 0 && i%wrong == 3:
			r.Count[workload.Wrong], r.Err = 1, errors.New("key user42: checksum does not match")
		default:
			r.Count[workload.OK] = 1
		}
		return r
	}
}

func remove(t testing.TB, path ...string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(path...)); err != nil {
		t.Fatal(err)
	}
}
