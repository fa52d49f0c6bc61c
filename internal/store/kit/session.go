// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"time"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/store"
)

// Session is that of a driver whose client library blocks its caller: each virtual thread has a [Thread], which
// is started at its first call and kept. It implements [store.Runner].
type Session struct {
	caller  func(i int) Caller // for virtual thread i
	clk     clock.Clock
	timeout time.Duration

	inbox     *Inbox[*Thread]
	deadlines *Deadlines
	threads   []*Thread
	free      []*Thread     // those without a call
	done      []*store.Call // what the last Wait returned
}

// NewSession returns a session for so many calls in flight, which take at most timeout each; 0 is as long as they like.
func NewSession(threads int, clk clock.Clock, timeout time.Duration, caller func(i int) Caller) *Session {
	return &Session{
		caller: caller,
		clk:    clk, timeout: timeout,
		inbox:     NewInbox[*Thread](clk),
		deadlines: NewDeadlines(timeout),
		threads:   make([]*Thread, 0, threads),
	}
}

// Submit implements [store.Session].
func (s *Session) Submit(c *store.Call) {
	t := s.idle()
	t.Start(c)
	s.deadlines.Add(t.Index, c.Start)
}

// idle returns a thread without a call; the one that was busy last, whose memory is warm.
func (s *Session) idle() *Thread {
	if n := len(s.free); n > 0 {
		t := s.free[n-1]
		s.free = s.free[:n-1]
		return t
	}
	i := len(s.threads)
	t := NewThread(i, s.caller(i), s.clk, s.inbox.Put)
	s.threads = append(s.threads, t)
	return t
}

// Wait implements [store.Session].
func (s *Session) Wait(until time.Duration) []*store.Call {
	s.done = s.done[:0]
	for {
		threads, woken := s.inbox.Wait(min(until, s.deadlines.Next()))
		s.finish(threads)
		s.expire()
		if len(s.done) > 0 || woken || s.clk.Now() >= until {
			return s.done
		}
		// What has expired was cancelled, and will be here in a moment.
	}
}

// Run implements [store.Runner]. A thread whose call has come back takes the lane's turn, and most often
// finds its next call there: as in an application, a goroutine goes on with the next call when one has ended.
func (s *Session) Run(turn func(completed []*store.Call) (until time.Duration, more bool)) {
	s.inbox.Run(func(threads []*Thread) (time.Duration, bool) {
		s.done = s.done[:0]
		s.finish(threads)
		if len(threads) == 0 { // it may be the time of a deadline
			s.expire()
		}
		until, more := turn(s.done)
		return min(until, s.deadlines.Next()), more
	})
}

// finish takes the calls of threads, which have come back.
func (s *Session) finish(threads []*Thread) {
	for _, t := range threads {
		s.deadlines.Remove(t.Index)
		s.done = append(s.done, t.Finish(s.timeout))
		s.free = append(s.free, t)
	}
}

// expire gives up the calls whose time is over.
func (s *Session) expire() {
	if s.deadlines.Next() == store.Forever {
		return
	}
	now := s.clk.Now()
	for i := s.deadlines.Expired(now); i >= 0; i = s.deadlines.Expired(now) {
		s.threads[i].GiveUp(store.Timeout)
	}
}

// Wake implements [store.Session].
func (s *Session) Wake() { s.inbox.Wake() }

// Cancel implements [store.Session].
func (s *Session) Cancel() {
	for _, t := range s.threads {
		t.GiveUp(store.Cancelled)
	}
}

// Close implements [store.Session].
func (s *Session) Close() error {
	for _, t := range s.threads {
		t.Stop()
	}
	return s.inbox.Close()
}
