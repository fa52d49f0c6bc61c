// SPDX-License-Identifier: Apache-2.0

// Package worker runs one assignment of a fleet's load at a time, told by a
// coordinator over gRPC what and when.
//
// A worker goes idle → preparing → prepared → running → stopping → finished, and
// from finished to the next run's preparing. Whatever can fail or take time
// happens before prepared, so that the start is only a moment. Whatever was
// measured is on the worker's disk within a second, and stays there for later
// collection until newer runs push it out. A run ends when its work is done, when
// somebody stops it, when its coordinator falls silent, or when the worker is told
// to terminate; its journal is complete in every case.
package worker

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kvbench/kvbench/internal/control"
	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/dirlock"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/metrics"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/store"
)

// Config is what a worker is made of.
type Config struct {
	// Name is how the worker calls itself; empty: the host's name.
	Name string
	// Version is kvbench's.
	Version string
	// Data is the directory of the journals. It is locked: two workers cannot share one.
	Data string
	// Keep is how many of the finished runs' journals stay there.
	Keep Keep
	// Unstarted is after how long a prepared run of no lease that nobody starts is given up: its
	// coordinator has died. 0: 30 s.
	Unstarted time.Duration
	// Lanes is how many lanes a run has, at most; 0: one per core. One takes at least
	// 64 threads, if there are others.
	Lanes int
	// Tune sets the process up for a run with a driver, and returns how, for the results; nil: nothing is.
	Tune func(driver string) map[string]string
	// Cores is the process's; nil: the runs use as many as there are.
	Cores *Cores
	// Open opens the database of a run. It gives up when the context ends.
	Open func(context.Context, *spec.Spec) (store.Driver, error)
	// Metrics is told what is measured; nil: nobody is.
	Metrics *metrics.Metrics
	Log     *slog.Logger
}

const defaultKeep = 20

// Worker is the gRPC service. Close must be called at the end.
type Worker struct {
	workerpb.UnimplementedWorkerServer
	cfg      Config
	instance string
	journals archive
	lock     *os.File // of the directory of the journals

	mu     sync.Mutex
	run    *run // the active or else the last one
	tends  bool // it does a chore
	closed bool
}

// New returns an idle worker.
func New(cfg Config) (*Worker, error) {
	if cfg.Data == "" {
		return nil, errors.New("worker: no directory for the journals is given")
	}
	if err := os.MkdirAll(cfg.Data, 0o777); err != nil {
		return nil, fmt.Errorf("worker: directory of the journals: %w", err)
	}
	if cfg.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("worker: the host has no name, give one: %w", err)
		}
		cfg.Name = host
	}
	if err := results.CheckName(cfg.Name); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	cfg.Keep.Runs = cmp.Or(cfg.Keep.Runs, defaultKeep)
	cfg.Unstarted = cmp.Or(cfg.Unstarted, 30*time.Second)
	if cfg.Lanes == 0 {
		cfg.Lanes = runtime.GOMAXPROCS(0)
	}
	lock, err := dirlock.Take(cfg.Data)
	if errors.Is(err, dirlock.ErrInUse) {
		err = fmt.Errorf("%s is in use by another worker: give each worker its own (--data)", cfg.Data)
	}
	if err != nil {
		return nil, fmt.Errorf("worker: directory of the journals: %w", err)
	}
	return &Worker{cfg: cfg, instance: rand.Text(), journals: archive{cfg.Data}, lock: lock}, nil
}

// Close ends the active run, if any, gives its calls in flight so long to
// complete, and returns when its journal is complete. It may be called again, to
// give less.
func (w *Worker) Close(grace time.Duration) {
	w.mu.Lock()
	w.closed = true
	r := w.run
	w.mu.Unlock()
	if r != nil {
		r.stop(workerpb.End_END_SHUTDOWN, grace, nil)
		<-r.done
	}
	w.lock.Close() // fails only when it has been closed
}

// Ready returns nil when the worker can take a run or has one, as a readiness
// probe asks.
func (w *Worker) Ready() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return errors.New("shutting down")
	}
	return nil
}

// Hello implements [workerpb.WorkerServer].
func (w *Worker) Hello(context.Context, *workerpb.HelloRequest) (*workerpb.HelloResponse, error) {
	resp := &workerpb.HelloResponse{
		Protocol:  control.Protocol,
		Name:      w.cfg.Name,
		Instance:  w.instance,
		Version:   w.cfg.Version,
		GoVersion: runtime.Version(),
		Platform:  runtime.GOOS + "/" + runtime.GOARCH,
		Pid:       int32(os.Getpid()),
		Lanes:     int32(w.cfg.Lanes),
	}
	w.mu.Lock()
	r := w.run
	w.mu.Unlock()
	if r != nil {
		resp.Run = r.status()
	}
	resp.NowUnixNanos = time.Now().UnixNano() // last: what is before would count as distance
	return resp, nil
}

