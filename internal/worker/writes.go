// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/lane"
	"github.com/kvbench/kvbench/internal/ledger"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/workload"
)

// witness is the source of a lane whose writes are followed in the worker's ledger.
type witness struct {
	lane.Source
	ledger *ledger.Ledger
}

// Begin implements [lane.Source].
func (w witness) Begin(op *workload.Operation, index int64) bool {
	if !w.Source.Begin(op, index) {
		return false
	}
	w.begins(&op.Call)
	return true
}

// Continue implements [lane.Source].
func (w witness) Continue(op *workload.Operation) bool {
	w.ended(&op.Call)
	if !w.Source.Continue(op) {
		return false
	}
	w.begins(&op.Call)
	return true
}

func isWrite(v store.Verb) bool {
	return v == store.Put || v == store.Delete || v == store.CompareAndSwap
}

// written returns the hash of what a call writes to its i-th key.
func written(c *store.Call, i int) uint64 {
	if c.Verb == store.Delete {
		return ledger.None
	}
	return ledger.Hash(c.Values[i])
}

func (w witness) begins(c *store.Call) {
	if !isWrite(c.Verb) {
		return
	}
	for i, key := range c.Keys {
		w.ledger.Begin(key, written(c, i))
	}
}

// ended notes which writes were acknowledged. What failed may still have been
// written, in part as well; so may a swap that found another value, when the
// client sent it twice.
func (w witness) ended(c *store.Call) {
	if !isWrite(c.Verb) || c.Class != store.OK || c.Verb == store.CompareAndSwap && !c.Swapped {
		return
	}
	for i, key := range c.Keys {
		w.ledger.Acknowledge(key, written(c, i), ledger.Span{Start: int64(c.Start), End: int64(c.End)})
	}
}

// How writes are read back.
const (
	readBackBatch  = 64   // keys in a call
	readBackCalls  = 16   // calls at the same time, per lane
	mostDisputes   = 1000 // that are told
	mostDisputeKey = 1024 // bytes of all keys and texts, per dispute, on average; longer ones are not told
)

// wait waits until nobody wants to read back any more, if this is a run whose
// writes are followed and that went well so far.
func (r *run) wait() {
	r.mu.Lock()
	if r.ledger == nil || r.how != workerpb.End_END_UNSPECIFIED {
		r.mu.Unlock()
		return
	}
	r.how = workerpb.End_END_COMPLETE
	r.elapsed = max(0, r.clock.Now())
	r.state = workerpb.State_STATE_WRITTEN
	r.mu.Unlock()
	<-r.released
	r.reading.Wait()
}

