// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/store"
)

// Continue takes the answer to op.Call. It returns true when op.Call then holds the
// next call of the operation, and false when the operation is over and op.Result final.
func (g *Generator) Continue(op *Operation) bool {
	op.Result.RPCs += op.Call.RPCs
	op.Call.Delay = 0
	switch op.step {
	case stepRead:
		return g.afterRead(op)
	case stepGet:
		return g.afterGet(op)
	case stepSwap:
		return g.afterSwap(op)
	case stepScan:
		return g.afterScan(op)
	case stepLook:
		return g.afterLook(op)
	case stepInsert:
		return g.afterInsert(op)
	case stepUnlock: // or else the locks end by themselves
		return false
	case stepAccounts:
		return g.afterAccounts(op)
	case stepTransfer:
		return g.afterTransfer(op)
	default: // stepPut, stepBlind, stepDelete: nothing to see in the answer but its class
		if g.again(op) {
			if op.step == stepPut { // what was read is not what is there any more
				op.values, op.valueBytes = op.values[:0], op.valueBytes[:0]
				g.getForUpdate(op)
			}
			return true
		}
		if !op.failed(len(op.Call.Keys)) {
			op.Result.Count[OK] += int32(len(op.Call.Keys))
		}
		return false
	}
}

// again tells whether a call is to be made again because its transaction was lost to another one, and when, and counts that.
func (g *Generator) again(op *Operation) bool {
	if !op.Call.Class.Lost() || op.retries == g.spec.Txn.Retries {
		return false
	}
	op.retries++
	op.Result.Retries++
	op.Call.Delay = op.backoff(g.spec.Txn.Backoff)
	return true
}

// mostBackoff is the longest wait before a retry, in first waits.
const mostBackoff = 100

// backoff returns how long to wait before the current retry: anything up to first, twice that before the next one, and so on. As in TiDB
// (kv.BackOff), the whole of it is left to chance: transactions that have met once are to come apart.
func (op *Operation) backoff(first time.Duration) time.Duration {
	longest := first * time.Duration(min(1<<min(op.retries-1, 16), mostBackoff))
	return time.Duration(op.random.below(int64(longest) + 1))
}

// failed counts n operations as failed if the call did.
func (op *Operation) failed(n int) bool {
	if op.Call.Class == store.OK {
		return false
	}
	op.fail(n, op.Call.Class, op.Call.Err)
	return true
}

func (op *Operation) fail(n int, class store.Class, err error) {
	if op.Result.Count[Failed] == 0 {
		op.Result.Class, op.Result.Err = class, err
	}
	op.Result.Count[Failed] += int32(n)
}

// wrong counts an operation that found a wrong value. The text of a failure has precedence.
func (op *Operation) wrong(err error) {
	op.Result.Count[Wrong]++
	if op.Result.Err == nil {
		op.Result.Err = err
	}
}

// found returns the i-th value of the answer; a driver that answers with too few
// is treated as one that did not find them.
func (op *Operation) found(i int) []byte {
	if i < len(op.Call.Found) {
		return op.Call.Found[i]
	}
	return nil
}

func (g *Generator) afterRead(op *Operation) bool {
	if g.again(op) {
		return true
	}
	if op.failed(op.Size) {
		return false
	}
	for i, key := range op.keys {
		row := op.found(i)
		if row == nil {
			op.Result.Count[NotFound]++
			continue
		}
		if g.spec.Integrity {
			if err := g.values.check(key, row, op.field); err != nil {
				op.wrong(err)
				continue
			}
		}
		op.Result.Count[OK]++
	}
	return false
}

// afterGet changes the rows that were found and writes them back: whole, so that no
// row ever shrinks. A row that is wrong is left as it is, to be looked at.
func (g *Generator) afterGet(op *Operation) bool {
	if g.again(op) {
		return true
	}
	if op.failed(len(op.keys)) {
		return false
	}
	swap := g.swaps(op)
	kept := 0
	for i, key := range op.keys {
		row := op.found(i)
		if !g.change(op, key, row) {
			continue
		}
		op.keys[kept] = key
		kept++
		if swap {
			op.addOld(row)
		}
	}
	op.keys = op.keys[:kept]
	switch {
	case kept == 0:
		return op.unlock()
	case swap:
		op.step = stepSwap
		g.nextSwap(op)
	default:
		g.put(op, stepPut)
	}
	return true
}

// unlock gives up what a Get for update has locked, if it has.
func (op *Operation) unlock() bool {
	op.step = stepUnlock
	op.Call.Verb = store.Unlock
	return op.Call.Locked
}

// swaps tells whether rows are changed by compare-and-swap.
func (g *Generator) swaps(op *Operation) bool {
	return op.Kind == Update && g.spec.UpdateMode == spec.CompareAndSwap
}

// change appends the new row for one that was read. false: there is nothing to
// write, and the operation has been counted.
func (g *Generator) change(op *Operation, key, row []byte) bool {
	if row == nil {
		if !g.spec.UpdateMissing {
			op.Result.Count[NotFound]++
			return false
		}
		op.addValue(g.values.row(op.valueBytes, &op.random, key, &g.fields))
		return true
	}
	if g.spec.Integrity {
		if err := g.values.check(key, row, allFields); err != nil {
			op.wrong(err)
			return false
		}
	}
	if op.field == allFields {
		op.addValue(g.values.row(op.valueBytes, &op.random, key, &g.fields))
		return true
	}
	grown, err := g.values.replace(op.valueBytes, row, &op.random, key, op.field, &g.fields)
	if err != nil {
		op.wrong(&WrongValue{bytes.Clone(key), err.Error()})
		return false
	}
	op.addValue(grown)
	return true
}

