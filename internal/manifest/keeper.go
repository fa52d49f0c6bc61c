// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/workload"
)

// Keeper reads and writes what a store remembers of a table. It is for one
// goroutine, and nothing else may use its session.
type Keeper struct {
	Session store.Session
	Clock   clock.Clock
	Table   string
	Timeout time.Duration // of a call with all its tries
}

const (
	page     = 256      // records read in one call
	mostText = 64 << 10 // of a lane's progress: what lies behind is inserted once more
)

func (k *Keeper) do(c *store.Call) error {
	if err := store.Insist(k.Session, c, k.Clock, k.Timeout); err != nil { // workers write the same key
		return fmt.Errorf("the manifest of table %q: %w", k.Table, err)
	}
	return nil
}

// Read returns the manifest, nil if there is none.
func (k *Keeper) Read() (*Manifest, error) {
	c := &store.Call{Verb: store.Get, Keys: [][]byte{[]byte(Prefix(k.Table))}}
	if err := k.do(c); err != nil {
		return nil, err
	}
	if len(c.Found) == 0 || c.Found[0] == nil {
		return nil, nil
	}
	m, err := parse(c.Found[0])
	if err != nil {
		return nil, fmt.Errorf("table %q, key %s: %w; -p manifest=none ignores it", k.Table, Prefix(k.Table), err)
	}
	return m, nil
}

// Write replaces the manifest.
func (k *Keeper) Write(m *Manifest) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return k.do(&store.Call{Verb: store.Put, Keys: [][]byte{[]byte(Prefix(k.Table))}, Values: [][]byte{text}})
}

// lanes is the prefix of the keys of a load's progress.
func (k *Keeper) lanes(load string) string { return Prefix(k.Table) + "/" + load + "/" }

// Lanes returns the progress of a load, of all runs that ever worked on it.
func (k *Keeper) Lanes(load string) ([]Lane, error) {
	var lanes []Lane
	err := k.each(k.lanes(load), func(key, value []byte) error {
		var l Lane
		if err := json.Unmarshal(value, &l); err != nil {
			return fmt.Errorf("table %q, key %s: %w; begin the load anew with -p reload=true", k.Table, key, err)
		}
		lanes = append(lanes, l)
		return nil
	})
	return lanes, err
}

// each calls do for all keys with a prefix.
func (k *Keeper) each(prefix string, do func(key, value []byte) error) error {
	from := []byte(prefix)
	end := []byte(prefix[:len(prefix)-1] + string(rune(prefix[len(prefix)-1]+1)))
	for {
		c := &store.Call{Verb: store.Scan, Keys: [][]byte{from}, EndKey: end, Limit: page}
		if err := k.do(c); err != nil {
			return err
		}
		for i, key := range c.FoundKeys {
			if err := do(key, c.Found[i]); err != nil {
				return err
			}
		}
		if len(c.FoundKeys) < page {
			return nil
		}
		from = append(bytes.Clone(c.FoundKeys[page-1]), 0)
	}
}

// WriteLanes replaces the progress of lanes of a load.
func (k *Keeper) WriteLanes(load string, lanes []Lane) error {
	c := &store.Call{Verb: store.Put}
	for _, l := range lanes {
		l.Done = bounded(l.Done)
		text, err := json.Marshal(l)
		if err != nil {
			return err
		}
		c.Keys = append(c.Keys, fmt.Appendf(nil, "%s%s/%d.%d", k.lanes(load), l.Run, l.Worker, l.Lane))
		c.Values = append(c.Values, text)
	}
	return k.do(c)
}

// bounded leaves away the last gaps of a set that has very many.
func bounded(d workload.Done) workload.Done {
	text, _ := d.MarshalText() // never fails
	if len(text) <= mostText {
		return d
	}
	text = text[:bytes.LastIndexByte(text[:mostText], ',')]
	var less workload.Done
	_ = less.UnmarshalText(text) // what it has written itself
	return less
}

// Forget removes the progress of a load.
func (k *Keeper) Forget(load string) error {
	var keys [][]byte
	err := k.each(k.lanes(load), func(key, _ []byte) error {
		keys = append(keys, bytes.Clone(key))
		return nil
	})
	if err != nil || len(keys) == 0 {
		return err
	}
	return k.do(&store.Call{Verb: store.Delete, Keys: keys})
}

// Finished reports whether all lanes of all workers of a run are.
func Finished(lanes []Lane, run string, workers int) bool {
	left := make(map[int]int) // lanes that are not, by worker
	for _, l := range lanes {
		if l.Run != run || l.Workers != workers {
			continue
		}
		if _, seen := left[l.Worker]; !seen {
			left[l.Worker] = l.Lanes
		}
		if l.Finished {
			left[l.Worker]--
		}
	}
	for _, n := range left {
		if n > 0 {
			return false
		}
	}
	return len(left) == workers
}
