// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/lane"
	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/metrics"
	"github.com/kvbench/kvbench/internal/pace"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/workload"
)

// engine makes the load of a run: it opens the database, runs the lanes, and writes
// down what they measure. Of states, leases and coordinators it knows nothing.
type engine struct {
	*assignment
	cfg   Config
	log   *slog.Logger
	fail  func(error) // ends the run, from any goroutine
	clock runClock
	live  live

	// Made by open and build.
	tuning    map[string]string // how the process was set up
	driver    store.Driver
	sessions  []store.Session // those of the lanes first
	lanes     []*lane.Lane
	collector *measure.Collector
	begun     []atomic.Int64 // by lane: lateness of the first operation, in ns; notBegun before
	panicked  atomic.Bool    // calls may be in flight that nobody takes back: sessions and driver are never closed

	askServers chan struct{} // closed when this worker is to read the stores' own figures
	asked      sync.Once
	stopped    chan struct{} // closed when the run is to end before its time
	stopping   sync.Once

	mu     sync.Mutex
	target pace.Profile // of the fleet; zero if unpaced
}

const notBegun = int64(-1)

func newEngine(a *assignment, cfg Config, log *slog.Logger, fail func(error)) *engine {
	e := &engine{assignment: a, live: live{watched: a.watched}, cfg: cfg, log: log, fail: fail, target: a.profile, askServers: make(chan struct{}), stopped: make(chan struct{})}
	e.clock.set(time.Now())
	return e
}

// open connects to the database and sees whether it answers.
func (e *engine) open(ctx context.Context) error {
	pd := strings.Join(e.spec.TiKV.PD, ",")
	if e.cfg.Tune != nil {
		e.tuning = e.cfg.Tune(e.spec.Driver)
	}
	var err error
	if e.driver, err = e.cfg.Open(ctx, e.spec); err != nil {
		return fmt.Errorf("the cluster at PD %s cannot be opened: %w", pd, err)
	}
	lanes := lanesFor(e.spec.Threads, e.cfg.Lanes)
	for l := range lanes {
		if _, err := e.session(threads(e.spec.Threads, l, lanes)); err != nil {
			return fmt.Errorf("the cluster at PD %s cannot be opened: %w", pd, err)
		}
	}
	e.lanes = make([]*lane.Lane, lanes)
	deadline, _ := ctx.Deadline()
	if err := probe(e.sessions[0], &e.clock, time.Until(deadline)); err != nil {
		return fmt.Errorf("the cluster at PD %s can be opened, but a first read with tikv.apiversion=%s failed: %w", pd, e.spec.TiKV.APIVersion, err)
	}
	return nil
}

// session opens one more session, which is closed with the driver.
func (e *engine) session(threads int) (store.Session, error) {
	s, err := e.driver.Open(len(e.sessions), threads, &e.clock)
	if err == nil {
		e.sessions = append(e.sessions, s)
	}
	return s, err
}

// cluster is what the driver knows of the database; nil if it cannot tell.
func (e *engine) cluster() *workerpb.Cluster {
	d, ok := e.driver.(store.Described)
	if !ok {
		return nil
	}
	c := d.Cluster()
	return &workerpb.Cluster{Id: c.ID, Stores: c.Stores, Details: c.Details}
}

// probe sends one call, so that a store that cannot be reached is found before the
// start, and the first operation finds a connection.
func probe(s store.Session, clk *runClock, timeout time.Duration) error {
	return store.Insist(s, &store.Call{Verb: store.Get, Keys: [][]byte{[]byte("kvbench-probe")}}, clk, timeout)
}

// threadsPerLane is how many calls in flight are worth a lane of their own. A
// lane is far from busy with fewer, and what it has to say to a store at a time
// shares a message: the more lanes, the fewer commands in each (docs/performance.md).
const threadsPerLane = 64

// lanesFor is the number of lanes for so many threads, at most most.
func lanesFor(threads, most int) int { return max(1, min(most, threads/threadsPerLane)) }

// threads spreads a worker's threads over its lanes.
func threads(all, lane, lanes int) int {
	n := all / lanes
	if lane < all%lanes {
		n++
	}
	return n
}

// build makes the lanes, whose operations are those of a task.
func (e *engine) build(t task) error {
	s, lanes := e.spec, len(e.lanes)
	e.collector = measure.NewCollector(measure.Config{Paced: s.Paced(), Warmup: s.Warmup, Window: s.Duration, Waiting: e.live.waiting()}, lanes)
	e.begun = make([]atomic.Int64, lanes)
	for l := range lanes {
		place := workload.Place{Worker: e.worker, Workers: e.workers, Lane: l, Lanes: lanes}
		source, err := t.source(place)
		if err != nil {
			return err
		}
		cfg := lane.Config{
			Clock:    &e.clock,
			Session:  e.sessions[l],
			Recorder: e.collector.Recorder(l),
			Share:    pace.Share{First: place.Index(0), Step: place.Index(1) - place.Index(0)},
			Threads:  threads(s.Threads, l, lanes),
			Warmup:   s.Warmup,
			End:      e.end(),
			Grace:    s.Grace,
		}
		first := &firstStart{Source: source, clock: &e.clock, late: &e.begun[l]}
		first.late.Store(notBegun)
		if s.Paced() {
			cfg.Pacer = pace.New(pace.Config{
				Profile:  e.profile,
				Share:    cfg.Share,
				Batch:    s.Batch,
				Arrivals: arrivals(s),
				Seed:     s.Seed,
				CatchUp:  s.CatchUp,
			})
			first.due = cfg.Pacer.Due()
		}
		cfg.Source = first
		e.lanes[l] = lane.New(cfg)
	}
	return nil
}

