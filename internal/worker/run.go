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
	"github.com/kvbench/kvbench/internal/ledger"
	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/metrics"
	"github.com/kvbench/kvbench/internal/pace"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/workload"
)

// prepareTimeout bounds the opening of the database, so that a coordinator can
// tell within 15 s that it is not there.
const prepareTimeout = 10 * time.Second

// run is one assignment from Prepare to the end.
type run struct {
	*assignment
	cfg      Config
	log      *slog.Logger
	journals archive
	prepared time.Time
	clock    runClock
	live     live
	metrics  *metrics.Run  // nil: nobody asks
	done     chan struct{} // closed when everything is closed

	ledger   *ledger.Ledger // of what it has written; nil: that is not followed
	released chan struct{}  // closed when nobody may read it back any more
	reading  sync.WaitGroup // of those who do

	// Made by prepare.
	tuning    map[string]string // how the process was set up
	driver    store.Driver
	cluster   *workerpb.Cluster // nil if the driver cannot tell
	sessions  []store.Session
	lanes     []*lane.Lane
	collector *measure.Collector
	loading   *loading          // nil unless it is a load
	slices    [][]byte          // of the key space, for a verification
	sweeps    []*workload.Sweep // of a verification, by lane
	warnings  []string          // for the user
	loaded    *workerpb.Range   // what is remembered, if that is asked; nil: nothing
	begun     []atomic.Int64    // by lane: lateness of the first operation, in ns; notBegun before

	mu      sync.Mutex
	state   workerpb.State
	how     workerpb.End // it ended, once it does
	err     error
	zero    time.Time     // of the run's clock
	elapsed time.Duration // where it stood at the end
	abort   context.CancelFunc
	expiry  *time.Timer  // of the lease; nil if detached
	target  pace.Profile // of the fleet, in slots a second; zero if unpaced
}

const notBegun = int64(-1)

func newRun(a *assignment, cfg Config, journals archive) *run {
	r := &run{
		assignment: a,
		cfg:        cfg,
		log:        cfg.Log.With("run", a.id),
		journals:   journals,
		prepared:   time.Now(),
		done:       make(chan struct{}),
		ledger:     a.newLedger(),
		released:   make(chan struct{}),
		state:      workerpb.State_STATE_PREPARING,
		target:     a.profile,
	}
	r.clock.set(r.prepared)
	return r
}

// prepare opens the database and builds the lanes. On an error everything is
// closed again and the run is over.
func (r *run) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	r.mu.Lock()
	r.abort = cancel
	if r.how != workerpb.End_END_UNSPECIFIED {
		cancel() // stopped already
	}
	r.mu.Unlock()

	err := r.ready(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && r.how != workerpb.End_END_UNSPECIFIED {
		err = errors.New("the run was stopped while it was prepared")
	}
	if err != nil {
		if r.how == workerpb.End_END_UNSPECIFIED {
			r.how = workerpb.End_END_FAILED
		}
		r.err = errors.Join(err, r.close())
		r.finish()
		return r.err
	}
	r.state = workerpb.State_STATE_PREPARED
	if r.lease > 0 {
		r.expiry = time.AfterFunc(r.lease, r.expire)
	}
	return nil
}

// ready opens the database and builds the lanes. A panic is an error of this run,
// which is over then, and of no other.
func (r *run) ready(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.log.Error("panic", "part", "prepare", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic while the run was prepared: %v (the worker's log has the stack)", p)
			r.sessions, r.driver = nil, nil // in whatever state they are
		}
	}()
	if err := r.open(ctx); err != nil {
		return err
	}
	return r.build()
}

// open connects to the database and sees whether it answers.
func (r *run) open(ctx context.Context) error {
	pd := strings.Join(r.spec.TiKV.PD, ",")
	if r.cfg.Tune != nil {
		r.tuning = r.cfg.Tune(r.spec.Driver)
	}
	driver, err := r.cfg.Open(ctx, r.spec)
	if err != nil {
		return fmt.Errorf("the cluster at PD %s cannot be opened: %w", pd, err)
	}
	r.driver = driver
	lanes := lanesFor(r.spec.Threads, r.cfg.Lanes)
	for l := range lanes {
		s, err := r.driver.Open(l, threads(r.spec.Threads, l, lanes), &r.clock)
		if err != nil {
			return fmt.Errorf("the cluster at PD %s cannot be opened: %w", pd, err)
		}
		r.sessions = append(r.sessions, s)
	}
	if d, ok := r.driver.(store.Described); ok {
		c := d.Cluster()
		r.cluster = &workerpb.Cluster{Id: c.ID, Stores: c.Stores, Details: c.Details}
	}
	deadline, _ := ctx.Deadline()
	if err := probe(r.sessions[0], &r.clock, time.Until(deadline)); err != nil {
		return fmt.Errorf("the cluster at PD %s does not answer: %w", pd, err)
	}
	if err := r.recall(); err != nil {
		return err
	}
	return ctx.Err()
}

