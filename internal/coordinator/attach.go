// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/spec"
)

// Attach leads a run that the workers have, in place of the coordinator that started it: it
// watches, copies and ends it as [Fleet.Run] does. Of the job, RunID must be given; what was to
// be done is in the run's record, in the job's directory or with the workers. Workers of the run that do not answer are
// lost until they do; those that are not in the fleet stay so. It refuses a directory that
// another process writes into. The error is [ErrLeft] if it was left by the job's Leave. An error without a summary says that there is nothing to lead.
func (f *Fleet) Attach(ctx context.Context, job Job) (*Summary, error) {
	job.fill()
	patient, release := job.patience(ctx)
	defer release()
	r, err := f.attach(ctx, job)
	if err != nil {
		return nil, err
	}
	defer r.unlock()
	var left <-chan struct{}
	if r.job.Detach {
		left = job.Leave
	}
	watching, unwatch := endedBy(patient, left)
	defer unwatch()
	r.watchAll(ctx, watching)
	if watching.Err() != nil && patient.Err() == nil && r.goesOn() {
		return r.summary(), r.leave()
	}
	err = r.finish(patient)
	return r.summary(), err
}

// ErrLeft is the error of a run that was left, and goes on.
var ErrLeft = errors.New("the run goes on by itself")

// goesOn tells whether a worker is at work or may be, and nobody has asked it to stop.
func (r *running) goesOn() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.stopped && slices.ContainsFunc(r.workers, func(p *workerRun) bool {
		return p.state == results.Running || p.state == results.Lost && p.client != nil
	})
}

// leave closes what was opened, and leaves the record as that of a run that goes on.
func (r *running) leave() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.event(results.Event{Kind: "leave", Text: "its coordinator left; the run goes on by itself"})
	return cmp.Or(errors.Join(r.write(), r.events.Close()), ErrLeft)
}

// part is what a worker of the fleet has of a run.
type part struct {
	*member
	run   string    // its name in the run's results
	start time.Time // zero of the run's clock, on this machine's; the zero time if it is not known
	trip  time.Duration
}

// attach opens the run's directory and takes up what its workers say of it.
func (f *Fleet) attach(ctx context.Context, job Job) (_ *running, err error) {
	parts, err := f.partsOf(ctx, job.RunID)
	if err != nil {
		return nil, err
	}
	r := &running{fleet: f, job: job, stopping: make(chan struct{})}
	var record *results.Run
	if r.dir, record, r.lock, err = f.folder(ctx, job.RunID, job.Out, false); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.unlock()
		}
	}()
	if r.job.Spec, err = spec.ParseMap(record.Spec); err != nil {
		return nil, exitcode.With(exitcode.Usage, fmt.Errorf("the record of run %s is of another version of kvbench: %w", job.RunID, err))
	}
	r.job.Limits, r.job.Detach = record.Limits, record.LeaseS == 0
	r.judge = newJudge(record.Limits.SLO)
	r.job.Lease = cmp.Or(results.Duration(record.LeaseS), r.job.Lease)
	if r.job.Spec.Phase == spec.Run { // how much of a load there was to do is not recorded
		r.operations = r.job.Spec.Operations
	}
	r.zero = zeroOf(parts, record)
	for _, m := range record.Fleet {
		p, err := r.adopt(m, parts)
		if err != nil {
			return nil, err
		}
		r.workers = append(r.workers, p)
	}
	if len(r.workers) == 0 {
		return nil, exitcode.With(exitcode.Usage, fmt.Errorf("%s of run %s names no workers", results.RunFile, job.RunID))
	}
	r.reader = r.workers[0]
	r.workers[0].cluster = &workerpb.Cluster{Id: record.Cluster.ID}
	if r.job.Spec.Phase == spec.Load && r.job.Spec.Manifest == spec.InResults {
		if _, err := r.checkFile(); err != nil {
			return nil, err
		}
	}
	if r.events, err = results.OpenEvents(r.dir); err != nil {
		return nil, err
	}
	r.record = *record
	r.record.State = results.Running
	r.event(results.Event{Kind: "attach", Text: "another coordinator leads the run from here on"})
	return r, r.write()
}