func arrivals(s *spec.Spec) pace.Arrivals {
	if s.Arrival == spec.Poisson {
		return pace.Poisson
	}
	return pace.Uniform
}

// hostname is the machine's, "" if it has none.
func hostname() string {
	name, _ := os.Hostname()
	return name
}

// describe says who measures, from a moment of the wall clock on.
func (e *engine) describe(start time.Time) results.Worker {
	return results.Worker{
		RunID:   e.id,
		Name:    e.name,
		Index:   e.worker,
		Workers: e.workers,
		Lanes:   len(e.lanes),
		Threads: e.spec.Threads,
		Driver:  e.spec.Driver,
		Start:   start,
		Host: map[string]string{
			"name":    e.cfg.Name,
			"process": fmt.Sprint(os.Getpid(), "@", hostname()),
			"system":  runtime.GOOS + "/" + runtime.GOARCH,
			"cores":   fmt.Sprint(runtime.GOMAXPROCS(0)),
			"go":      runtime.Version(),
			"kvbench": e.cfg.Version,
		},
		Tuning:      e.tuning,
		Connections: connections(e.driver),
	}
}

// run runs the lanes to their end, and what their task does beside them. All that
// they measure is in the journal when it returns.
func (e *engine) run(journal *results.Journal, t task) {
	e.cfg.Cores.expect(e, math.Inf(1))
	defer e.cfg.Cores.leave(e)
	var watched *metrics.Run // nil: nobody asks
	if e.cfg.Metrics != nil {
		watched = e.cfg.Metrics.Begin(metrics.Info{RunID: e.id, Phase: e.spec.Phase.String(), Driver: e.spec.Driver})
		defer watched.End()
	}
	traffic := watchTraffic(e.driver)
	ended := make(chan struct{})
	var lanes, others sync.WaitGroup
	for l := range e.lanes {
		lanes.Go(func() { e.runLane(l) })
	}
	others.Go(func() { e.record(journal, traffic, watched) })
	others.Go(func() { t.beside(ended) })
	others.Go(func() { e.watchServers(journal, ended) })
	lanes.Wait()
	close(ended)
	others.Wait()
}

// runLane runs a lane. A panic ends the run and not the process: what the other
// lanes have measured is kept, and the coordinator is told.
func (e *engine) runLane(l int) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		e.panicked.Store(true)
		stack := debug.Stack()
		if caught, ok := p.(store.Panic); ok {
			stack = caught.Stack
		}
		e.log.Error("panic", "in", fmt.Sprintf("lane %d", l), "panic", p, "stack", string(stack))
		e.fail(fmt.Errorf("panic in lane %d: %v (the worker's log has the stack)", l, p))
		defer func() { _ = recover() }() // it was the recorder that panicked
		e.collector.Recorder(l).Finish(e.clock.Now())
	}()
	e.lanes[l].Run()
}

// record writes the journal, interval by interval.
func (e *engine) record(journal *results.Journal, traffic *traffic, watched *metrics.Run) {
	host := measure.NewHost()
	failed := false
	e.collector.Run(func(iv *measure.Interval) {
		if failed {
			return
		}
		target, sent, used := e.targetIn(iv.Start, iv.End), traffic.sample(), host.Sample()
		e.cfg.Cores.expect(e, e.need(iv, used.CPU))
		if err := journal.Write(iv, target, used, sent...); err != nil {
			failed = true
			e.log.Error("the journal cannot be written; the run ends", "error", err)
			e.fail(err)
			return
		}
		e.live.add(iv, target, sent, iv.End <= e.spec.Warmup)
		if watched != nil {
			watched.Add(iv, target)
			watched.AddTraffic(sent)
		}
	})
}

// workDone tells whether the lanes have ended because all of their operations were done,
// and not at a time.
func (e *engine) workDone() bool {
	for _, l := range e.lanes {
		if !l.SourceEnded() {
			return false
		}
	}
	return true
}

// stop makes the lanes start nothing more, and gives calls in flight so long.
func (e *engine) stop(grace time.Duration) {
	e.stopping.Do(func() { close(e.stopped) })
	for _, l := range e.lanes {
		l.Stop(min(grace, e.spec.Grace))
	}
}

// retarget changes the fleet's target, in operations a second, from a moment of
// the run's clock on.
func (e *engine) retarget(at time.Duration, target float64) {
	e.mu.Lock()
	e.target = e.target.Change(at, target)
	changed := e.target
	e.mu.Unlock()
	e.cfg.Cores.expect(e, math.Inf(1)) // until it is seen what it takes
	for _, l := range e.lanes {
		l.Retarget(changed)
	}
}

// targetAt is the fleet's target at a moment of the run's clock, in operations a second.
func (e *engine) targetAt(at time.Duration) float64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.target.Rate(at)
}

// targetIn is this worker's share of the target between two moments, on average, in
// operations a second; 0 if unpaced.
func (e *engine) targetIn(from, to time.Duration) float64 {
	if !e.spec.Paced() || to <= from {
		return 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return (e.target.Count(to) - e.target.Count(from)) / (to - from).Seconds() / float64(e.workers)
}

// skew is by how much the first operation of the lane that was latest came after its time.
func (e *engine) skew() time.Duration {
	var most int64
	for l := range e.begun {
		most = max(most, e.begun[l].Load())
	}
	return time.Duration(most)
}

// close closes the sessions and the driver. The lanes must have ended, or never run.
func (e *engine) close() error {
	sessions, driver := e.sessions, e.driver
	e.sessions, e.driver = nil, nil
	if e.panicked.Load() {
		return nil
	}
	var errs []error
	for _, s := range sessions {
		errs = append(errs, s.Close())
	}
	if driver != nil {
		errs = append(errs, driver.Close())
	}
	return errors.Join(errs...)
}