// ReadBack implements [workerpb.WorkerServer].
func (w *Worker) ReadBack(ctx context.Context, req *workerpb.ReadBackRequest) (*workerpb.ReadBackResponse, error) {
	r, err := w.find(req.GetRunId())
	if err != nil {
		return nil, err
	}
	if err := r.beginReading(); err != nil {
		return nil, err
	}
	defer r.reading.Done()
	resp := &workerpb.ReadBackResponse{Tracked: r.ledger.Fraction()}
	var mu sync.Mutex
	chunks := make(chan []ledger.Key)
	var readers sync.WaitGroup
	for _, s := range r.sessions {
		readers.Go(func() {
			for keys := range chunks {
				part := r.compare(s, keys)
				mu.Lock()
				merge(resp, part)
				mu.Unlock()
			}
		})
	}
	err = r.deal(ctx, chunks)
	close(chunks)
	readers.Wait()
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// deal hands out the keys to read back, many at a time.
func (r *run) deal(ctx context.Context, to chan<- []ledger.Key) error {
	var keys []ledger.Key
	hand := func() error {
		select {
		case to <- keys:
			keys = nil
			return nil
		case <-r.released:
			return status.Error(codes.Aborted, "the run was stopped while its writes were read back")
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
	for k := range r.ledger.Keys {
		keys = append(keys, k)
		if len(keys) == readBackBatch*readBackCalls {
			if err := hand(); err != nil {
				return err
			}
		}
	}
	return hand()
}

// beginReading tells the run not to end while it is read back.
func (r *run) beginReading() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != workerpb.State_STATE_WRITTEN {
		return status.Errorf(codes.FailedPrecondition, "run %s is %s: there is nothing to read back", r.id, stateName(r.state))
	}
	r.reading.Add(1)
	return nil
}

// compare reads keys and compares what they hold with what was written.
func (r *run) compare(s store.Session, keys []ledger.Key) *workerpb.ReadBackResponse {
	part := &workerpb.ReadBackResponse{Keys: int64(len(keys))}
	check := func(_, _ []byte) error { return nil }
	if r.spec.Integrity {
		g, err := workload.New(r.spec, workload.Place{Worker: r.worker, Workers: r.workers, Lanes: 1})
		if err == nil {
			check = g.Check
		}
	}
	var calls []*store.Call
	for first := 0; first < len(keys); first += readBackBatch {
		c := &store.Call{Verb: store.Get}
		for _, k := range keys[first:min(first+readBackBatch, len(keys))] {
			c.Keys = append(c.Keys, k.Key)
		}
		calls = append(calls, c)
	}
	_ = store.DoAll(s, calls, &r.clock, r.spec.TiKV.Timeout) // each call tells for itself
	for i, c := range calls {
		if c.Class != store.OK || len(c.Found) != len(c.Keys) {
			part.Unread += int64(len(c.Keys))
			continue
		}
		for j, key := range c.Keys {
			value := c.Found[j]
			found := ledger.Hash(value)
			if _, mine, followed := r.ledger.Attest(key, found); mine || !followed {
				part.Matched++
				continue
			}
			last := keys[i*readBackBatch+j].Last
			d := &workerpb.Dispute{Key: key, Found: found, Gone: value == nil, StartNanos: last.Start, EndNanos: last.End}
			if value != nil {
				if err := check(key, value); err != nil {
					d.Problem = problemOf(err)
				}
			}
			part.Disputed++
			part.Disputes = append(part.Disputes, d)
		}
	}
	return part
}

func problemOf(err error) string {
	if wrong := (*workload.WrongValue)(nil); errors.As(err, &wrong) {
		return wrong.Problem
	}
	return err.Error()
}

// merge adds a part of what was read back to the whole.
func merge(all, part *workerpb.ReadBackResponse) {
	all.Keys += part.GetKeys()
	all.Matched += part.GetMatched()
	all.Unread += part.GetUnread()
	all.Disputed += part.GetDisputed()
	for _, d := range part.GetDisputes() {
		if len(all.Disputes) < mostDisputes && len(d.GetKey())+len(d.GetProblem()) <= mostDisputeKey {
			all.Disputes = append(all.Disputes, d)
		}
	}
}

// Attest implements [workerpb.WorkerServer].
func (w *Worker) Attest(_ context.Context, req *workerpb.AttestRequest) (*workerpb.AttestResponse, error) {
	r, err := w.find(req.GetRunId())
	if err != nil {
		return nil, err
	}
	if err := r.beginReading(); err != nil {
		return nil, err
	}
	defer r.reading.Done()
	resp := &workerpb.AttestResponse{}
	for _, d := range req.GetDisputes() {
		end, mine, followed := r.ledger.Attest(d.GetKey(), d.GetFound())
		resp.Answers = append(resp.Answers, &workerpb.Attestation{Followed: followed, Mine: mine, EndNanos: end})
	}
	return resp, nil
}

// newLedger returns the ledger of a run whose writes are to be followed; nil for others.
func (a *assignment) newLedger() *ledger.Ledger {
	if !a.spec.VerifyWrites || a.spec.Phase != spec.Run || a.lease == 0 {
		return nil // a detached run has nobody who would read back
	}
	return ledger.New(a.spec.VerifyKeys)
}
