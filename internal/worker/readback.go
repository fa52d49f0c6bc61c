// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/ledger"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/workload"
)

// How writes are read back.
const (
	readBackBatch  = 64   // keys in a call
	readBackCalls  = 16   // calls at the same time, per lane
	mostDisputes   = 1000 // that are told
	mostDisputeKey = 1024 // bytes of all keys and texts, per dispute, on average; longer ones are not told
)

// ReadBack implements [workerpb.WorkerServer].
func (w *Worker) ReadBack(ctx context.Context, req *workerpb.ReadBackRequest) (*workerpb.ReadBackResponse, error) {
	r, k, err := w.read(req.GetRunId())
	if err != nil {
		return nil, err
	}
	defer k.reading.Done()
	resp := &workerpb.ReadBackResponse{Tracked: k.ledger.Fraction()}
	var mu sync.Mutex
	chunks := make(chan []ledger.Key)
	var readers sync.WaitGroup
	for _, s := range k.sessions {
		readers.Go(func() {
			for keys := range chunks {
				some := k.compare(s, keys)
				mu.Lock()
				merge(resp, some)
				mu.Unlock()
			}
		})
	}
	err = k.deal(ctx, chunks, r.released)
	close(chunks)
	readers.Wait()
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// deal hands out the keys to read back, many at a time.
func (k *followedTask) deal(ctx context.Context, to chan<- []ledger.Key, released <-chan struct{}) error {
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
	for key := range k.ledger.Keys {
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

// compare reads keys and compares what they hold with what was written.
func (k *followedTask) compare(s store.Session, keys []ledger.Key) *workerpb.ReadBackResponse {
	some := &workerpb.ReadBackResponse{Keys: int64(len(keys))}
	check := func(_, _ []byte) error { return nil }
	if k.spec.Integrity {
		rows := *k.spec
		rows.Proportions.Scan = 0 // what scans are checked by is dear, and not needed
		g, err := workload.New(&rows, workload.Place{Worker: k.worker, Workers: k.workers, Lanes: 1})
		if err == nil {
			check = g.Check
		}
	}
	var calls []*store.Call
	for first := 0; first < len(keys); first += readBackBatch {
		c := &store.Call{Verb: store.Get}
		for _, key := range keys[first:min(first+readBackBatch, len(keys))] {
			c.Keys = append(c.Keys, key.Key)
		}
		calls = append(calls, c)
	}
	_ = store.DoAll(s, calls, &k.clock, k.spec.TiKV.Timeout) // each call tells for itself
	for i, c := range calls {
		if c.Class != store.OK || len(c.Found) != len(c.Keys) {
			some.Unread += int64(len(c.Keys))
			continue
		}
		for j, key := range c.Keys {
			value := c.Found[j]
			found := ledger.Hash(value)
			if _, mine, followed := k.ledger.Attest(key, found); mine || !followed {
				some.Matched++
				continue
			}
			last := keys[i*readBackBatch+j].Last
			d := &workerpb.Dispute{Key: key, Found: found, Gone: value == nil, StartNanos: last.Start, EndNanos: last.End}
			if value != nil {
				if err := check(key, value); err != nil {
					d.Problem = problemOf(err)
				}
			}
			some.Disputed++
			some.Disputes = append(some.Disputes, d)
		}
	}
	return some
}

func problemOf(err error) string {
	if wrong := (*workload.WrongValue)(nil); errors.As(err, &wrong) {
		return wrong.Problem
	}
	return err.Error()
}

// merge adds some of what was read back to the whole.
func merge(all, some *workerpb.ReadBackResponse) {
	all.Keys += some.GetKeys()
	all.Matched += some.GetMatched()
	all.Unread += some.GetUnread()
	all.Disputed += some.GetDisputed()
	for _, d := range some.GetDisputes() {
		if len(all.Disputes) < mostDisputes && len(d.GetKey())+len(d.GetProblem()) <= mostDisputeKey {
			all.Disputes = append(all.Disputes, d)
		}
	}
}

// Attest implements [workerpb.WorkerServer].
func (w *Worker) Attest(_ context.Context, req *workerpb.AttestRequest) (*workerpb.AttestResponse, error) {
	_, k, err := w.read(req.GetRunId())
	if err != nil {
		return nil, err
	}
	defer k.reading.Done()
	resp := &workerpb.AttestResponse{}
	for _, d := range req.GetDisputes() {
		end, mine, followed := k.ledger.Attest(d.GetKey(), d.GetFound())
		resp.Answers = append(resp.Answers, &workerpb.Attestation{Followed: followed, Mine: mine, EndNanos: end})
	}
	return resp, nil
}
