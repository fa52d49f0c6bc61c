// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newWorker(t *testing.T, db *memory.DB, change func(*Config)) *Worker {
	t.Helper()
	cfg := Config{Name: "w", Version: "test", Data: t.TempDir(), Open: db.Open, Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg)
	}
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.Close(0)
		if n := db.Opened.Load(); n != 0 {
			t.Errorf("%d drivers and sessions are still open", n)
		}
	})
	return w
}

// request is a Prepare of a short read run.
func request(id string, properties map[string]string) *workerpb.PrepareRequest {
	p := map[string]string{"recordcount": "100", "readproportion": "1", "updateproportion": "0", "maxexecutiontime": "60", "threadcount": "4", "grace": "1"}
	for k, v := range properties {
		p[k] = v
	}
	return &workerpb.PrepareRequest{RunId: id, Properties: p, Workers: 1, Name: "w", LeaseNanos: int64(time.Minute)}
}

func prepare(t *testing.T, w *Worker, req *workerpb.PrepareRequest) {
	t.Helper()
	if _, err := w.Prepare(t.Context(), req); err != nil {
		t.Fatal(err)
	}
}

func start(t *testing.T, w *Worker, id string) {
	t.Helper()
	_, err := w.Start(t.Context(), &workerpb.StartRequest{RunId: id, AtUnixNanos: time.Now().Add(50 * time.Millisecond).UnixNano()})
	if err != nil {
		t.Fatal(err)
	}
}

