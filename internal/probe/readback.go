// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kvbench/kvbench/analysis/availability"
	"github.com/kvbench/kvbench/internal/store"
)

// How writes are read back.
const (
	readBatch = 64 // keys in a call
	readCalls = 16 // calls at the same time
	ReadTime  = 5 * time.Second
	readMost  = 30 * time.Second // for keys that cannot be read
	readPause = 500 * time.Millisecond
)

// key returns the key of a write.
func (p *Probe) key(number int) []byte {
	return fmt.Appendf(p.ground.prefix(int(p.writes[number].slot)), "%012d", number)
}

// value returns the value of a write, which no other write has.
func (p *Probe) value(number int) []byte { return fmt.Appendf(nil, "%s/%012d", p.ID, number) }

// ReadBack reads back what was written. Keys that cannot be read are tried for half a minute. Run must have returned.
func (p *Probe) ReadBack(ctx context.Context) *availability.ReadBack {
	r := &availability.ReadBack{Findings: []availability.BadWrite{}}
	var left []int
	for number := range p.writes {
		left = append(left, number)
		if p.writes[number].fate == acknowledged {
			r.Acknowledged++
		} else {
			r.Undetermined++
		}
	}
	for deadline := time.Now().Add(readMost); ; {
		var unread []int
		for len(left) > 0 && ctx.Err() == nil {
			n := min(len(left), readBatch*readCalls)
			unread = append(unread, p.read(left[:n], r)...)
			left = left[n:]
			if len(unread) >= readBatch*readCalls && time.Now().After(deadline) {
				break
			}
		}
		left = append(unread, left...)
		if len(left) == 0 || ctx.Err() != nil || time.Now().After(deadline) {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(readPause):
		}
	}
	for _, number := range left {
		if p.writes[number].fate == acknowledged {
			r.Unread++
		}
	}
	r.Complete = ctx.Err() == nil
	return r
}

// read reads some writes, and returns those that could not be read.
func (p *Probe) read(numbers []int, r *availability.ReadBack) (unread []int) {
	var calls []*store.Call
	for first := 0; first < len(numbers); first += readBatch {
		c := &store.Call{Verb: store.Get}
		for _, number := range numbers[first:min(first+readBatch, len(numbers))] {
			c.Keys = append(c.Keys, p.key(number))
		}
		calls = append(calls, c)
	}
	_ = store.DoAll(p.reader, calls, p.Clock, 2*ReadTime) // each call tells for itself
	for i, c := range calls {
		for j, key := range c.Keys {
			number := numbers[i*readBatch+j]
			if c.Class != store.OK || len(c.Found) != len(c.Keys) {
				unread = append(unread, number)
				continue
			}
			p.judge(number, key, c.Found[j], r)
		}
	}
	return unread
}

// judge compares what a key holds with what was written.
func (p *Probe) judge(number int, key, found []byte, r *availability.ReadBack) {
	w := &p.writes[number]
	finding := availability.BadWrite{Key: string(key), Store: p.targets[w.target].Address}
	if w.fate == acknowledged {
		at := (w.end - p.begun).Seconds()
		finding.AcknowledgedAt = &at
	}
	count := &r.Lost
	switch {
	case found != nil && string(found) == string(p.value(number)):
		if w.fate == acknowledged {
			r.Right++
		} else {
			r.Happened++
		}
		return
	case found != nil:
		finding.Problem, finding.Found, count = "wrong", string(found[:min(len(found), 100)]), &r.Wrong
	case w.fate == acknowledged:
		finding.Problem = "lost"
	default:
		return
	}
	if *count++; *count <= availability.MostNamed {
		r.Findings = append(r.Findings, finding)
	}
}

// Clean removes what this probe has written. A write that is undetermined may come after it.
func (p *Probe) Clean(ctx context.Context) error {
	slots := make(map[uint8]bool)
	for i := range p.writes {
		slots[p.writes[i].slot] = true
	}
	var errs []error
	for slot := range slots {
		first := p.ground.prefix(int(slot))
		end := append(first[:len(first)-1:len(first)-1], '/'+1)
		if err := p.ground.admin.DeleteRange(ctx, first, end); err != nil {
			errs = append(errs, fmt.Errorf("remove the keys that begin with %s: %w", first, err))
		}
	}
	return errors.Join(errs...)
}
