// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"slices"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"

	"github.com/kvbench/kvbench/internal/store"
)

// handle deals with what a goroutine of the session has told.
func (s *session) handle(e *event) {
	switch e.kind {
	case received:
		if e.link.state == up {
			s.receive(e.link, e.data.ReadOnlyData(), e.at)
		}
		e.data.Free()
	case linkUp:
		if e.link.connection.open() {
			e.link.state, e.link.grpc, e.link.cancel = up, e.stream, e.cancel
		}
	case linkDown:
		switch e.link.state {
		case up:
			s.lose(e.link, connecting)
		case broken:
			e.link.state = connecting
		case connecting:
			e.link.state = down
		}
	case hasRoom: // the next flush sees it
	case fallbackDone:
		s.returned(e.thread)
	}
}

// receive finishes the parts that a message answers. A message that makes no
// sense ends the stream: what it may have answered is asked again, by rawkv.
func (s *session) receive(l *link, data []byte, at time.Duration) {
	if s.answers.parse(data) != nil {
		s.give(l)
		return
	}
	for i, id := range s.answers.ids {
		p := s.awaited(l, id)
		if p == nil {
			// An answer to a part that was given up is late, but nothing is wrong with it.
			if l.stray == 0 {
				s.give(l)
				return
			}
			l.stray--
			continue
		}
		if s.answer.parse(s.answers.bodies[i], p.command) != nil || !s.answered(p, at) {
			s.give(l)
			return
		}
	}
}

// awaited returns the part that waits for an answer with this id on l, or nil.
func (s *session) awaited(l *link, id uint64) *part {
	if slot := id & slotMask; slot < uint64(len(s.parts)) {
		if p := s.parts[slot]; p.id == id && p.link == l {
			return p
		}
	}
	return nil
}

// answered deals with the answer to a part. False: it makes no sense.
func (s *session) answered(p *part, at time.Duration) bool {
	f := p.flight
	if s.answer.regionError != nil {
		var e errorpb.Error
		if e.Unmarshal(s.answer.regionError) != nil {
			return false
		}
		f.call.RPCs++
		s.fallback(p, s.correct(p.route, &e))
		return true
	}
	keys, values := len(f.call.FoundKeys), len(f.call.Found)
	if p.take(&s.answer, &s.dialect) != nil {
		if p.command == cmdRawScan {
			f.call.FoundKeys, f.call.Found = f.call.FoundKeys[:keys], f.call.Found[:values]
		}
		return false
	}
	f.call.RPCs++
	f.ended(at)
	if p.command == cmdRawScan && !f.scanned(p.route.end) {
		f.scanFrom = append(f.scanFrom[:0], p.route.end...)
		s.attempts.Remove(p.slot)
		s.dispatch(p, f.scanFrom)
		return true
	}
	s.finish(p)
	return true
}

// correct takes note of a region error. rawkv, which has the call next, does the
// rest with the same cache of regions.
func (s *session) correct(r *route, e *errorpb.Error) Cause {
	switch {
	case e.NotLeader != nil:
		s.routes.forget(r)
		if leader := e.NotLeader.Leader; leader != nil && leader.Id != r.rpc.Peer.Id {
			s.routes.client.Regions.UpdateLeader(r.rpc.Region, leader, r.rpc.AccessIdx)
		}
		return NotLeader
	case e.EpochNotMatch != nil:
		s.routes.forget(r)
		return EpochNotMatch
	case e.RegionNotFound != nil:
		s.routes.forget(r)
		return RegionNotFound
	case e.ServerIsBusy != nil:
		return Busy
	}
	s.routes.forget(r)
	return RegionError
}

// finish ends a part, and its flight if it was the last one.
func (s *session) finish(p *part) {
	f := p.flight
	if p.link != nil && f.gaveUp != store.OK {
		p.link.stray++
	}
	s.attempts.Remove(p.slot)
	s.renew(p)
	p.flight, p.route, p.fallback = nil, nil, nil
	s.freeParts = append(s.freeParts, p)
	if f.parts = remove(f.parts, p); len(f.parts) == 0 {
		s.complete(f)
	}
}

// remove takes p out of parts, whose order does not matter.
func remove(parts []*part, p *part) []*part {
	i := slices.Index(parts, p)
	last := len(parts) - 1
	parts[i] = parts[last]
	parts[last] = nil
	return parts[:last]
}

func (s *session) complete(f *flight) {
	s.deadlines.Remove(f.index)
	s.flights[f.index] = nil
	s.freeFlights = append(s.freeFlights, f.index)
	s.ready = append(s.ready, f.call)
}
