// SPDX-License-Identifier: Apache-2.0

package lane

import (
	"time"

	"github.com/kvbench/kvbench/internal/store"
)

// queue tells operations that found no free thread when they were due from those that
// their lane started late. It exists from the moment at which the last free thread gets an
// operation until everything that is due has been started.
type queue struct {
	exists bool
	filled time.Duration // when the last free thread got an operation
	freed  time.Duration // when all threads were busy for the last time
}

// full is told when the last free thread gets an operation.
func (q *queue) full(now time.Duration) {
	if !q.exists {
		q.exists, q.filled = true, now
	}
}

// free is told when the first thread is free again.
func (q *queue) free(now time.Duration) { q.freed = now }

// empty is told when nothing is due.
func (q *queue) empty() { q.exists = false }

// remain is told when nothing more is started: what is left has waited for those before it.
func (q *queue) remain() { q.freed = store.Forever }

// held tells whether an operation that starts now was due while all threads were busy.
func (q *queue) held(due time.Duration) bool {
	return q.exists && q.filled < due && due < q.freed
}
