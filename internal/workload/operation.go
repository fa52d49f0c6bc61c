// SPDX-License-Identifier: Apache-2.0

// Package workload turns a specification into operations: which kind, which
// keys, which values. The sequence follows from the properties, the seed and the
// operation's index in the fleet alone, so that a run can be repeated exactly
// and a load continued where it stood.
package workload

import (
	"github.com/kvbench/kvbench/internal/store"
)

// Kind is one of YCSB's actions.
type Kind uint8

// The kinds, in the order of reports.
const (
	Read Kind = iota
	Update
	Insert
	Delete
	Scan
	ReadModifyWrite
	Kinds = int(ReadModifyWrite) + 1
)

// String returns the kind's name as it stands in results.
func (k Kind) String() string {
	return [...]string{"READ", "UPDATE", "INSERT", "DELETE", "SCAN", "READ_MODIFY_WRITE"}[k]
}

// Outcome is how an operation ended.
type Outcome uint8

// The outcomes, from best to worst. A batch's latency is recorded under the
// worst outcome of its operations; the operations are counted each under its own.
const (
	OK       Outcome = iota
	NotFound         // the key was not there
	Wrong            // verification found a value that cannot be
	Failed           // an error; its class is in Result.Class
	Outcomes = int(Failed) + 1
)

// String returns the outcome's name as it stands in results.
func (o Outcome) String() string {
	return [...]string{"ok", "not_found", "wrong", "error"}[o]
}

// Result is how a completed operation (or batch of operations of one kind) ended.
type Result struct {
	Count [Outcomes]int32 // operations by outcome; their sum is the batch's size
	RPCs  int32           // requests sent for all of its calls
	Rows  int32           // rows that scans returned
	// Retries counts calls that were repeated: transactions and swaps that were lost to others, failed inserts of a load.
	Retries int32
	Cost    *store.Cost // of its transactions; nil, or without any: that was not seen
	Class   store.Class // of the failed ones
	Err     error       // of the first failed one, or what is wrong with a wrong value
}

// Outcome returns the worst outcome that occurred.
func (r *Result) Outcome() Outcome {
	for o := Failed; o > OK; o-- {
		if r.Count[o] > 0 {
			return o
		}
	}
	return OK
}

// Operation is one operation, or one batch of operations of one kind, on its way
// through a virtual thread: a chain of one or more calls. It is reused; the
// generator that began it owns its buffers.
type Operation struct {
	Kind   Kind
	Index  int64      // index in the fleet's sequence
	Size   int        // operations of the batch
	WarmUp bool       // set before Begin: it does not count towards the run's operations
	Call   store.Call // the call to submit next, or just completed
	Result Result     // valid when Continue has returned false

	state
}
