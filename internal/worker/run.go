// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/units"
)

// prepareTimeout bounds the opening of the database, so that a coordinator can
// tell within 15 s that it is not there.
const prepareTimeout = 10 * time.Second

// run is the life of an assignment from Prepare to the end: its states, its lease, and
// who may end it.
type run struct {
	*assignment
	log      *slog.Logger
	journals archive
	prepared time.Time
	engine   *engine
	task     task
	released chan struct{} // closed when nobody waits for it any more
	done     chan struct{} // closed when everything is closed

	mu      sync.Mutex
	state   workerpb.State
	how     workerpb.End // it ended, once it does
	err     error
	zero    time.Time        // of the run's clock
	elapsed time.Duration    // where it stood at the end
	journal *results.Journal // while it is open
	abort   context.CancelFunc
	expiry  *time.Timer // of the lease, which a detached run has until it is started
}

func newRun(a *assignment, cfg Config, journals archive) *run {
	r := &run{
		assignment: a,
		log:        cfg.Log.With("run", a.id),
		journals:   journals,
		prepared:   time.Now(),
		released:   make(chan struct{}),
		done:       make(chan struct{}),
		state:      workerpb.State_STATE_PREPARING,
	}
	r.engine = newEngine(a, cfg, r.log, func(err error) { r.stop(workerpb.End_END_FAILED, 0, err) })
	r.task = newTask(r.engine)
	return r
}

// prepare opens the database and builds the lanes. On an error everything is
// closed again and the run is over.
func (r *run) prepare(ctx context.Context) (*workerpb.PrepareResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	r.mu.Lock()
	r.abort = cancel
	if r.how != workerpb.End_END_UNSPECIFIED {
		cancel() // stopped already
	}
	r.mu.Unlock()

	found := &workerpb.PrepareResponse{}
	err := r.ready(ctx, found)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && r.how != workerpb.End_END_UNSPECIFIED {
		err = errors.New("the run was stopped while it was prepared")
	}
	if err != nil {
		if r.how == workerpb.End_END_UNSPECIFIED {
			r.how = workerpb.End_END_FAILED
		}
		r.err = errors.Join(err, r.engine.close())
		r.finish()
		return nil, r.err
	}
	r.state = workerpb.State_STATE_PREPARED
	r.expiry = time.AfterFunc(cmp.Or(r.lease, r.engine.cfg.Unstarted), r.expire)
	return found, nil
}

// ready opens the database, looks at it, and builds the lanes. A panic is an error of
// this run, which is over then, and of no other.
func (r *run) ready(ctx context.Context, found *workerpb.PrepareResponse) (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.log.Error("panic", "in", "prepare", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic while the run was prepared: %v (the worker's log has the stack)", p)
			r.engine.panicked.Store(true)
		}
	}()
	if err := r.engine.open(ctx); err != nil {
		return err
	}
	found.Cluster = r.engine.cluster()
	if err := r.task.before(newTable(r.engine), found); err != nil {
		return err
	}
	if err := r.engine.examine(ctx, found); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return r.engine.build(r.task)
}

// start begins the load at a moment of the wall clock, and keeps the coordinator's
// record of the run beside the journal.
func (r *run) start(at time.Time, record []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != workerpb.State_STATE_PREPARED {
		why := ""
		if r.err != nil {
			why = fmt.Sprintf(" (%v)", r.err)
		}
		return fmt.Errorf("run %s is %s%s: only a prepared run can be started", r.id, stateName(r.state), why)
	}
	now := time.Now()
	lead := at.Round(0).Sub(now.Round(0)) // by the wall clocks
	if lead < 0 {
		return fmt.Errorf("run %s was to start %v ago; the coordinator's message came late", r.id, -lead)
	}
	r.zero = now.Add(lead) // with now's monotonic reading
	r.engine.clock.set(r.zero)
	dir, err := r.journals.create(r.id, r.name, record)
	if err != nil {
		return err
	}
	journal, err := results.CreateJournal(dir, r.engine.describe(r.zero))
	if err != nil {
		return err
	}
	r.state, r.journal = workerpb.State_STATE_RUNNING, journal
	if r.lease == 0 {
		r.expiry.Stop()
	}
	go r.execute(journal)
	return nil
}