// addOld keeps a copy of a row that a swap expects: the driver's answer is gone by then.
func (op *Operation) addOld(row []byte) {
	if row == nil {
		op.olds = append(op.olds, nil)
		return
	}
	start := len(op.oldBytes)
	op.oldBytes = append(op.oldBytes, row...)
	op.olds = append(op.olds, op.oldBytes[start:len(op.oldBytes):len(op.oldBytes)])
}

// nextSwap makes the compare-and-swap of the next row.
func (g *Generator) nextSwap(op *Operation) {
	call, i := &op.Call, op.done
	call.Verb, call.TTL = store.CompareAndSwap, g.ttl
	call.Keys, call.Values = op.keys[i:i+1], op.values[i:i+1]
	call.Previous, call.MustNotExist = op.olds[i], op.olds[i] == nil
}

func (g *Generator) afterSwap(op *Operation) bool {
	i := op.done
	switch {
	case op.Call.Class == store.Cancelled:
		op.failed(len(op.keys) - i)
		return false
	case op.failed(1):
	case op.Call.Swapped:
		op.Result.Count[OK]++
	case op.retries < g.spec.CompareSwapRetries:
		op.retries++
		op.Result.Retries++
		if g.reswap(op) {
			return true
		}
	default:
		op.fail(1, store.Other, fmt.Errorf("compare-and-swap of key %q found another value %d times", op.keys[i], op.retries+1))
	}
	op.retries = 0
	op.done++
	if op.done == len(op.keys) {
		return false
	}
	g.nextSwap(op)
	return true
}

// reswap changes the row that the swap found in the place of the expected one.
// false: it cannot be changed, and the operation has been counted.
func (g *Generator) reswap(op *Operation) bool {
	i, row := op.done, op.found(0)
	// What was appended for this row stays until the operation ends.
	n := len(op.values)
	if !g.change(op, op.keys[i], row) {
		return false
	}
	op.values[i] = op.values[n]
	op.values = op.values[:n]
	op.addOld(row)
	op.olds[i] = op.olds[len(op.olds)-1]
	op.olds = op.olds[:len(op.olds)-1]
	g.nextSwap(op)
	return true
}

func (g *Generator) afterScan(op *Operation) bool {
	if g.again(op) {
		return true
	}
	switch {
	case op.Call.Class == store.Cancelled:
		op.failed(op.Size - op.done)
		return false
	case op.failed(1):
	default:
		op.Result.Rows += int32(len(op.Call.Found))
		if err := g.checkScan(op); err != nil {
			op.wrong(err)
		} else if g.look(op) {
			return true
		} else if len(op.Call.Found) == 0 {
			op.Result.Count[NotFound]++
		} else {
			op.Result.Count[OK]++
		}
	}
	return g.scanned(op)
}

// scanned goes on with the next scan of the batch, if there is one.
func (g *Generator) scanned(op *Operation) bool {
	op.retries = 0
	op.done++
	if op.done == op.Size {
		return false
	}
	g.nextScan(op)
	return true
}

// look makes a call for rows that a scan should have found and did not; false if there are none.
func (g *Generator) look(op *Operation) bool {
	if g.known == nil || g.absent >= mostAbsent {
		return false
	}
	call := &op.Call
	lacking := g.known.leftOut(call.Keys[0], call.FoundKeys, call.Limit)
	if len(lacking) == 0 {
		return false
	}
	op.step = stepLook
	call.Verb, call.Keys = store.Get, lacking
	return true
}

// afterLook: a row that is there, and that nobody creates, was there when the scan left it
// out. One that is not may have been deleted, or never been loaded: a scan that lacks such rows
// is right, and is counted like a read that finds nothing.
func (g *Generator) afterLook(op *Operation) bool {
	op.step = stepScan
	if op.Call.Class == store.Cancelled {
		op.failed(op.Size - op.done)
		return false
	}
	if op.failed(1) {
		return g.scanned(op)
	}
	for i, key := range op.Call.Keys {
		if op.found(i) != nil {
			op.wrong(&WrongValue{bytes.Clone(key), fmt.Sprintf("is there, and a scan from %q has left it out", op.keys[op.done])})
			return g.scanned(op)
		}
	}
	g.absent++
	op.Result.Count[NotFound]++
	return g.scanned(op)
}

var errScan = errors.New("scan: the answer has more values than keys or than were asked for")

// checkScan checks the rows of a scan, and that they lie in order and in range.
func (g *Generator) checkScan(op *Operation) error {
	call := &op.Call
	if len(call.FoundKeys) != len(call.Found) || len(call.Found) > call.Limit {
		return errScan
	}
	previous := call.Keys[0]
	for i, key := range call.FoundKeys {
		if c := bytes.Compare(key, previous); c < 0 || c == 0 && i > 0 || bytes.Compare(key, call.EndKey) >= 0 {
			return &WrongValue{bytes.Clone(key), fmt.Sprintf("is out of place in a scan from %q to %q, after %q", call.Keys[0], call.EndKey, previous)}
		}
		if g.spec.Integrity {
			if err := g.values.check(key, call.Found[i], op.field); err != nil {
				return err
			}
		}
		previous = key
	}
	if g.bank {
		return g.checkSum(call)
	}
	return nil
}

// afterInsert retries a failed insert of a load as often as was asked for, and
// makes the records of a run's insert readable.
func (g *Generator) afterInsert(op *Operation) bool {
	if g.again(op) {
		return true
	}
	class := op.Call.Class
	if g.load && class != store.OK && class != store.Cancelled && op.retries < g.spec.InsertRetries {
		op.retries++
		op.Result.Retries++
		return true
	}
	if op.failed(op.Size) {
		return false
	}
	for _, m := range op.inserts {
		g.inserts.acknowledge(m)
	}
	op.Result.Count[OK] += int32(op.Size)
	return false
}
