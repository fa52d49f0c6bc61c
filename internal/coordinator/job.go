// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kvbench/kvbench/internal/control"
	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/servermetrics"
	"github.com/kvbench/kvbench/internal/spec"
)

// Job is a run to do.
type Job struct {
	Spec     *spec.Spec
	RunID    string // empty: a new one
	Out      string // directory in which the run's directory is made
	Versions map[string]string
	Command  string // that does the same again, for the run's record
	Probed   bool   // the stores are probed beside it, for the record
	Label    string // its user's, for the record, as is the note
	Note     string
	Limits   results.Limits
	// FleetFlags are the flags that a user reaches this fleet with, for hints.
	FleetFlags string

	// Detach starts the run and leaves it alone: it goes on without a
	// coordinator, and Collect fetches what it measured.
	Detach bool
	// Lease is after how long a silence of this coordinator workers end the run; 0: 15 s.
	Lease time.Duration
	// LostAfter is after how long a silence a worker counts as lost; 0: 3 s.
	LostAfter time.Duration
	// Rejoin is how long lost workers may still come back with their journals
	// after the others have finished, and after their own part must be over; 0: 10 s.
	Rejoin time.Duration
	// Progress is called about once a second, never twice at the same time; nil: nobody looks.
	Progress func(*Snapshot)
	// Warn is told what the user should know: of the data, before the start, and of results that
	// cannot be written. It may be called by several at once; nil: nobody.
	Warn func(string)
	// Abandon is closed to give up at once, leaving the workers to their leases.
	Abandon <-chan struct{}
	// Leave is closed to leave a detached run that is led with Attach: it goes on. Of other runs it is ignored.
	Leave <-chan struct{}
}

// The pace of watching.
const (
	defaultLease     = 15 * time.Second
	defaultLostAfter = 3 * time.Second
	defaultRejoin    = 10 * time.Second

	// Workers are asked once a second, so long after a whole second of the run's
	// clock: its interval is there. Progress is shown when they have answered.
	pollPhase     = 300 * time.Millisecond
	progressPhase = 600 * time.Millisecond
	maxSpread     = 500 * time.Millisecond
	pollTimeout   = 2 * time.Second
	pullTimeout   = 8 * time.Second // well within the lease
	verifyTimeout = time.Minute     // to read a journal of days, when the run is over

	prepareTimeout = 14 * time.Second // the worker's own is shorter, and says more
	startTimeout   = 5 * time.Second
	stopGrace      = time.Second // for calls in flight when the user stops a run
	stopTimeout    = 2 * time.Second
)

// fill sets what is left open.
func (j *Job) fill() {
	j.Lease = cmp.Or(j.Lease, defaultLease)
	j.LostAfter = cmp.Or(j.LostAfter, defaultLostAfter)
	j.Rejoin = cmp.Or(j.Rejoin, defaultRejoin)
	if j.Progress == nil {
		j.Progress = func(*Snapshot) {}
	}
	if j.Warn == nil {
		j.Warn = func(string) {}
	}
}

// patience returns a context for what must still be done after ctx has ended. It ends
// when the user gives up.
func (j *Job) patience(ctx context.Context) (patient context.Context, release func()) {
	return endedBy(context.WithoutCancel(ctx), j.Abandon)
}

// endedBy returns a context that ends as ctx does, or when a channel is closed.
func endedBy(ctx context.Context, closed <-chan struct{}) (_ context.Context, release func()) {
	ctx, end := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-closed:
			end()
		case <-ctx.Done():
		}
	}()
	return ctx, func() { end(); <-ended }
}

// startLead is how far ahead the start is agreed on: each worker must have heard
// of it by then.
func startLead(workers int, s *spec.Spec) time.Duration {
	lead := time.Second + time.Duration(workers)*10*time.Millisecond
	if s.CountsWhole() {
		lead = max(lead, servermetrics.HandoverLead)
	}
	return lead
}

// Summary is what a run came to.
type Summary struct {
	RunID string
	Dir   string // of its results
	Run   *results.Run
}

// Run does a job. Workers of another version than the job's "kvbench" are warned of. When ctx ends the run is stopped on all workers, within two
// seconds, and what was measured is kept. The error, if any, is an [*exitcode.Error];
// the summary is nil when the run did not begin.
func (f *Fleet) Run(ctx context.Context, job Job) (*Summary, error) {
	job.fill()
	if job.RunID == "" {
		job.RunID = results.NewRunID(time.Now())
	}
	if want := job.Spec.Clients; want > 0 && want != f.Size() {
		return nil, exitcode.With(exitcode.Unreachable, fmt.Errorf("%d workers are wanted (clients=%d, NUM_CLIENTS), %d are there", want, want, f.Size()))
	}
	patient, release := job.patience(ctx)
	defer release()
	err := f.settleRecords(ctx, &job)
	r := newRunning(f, job)
	defer r.unlock()
	r.warnings = f.otherBuilds(job.Versions["kvbench"])
	if err == nil {
		err = r.prepare(ctx)
	}
	if err == nil {
		err = r.checkData()
	}
	if err == nil {
		err = r.start(ctx)
	}
	if err != nil {
		err = errors.Join(err, r.undo(patient))
		if ctx.Err() != nil {
			return nil, exitcode.With(exitcode.Interrupted, errors.New("interrupted before the start; nothing was measured"))
		}
		return nil, err
	}
	if job.Detach {
		return r.summary(), r.events.Close()
	}
	r.watchAll(ctx, patient)
	err = r.finish(patient)
	return r.summary(), err
}

