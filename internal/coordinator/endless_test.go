// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"strings"
	"testing"
	"time"

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
}