// execute runs the load to its end, and completes the journal. It is the owner of
// all of the run's goroutines.
func (r *run) execute(journal *results.Journal) {
	r.engine.run(journal, r.task)
	var end results.End
	err := r.task.after(r, &end)

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.how == workerpb.End_END_UNSPECIFIED {
		r.how = workerpb.End_END_COMPLETE
		if err != nil {
			r.how, r.err = workerpb.End_END_FAILED, err
		}
	}
	if r.elapsed == 0 {
		r.elapsed = max(0, r.engine.clock.Now())
	}
	end.Cause = causes[r.how]
	if r.how == workerpb.End_END_COMPLETE && r.engine.workDone() {
		end.Cause = results.ByOperations
	}
	if r.how != workerpb.End_END_COMPLETE {
		end.Reason = endName(r.how)
		if r.err != nil {
			end.Reason = r.err.Error()
		}
	}
	if err := errors.Join(journal.Close(end), r.engine.close()); err != nil {
		r.how, r.err = workerpb.End_END_FAILED, errors.Join(r.err, err)
	}
	r.engine.lanes, r.task, r.journal = nil, nil, nil // the worker keeps the run, and need not keep their memory
	r.finish()
}

// hold keeps a run that has gone well in STATE_WRITTEN until it is released.
func (r *run) hold() {
	r.mu.Lock()
	if r.how != workerpb.End_END_UNSPECIFIED {
		r.mu.Unlock()
		return
	}
	r.how = workerpb.End_END_COMPLETE
	r.elapsed = max(0, r.engine.clock.Now())
	r.state = workerpb.State_STATE_WRITTEN
	r.mu.Unlock()
	<-r.released
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
		r.err = errors.Join(r.err, r.engine.close())
		r.finish()
	default:
		if r.state != workerpb.State_STATE_STOPPING {
			close(r.released)
		}
		r.state = workerpb.State_STATE_STOPPING
		r.engine.stop(grace)
	}
}

// finish marks the run as over. r.mu is held.
func (r *run) finish() {
	r.state = workerpb.State_STATE_FINISHED
	if r.expiry != nil {
		r.expiry.Stop()
	}
	r.log.Info("the run is over", "how", endName(r.how), "error", r.err)
	close(r.done)
}

// errUnpaced is why a run is given no other target: it never has one.
var errUnpaced = errors.New("was started without --target: it has no target to change")

// retarget changes the fleet's target, in operations a second, from a moment of
// the run's clock on.
func (r *run) retarget(at time.Duration, target float64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != workerpb.State_STATE_RUNNING {
		return fmt.Errorf("run %s is %s: it has no target to change", r.id, stateName(r.state))
	}
	if !r.spec.Paced() {
		return fmt.Errorf("run %s %w", r.id, errUnpaced)
	}
	at = max(0, at)
	if err := r.note(at, results.TargetChanged, fmt.Sprintf("%s, %s before", units.Rate(target), units.Rate(r.engine.targetAt(at)))); err != nil {
		return err // a change that no report would show is not made
	}
	r.engine.retarget(at, target)
	return nil
}

// annotate notes that something happened at a moment of the run's clock.
func (r *run) annotate(at time.Duration, text string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.journal == nil {
		return fmt.Errorf("run %s is %s: only a run that goes on can be annotated through its workers", r.id, stateName(r.state))
	}
	if at < 0 || at > max(0, r.engine.clock.Now())+time.Minute { // the coordinator's clock is not quite this one
		return fmt.Errorf("%v is not in the time of run %s so far", at.Round(time.Millisecond), r.id)
	}
	return r.note(at, results.Annotation, text)
}

// note writes an event of which the worker was told to its journal. r.mu is held.
func (r *run) note(at time.Duration, kind, text string) error {
	at = at.Round(time.Microsecond)
	return r.journal.WriteEvent(results.Event{At: r.zero.Add(at).Round(0), S: at.Seconds(), Kind: kind, Text: text})
}

// renew puts off the end of the lease.
func (r *run) renew() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.expiry != nil && r.lease > 0 && r.state != workerpb.State_STATE_FINISHED {
		r.expiry.Reset(r.lease)
	}
}

func (r *run) expire() {
	r.stop(workerpb.End_END_LEASE_EXPIRED, r.spec.Grace, fmt.Errorf("the coordinator was silent for %v", cmp.Or(r.lease, r.engine.cfg.Unstarted)))
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
		StartSkewNanos:    int64(r.engine.skew()),
	}
	if r.err != nil {
		s.Error = r.err.Error()
	}
	if !r.zero.IsZero() {
		s.StartUnixNanos = r.zero.UnixNano()
		if r.state != workerpb.State_STATE_FINISHED {
			s.ElapsedNanos = int64(max(0, r.engine.clock.Now()))
		}
	}
	return s
}