// partsOf asks all workers what they have of a run. It is an error if none has any of it.
func (f *Fleet) partsOf(ctx context.Context, runID string) ([]part, error) {
	ctx, cancel := context.WithTimeout(ctx, verbTimeout)
	defer cancel()
	var mu sync.Mutex
	var parts []part
	_, err := f.whoRuns(ctx, runID, func(ctx context.Context, m *member) error {
		p, err := m.partOf(ctx, runID)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		parts = append(parts, p)
		return nil
	})
	if err != nil && exitcode.Of(err) != exitcode.Degraded { // whom it misses is watched
		return nil, err
	}
	return parts, nil
}

func (m *member) partOf(ctx context.Context, runID string) (part, error) {
	o, err := measureOffset(ctx, m.client)
	if err != nil {
		return part{}, err
	}
	resp, err := m.client.Status(ctx, &workerpb.StatusRequest{RunId: runID, RenewLease: true})
	if err == nil {
		p := part{member: m, run: resp.GetRun().GetName(), trip: o.roundTrip}
		if ns := resp.GetRun().GetStartUnixNanos(); ns != 0 {
			p.start = time.Now().Add(time.Until(time.Unix(0, ns).Add(-o.ahead))) // with this machine's monotonic reading
		}
		return p, nil
	}
	if status.Code(err) != codes.NotFound {
		return part{}, err
	}
	kept, err := m.client.ListRuns(ctx, &workerpb.ListRunsRequest{})
	if err != nil {
		return part{}, err
	}
	for _, k := range kept.GetRuns() {
		if k.GetRunId() == runID {
			return part{member: m, run: k.GetName()}, nil
		}
	}
	return part{}, status.Error(codes.NotFound, "it has nothing of the run")
}

// zeroOf is zero of the run's clock by the worker whose clock is known best.
func zeroOf(parts []part, record *results.Run) time.Time {
	var best part
	for _, p := range parts {
		if !p.start.IsZero() && (best.start.IsZero() || p.trip < best.trip) {
			best = p
		}
	}
	if best.start.IsZero() {
		return record.Start
	}
	return best.start
}

// adopt makes a worker of the run, as it was recorded, one that is watched, if it is there.
func (r *running) adopt(m results.Member, parts []part) (*workerRun, error) {
	there := &member{}
	answers := false
	for _, p := range parts {
		if p.run == m.Name {
			there, answers = p.member, true
		}
	}
	if !answers { // its address may be that of one that does not answer, or has been given a new disk
		for _, other := range slices.Concat(r.fleet.members, r.fleet.absent) {
			of := func(p part) bool { return p.member == other }
			if other.address == m.Address && !slices.ContainsFunc(parts, of) {
				there = other
			}
		}
	}
	p := &workerRun{
		member: &member{index: m.Index, name: m.Name, address: cmp.Or(there.address, m.Address), client: there.client},
		offset: offset{ahead: fromMicros(m.ClockOffsetUS), roundTrip: 2 * fromMicros(m.ClockErrorUS)},
		skew:   fromMicros(m.StartSkewUS),
	}
	path, err := results.WorkerDir(r.dir, m.Name)
	if err != nil {
		return nil, err
	}
	if p.journal, err = openJournal(r.job.RunID, path); err != nil {
		return nil, err
	}
	if m.State == results.Finished {
		if w, err := results.ReadWorker(path); err == nil && w.State == results.Finished { // and its copy is complete
			p.state = results.Finished
			return p, nil
		}
	}
	if p.client == nil {
		p.state, p.reason = results.Lost, cmp.Or(m.Reason, "it is not among the workers that were given")
		if m.LostAtS != nil {
			p.lostAt = results.Duration(*m.LostAtS)
		}
		return p, nil
	}
	p.state, p.lastSeen = results.Running, time.Now()
	if !answers {
		p.lastSeen = r.zero.Add(copiedUntil(path))
	}
	return p, nil
}

// copiedUntil is how far the copy of a journal goes, on the run's clock.
func copiedUntil(dir string) (end time.Duration) {
	for s, err := range results.Seconds(dir) {
		if err == nil {
			end = max(end, s.End)
		}
	}
	return end
}

func fromMicros(us float64) time.Duration { return time.Duration(us * float64(time.Microsecond)) }
