// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/ledger"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/workload"
)

// How writes are read back.
const (
	readBackBatch = 64 // keys in a call
	readBackCalls = 16 // calls at the same time, per lane
)

// ReadBack implements [workerpb.WorkerServer].
func (w *Worker) ReadBack(req *workerpb.ReadBackRequest, out grpc.ServerStreamingServer[workerpb.ReadBackResponse]) error {
	part := int(req.GetPart())
	if part < 0 || part >= ledger.Parts {
		return status.Errorf(codes.InvalidArgument, "part %d: want 0 to %d", part, ledger.Parts-1)
	}
	r, k, err := w.read(req.GetRunId())
	if err != nil {
		return err
	}
	defer k.reading.Done()
	if err := out.Send(&workerpb.ReadBackResponse{Level: uint32(k.ledger.Level(part)), Untracked: k.ledger.Untracked(part)}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(out.Context())
	defer cancel(nil)
	var sending sync.Mutex
	chunks := make(chan []ledger.Key)
	var readers sync.WaitGroup
	for _, s := range k.sessions {
		readers.Go(func() {
			checker := workload.NewChecker(k.spec)
			for keys := range chunks {
				for _, piece := range k.compare(s, checker, keys) {
					sending.Lock()
					err := out.Send(piece)
					sending.Unlock()
					if err != nil {
						cancel(err)
					}
				}
			}
		})
	}
	err = k.deal(ctx, part, chunks, r.released)
	close(chunks)
	readers.Wait()
	return cmp.Or(err, context.Cause(ctx))
}

// deal hands out the keys of a part to read back, many at a time.
func (k *followedTask) deal(ctx context.Context, part int, to chan<- []ledger.Key, released <-chan struct{}) error {
	var keys []ledger.Key
	hand := func() error {
		select {
		case to <- keys:
			keys = nil
			return nil
		case <-released:
			return status.Error(codes.Aborted, "the run was stopped while its writes were read back")
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
	for key := range k.ledger.Keys(part) {
		keys = append(keys, key)
		if len(keys) == readBackBatch*readBackCalls {
			if err := hand(); err != nil {
				return err
			}
		}
	}
	return hand()
}

// read finds a run and its task, to read back what it has written. The run does not end until the task's reading is done.
func (w *Worker) read(runID string) (*run, *followedTask, error) {
	r, err := w.find(runID)
	if err != nil {
		return nil, nil, err
	}
	k, err := r.beginReading()
	return r, k, err
}

// beginReading tells the run not to end while it is read back, until its reading is done.
func (r *run) beginReading() (*followedTask, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k, followed := r.task.(*followedTask)
	if !followed || r.state != workerpb.State_STATE_WRITTEN {
		return nil, status.Errorf(codes.FailedPrecondition, "run %s is %s: there is nothing to read back", r.id, stateName(r.state))
	}
	k.reading.Add(1)
	return k, nil
}

// compare reads keys and compares what they hold with what was written. The answer is in
// pieces, none of which is large.
func (k *followedTask) compare(s store.Session, checker *workload.Checker, keys []ledger.Key) []*workerpb.ReadBackResponse {
	var calls []*store.Call
	for first := 0; first < len(keys); first += readBackBatch {
		c := &store.Call{Verb: store.Get}
		for _, key := range keys[first:min(first+readBackBatch, len(keys))] {
			c.Keys = append(c.Keys, key.Key)
		}
		calls = append(calls, c)
	}
	_ = store.DoAll(s, calls, &k.clock, k.spec.TiKV.Timeout) // each call tells for itself
	piece := &workerpb.ReadBackResponse{}
	pieces, size := []*workerpb.ReadBackResponse{piece}, 0
	for i, c := range calls {
		for j, key := range c.Keys {
			read := keys[i*readBackBatch+j]
			piece.Keys = append(piece.Keys, read.Hash)
			if c.Class != store.OK || len(c.Found) != len(c.Keys) {
				piece.Unread = append(piece.Unread, read.Hash)
				continue
			}
			value := c.Found[j]
			found := ledger.Hash(value)
			if _, mine, followed := k.ledger.Wrote(key, found); mine || !followed {
				continue
			}
			m := &workerpb.Mismatch{
				Key: key, Hash: read.Hash, Found: found, Gone: value == nil,
				StartNanos: read.Last.Start, EndNanos: read.Last.End,
			}
			if value != nil && k.spec.Integrity {
				if err := checker.Check(key, value); err != nil {
					m.Problem = problemOf(err)
				}
			}
			piece.Mismatches = append(piece.Mismatches, m)
			if size += len(m.GetKey()) + len(m.GetProblem()); size > pieceBytes {
				piece, size = &workerpb.ReadBackResponse{}, 0
				pieces = append(pieces, piece)
			}
		}
	}
	return pieces
}

func problemOf(err error) string {
	if wrong := (*workload.WrongValue)(nil); errors.As(err, &wrong) {
		return wrong.Problem
	}
	return err.Error()
}

// Wrote implements [workerpb.WorkerServer].
func (w *Worker) Wrote(_ context.Context, req *workerpb.WroteRequest) (*workerpb.WroteResponse, error) {
	_, k, err := w.read(req.GetRunId())
	if err != nil {
		return nil, err
	}
	defer k.reading.Done()
	resp := &workerpb.WroteResponse{}
	for _, m := range req.GetMismatches() {
		end, mine, followed := k.ledger.Wrote(m.GetKey(), m.GetFound())
		resp.Answers = append(resp.Answers, &workerpb.Wrote{Followed: followed, Mine: mine, EndNanos: end})
	}
	return resp, nil
}