// Prepare implements [workerpb.WorkerServer].
func (w *Worker) Prepare(ctx context.Context, req *workerpb.PrepareRequest) (*workerpb.PrepareResponse, error) {
	a, err := parseAssignment(req)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	r := newRun(a, w.cfg, w.journals)
	if err := w.take(r); err != nil {
		return nil, err
	}
	resp, err := r.prepare(ctx)
	if err != nil {
		code := codes.Unavailable
		if errors.As(err, new(refusal)) || exitcode.Of(err) == exitcode.Usage {
			code = codes.InvalidArgument
		}
		return nil, status.Error(code, err.Error())
	}
	if !req.GetRecallOnly() { // whose warnings nobody reads
		resp.Warnings = append(resp.Warnings, w.prune(a.id)...)
	}
	resp.Run = r.status()
	return resp, nil
}

// take makes r the worker's run, unless it has an active one.
func (w *Worker) take(r *run) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return status.Error(codes.FailedPrecondition, "the worker is shutting down")
	}
	if w.run != nil && w.run.active() {
		return status.Errorf(codes.FailedPrecondition,
			"busy with run %s since %s; stop it with: kvbench stop %[1]s", w.run.id, w.run.prepared.Format(time.RFC3339))
	}
	if w.tends {
		return status.Error(codes.FailedPrecondition, "busy with the layout of a table (kvbench load --split, kvbench clean)")
	}
	if w.journals.has(r.id) {
		return status.Errorf(codes.FailedPrecondition, "the worker has a journal of run %s already", r.id)
	}
	w.run = r
	return nil
}

// Start implements [workerpb.WorkerServer].
func (w *Worker) Start(_ context.Context, req *workerpb.StartRequest) (*workerpb.StartResponse, error) {
	r, err := w.find(req.GetRunId())
	if err != nil {
		return nil, err
	}
	var record []byte
	if packed := req.GetRecord(); len(packed) > 0 {
		if record, err = control.Decompress(packed, results.MaxRunBytes); err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "the record of the run: %v", err)
		}
	}
	if req.GetReadServers() {
		r.engine.readServers()
	}
	if err := r.start(time.Unix(0, req.GetAtUnixNanos()), record); err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &workerpb.StartResponse{}, nil
}

// Status implements [workerpb.WorkerServer].
func (w *Worker) Status(_ context.Context, req *workerpb.StatusRequest) (*workerpb.StatusResponse, error) {
	r, err := w.find(req.GetRunId())
	if err != nil {
		return nil, err
	}
	if req.GetRenewLease() {
		r.renew()
	}
	if req.GetReadServers() {
		r.engine.readServers()
	}
	// The state first: what it says is then in the rest.
	resp := &workerpb.StatusResponse{Run: r.status()}
	resp.Totals, resp.Intervals = r.engine.live.since(time.Duration(req.GetAfterNanos()))
	resp.NowUnixNanos = time.Now().UnixNano()
	return resp, nil
}

// SetTarget implements [workerpb.WorkerServer].
func (w *Worker) SetTarget(_ context.Context, req *workerpb.SetTargetRequest) (*workerpb.SetTargetResponse, error) {
	r, err := w.find(req.GetRunId())
	if err != nil {
		return nil, err
	}
	if t := req.GetTarget(); !(t > 0 && t <= maxTarget) {
		return nil, status.Errorf(codes.InvalidArgument, "target %v: want a number above 0", t)
	}
	if err := r.retarget(time.Duration(req.GetAtNanos()), req.GetTarget()); err != nil {
		return nil, refused(err)
	}
	return &workerpb.SetTargetResponse{}, nil
}

// Annotate implements [workerpb.WorkerServer].
func (w *Worker) Annotate(_ context.Context, req *workerpb.AnnotateRequest) (*workerpb.AnnotateResponse, error) {
	r, err := w.find(req.GetRunId())
	if err != nil {
		return nil, err
	}
	if err := results.CheckAnnotation(req.GetText()); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if err := r.annotate(time.Duration(req.GetAtNanos()), req.GetText()); err != nil {
		return nil, refused(err)
	}
	return &workerpb.AnnotateResponse{}, nil
}

// refused is what a run says that does not do what it is told while it goes on.
func refused(err error) error {
	code := codes.FailedPrecondition
	switch {
	case errors.Is(err, results.ErrTooManyEvents):
		code = codes.ResourceExhausted
	case errors.Is(err, errUnpaced):
		code = codes.InvalidArgument
	}
	return status.Error(code, err.Error())
}

const maxTarget = 1e12 // operations a second

// Stop implements [workerpb.WorkerServer].
func (w *Worker) Stop(ctx context.Context, req *workerpb.StopRequest) (*workerpb.StopResponse, error) {
	r, err := w.find(req.GetRunId())
	if err != nil {
		return nil, err
	}
	r.stop(workerpb.End_END_STOPPED, time.Duration(max(0, req.GetGraceNanos())), nil)
	select {
	case <-r.done:
		return &workerpb.StopResponse{Run: r.status()}, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// find returns the worker's run if its id is the one given, or empty.
func (w *Worker) find(id string) (*run, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.run == nil && id == "":
		return nil, status.Error(codes.NotFound, "the worker has not run anything since it was started")
	case w.run == nil || id != "" && w.run.id != id:
		return nil, status.Errorf(codes.NotFound, "the worker does not run %s", id)
	}
	return w.run, nil
}