// probe sends one call, so that a store that cannot be reached is found before the
// start, and the first operation finds a connection.
func probe(s store.Session, clk *runClock, timeout time.Duration) error {
	return store.Do(s, &store.Call{Verb: store.Get, Keys: [][]byte{[]byte("kvbench-probe")}}, clk, timeout)
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

// build makes the lanes.
func (r *run) build() error {
	s, lanes := r.spec, len(r.sessions)
	if s.Phase == spec.Verify {
		var err error
		if r.slices, err = workload.Slices(s); err != nil {
			return err
		}
	}
	r.collector = measure.NewCollector(measure.Config{Paced: s.Paced(), Warmup: s.Warmup, Window: s.Duration}, lanes)
	r.begun = make([]atomic.Int64, lanes)
	for l, session := range r.sessions {
		place := workload.Place{Worker: r.worker, Workers: r.workers, Lane: l, Lanes: lanes}
		source, err := r.source(place)
		if err != nil {
			return err
		}
		cfg := lane.Config{
			Clock:    &r.clock,
			Session:  session,
			Recorder: r.collector.Recorder(l),
			Share:    pace.Share{First: place.Index(0), Step: place.Index(1) - place.Index(0)},
			Threads:  threads(s.Threads, l, lanes),
			End:      r.end(),
			Grace:    s.Grace,
		}
		first := &firstStart{Source: source, clock: &r.clock, late: &r.begun[l]}
		first.late.Store(notBegun)
		if s.Paced() {
			cfg.Pacer = pace.New(pace.Config{
				Profile:  r.profile,
				Share:    cfg.Share,
				Arrivals: arrivals(s),
				Seed:     s.Seed,
				CatchUp:  s.CatchUp,
			})
			first.due = cfg.Pacer.Due()
		}
		cfg.Source = first
		r.lanes = append(r.lanes, lane.New(cfg))
	}
	return nil
}

// source makes the operations of a lane.
func (r *run) source(p workload.Place) (lane.Source, error) {
	if r.spec.Phase == spec.Verify {
		sweep, err := workload.NewSweep(r.spec, p, r.slices)
		r.sweeps = append(r.sweeps, sweep)
		return sweep, err
	}
	generator, err := workload.New(r.spec, p)
	switch {
	case err != nil:
		return nil, err
	case r.ledger != nil:
		return witness{generator, r.ledger}, nil
	case r.loading == nil:
		return generator, nil
	}
	l := newLoadingLane(generator, r.loading.plan, p, r.spec)
	r.loading.lanes = append(r.loading.lanes, l)
	return l, nil
}

func arrivals(s *spec.Spec) pace.Arrivals {
	if s.Arrival == spec.Poisson {
		return pace.Poisson
	}
	return pace.Uniform
}

// start begins the load at a moment of the wall clock, and keeps the coordinator's
// record of the run beside the journal.
func (r *run) start(at time.Time, record []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != workerpb.State_STATE_PREPARED {
		return fmt.Errorf("run %s is %s: only a prepared run can be started", r.id, stateName(r.state))
	}
	now := time.Now()
	lead := at.Round(0).Sub(now.Round(0)) // by the wall clocks
	if lead < 0 {
		return fmt.Errorf("run %s was to start %v ago; the coordinator's message came late", r.id, -lead)
	}
	r.zero = now.Add(lead) // with now's monotonic reading
	r.clock.set(r.zero)
	dir, err := r.journals.create(r.id, r.name, record)
	if err != nil {
		return err
	}
	journal, err := results.CreateJournal(dir, r.describe())
	if err != nil {
		return err
	}
	r.state = workerpb.State_STATE_RUNNING
	if r.cfg.Metrics != nil {
		r.metrics = r.cfg.Metrics.Begin(metrics.Info{RunID: r.id, Phase: r.spec.Phase.String(), Driver: r.spec.Driver})
	}
	go r.execute(journal)
	return nil
}

// hostname is the machine's, "" if it has none.
func hostname() string {
	name, _ := os.Hostname()
	return name
}

// describe says who measures.
func (r *run) describe() results.Worker {
	return results.Worker{
		RunID:   r.id,
		Name:    r.name,
		Index:   r.worker,
		Workers: r.workers,
		Lanes:   len(r.lanes),
		Threads: r.spec.Threads,
		Driver:  r.spec.Driver,
		Start:   r.zero,
		Host: map[string]string{
			"name":    r.cfg.Name,
			"process": fmt.Sprint(os.Getpid(), "@", hostname()),
			"system":  runtime.GOOS + "/" + runtime.GOARCH,
			"cores":   fmt.Sprint(runtime.GOMAXPROCS(0)),
			"go":      runtime.Version(),
			"kvbench": r.cfg.Version,
		},
		Tuning:      r.tuning,
		Connections: connections(r.driver),
	}
}

// execute runs the lanes to their end, and completes the journal. It is the
// owner of all of the run's goroutines.
func (r *run) execute(journal *results.Journal) {
	r.cfg.Cores.expect(r, math.Inf(1))
	defer r.cfg.Cores.leave(r)
	traffic := watchTraffic(r.driver)
	var lanes, others sync.WaitGroup
	for l := range r.lanes {
		lanes.Go(func() { r.runLane(l) })
	}
	others.Go(func() { r.record(journal, traffic) })
	ended := make(chan struct{})
	var forgotten error
	if r.loading != nil {
		others.Go(func() { forgotten = r.loading.remember(ended, r.released, r.log.Warn) })
	}
	lanes.Wait()
	close(ended)
	others.Wait()
	r.wait()

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.how == workerpb.End_END_UNSPECIFIED && r.loading != nil {
		if n := r.loading.missing(); n > 0 {
			r.how, r.err = workerpb.End_END_FAILED, fmt.Errorf("%d of its batches could not be inserted: run kvbench load again, it makes up for them", n)
		} else if forgotten != nil {
			r.how, r.err = workerpb.End_END_FAILED, fmt.Errorf("every record is in the store, but that could not be written down (%w): run kvbench load again", forgotten)
		}
	}
	if r.how == workerpb.End_END_UNSPECIFIED {
		r.how = workerpb.End_END_COMPLETE
	}
	if r.elapsed == 0 {
		r.elapsed = max(0, r.clock.Now())
	}
	reason := ""
	if r.how != workerpb.End_END_COMPLETE {
		reason = endName(r.how)
		if r.err != nil {
			reason = r.err.Error()
		}
	}
	if err := errors.Join(journal.CloseWith(reason, r.findings()), r.close()); err != nil {
		r.how, r.err = workerpb.End_END_FAILED, errors.Join(r.err, err)
	}
	r.lanes, r.ledger = nil, nil // the worker keeps the run, and need not keep their memory
	r.finish()
}

// findings is what all lanes of a verification found; nil if it is none.
func (r *run) findings() *workload.Findings {
	if r.sweeps == nil {
		return nil
	}
	all := &workload.Findings{}
	for _, s := range r.sweeps {
		all.Add(s.Findings())
	}
	return all
}

// runLane runs a lane. A panic ends the run and not the process: what the other
// lanes have measured is kept, and the coordinator is told.
func (r *run) runLane(l int) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		r.panicked(fmt.Sprintf("lane %d", l), p)
		// The calls in flight stay with the session, which is never closed, and so
		// is the driver: nobody is left to take them back.
		r.mu.Lock()
		r.sessions, r.driver = nil, nil
		r.mu.Unlock()
		defer func() { _ = recover() }() // it was the recorder that panicked
		r.collector.Recorder(l).Finish(r.clock.Now())
	}()
	r.lanes[l].Run()
}

