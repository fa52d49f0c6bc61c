// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/dirlock"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/manifest"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/spec"
)

// running is a job while it is done.
type running struct {
	fleet *Fleet
	job   Job

	// Set by checkData.
	warnings   []string       // of the data
	plan       *manifest.Plan // of a load that is remembered in the results directory
	operations int64          // that the run has to do; 0: as many as it can in its time

	// Set by open, before the start.
	zero   time.Time // of the run's clock, on this machine's
	dir    string
	events *results.EventLog
	lock   *os.File // of dir

	stopping chan struct{} // closed when the load is to stop

	mu         sync.Mutex
	judge      judge
	workers    []*workerRun // by index of their members
	record     results.Run
	changes    bool       // of it or of the workers, that run.json does not have yet
	stopped    bool       // stopping is closed
	awaiting   bool       // that lost workers are waited for has been said
	copyFailed bool       // and that has been said
	reader     *workerRun // reads the stores' own figures
	idleSince  time.Time  // since when no worker is at work; zero while one is
}

// workerRun is the run on one worker, as far as it is known here.
type workerRun struct {
	*member
	offset  offset
	cluster *workerpb.Cluster
	journal *journal

	// What it found in the store when it was prepared.
	warnings []string
	present  int64 // records of a load
	complete bool  // all of them, and known to be

	// Guarded by running.mu.
	state    results.State
	lastSeen time.Time
	lostAt   time.Duration // on the run's clock
	reason   string
	skew     time.Duration
	totals   *workerpb.Totals
	latest   *workerpb.Interval
	written  bool // it waits for its writes to be read back
}

func newRunning(f *Fleet, job Job) *running {
	r := &running{fleet: f, job: job, stopping: make(chan struct{}), judge: newJudge(job.Limits.SLO)}
	for _, m := range f.members {
		r.workers = append(r.workers, &workerRun{member: m, state: results.Preparing})
	}
	return r
}

// lease is after how long a silence of the coordinator workers stop; 0: they do not.
func (r *running) lease() time.Duration {
	if r.job.Detach {
		return 0
	}
	return r.job.Lease
}

// open makes the run's directory, and sets its start.
func (r *running) open() error {
	dir, err := results.CreateRun(r.job.Out, r.job.RunID)
	if err != nil {
		return err
	}
	r.dir = dir
	if r.lock, err = dirlock.Take(dir); err != nil {
		return err
	}
	if r.events, err = results.OpenEvents(dir); err != nil {
		return err
	}
	for _, p := range r.workers {
		path, err := results.WorkerDir(dir, p.name)
		if err != nil {
			return err
		}
		if p.journal, err = openJournal(r.job.RunID, path); err != nil {
			return err
		}
	}
	s := r.job.Spec
	r.zero = time.Now().Add(startLead(r.fleet.Size(), s))
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.workers {
		p.state, p.lastSeen = results.Running, r.zero
	}
	r.reader = r.workers[0]
	r.record = results.Run{
		RunID:   r.job.RunID,
		Phase:   s.Phase.String(),
		State:   results.Running,
		Start:   r.zero,
		WarmupS: s.Warmup.Seconds(),
		WindowS: s.Duration.Seconds(),
		GraceS:  s.Grace.Seconds(),
		Paced:   s.Paced(),
		Target:  s.Target,
		Spec:    s.Properties(),
		Plan: results.Plan{
			Workers: r.fleet.Size(), Threads: s.Threads, Batch: s.Batch,
			Records: s.Records, Operations: s.Operations,
		},
		Versions: r.job.Versions,
		Command:  r.job.Command,
		Label:    r.job.Label,
		Note:     r.job.Note,
		Probed:   r.job.Probed,
		LeaseS:   r.lease().Seconds(),
		Cluster:  clusterOf(s, r.workers),
		Limits:   r.job.Limits,
		Warnings: slices.Concat(s.Warnings, r.warnings),
	}
	return r.write()
}

// unlock lets others write into the run's directory.
func (r *running) unlock() {
	if r.lock != nil {
		r.lock.Close() // fails only when it has been closed
	}
}

