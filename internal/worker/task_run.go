// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/lane"
	"github.com/kvbench/kvbench/internal/ledger"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/workload"
)

// runTask makes the operations of a workload.
type runTask struct{ *engine }

func (k runTask) before(t *table, found *workerpb.PrepareResponse) error {
	remembered, err := t.fits(found)
	if err != nil {
		return err
	}
	return t.look(remembered, found)
}

func (k runTask) source(p workload.Place) (lane.Source, error) { return workload.New(k.spec, p) }
func (k runTask) beside(ended <-chan struct{})                 { <-ended }
func (k runTask) after(*run, *results.End) error               { return nil }

// followedTask is a runTask whose writes are followed in a ledger, and read back at
// the end when all workers have written.
type followedTask struct {
	runTask
	ledger  *ledger.Ledger
	reading sync.WaitGroup // of those who read back
}

func newFollowedTask(e *engine) *followedTask {
	return &followedTask{runTask: runTask{e}, ledger: ledger.New(e.spec.VerifyKeys)}
}

// enoughLetters are so many that no two values are the same by chance.
const enoughLetters = 8

// before warns of values that repeat: a lost write is not seen if the one before it wrote the same.
func (k *followedTask) before(t *table, found *workerpb.PrepareResponse) error {
	generator, err := workload.New(k.spec, workload.Place{Worker: k.worker, Workers: k.workers, Lanes: 1})
	if err != nil {
		return err
	}
	switch letters := generator.Letters(); {
	case letters == 0:
		found.Warnings = append(found.Warnings, "verifywrites: every write of a key writes the same value (integrityformat=go-ycsb, compressibility=1, or fields that hold nothing but a checksum), so only rows that are gone can be seen, and not lost updates")
	case letters < enoughLetters:
		found.Warnings = append(found.Warnings, fmt.Sprintf("verifywrites: a write has as few as %d random letters, so some write what was there before, and are not missed when they are lost: use longer fields", letters))
	}
	return k.runTask.before(t, found)
}

// source writes values that no other run has written, so that what an earlier one with
// the same seed left behind is not taken for them.
func (k *followedTask) source(p workload.Place) (lane.Source, error) {
	generator, err := workload.New(k.spec, p)
	if err != nil {
		return nil, err
	}
	generator.Salt(xxhash.Sum64String(k.id))
	return followedSource{generator, k.ledger}, nil
}

// after waits until nobody wants to read back any more.
func (k *followedTask) after(r *run, _ *results.End) error {
	r.hold()
	k.reading.Wait()
	return nil
}

// followedSource is the source of a lane whose writes are followed in the worker's ledger.
type followedSource struct {
	lane.Source
	ledger *ledger.Ledger
}

// Begin implements [lane.Source].
func (f followedSource) Begin(op *workload.Operation, index int64) bool {
	if !f.Source.Begin(op, index) {
		return false
	}
	f.begins(&op.Call)
	return true
}

// Continue implements [lane.Source].
func (f followedSource) Continue(op *workload.Operation) bool {
	f.ended(&op.Call)
	if !f.Source.Continue(op) {
		return false
	}
	f.begins(&op.Call)
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

func (f followedSource) begins(c *store.Call) {
	if !isWrite(c.Verb) {
		return
	}
	for i, key := range c.Keys {
		f.ledger.Begin(key, written(c, i))
	}
}

// ended notes which writes were acknowledged. What failed may still have been
// written, in part as well; so may a swap that found another value, when the
// client sent it twice.
func (f followedSource) ended(c *store.Call) {
	if !isWrite(c.Verb) || c.Class != store.OK || c.Verb == store.CompareAndSwap && !c.Swapped {
		return
	}
	for i, key := range c.Keys {
		f.ledger.Acknowledge(key, written(c, i), ledger.Span{Start: int64(c.Start), End: int64(c.End)})
	}
}
