// SPDX-License-Identifier: Apache-2.0

package lane

import "time"

// crowd tells operations that found no free thread when they were due from those that
// their lane started late. It begins when the last free thread gets an operation, and
// ends when everything that is due has been started.
type crowd struct {
	present bool
	filled  time.Duration // when the last free thread got an operation
	freed   time.Duration // when all threads were busy for the last time
}

// full is told when the last free thread gets an operation.
func (c *crowd) full(now time.Duration) {
	if !c.present {
		c.present, c.filled = true, now
	}
}

// free is told when the first thread is free again.
func (c *crowd) free(now time.Duration) { c.freed = now }

// disperse is told when nothing is due.
func (c *crowd) disperse() { c.present = false }

// queued tells whether an operation that starts now was due while all threads were busy.
func (c *crowd) queued(due time.Duration) bool {
	return c.present && c.filled < due && due < c.freed
}
