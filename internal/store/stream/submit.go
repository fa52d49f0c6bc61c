// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"bytes"

	"github.com/tikv/client-go/v2/rawkv"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kvbench/kvbench/internal/store"
)

const (
	// Batches are cut as client-go cuts them, so that RPCs compare.
	maxKeys     = 512
	maxPutBytes = 16 << 10

	// A part's number is in the low bits of its id, so that an answer finds it
	// without a search; the bits above make each id new.
	slotBits = 20
	slotMask = 1<<slotBits - 1
)

// Submit implements [store.Session].
func (s *session) Submit(c *store.Call) {
	f, ok := c.Slot.(*flight)
	if !ok {
		f = new(flight)
	}
	f.begin(c)
	f.index = s.freeIndex()
	s.flights[f.index] = f
	s.deadlines.Add(f.index, c.Start)
	switch {
	case c.Verb == store.CompareAndSwap, c.Verb == store.Scan && (c.Reverse || c.Limit > rawkv.MaxRawKVScanLimit):
		s.fallback(s.newPart(f, 0), Unsupported)
	case c.Verb == store.Scan:
		f.scanFrom = append(f.scanFrom[:0], c.Keys[0]...)
		if c.Limit <= 0 || len(c.EndKey) > 0 && bytes.Compare(c.Keys[0], c.EndKey) >= 0 {
			s.complete(f)
			return
		}
		s.dispatch(s.newPart(f, cmdRawScan), c.Keys[0])
	case len(c.Keys) == 1:
		p := s.newPart(f, single(c.Verb))
		p.keys = append(p.keys, 0)
		s.dispatch(p, c.Keys[0])
	default:
		s.submitBatch(f)
	}
}

func (s *session) freeIndex() int {
	if n := len(s.freeFlights); n > 0 {
		i := s.freeFlights[n-1]
		s.freeFlights = s.freeFlights[:n-1]
		return i
	}
	s.flights = append(s.flights, nil)
	return len(s.flights) - 1
}

func single(v store.Verb) protowire.Number {
	return [...]protowire.Number{store.Get: cmdRawGet, store.Put: cmdRawPut, store.Delete: cmdRawDelete}[v]
}

func batch(v store.Verb) protowire.Number {
	return [...]protowire.Number{store.Get: cmdRawBatchGet, store.Put: cmdRawBatchPut, store.Delete: cmdRawBatchDelete}[v]
}

// submitBatch deals a call's keys to parts, one for each region.
func (s *session) submitBatch(f *flight) {
	s.turn++
	var lost *part // has the keys whose region is not known
	for i, key := range f.call.Keys {
		r := s.routes.find(key, s.connection)
		if r == nil {
			if lost == nil {
				lost = s.newPart(f, batch(f.call.Verb))
			}
			lost.keys = append(lost.keys, int32(i))
			continue
		}
		if r.turn != s.turn || r.part.full() {
			r.turn, r.part = s.turn, s.newPart(f, batch(f.call.Verb))
			r.part.route = r
		}
		r.part.keys = append(r.part.keys, int32(i))
		if f.call.Verb == store.Put {
			r.part.size += len(key) + len(f.call.Values[i])
		}
	}
	if lost != nil {
		s.fallback(lost, UnknownRegion)
	}
	for _, p := range f.parts {
		if p.route != nil {
			s.enqueue(p)
		}
	}
}

func (p *part) full() bool { return len(p.keys) >= maxKeys || p.size >= maxPutBytes }

func (s *session) newPart(f *flight, command protowire.Number) *part {
	var p *part
	if n := len(s.freeParts); n > 0 {
		p = s.freeParts[n-1]
		s.freeParts = s.freeParts[:n-1]
	} else {
		p = &part{slot: len(s.parts)}
		s.parts = append(s.parts, p)
	}
	p.flight, p.command, p.keys, p.size = f, command, p.keys[:0], 0
	f.parts = append(f.parts, p)
	return p
}

// dispatch sends a part to where key is.
func (s *session) dispatch(p *part, key []byte) {
	if p.route = s.routes.find(key, s.connection); p.route == nil {
		s.fallback(p, UnknownRegion)
		return
	}
	s.enqueue(p)
}

// enqueue puts a part into the next message to its route's store.
func (s *session) enqueue(p *part) {
	t := p.route.connection
	if !t.reachable() || t.waiting >= s.maxWaiting || p.slot > slotMask {
		s.routes.forget(p.route) // its region may have found another leader
		s.fallback(p, NoStream)
		return
	}
	s.renew(p)
	t.add(p, &s.dialect, s.config.MaxBatch, s.clk.Now())
}

// renew gives p a new id, so that answers to the old one do not find it.
func (s *session) renew(p *part) {
	s.nextID++
	p.id = s.nextID<<slotBits | uint64(p.slot)
	p.link = nil
}