// discard closes and removes what open has made.
func (r *running) discard() error {
	if r.dir == "" {
		return nil
	}
	var err error
	if r.events != nil {
		err = r.events.Close()
	}
	return errors.Join(err, os.RemoveAll(r.dir))
}

// write brings run.json up to date. r.mu is held.
func (r *running) write() error {
	r.changes = false
	r.record.Fleet = r.members()
	return results.WriteRun(r.dir, &r.record)
}

// save writes run.json if anything has changed: once for all workers that ended in one second, not once for each.
func (r *running) save() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.changes {
		return
	}
	if err := r.write(); err != nil {
		r.fleet.log.Error("the record of the run cannot be written", "error", err)
	}
}

// members is what is known of the workers. r.mu is held.
func (r *running) members() []results.Member {
	var all []results.Member
	for _, p := range r.workers {
		m := results.Member{
			Name:          p.name,
			Index:         p.index,
			Address:       p.address,
			State:         p.state,
			ClockOffsetUS: micros(p.offset.ahead),
			ClockErrorUS:  micros(p.offset.roundTrip / 2),
			StartSkewUS:   micros(p.skew),
			Reason:        p.reason,
		}
		if p.state == results.Lost || p.state == results.Failed {
			at := p.lostAt.Seconds()
			m.LostAtS = &at
		}
		all = append(all, m)
	}
	return all
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// event notes what has happened. A log that cannot be written does not end a run.
func (r *running) event(e results.Event) {
	if e.At.IsZero() {
		e.At = time.Now()
	}
	e.S = e.At.Sub(r.zero).Seconds()
	if err := r.events.Append(e); err != nil {
		r.fleet.log.Error("the event log cannot be written", "file", filepath.Join(r.dir, results.EventsFile), "error", err)
	}
}

func (r *running) summary() *Summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	record := r.record
	return &Summary{RunID: r.job.RunID, Dir: r.dir, Run: &record}
}

// finish closes the run's record and says what became of it.
func (r *running) finish(patient context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	lost := 0
	for _, p := range r.workers {
		if p.state == results.Running { // given up on
			p.state, p.reason = results.Abandoned, "given up on by the user"
		}
		if p.state != results.Finished {
			lost++
		}
	}
	var verdict error
	var unread error
	if r.job.Spec.Phase == spec.Verify {
		r.record.Fleet = r.members()
		r.record.Verification, unread = verified(r.job.Spec, &r.record, r.dir)
	}
	r.record.State = results.Finished
	switch {
	case patient.Err() != nil:
		r.record.State = results.Interrupted
		text := fmt.Sprintf("end by themselves within %v", r.job.Lease)
		if r.job.Detach {
			text = "go on, to be stopped with kvbench stop " + r.job.RunID
		}
		verdict = exitcode.With(exitcode.Interrupted, errors.New("given up; workers that were not stopped "+text))
	case r.record.StopSLO:
		verdict = exitcode.With(exitcode.SLO, errors.New("stopped: "+r.record.StopWhy))
	case r.record.StopWhy != "":
		verdict = exitcode.With(exitcode.Degraded, errors.New("stopped: "+r.record.StopWhy))
	case r.record.StoppedS != nil:
		r.record.State = results.Interrupted
		verdict = exitcode.With(exitcode.Interrupted, errors.New("interrupted; what was measured is kept"))
	case lost == len(r.workers):
		r.record.State = results.Failed
	}
	err := errors.Join(r.write(), r.events.Close(), unread)
	if (verdict == nil || r.record.StopWhy != "" && !r.record.StopSLO) && lost > r.job.Limits.TolerateLost {
		verdict = exitcode.With(exitcode.Degraded, fmt.Errorf("%d of %d workers did not do their whole part: %s", lost, len(r.workers), lossesOf(r.record.Fleet)))
	}
	if wrong := verdictOf(r.record.Verification); wrong != nil && (verdict == nil || exitcode.Of(wrong) == exitcode.Wrong) {
		verdict = wrong
	}
	if verdict == nil && lost == 0 {
		err = errors.Join(err, r.remember())
	}
	if verdict == nil {
		verdict = err
	}
	return verdict
}