func statusOf(t *testing.T, w *Worker, id string) *workerpb.StatusResponse {
	t.Helper()
	s, err := w.Status(t.Context(), &workerpb.StatusRequest{RunId: id})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func finished(t *testing.T, w *Worker, id string) *workerpb.RunStatus {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		s := statusOf(t, w, id).GetRun()
		if s.GetState() == workerpb.State_STATE_FINISHED {
			return s
		}
		if time.Now().After(deadline) {
			t.Fatalf("still %v", s.GetState())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// collected is a stream of Collect's that keeps what it is sent.
type collected struct {
	grpc.ServerStream
	ctx   context.Context
	files map[string]string
	order []string
}

func (c *collected) Send(p *workerpb.CollectResponse) error {
	if int64(len(c.files[p.GetFile()])) != p.GetOffset() {
		return status.Errorf(codes.Internal, "piece at %d, have %d", p.GetOffset(), len(c.files[p.GetFile()]))
	}
	if c.files[p.GetFile()] == "" {
		c.order = append(c.order, p.GetFile())
	}
	c.files[p.GetFile()] += string(p.GetData())
	return nil
}
func (c *collected) Context() context.Context     { return c.ctx }
func (c *collected) SetHeader(metadata.MD) error  { return nil }
func (c *collected) SendHeader(metadata.MD) error { return nil }
func (c *collected) SetTrailer(metadata.MD)       {}

func TestRunToItsEnd(t *testing.T) {
	t.Parallel()
	db := &memory.DB{}
	w := newWorker(t, db, nil)
	req := request("r1", map[string]string{"operationcount": "1000", "maxexecutiontime": "0", "batch.size": "3"})
	req.LeaseNanos = 0
	prepare(t, w, req)
	if s := statusOf(t, w, "r1").GetRun(); s.GetState() != workerpb.State_STATE_PREPARED {
		t.Fatalf("state %v", s.GetState())
	}
	start(t, w, "r1")
	s := finished(t, w, "r1")
	if s.GetEnd() != workerpb.End_END_COMPLETE || s.GetError() != "" {
		t.Errorf("end %v, error %q", s.GetEnd(), s.GetError())
	}
	if s.GetStartSkewNanos() < 0 || s.GetStartSkewNanos() > int64(10*time.Second) {
		t.Errorf("start skew %d ns", s.GetStartSkewNanos())
	}
	st := statusOf(t, w, "")
	if tot := st.GetTotals(); tot.GetNotFound() != 1000 || tot.GetStarted() != 1000 || tot.GetOk() != 0 {
		t.Errorf("totals %v, want 1000 not found", tot)
	}
	if got := db.Gets.Load(); got != 1001+1+16 { // the probe, the manifest, and some records to see whether there is data
		t.Errorf("%d keys were read", got)
	}
	var samples uint64
	for _, iv := range st.GetIntervals() {
		for _, n := range iv.GetService().GetCounts() {
			samples += n
		}
	}
	if samples != 334 { // batches
		t.Errorf("%d samples", samples)
	}
	if n := commands(t, filepath.Join(w.cfg.Data, "r1", "w")); n != 1000 { // and not those before the start
		t.Errorf("%d commands in the journal", n)
	}
	c := &collected{ctx: t.Context(), files: make(map[string]string)}
	if err := w.Collect(&workerpb.CollectRequest{RunId: "r1"}, c); err != nil {
		t.Fatal(err)
	}
	if len(c.order) == 0 || c.order[0] != results.SecondsFile || c.order[len(c.order)-1] != results.WorkerFile {
		t.Errorf("files %v", c.order)
	}
	for _, name := range c.order {
		b, err := os.ReadFile(filepath.Join(w.cfg.Data, "r1", "w", name))
		if err != nil || string(b) != c.files[name] {
			t.Errorf("%s was not collected as it is (%v)", name, err)
		}
	}
	// What the caller has is not sent again.
	rest := &collected{ctx: t.Context(), files: map[string]string{results.CountsFile: c.files[results.CountsFile][:10]}}
	if err := w.Collect(&workerpb.CollectRequest{RunId: "r1", Have: map[string]int64{results.CountsFile: 10}}, rest); err != nil {
		t.Fatal(err)
	}
	if rest.files[results.CountsFile] != c.files[results.CountsFile] {
		t.Error("the rest does not fit")
	}
}

// TestWarmUpIsNotCounted: operationcount is what is done after the warm-up, by whichever lanes, to the last operation.
func TestWarmUpIsNotCounted(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"0", "400"} {
		w := newWorker(t, &memory.DB{Delay: time.Millisecond}, func(c *Config) { c.Lanes = 2 })
		prepare(t, w, request("r", map[string]string{"operationcount": "301", "batch.size": "4", "warmuptime": "1", "threadcount": "128", "target": target}))
		start(t, w, "r")
		finished(t, w, "r")
		j, err := results.OpenJournal(filepath.Join(w.cfg.Data, "r", "w"), func(err error) { t.Error(err) })
		if err != nil {
			t.Fatal(err)
		}
		var before, after int64
		for iv, err := range j.All() {
			if err != nil {
				t.Fatal(err)
			}
			for k := range iv.Window.Started {
				before += iv.Warmup.Started[k]
				after += iv.Window.Started[k]
			}
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
		if after != 301 || before < 100 {
			t.Errorf("target %s: %d operations after the warm-up, %d in it", target, after, before)
		}
	}
}

// commands returns how many commands a driver has sent, by a worker's journal.
func commands(t *testing.T, dir string) (n int64) {
	t.Helper()
	j, err := results.OpenJournal(dir, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for iv, err := range j.All() {
		if err != nil {
			t.Fatal(err)
		}
		for _, sent := range iv.Traffic {
			n += sent.Commands
		}
	}
	return n
}

func TestEnds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		prepare func(*workerpb.PrepareRequest)
		started bool
		act     func(*testing.T, *Worker, *memory.DB)
		end     workerpb.End
		cause   results.Cause
		text    string // in the error
	}{
		{
			name: "operations", started: true, end: workerpb.End_END_COMPLETE, cause: results.ByOperations,
			prepare: func(r *workerpb.PrepareRequest) { r.Properties["operationcount"] = "20" },
		},
		{
			name: "duration", started: true, end: workerpb.End_END_COMPLETE, cause: results.ByDuration,
			prepare: func(r *workerpb.PrepareRequest) { r.Properties["maxexecutiontime"] = "1" },
		},
		{
			name: "stop", started: true, end: workerpb.End_END_STOPPED, cause: results.ByStop,
			act: func(t *testing.T, w *Worker, _ *memory.DB) {
				if _, err := w.Stop(t.Context(), &workerpb.StopRequest{RunId: "r", GraceNanos: int64(time.Second)}); err != nil {
					t.Error(err)
				}
			},
		},
		{
			name: "stop before the start", end: workerpb.End_END_STOPPED,
			act: func(t *testing.T, w *Worker, _ *memory.DB) {
				if _, err := w.Stop(t.Context(), &workerpb.StopRequest{RunId: "r"}); err != nil {
					t.Error(err)
				}
			},
		},
		{
			name: "lease", started: true, end: workerpb.End_END_LEASE_EXPIRED, cause: results.ByLease, text: "silent",
			prepare: func(r *workerpb.PrepareRequest) { r.LeaseNanos = int64(200 * time.Millisecond) },
		},
		{
			name: "lease before the start", end: workerpb.End_END_LEASE_EXPIRED, text: "silent",
			prepare: func(r *workerpb.PrepareRequest) { r.LeaseNanos = int64(50 * time.Millisecond) },
		},
		{
			name: "shutdown", started: true, end: workerpb.End_END_SHUTDOWN, cause: results.ByShutdown,
			act: func(_ *testing.T, w *Worker, _ *memory.DB) { w.Close(time.Second) },
		},
		{
			name: "stop while the database hangs", started: true, end: workerpb.End_END_STOPPED, cause: results.ByStop,
			act: func(t *testing.T, w *Worker, db *memory.DB) {
				db.Stalled.Store(true)
				begin := time.Now()
				if _, err := w.Stop(t.Context(), &workerpb.StopRequest{RunId: "r", GraceNanos: int64(100 * time.Millisecond)}); err != nil {
					t.Error(err)
				}
				if took := time.Since(begin); took > 2*time.Second {
					t.Errorf("it took %v", took)
				}
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			db := &memory.DB{Delay: time.Millisecond}
			w := newWorker(t, db, nil)
			req := request("r", nil)
			if tt.prepare != nil {
				tt.prepare(req)
			}
			prepare(t, w, req)
			if tt.started {
				start(t, w, "r")
			}
			if tt.act != nil {
				tt.act(t, w, db)
			}
			s := finished(t, w, "r")
			if s.GetEnd() != tt.end || !strings.Contains(s.GetError(), tt.text) {
				t.Errorf("end %v, error %q", s.GetEnd(), s.GetError())
			}
			if !tt.started {
				if w.journals.has("r") {
					t.Error("a run that did not start has left a journal")
				}
				return
			}
			rec, err := results.ReadWorker(filepath.Join(w.cfg.Data, "r", "w"))
			if err != nil {
				t.Fatal(err)
			}
			if rec.State != results.Finished || rec.Ended != tt.cause || (rec.Reason == "") != (tt.end == workerpb.End_END_COMPLETE) {
				t.Errorf("worker.json: state %s, ended by %q, reason %q", rec.State, rec.Ended, rec.Reason)
			}
		})
	}
}

func TestLeaseIsRenewed(t *testing.T) {
	t.Parallel()
	w := newWorker(t, &memory.DB{Delay: time.Millisecond}, nil)
	req := request("r", map[string]string{"maxexecutiontime": "2"})
	req.LeaseNanos = int64(500 * time.Millisecond)
	prepare(t, w, req)
	start(t, w, "r")
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		s, err := w.Status(t.Context(), &workerpb.StatusRequest{RunId: "r", RenewLease: true})
		if err != nil {
			t.Fatal(err)
		}
		if s.GetRun().GetState() == workerpb.State_STATE_FINISHED {
			if s.GetRun().GetEnd() != workerpb.End_END_COMPLETE {
				t.Errorf("end %v", s.GetRun().GetEnd())
			}
			return
		}
	}
}

func TestPanicEndsTheRunOnly(t *testing.T) {
	t.Parallel()
	db := &memory.DB{Delay: time.Millisecond}
	cfg := Config{Name: "w", Data: t.TempDir(), Lanes: 2, Open: db.Open, Log: slog.New(slog.DiscardHandler)}
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close(0)
	prepare(t, w, request("r", nil))
	start(t, w, "r")
	for statusOf(t, w, "r").GetRun().GetElapsedNanos() == 0 {
		time.Sleep(time.Millisecond)
	}
	db.Panic.Store(true)
	s := finished(t, w, "r")
	if s.GetEnd() != workerpb.End_END_FAILED || !strings.Contains(s.GetError(), "on purpose") {
		t.Errorf("end %v, error %q", s.GetEnd(), s.GetError())
	}
	prepare(t, w, request("r2", map[string]string{"operationcount": "10"}))
	start(t, w, "r2")
	if s := finished(t, w, "r2"); s.GetEnd() != workerpb.End_END_COMPLETE {
		t.Errorf("the next run: end %v, error %q", s.GetEnd(), s.GetError())
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	w := newWorker(t, &memory.DB{}, nil)
	prepare(t, w, request("busy", nil))
	late := &workerpb.StartRequest{RunId: "busy", AtUnixNanos: time.Now().Add(-time.Second).UnixNano()}
	tests := []struct {
		name string
		do   func() error
		code codes.Code
		text string
	}{
		{"second coordinator", func() error { _, err := w.Prepare(t.Context(), request("r2", nil)); return err }, codes.FailedPrecondition, "kvbench stop busy"},
		{"unknown property", func() error {
			_, err := w.Prepare(t.Context(), request("r2", map[string]string{"nonsense": "1"}))
			return err
		}, codes.InvalidArgument, "nonsense"},
		{"path as run id", func() error { _, err := w.Prepare(t.Context(), request("../../etc", nil)); return err }, codes.InvalidArgument, "../../etc"},
		{"path as name", func() error { r := request("r2", nil); r.Name = "a/b"; _, err := w.Prepare(t.Context(), r); return err }, codes.InvalidArgument, "a/b"},
		{"no place in the fleet", func() error { r := request("r2", nil); r.Worker = 1; _, err := w.Prepare(t.Context(), r); return err }, codes.InvalidArgument, "worker 1 of 1"},
		{"start of another run", func() error { _, err := w.Start(t.Context(), &workerpb.StartRequest{RunId: "x"}); return err }, codes.NotFound, "x"},
		{"start in the past", func() error { _, err := w.Start(t.Context(), late); return err }, codes.FailedPrecondition, "late"},
		{"target before the start", func() error {
			_, err := w.SetTarget(t.Context(), &workerpb.SetTargetRequest{RunId: "busy", Target: 5})
			return err
		}, codes.FailedPrecondition, "prepared"},
		{"no target", func() error {
			_, err := w.SetTarget(t.Context(), &workerpb.SetTargetRequest{RunId: "busy"})
			return err
		}, codes.InvalidArgument, "above 0"},
		{"annotation before the start", func() error {
			_, err := w.Annotate(t.Context(), &workerpb.AnnotateRequest{RunId: "busy", Text: "x"})
			return err
		}, codes.FailedPrecondition, "prepared"},
		{"annotation of two lines", func() error {
			_, err := w.Annotate(t.Context(), &workerpb.AnnotateRequest{RunId: "busy", Text: "x\ny"})
			return err
		}, codes.InvalidArgument, "one line"},
		{"annotation of another run", func() error {
			_, err := w.Annotate(t.Context(), &workerpb.AnnotateRequest{RunId: "x", Text: "x"})
			return err
		}, codes.NotFound, "x"},
		{"journal of a path", func() error {
			return w.Collect(&workerpb.CollectRequest{RunId: ".."}, &collected{ctx: t.Context()})
		}, codes.InvalidArgument, ".."},
		{"journal of an unknown run", func() error {
			return w.Collect(&workerpb.CollectRequest{RunId: "x"}, &collected{ctx: t.Context()})
		}, codes.NotFound, "x"},
	}
	for _, tt := range tests {
		if err := tt.do(); status.Code(err) != tt.code || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v, want %v with %q", tt.name, err, tt.code, tt.text)
		}
	}
	if s := statusOf(t, w, "busy").GetRun(); s.GetState() != workerpb.State_STATE_PREPARED {
		t.Errorf("afterwards the run is %v", s.GetState())
	}
}

func TestClusterIsNotThere(t *testing.T) {
	t.Parallel()
	for _, stalled := range []bool{false, true} {
		db := &memory.DB{Down: !stalled}
		db.Stalled.Store(stalled)
		w := newWorker(t, db, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err := w.Prepare(ctx, request("r", map[string]string{"tikv.pd": "10.9.8.7:2379"}))
		cancel()
		if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "10.9.8.7:2379") {
			t.Errorf("stalled %v: %v, want one that names PD", stalled, err)
		}
		if id := w.activeID(); id != "" {
			t.Errorf("the worker is still busy with %s", id)
		}
	}
}

func TestPanicWhilePreparing(t *testing.T) {
	t.Parallel()
	db := &memory.DB{}
	cfg := Config{Name: "w", Data: t.TempDir(), Open: db.Open, Log: slog.New(slog.DiscardHandler)}
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close(0)
	db.Panic.Store(true)
	if _, err := w.Prepare(t.Context(), request("r", nil)); err == nil || !strings.Contains(err.Error(), "on purpose") {
		t.Errorf("error %v", err)
	}
	prepare(t, w, request("r2", nil)) // the worker is free
}

func TestTargetIsChanged(t *testing.T) {
	t.Parallel()
	w := newWorker(t, &memory.DB{}, nil)
	prepare(t, w, request("r", map[string]string{"target": "100", "maxexecutiontime": "3"}))
	start(t, w, "r")
	if _, err := w.SetTarget(t.Context(), &workerpb.SetTargetRequest{RunId: "r", Target: 1000, AtNanos: int64(time.Second)}); err != nil {
		t.Fatal(err)
	}
	finished(t, w, "r")
	totals := statusOf(t, w, "r").GetTotals()
	if n := totals.GetNotFound() + totals.GetSkipped(); n != 100+2*1000 { // skipped: the machine was busy at the end
		t.Errorf("%d slots, want 2100", n)
	}
}

func TestJournalsArePruned(t *testing.T) {
	t.Parallel()
	w := newWorker(t, &memory.DB{}, func(c *Config) { c.Keep.Runs = 2 })
	for _, id := range []string{"r1", "r2", "r3", "r4"} {
		resp, err := w.Prepare(t.Context(), request(id, map[string]string{"operationcount": "10"}))
		if err != nil {
			t.Fatal(err)
		}
		said := strings.Contains(strings.Join(resp.GetWarnings(), "\n"), "has removed its journal of run r1, which nobody had collected")
		if said != (id == "r4") {
			t.Errorf("%s: warnings %q", id, resp.GetWarnings())
		}
		start(t, w, id)
		finished(t, w, id)
	}
	ids := func() string {
		list, err := w.ListRuns(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var s []string
		for _, k := range list.GetRuns() {
			if k.GetName() != "w" || k.GetBytes() == 0 {
				t.Errorf("kept %v", k)
			}
			s = append(s, k.GetRunId())
		}
		return strings.Join(s, " ")
	}
	if got := ids(); got != "r4 r3 r2" { // the last one, and two before it
		t.Errorf("kept: %s", got)
	}
}

// TestDataIsLocked: two workers do not share a directory, at the same time.
func TestDataIsLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := newWorker(t, &memory.DB{}, func(c *Config) { c.Data = dir })
	if _, err := New(first.cfg); err == nil || !strings.Contains(err.Error(), dir+" is in use by another worker") {
		t.Fatalf("a second worker: %v", err)
	}
	first.Close(0)
	first.Close(0) // as a second interrupt does
	newWorker(t, &memory.DB{}, func(c *Config) { c.Data = dir })
}

// TestUnstartedRunIsGivenUp: a coordinator that dies before the start of a detached run, which has
// no lease, leaves the worker free. Once started, the run goes on.
func TestUnstartedRunIsGivenUp(t *testing.T) {
	t.Parallel()
	db := &memory.DB{}
	w := newWorker(t, db, func(c *Config) { c.Unstarted = time.Second })
	req := request("r1", map[string]string{"maxexecutiontime": "2"})
	req.LeaseNanos = 0
	prepare(t, w, req)
	if s := finished(t, w, "r1"); s.GetEnd() != workerpb.End_END_LEASE_EXPIRED {
		t.Errorf("end %v, error %q", s.GetEnd(), s.GetError())
	}
	req.RunId = "r2"
	prepare(t, w, req)
	start(t, w, "r2")
	if s := finished(t, w, "r2"); s.GetEnd() != workerpb.End_END_COMPLETE {
		t.Errorf("end %v, error %q", s.GetEnd(), s.GetError())
	}
}