// prepare makes all workers ready.
func (r *running) prepare(ctx context.Context) error {
	r.job.Progress(r.snapshot(Preparing))
	properties := r.job.Spec.Properties()
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	err := r.fleet.all(ctx, func(ctx context.Context, m *member) error {
		resp, err := m.take(ctx, &workerpb.PrepareRequest{
			RunId:      r.job.RunID,
			Properties: properties,
			Worker:     int32(m.index),
			Workers:    int32(r.fleet.Size()),
			LeaseNanos: int64(r.lease()),
			Name:       m.name,
			Watched:    r.judge.watched,
		})
		if err != nil {
			return err
		}
		p := r.workers[m.index]
		p.cluster, p.warnings = resp.GetCluster(), resp.GetWarnings()
		p.present, p.complete = resp.GetPresent(), resp.GetComplete()
		return nil
	})
	if err != nil {
		return err
	}
	// Opening the database has kept the machines busy; now that they are at rest, compare clocks.
	return r.fleet.all(ctx, func(ctx context.Context, m *member) error {
		if _, err := m.client.Status(ctx, &workerpb.StatusRequest{RunId: r.job.RunID, RenewLease: true}); err != nil {
			return err
		}
		o, err := measureOffset(ctx, m.client)
		r.workers[m.index].offset = o
		return err
	})
}

// takePause is how long a coordinator waits for one that gives way.
const takePause = 100 * time.Millisecond

// take prepares a worker. Of two coordinators that begin at the same instant, and hold
// a part of the fleet each, the one whose run sorts first waits for what the other
// holds, and the other gives way: one of them begins.
func (m *member) take(ctx context.Context, req *workerpb.PrepareRequest) (*workerpb.PrepareResponse, error) {
	for gone := false; ; {
		resp, err := m.client.Prepare(ctx, req)
		if status.Code(err) != codes.FailedPrecondition || gone {
			return resp, err
		}
		hello, unknown := m.client.Hello(ctx, &workerpb.HelloRequest{})
		if unknown != nil {
			return nil, err
		}
		switch other := hello.GetRun(); other.GetState() {
		case workerpb.State_STATE_FINISHED: // since it refused us, or that is not why it did
			gone = true
		case workerpb.State_STATE_PREPARING, workerpb.State_STATE_PREPARED:
			if other.GetRunId() <= req.GetRunId() {
				return nil, err
			}
		default:
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(takePause):
		}
	}
}

// start agrees on a moment with all workers.
func (r *running) start(ctx context.Context) error {
	r.job.Progress(r.snapshot(Starting))
	if err := r.open(); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(r.dir, results.RunFile))
	if err != nil {
		return err
	}
	record, err := control.Compress(text) // once: that of a large fleet is long, and each worker gets it
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, max(startTimeout, time.Until(r.zero)))
	defer cancel()
	err = r.fleet.all(ctx, func(ctx context.Context, m *member) error {
		o := r.workers[m.index].offset
		_, err := m.client.Start(ctx, &workerpb.StartRequest{
			RunId:       r.job.RunID,
			AtUnixNanos: r.zero.Add(o.ahead).UnixNano(),
			Record:      record,
			ReadServers: r.workers[m.index] == r.reader,
		})
		return err
	})
	if err != nil {
		return err
	}
	r.event(results.Event{At: r.zero, Kind: "start", Text: fmt.Sprintf("%d workers", r.fleet.Size())})
	return nil
}

// undo ends a run that has not begun, wherever it has been prepared, and leaves
// no trace of it.
func (r *running) undo(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	r.fleet.all(ctx, func(ctx context.Context, m *member) error { // who cannot be told has a lease
		_, err := m.client.Stop(ctx, &workerpb.StopRequest{RunId: r.job.RunID})
		return err
	})
	return r.discard()
}

// lossesOf says in one line which workers did not do their whole part.
func lossesOf(fleet []results.Member) string {
	var parts []string
	for _, m := range fleet {
		if m.LostAtS != nil {
			parts = append(parts, fmt.Sprintf("%s at %.1f s (%s)", m.Name, *m.LostAtS, m.Reason))
		}
	}
	return strings.Join(parts, "; ")
}

// clusterOf is what the first worker that knows has heard of the database.
func clusterOf(s *spec.Spec, workers []*workerRun) results.Cluster {
	c := results.Cluster{PD: slices.Clone(s.TiKV.PD)}
	for _, p := range workers {
		if p.cluster != nil {
			c.ID, c.Stores, c.Details = p.cluster.GetId(), p.cluster.GetStores(), maps.Clone(p.cluster.GetDetails())
			break
		}
	}
	return c
}
