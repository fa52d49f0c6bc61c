// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// SilentFault is one that no answer tells of: what a database must never do, and what a client's own checks are there to find.
type SilentFault uint8

// The silent faults. Writes are counted by key, deletions among them.
const (
	Lose    SilentFault = iota // a write is acknowledged and not made
	Repeat                     // a write is made a second time, right after the next one of its key
	Swap                       // a write is made to the key that the store was last asked to write before
	Swallow                    // a row is left out of a scan
	silentFaults
)

// String returns the name, which is also that of the disturbance.
func (f SilentFault) String() string { return [...]string{"lose", "repeat", "swap", "swallow"}[f] }

// SetSilentFault lets a share (0 to 1) of a store's writes, or of the rows that it scans, fall to a silent fault until count of
// them have; count 0 is without end. Share 0 ends it, and forgets which writes it would have repeated.
func (c *Cluster) SetSilentFault(id uint64, f SilentFault, share float64, count uint64) error {
	if count > math.MaxInt64 {
		return errors.New("count is too large")
	}
	return c.disturbShare(id, share, func(now *trouble) {
		now.silent[f] = nil
		if share > 0 {
			now.silent[f] = &silent{share: share, left: int64(count), bounded: count > 0, older: map[string]change{}}
		}
	})
}

// silent is a silent fault that is on; nil is none.
type silent struct {
	share   float64
	bounded bool

	mu    sync.Mutex
	left  int64             // how many times more, if that is bounded
	older map[string]change // Repeat: what is to be made again, by key
	last  []byte            // Swap: the last key
}

// mostOlder bounds how many writes wait to be repeated.
const mostOlder = 1 << 12

// strikes decides whether it is this one's turn. It needs mu.
func (f *silent) strikes() bool {
	if f.bounded && f.left == 0 || !chance(f.share) {
		return false
	}
	f.left--
	return true
}

// hits is strikes, for faults that need nothing besides.
func (f *silent) hits() bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.strikes()
}

// another returns the key to write in the place of key, if it is this one's turn.
func (f *silent) another(key []byte) []byte {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.last
	f.last = bytes.Clone(key)
	if last == nil || bytes.Equal(last, key) || !f.strikes() {
		return nil
	}
	return last
}

// again returns what is to be made again after a change.
func (f *silent) again(ch change) (older change, repeated bool) {
	if f == nil {
		return older, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if older, repeated = f.older[string(ch.key)]; repeated {
		delete(f.older, string(ch.key))
	} else if len(f.older) < mostOlder && f.strikes() {
		ch.key, ch.value = bytes.Clone(ch.key), bytes.Clone(ch.value)
		f.older[string(ch.key)] = ch
	}
	return older, repeated
}

// change is a write of one key in its stored form.
type change struct {
	key, value []byte
	ttl        uint64
	deleted    bool
}

func (s *storage) make(b *pebble.Batch, ch change) error {
	if ch.deleted {
		return s.delete(b, ch.key)
	}
	return s.put(b, ch.key, ch.value, ch.ttl)
}

// put adds a write to a batch, or what silent faults make of it.
func (c *call) put(b *pebble.Batch, family byte, key, value []byte, ttl uint64) error {
	return c.make(b, change{key: c.stored(family, key), value: value, ttl: ttl})
}

// delete adds a removal to a batch, or what silent faults make of it.
func (c *call) delete(b *pebble.Batch, family byte, key []byte) error {
	return c.make(b, change{key: c.stored(family, key), deleted: true})
}

func (c *call) make(b *pebble.Batch, ch change) error {
	t := c.trouble
	if t == nil {
		return c.storage.make(b, ch)
	}
	if c.loses() {
		return nil
	}
	if other := t.silent[Swap].another(ch.key); other != nil {
		c.stats.silent[Swap].Add(1)
		ch.key = other
	}
	err := c.storage.make(b, ch)
	if older, repeated := t.silent[Repeat].again(ch); repeated && err == nil {
		c.stats.silent[Repeat].Add(1)
		err = c.storage.make(b, older)
	}
	return err
}

// loses tells whether a write is acknowledged and not made.
func (c *call) loses() bool {
	if c.trouble == nil || !c.trouble.silent[Lose].hits() {
		return false
	}
	c.stats.silent[Lose].Add(1)
	return true
}

// swallows tells whether a row is left out of a scan.
func (c *call) swallows() bool {
	if c.trouble == nil || !c.trouble.silent[Swallow].hits() {
		return false
	}
	c.stats.silent[Swallow].Add(1)
	return true
}

// silentDisturbance is the entry of a silent fault in the table.
func silentDisturbance(f SilentFault, doc, of string) Disturbance {
	return Disturbance{
		Name: f.String(), Doc: doc,
		Params: []Param{
			paramStore,
			{Name: "share", Doc: "share of the " + of + ", 0 to 1; 0 ends it", Default: "1"},
			{Name: "count", Doc: "until so many have been; 0 is without end", Default: "0"},
		},
		do: func(c *Cluster, a *arguments) (string, error) {
			id, share, count := a.number("id"), a.share("share"), a.number("count")
			return a.done(f.String()+": %s", func() (any, error) {
				text := fmt.Sprintf("a share of %v of the %s", share, of)
				if count > 0 && share > 0 {
					text += fmt.Sprintf(", %d times", count)
				}
				return text, c.SetSilentFault(id, f, share, count)
			})
		},
	}
}
