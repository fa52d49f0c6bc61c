// SPDX-License-Identifier: Apache-2.0

package store

import "maps"

// Traffic is what a driver has sent to one store. Messages are what the network and the
// store's server see, commands are the requests in them: what they cost, on both
// sides, depends on how many share a message, so a rate without that is half the truth.
type Traffic struct {
	Store    string        `json:"store"` // address; "" for commands that were never meant for a certain one
	Messages int64         `json:"messages"`
	Commands int64         `json:"commands"`        // in them
	Sizes    map[int]int64 `json:"sizes,omitempty"` // messages by their commands; above 128 rounded down, by less than 2 %

	// Kinds are the commands by kind, under the names that stores count them by; those of other kinds are not in it.
	Kinds map[string]int64 `json:"kinds,omitempty"`

	// Fallbacks are commands that took another way than the driver's own, by cause. Unsent
	// counts those among them that had not been in a message before.
	Fallbacks map[string]int64 `json:"fallbacks,omitempty"`
	Unsent    int64            `json:"unsent,omitempty"`
	Breaks    int64            `json:"breaks,omitempty"` // of connections in use
}

// Command is a kind of command.
type Command uint8

// The kinds that loads are made of.
const (
	RawGet Command = iota
	RawBatchGet
	RawPut
	RawBatchPut
	RawDelete
	RawBatchDelete
	RawScan
	TxnGet
	TxnBatchGet
	TxnScan
	Prewrite
	Commit
	BatchRollback
	CheckTxnStatus
	CheckSecondaryLocks
	ResolveLock
	PessimisticLock
	PessimisticRollback
	TxnHeartBeat
	OtherCommand
	CommandKinds = int(OtherCommand)
)

// String is how stores call it.
func (c Command) String() string {
	return [...]string{
		"raw_get", "raw_batch_get", "raw_put", "raw_batch_put", "raw_delete", "raw_batch_delete", "raw_scan",
		"kv_get", "kv_batch_get", "kv_scan", "kv_prewrite", "kv_commit", "kv_batch_rollback", "kv_check_txn_status",
		"kv_check_secondary_locks", "kv_resolve_lock", "kv_pessimistic_lock", "kv_pessimistic_rollback", "kv_txn_heart_beat", "other",
	}[c]
}

// Add adds what o counts.
func (t *Traffic) Add(o *Traffic) { t.add(o, 1) }

// Since returns what was counted after before.
func (t *Traffic) Since(before *Traffic) Traffic {
	d := Traffic{Store: t.Store}
	d.add(t, 1)
	d.add(before, -1)
	return d
}

// Empty tells whether nothing was counted.
func (t *Traffic) Empty() bool {
	return t.Messages == 0 && len(t.Fallbacks) == 0 && t.Breaks == 0
}

func (t *Traffic) add(o *Traffic, sign int64) {
	t.Messages += sign * o.Messages
	t.Commands += sign * o.Commands
	t.Unsent += sign * o.Unsent
	t.Breaks += sign * o.Breaks
	addTo(&t.Sizes, o.Sizes, sign)
	addTo(&t.Kinds, o.Kinds, sign)
	addTo(&t.Fallbacks, o.Fallbacks, sign)
}

func addTo[K comparable](to *map[K]int64, from map[K]int64, sign int64) {
	for k, n := range from {
		if *to == nil {
			*to = make(map[K]int64)
		}
		(*to)[k] += sign * n
	}
	maps.DeleteFunc(*to, func(_ K, n int64) bool { return n == 0 })
}
