// SPDX-License-Identifier: Apache-2.0

package store

import "time"

// Phase is a part of the time of a transaction. One is in one phase at a time, but for Backoff, which is spent within the others.
type Phase uint8

// The phases, in the order of a transaction.
const (
	BeginTimestamp  Phase = iota // waiting for PD's timestamp, at which it begins
	Reading                      // gets and scans, with the locks of others in their way
	Locking                      // pessimistic: until the rows are locked, waiting for other transactions included
	CommitTimestamp              // waiting for the timestamp of PD that the commit is made with
	Prewriting                   // until all keys are locked for the commit; with one phase, committed
	Committing                   // until the first key is committed, if that was not done by the prewrite
	Pause                        // before a transaction that was lost to others is made again
	Backoff                      // client-go sleeping before it tries something again; parts of a transaction may do so at a time
	Phases          = int(Backoff) + 1
)

// String returns the phase's name as it stands in results.
func (p Phase) String() string {
	return [...]string{"begin_timestamp", "read", "lock", "commit_timestamp", "prewrite", "commit", "pause", "backoff"}[p]
}

// Cost is what the transactions of an operation have cost.
type Cost struct {
	Transactions int32 // begun, those that were made again included
	Timestamps   int32 // asked of PD
	Commands     [CommandKinds + 1]int32
	Phases       [Phases]time.Duration
}