// record writes the journal, interval by interval.
func (r *run) record(journal *results.Journal, traffic *traffic) {
	host := measure.NewHost()
	failed := false
	r.collector.Run(func(iv *measure.Interval) {
		if failed {
			return
		}
		target, sent, used := r.targetIn(iv.Start, iv.End), traffic.sample(), host.Sample()
		r.cfg.Cores.expect(r, r.need(iv, used.CPU))
		if err := journal.Write(iv, target, used, sent...); err != nil {
			failed = true
			r.log.Error("the journal cannot be written; the run ends", "error", err)
			r.stop(workerpb.End_END_FAILED, 0, err)
			return
		}
		r.live.add(iv, target, iv.End <= r.spec.Warmup)
		if r.metrics != nil {
			r.metrics.Add(iv, target)
			r.metrics.AddTraffic(sent)
		}
	})
}

// stop makes the run end: start nothing more, and give calls in flight so long.
// Later calls may shorten that; the first end and error stay.
func (r *run) stop(end workerpb.End, grace time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == workerpb.State_STATE_FINISHED {
		return
	}
	if r.how == workerpb.End_END_UNSPECIFIED {
		r.how, r.err = end, err
		r.log.Info("the run stops", "why", endName(end))
	}
	switch r.state {
	case workerpb.State_STATE_PREPARING:
		if r.abort != nil { // else prepare sees how
			r.abort()
		}
	case workerpb.State_STATE_PREPARED:
		r.err = errors.Join(r.err, r.close())
		r.finish()
	default:
		if r.state != workerpb.State_STATE_STOPPING {
			close(r.released)
		}
		r.state = workerpb.State_STATE_STOPPING
		for _, l := range r.lanes {
			l.Stop(min(grace, r.spec.Grace))
		}
	}
}

