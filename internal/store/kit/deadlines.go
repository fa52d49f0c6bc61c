// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"time"

	"github.com/kvbench/kvbench/internal/store"
)

// Deadlines keeps when the calls in flight of one session must be given up. All calls of a
// session have the same timeout and so expire in the order in which they
// started: a list in that order is all it takes, and a call costs no timer and
// no context of its own. Calls are known by small numbers, which are used again.
type Deadlines struct {
	timeout time.Duration
	links   []link // by call number + 1; links[0] is the list's head and tail
}

type link struct {
	prev, next int32
	at         time.Duration
	listed     bool
}

// NewDeadlines returns an empty list for calls that may take timeout each; 0 means for ever.
func NewDeadlines(timeout time.Duration) *Deadlines {
	return &Deadlines{timeout: timeout, links: make([]link, 1)}
}

// Add notes that call i started at start, which must not be earlier than the
// start of the call added before. Call i must not be in the list.
func (d *Deadlines) Add(i int, start time.Duration) {
	if d.timeout <= 0 {
		return
	}
	for len(d.links) <= i+1 {
		d.links = append(d.links, link{})
	}
	n, last := int32(i+1), d.links[0].prev
	d.links[n] = link{prev: last, at: start + d.timeout, listed: true}
	d.links[last].next = n
	d.links[0].prev = n
}

// Remove takes call i out of the list, if it is there.
func (d *Deadlines) Remove(i int) {
	if i+1 >= len(d.links) || !d.links[i+1].listed {
		return
	}
	l := &d.links[i+1]
	d.links[l.prev].next = l.next
	d.links[l.next].prev = l.prev
	*l = link{}
}

// Next returns the earliest deadline, or [store.Forever].
func (d *Deadlines) Next() time.Duration {
	if n := d.links[0].next; n != 0 {
		return d.links[n].at
	}
	return store.Forever
}

// Expired takes a call out of the list whose deadline is not after now, and
// returns its number; or -1.
func (d *Deadlines) Expired(now time.Duration) int {
	n := d.links[0].next
	if n == 0 || d.links[n].at > now {
		return -1
	}
	d.Remove(int(n - 1))
	return int(n - 1)
}
