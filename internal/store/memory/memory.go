// SPDX-License-Identifier: Apache-2.0

// Package memory provides a database for tests of what is above drivers: a map in memory
// that answers after a time, and can be told to misbehave.
package memory

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/store"
)

// DB is a database. It is shared by all drivers that it opens.
type DB struct {
	Delay time.Duration // of every answer
	// Down makes opening wait until it is given up.
	Down bool
	// Stalled: no call is ever answered, unless it is cancelled.
	Stalled atomic.Bool
	// Refuse, if there is one, makes writing a key fail. It is set before the start.
	Refuse func(key []byte) bool
	// Panic makes the next Submit panic, once.
	Panic atomic.Bool
	// Open counts what is not closed: drivers and sessions.
	Opened atomic.Int64
	Puts   atomic.Int64 // keys of tables
	Gets   atomic.Int64 // keys

	mu   sync.Mutex
	rows map[string][]byte
}

// Open is for the worker's configuration.
func (m *DB) Open(ctx context.Context, _ *spec.Spec) (store.Driver, error) {
	if m.Down {
		<-ctx.Done()
		return nil, errors.New("no connection")
	}
	m.Opened.Add(1)
	return driver{m}, nil
}

// Keys returns how many keys there are, of tables: what is remembered of loads is not counted.
func (m *DB) Keys() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for key := range m.rows {
		if ofTable(key) {
			n++
		}
	}
	return n
}

// Change lets a test change the rows behind everybody's back.
func (m *DB) Change(do func(rows map[string][]byte)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	do(m.rows)
}

func ofTable(key string) bool { return strings.Contains(key, ":") }

type driver struct{ memory *DB }

func (d driver) Open(_, _ int, clk clock.Clock) (store.Session, error) {
	d.memory.Opened.Add(1)
	return &session{memory: d.memory, clk: clk, woken: make(chan struct{}, 1)}, nil
}

// Traffic implements [store.TrafficCounter]: a key is a command, in a message of its own.
func (d driver) Traffic() []store.Traffic {
	n := d.memory.Gets.Load() + d.memory.Puts.Load()
	return []store.Traffic{{Store: "memory", Messages: n, Commands: n, Sizes: map[int]int64{1: n}}}
}

func (d driver) Close() error {
	d.memory.Opened.Add(-1)
	return nil
}

type session struct {
	memory    *DB
	clk       clock.Clock
	woken     chan struct{}
	calls     []*store.Call // in order of submission, which is that of completion
	cancelled bool
}

func (s *session) Submit(c *store.Call) {
	if s.memory.Panic.CompareAndSwap(true, false) {
		panic("the database panics on purpose")
	}
	c.End = s.clk.Now() + s.memory.Delay
	s.calls = append(s.calls, c)
}

func (s *session) Wait(until time.Duration) []*store.Call {
	for {
		if done := s.completed(); len(done) > 0 {
			return done
		}
		end := until
		if len(s.calls) > 0 && !s.memory.Stalled.Load() {
			end = min(end, s.calls[0].End)
		}
		now := s.clk.Now()
		if now >= until {
			return nil
		}
		timer := time.NewTimer(end - now)
		select {
		case <-s.woken:
			timer.Stop()
			return s.completed()
		case <-timer.C:
		}
	}
}

func (s *session) completed() []*store.Call {
	now := s.clk.Now()
	n := len(s.calls)
	if !s.cancelled {
		n, _ = slices.BinarySearchFunc(s.calls, now+1, func(c *store.Call, t time.Duration) int { return cmp.Compare(c.End, t) })
		if s.memory.Stalled.Load() {
			n = 0
		}
	}
	done := slices.Clone(s.calls[:n])
	s.calls = slices.Delete(s.calls, 0, n)
	for _, c := range done {
		s.answer(c, now)
	}
	return done
}

func (s *session) answer(c *store.Call, now time.Duration) {
	c.RPCs, c.Class, c.Err, c.Found, c.FoundKeys = 1, store.OK, nil, nil, nil
	if s.cancelled {
		c.End, c.Class, c.Err = now, store.Cancelled, context.Canceled
		return
	}
	m := s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rows == nil {
		m.rows = make(map[string][]byte)
	}
	for i, key := range c.Keys {
		switch c.Verb {
		case store.Get:
			m.Gets.Add(1)
			c.Found = append(c.Found, m.rows[string(key)])
		case store.Put:
			if m.Refuse != nil && m.Refuse(key) {
				c.Class, c.Err = store.RawError, errors.New("refused on purpose")
				return
			}
			if ofTable(string(key)) {
				m.Puts.Add(1)
			}
			m.rows[string(key)] = slices.Clone(c.Values[i])
		case store.Delete:
			delete(m.rows, string(key))
		case store.Scan:
			for _, found := range slices.Sorted(maps.Keys(m.rows)) {
				if found >= string(key) && (len(c.EndKey) == 0 || found < string(c.EndKey)) && len(c.Found) < c.Limit {
					c.FoundKeys, c.Found = append(c.FoundKeys, []byte(found)), append(c.Found, m.rows[found])
				}
			}
		default:
			c.Class, c.Err = store.Other, errors.New("the memory database cannot do this")
		}
	}
	if c.Verb == store.Put || c.Verb == store.Delete {
		c.End = s.clk.Now() // nobody is told of a write before it is there, on a machine that was late as well
	}
}

func (s *session) Wake() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

func (s *session) Cancel() { s.cancelled = true }

func (s *session) Close() error {
	s.memory.Opened.Add(-1)
	if len(s.calls) > 0 {
		return errors.New("closed with calls in flight")
	}
	return nil
}