// close closes the sessions and the driver. r.mu is held.
func (r *run) close() error {
	var errs []error
	for _, s := range r.sessions {
		errs = append(errs, s.Close())
	}
	if r.driver != nil {
		if r.loading != nil && r.loading.keeper != nil {
			errs = append(errs, r.loading.keeper.Session.Close())
		}
		errs = append(errs, r.driver.Close())
	}
	r.sessions, r.driver = nil, nil
	return errors.Join(errs...)
}

// finish marks the run as over. r.mu is held.
func (r *run) finish() {
	r.state = workerpb.State_STATE_FINISHED
	if r.expiry != nil {
		r.expiry.Stop()
	}
	if r.metrics != nil {
		r.metrics.End()
	}
	r.log.Info("the run is over", "how", endName(r.how), "error", r.err)
	close(r.done)
}

// retarget changes the fleet's target, in operations a second, from a moment of
// the run's clock on.
func (r *run) retarget(at time.Duration, target float64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != workerpb.State_STATE_RUNNING {
		return fmt.Errorf("run %s is %s: it has no target to change", r.id, stateName(r.state))
	}
	if !r.spec.Paced() {
		return fmt.Errorf("run %s is unpaced: it has no target to change", r.id)
	}
	r.target = r.target.Change(at, target/float64(r.spec.Batch))
	r.cfg.Cores.expect(r, math.Inf(1)) // until it is seen what it takes
	for _, l := range r.lanes {
		l.Retarget(r.target)
	}
	return nil
}

// targetIn is this worker's share of the target between two moments, on average, in
// operations a second; 0 if unpaced.
func (r *run) targetIn(from, to time.Duration) float64 {
	if !r.spec.Paced() || to <= from {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.share((r.target.Count(to) - r.target.Count(from)) / (to - from).Seconds())
}

// renew puts off the end of the lease.
func (r *run) renew() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.expiry != nil && r.state != workerpb.State_STATE_FINISHED {
		r.expiry.Reset(r.lease)
	}
}

func (r *run) expire() {
	r.stop(workerpb.End_END_LEASE_EXPIRED, r.spec.Grace, fmt.Errorf("the coordinator was silent for %v", r.lease))
}

func (r *run) active() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state != workerpb.State_STATE_FINISHED
}

func (r *run) status() *workerpb.RunStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &workerpb.RunStatus{
		RunId:             r.id,
		State:             r.state,
		End:               r.how,
		Worker:            int32(r.worker),
		Workers:           int32(r.workers),
		Name:              r.name,
		PreparedUnixNanos: r.prepared.UnixNano(),
		ElapsedNanos:      int64(r.elapsed),
	}
	if r.err != nil {
		s.Error = r.err.Error()
	}
	if !r.zero.IsZero() {
		s.StartUnixNanos = r.zero.UnixNano()
		if r.state != workerpb.State_STATE_FINISHED {
			s.ElapsedNanos = int64(max(0, r.clock.Now()))
		}
	}
	for l := range r.begun {
		s.StartSkewNanos = max(s.StartSkewNanos, r.begun[l].Load())
	}
	return s
}
