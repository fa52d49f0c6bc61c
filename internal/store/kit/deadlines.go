// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"time"

	"github.com/kvbench/kvbench/internal/store"
)

// Deadlines keeps when the calls in flight of one session must be given up. All calls of a
// session have the same timeout, so none expires before the one that was the oldest when they were last
// looked through; and that is most often answered long before. So a call costs no timer, no context of its own, and
// nothing but to write down its deadline: they are looked through when one may have passed, about
// once in a timeout. Calls are known by small numbers, which are used again.
type Deadlines struct {
	timeout time.Duration
	at      []time.Duration // by call; store.Forever: it is not there
	next    time.Duration   // no call expires before
	looked  int             // while they are looked through: so many have been
	least   time.Duration   // of those, and of those added since
}

// NewDeadlines returns deadlines of calls that may take timeout each; 0 means for ever.
func NewDeadlines(timeout time.Duration) *Deadlines {
	return &Deadlines{timeout: timeout, next: store.Forever}
}

// Add notes that call i started at start.
func (d *Deadlines) Add(i int, start time.Duration) {
	if d.timeout <= 0 {
		return
	}
	for len(d.at) <= i {
		d.at = append(d.at, store.Forever)
	}
	at := start + d.timeout
	d.at[i] = at
	d.next, d.least = min(d.next, at), min(d.least, at)
}

// Remove forgets call i, if it is there.
func (d *Deadlines) Remove(i int) {
	if i < len(d.at) {
		d.at[i] = store.Forever
	}
}

// Next returns a moment before which no call expires, or [store.Forever].
func (d *Deadlines) Next() time.Duration { return d.next }

// Expired forgets a call whose deadline is not after now, and returns its number; or -1, and then
// Next lies after now.
func (d *Deadlines) Expired(now time.Duration) int {
	if now < d.next {
		return -1
	}
	if d.looked == 0 {
		d.least = store.Forever
	}
	for ; d.looked < len(d.at); d.looked++ {
		at := d.at[d.looked]
		if at <= now {
			d.at[d.looked] = store.Forever
			return d.looked
		}
		d.least = min(d.least, at)
	}
	d.next, d.looked = d.least, 0
	return -1
}
