// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/store/kit"
	"github.com/kvbench/kvbench/internal/store/tikv"
)

// attemptTime is how long one answer is waited for, as client-go does.
const attemptTime = 30 * time.Second

// session implements [store.Session]. All of it belongs to the lane, except the inbox.
type session struct {
	config Config
	clk    clock.Clock
	creds  credentials.TransportCredentials
	dialect
	inbox  *kit.Inbox[event]
	counts *counters

	routes      routes
	connections []*storeConnection // one for each store
	fallbacks   fallbacks

	flights     []*flight // by index; nil is free
	freeFlights []int
	parts       []*part // by slot
	freeParts   []*part
	nextID      uint64
	turn        uint64         // counts batches, for route.turn
	deadlines   *kit.Deadlines // of flights
	attempts    *kit.Deadlines // of parts that were sent, if watched
	watched     bool           // a call may take longer than one attempt
	maxWaiting  int            // commands that may wait for a store, or be lost in a stream

	answers responses // in the message at hand
	answer  answer
	ready   []*store.Call // completed since the last Wait
	done    []*store.Call // what the last Wait returned
	errLate error

	ctx    context.Context // of the links
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func newSession(client *tikv.Client, creds credentials.TransportCredentials, cf string, c Config, threads int, clk clock.Clock, counts *counters) *session {
	s := &session{
		config: c, clk: clk, creds: creds, counts: counts,
		dialect:    dialect{prefix: client.Codec.EncodeKey(nil), cf: cf},
		inbox:      kit.NewInbox[event](clk),
		routes:     routes{client: client},
		deadlines:  kit.NewDeadlines(c.Timeout),
		attempts:   kit.NewDeadlines(attemptTime),
		watched:    c.Timeout == 0 || c.Timeout > attemptTime,
		maxWaiting: 4*threads + 1024,
		errLate:    fmt.Errorf("no answer within %v", c.Timeout),
	}
	_, s.dialect.end = client.Codec.EncodeRange(nil, nil)
	s.fallbacks = fallbacks{client: client, clk: clk, inbox: s.inbox, limit: min(threads, maxFallbacks)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// connection returns the connection for a store, which is made the first time, and made
// anew when the store has another address.
func (s *session) connection(id uint64, address string) *storeConnection {
	for i, t := range s.connections {
		if t.id == id && t.address == address {
			return t
		}
		if t.id == id {
			s.connections = slices.Delete(s.connections, i, i+1)
			s.abandon(t)
			break
		}
	}
	ctx, cancel := context.WithCancel(s.ctx)
	t := &storeConnection{id: id, address: address, ctx: ctx, close: cancel, count: s.counts.store(address)}
	s.connections = append(s.connections, t)
	for range s.config.Streams {
		l := &link{connection: t, out: make(chan outgoing, room)}
		conn, err := dial(address, s.creds)
		if err != nil { // an address that cannot be one
			l.state = down
		} else {
			l.start(ctx, conn, s.clk, s.inbox, &s.wg)
		}
		t.links = append(t.links, l)
	}
	return t
}

// Wait implements [store.Session].
func (s *session) Wait(until time.Duration) []*store.Call {
	// What has arrived meanwhile comes first, and commands wait for those that
	// follow from it: they go out together when there is nothing else to do.
	woken := s.take(math.MinInt64)
	if len(s.ready) == 0 && !woken {
		runtime.Gosched()
		woken = s.take(math.MinInt64)
	}
	for len(s.ready) == 0 && !woken {
		next := s.flush(until)
		if len(s.ready) > 0 {
			break
		}
		woken = s.take(next)
		if next >= until && s.clk.Now() >= until {
			break
		}
	}
	s.done, s.ready = s.ready, s.done[:0]
	return s.done
}

// take waits for events and deals with them, and with what has expired.
func (s *session) take(until time.Duration) (woken bool) {
	events, woken := s.inbox.Wait(until)
	for i := range events {
		s.handle(&events[i])
	}
	s.expire()
	return woken
}

// flush sends the messages whose time has come, and returns the next moment at
// which there is something to do: at most until.
func (s *session) flush(until time.Duration) time.Duration {
	next := min(until, s.deadlines.Next(), s.attempts.Next())
	for _, t := range s.connections {
		for len(t.queue) > 0 {
			if s.config.Linger > 0 && len(t.queue) == 1 && len(t.queue[0].ids) < s.config.MaxBatch {
				if due := t.since + s.config.Linger; due > s.clk.Now() {
					next = min(next, due)
					break
				}
			}
			l, wait := t.sendable()
			if l == nil {
				if !wait {
					s.refuse(t)
				}
				break
			}
			s.send(t, l)
		}
	}
	return next
}

// send sends a connection's first message by l.
func (s *session) send(t *storeConnection, l *link) {
	if s.watched {
		now := s.clk.Now()
		for i, p := range t.queue[0].parts {
			if p.id == t.queue[0].ids[i] {
				s.attempts.Add(p.slot, now)
			}
		}
	}
	t.send(l)
	if l.stray > s.maxWaiting {
		s.give(l) // it answers too little
	}
}

// refuse sends what waits for a store that cannot be reached on fallbacks.
func (s *session) refuse(t *storeConnection) {
	for len(t.queue) > 0 {
		m := t.queue[0]
		for i, p := range m.parts {
			if p.id == m.ids[i] {
				s.routes.forget(p.route)
				s.fallback(p, NoStream)
			}
		}
		t.pop(len(m.ids))
	}
}

// give gives a stream up.
func (s *session) give(l *link) {
	if l.state == up {
		l.cancel()
		s.lose(l, broken)
	}
}

// lose sends all that waits for an answer by l on fallbacks.
func (s *session) lose(l *link, state linkState) {
	l.state, l.grpc, l.stray = state, nil, 0
	l.connection.count.breaks.Add(1)
	for _, p := range s.parts {
		if p.link == l {
			s.fallback(p, BrokenStream)
		}
	}
}

// abandon closes a connection.
func (s *session) abandon(t *storeConnection) {
	t.close()
	for _, l := range t.links {
		if l.state == up {
			s.lose(l, broken)
		}
		l.state = down
	}
	s.refuse(t)
	s.routes.forgetConnection(t)
}

// expire gives up what has waited too long.
func (s *session) expire() {
	if s.deadlines.Next() == store.Forever && s.attempts.Next() == store.Forever {
		return
	}
	now := s.clk.Now()
	for i := s.deadlines.Expired(now); i >= 0; i = s.deadlines.Expired(now) {
		s.giveUp(s.flights[i], store.Timeout, s.errLate, now)
	}
	for i := s.attempts.Expired(now); i >= 0; i = s.attempts.Expired(now) {
		s.fallback(s.parts[i], NoAnswer)
	}
}

var errCancelled = fmt.Errorf("given up before the answer came: %w", context.Canceled)

// giveUp ends a flight, except for those of its parts that are on a fallback,
// which must come back since they read the call's keys.
func (s *session) giveUp(f *flight, why store.Class, err error, now time.Duration) {
	if f.gaveUp != store.OK {
		return
	}
	f.gaveUp = why
	f.fail(why, err)
	f.ended(now)
	for i := len(f.parts) - 1; i >= 0; i-- {
		p := f.parts[i]
		if p.fallback != nil && s.fallbacks.cancel(p.fallback, why) {
			continue
		}
		s.finish(p)
	}
}

// Wake implements [store.Session].
func (s *session) Wake() { s.inbox.Wake() }

// Cancel implements [store.Session].
func (s *session) Cancel() {
	now := s.clk.Now()
	for _, f := range s.flights {
		if f != nil {
			s.giveUp(f, store.Cancelled, errCancelled, now)
		}
	}
}

// Close implements [store.Session].
func (s *session) Close() error {
	s.cancel()
	s.wg.Wait()
	s.fallbacks.close()
	events, _ := s.inbox.Wait(math.MinInt64)
	for i := range events {
		if events[i].kind == received {
			events[i].data.Free()
		}
	}
	return s.inbox.Close()
}
