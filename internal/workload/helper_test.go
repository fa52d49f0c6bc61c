// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"slices"
	"testing"

	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/store"
)

// parse makes a Spec from key, value, key, value, …
func parse(t testing.TB, pairs ...string) *spec.Spec {
	t.Helper()
	source := spec.Source{Name: "test"}
	for i := 0; i < len(pairs); i += 2 {
		source.Pairs = append(source.Pairs, spec.Pair{Key: pairs[i], Value: pairs[i+1], Where: "test"})
	}
	s, err := spec.Parse(source)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// generator makes the only lane of a fleet.
func generator(t testing.TB, pairs ...string) *Generator {
	t.Helper()
	return laneOf(t, parse(t, pairs...), Place{0, 1, 0, 1})
}

func laneOf(t testing.TB, s *spec.Spec, p Place) *Generator {
	t.Helper()
	g, err := New(s, p)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// memory is a store in a map. It answers calls at once.
type memory struct {
	rows  map[string][]byte
	calls []store.Verb
	// before, when set, may change the store or fail the call before it is answered.
	before func(c *store.Call)
	// after, when set, may change the answer.
	after func(c *store.Call)
}

func newMemory() *memory { return &memory{rows: make(map[string][]byte)} }

func (m *memory) answer(c *store.Call) {
	c.Found, c.FoundKeys, c.Swapped, c.RPCs, c.Class, c.Err = nil, nil, false, 1, store.OK, nil
	m.calls = append(m.calls, c.Verb)
	if m.after != nil {
		defer m.after(c)
	}
	if m.before != nil {
		if m.before(c); c.Class != store.OK {
			return
		}
	}
	switch c.Verb {
	case store.Get:
		for _, key := range c.Keys {
			c.Found = append(c.Found, m.rows[string(key)])
		}
	case store.Put:
		for i, key := range c.Keys {
			m.rows[string(key)] = bytes.Clone(c.Values[i])
		}
	case store.Delete:
		for _, key := range c.Keys {
			delete(m.rows, string(key))
		}
	case store.CompareAndSwap:
		old, there := m.rows[string(c.Keys[0])]
		c.Found = [][]byte{old}
		if there != c.MustNotExist && bytes.Equal(old, c.Previous) {
			m.rows[string(c.Keys[0])] = bytes.Clone(c.Values[0])
			c.Swapped = true
		}
	case store.Scan:
		for _, key := range m.keys() {
			if key >= string(c.Keys[0]) && key < string(c.EndKey) && len(c.Found) < c.Limit {
				c.FoundKeys = append(c.FoundKeys, []byte(key))
				c.Found = append(c.Found, m.rows[key])
			}
		}
	}
}

func (m *memory) keys() []string {
	keys := make([]string, 0, len(m.rows))
	for key := range m.rows {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// run takes an operation from its beginning to its end. false: there is no such index.
func (m *memory) run(g *Generator, op *Operation, index int64) bool {
	if !g.Begin(op, index) {
		return false
	}
	for {
		m.answer(&op.Call)
		if !g.Continue(op) {
			return true
		}
	}
}

// load fills the store by the generator of a load with the same properties.
func (m *memory) load(t testing.TB, pairs ...string) {
	t.Helper()
	g := generator(t, append(slices.Clone(pairs), "dotransactions", "false")...)
	var op Operation
	for i := int64(0); m.run(g, &op, i); i++ {
		if op.Result.Outcome() != OK {
			t.Fatal(op.Result.Err)
		}
	}
}
