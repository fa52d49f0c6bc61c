// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/kvbench/kvbench/internal/control"
	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/store/memory"
)

// endless is a worker that never says that it has finished.
type endless struct{ workerpb.WorkerServer }

func (e endless) Status(ctx context.Context, req *workerpb.StatusRequest) (*workerpb.StatusResponse, error) {
	resp, err := e.WorkerServer.Status(ctx, req)
	if resp.GetRun().GetState() == workerpb.State_STATE_FINISHED {
		resp.Run.State = workerpb.State_STATE_RUNNING
	}
	return resp, err
}

// TestWorkerNeverEnds: a worker that answers is not waited for without end.
func TestWorkerNeverEnds(t *testing.T) {
	t.Parallel()
	p := newProcess(t, "w0", &memory.DB{Delay: time.Millisecond}, control.Security{}, quiet)
	p.cutOff()
	p.faulty = func(s workerpb.WorkerServer) workerpb.WorkerServer { return endless{s} }
	p.listen()
	f := fleetOf(t, control.Security{}, p)
	s, err := f.Run(t.Context(), Job{
		Spec: properties(t, map[string]string{"maxexecutiontime": "1"}), Out: t.TempDir(), Lease: 3 * time.Second,
	})
	if exitcode.Of(err) != exitcode.Degraded || !strings.Contains(err.Error(), "it has not ended") {
		t.Errorf("%v", err)
	}
	if s == nil || s.Run.Fleet[0].State != results.Lost {
		t.Errorf("%+v", s)
	}
	// Nor is it when the run was stopped long before its end. It is told to stop, and answers.
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	began := time.Now()
	s, err = f.Run(ctx, Job{
		Spec: properties(t, map[string]string{"maxexecutiontime": "600"}), Out: t.TempDir(), Lease: 3 * time.Second,
		Progress: func(s *Snapshot) {
			if s.Elapsed > 0 {
				interrupt()
			}
		},
	})
	if s == nil || !strings.Contains(s.Run.Fleet[0].Reason, "it has not ended") || time.Since(began) > time.Minute {
		t.Errorf("after %v: %v, %+v", time.Since(began), err, s)
	}
}

// flood is a worker whose journal does not end.
type flood struct {
	workerpb.WorkerServer
	piece workerpb.CollectResponse
}

func (f *flood) Collect(_ *workerpb.CollectRequest, out grpc.ServerStreamingServer[workerpb.CollectResponse]) error {
	p := proto.CloneOf(&f.piece)
	for {
		if err := out.Send(p); err != nil {
			return err
		}
		if p.GetFile() != results.WorkerFile {
			p.Offset += int64(len(p.GetData()))
		}
	}
}

// TestWorkerSendsWithoutEnd: what is copied of a worker is bounded by how long the run is.
func TestWorkerSendsWithoutEnd(t *testing.T) {
	t.Parallel()
	sum := uint32(0)
	for _, piece := range []*workerpb.CollectResponse{
		{File: results.HistogramsFile, Data: make([]byte, 1<<20)},
		{File: results.HistogramsFile},
		{File: results.WorkerFile, Data: []byte("{}")},
		{File: results.HistogramsFile, Sum: &sum},
	} {
		f := &flood{}
		proto.Merge(&f.piece, piece)
		p := newProcess(t, "w0", &memory.DB{Delay: time.Millisecond}, control.Security{}, quiet)
		p.cutOff()
		p.faulty = func(s workerpb.WorkerServer) workerpb.WorkerServer { f.WorkerServer = s; return f }
		p.listen()
		s, err := fleetOf(t, control.Security{}, p).Run(t.Context(), Job{Spec: properties(t, map[string]string{"maxexecutiontime": "30"}), Out: t.TempDir()})
		if exitcode.Of(err) != exitcode.Degraded || !strings.Contains(err.Error(), "the worker is broken: it sends") {
			t.Errorf("%s, %d bytes at once: %v", piece.GetFile(), len(piece.GetData()), err)
		}
		size := int64(0)
		if info, err := os.Stat(filepath.Join(s.Dir, "w0", results.HistogramsFile)); err == nil {
			size = info.Size()
		}
		if size > mostBytes(20*time.Second) {
			t.Errorf("%d bytes were copied", size)
		}
	}
}
