// SPDX-License-Identifier: Apache-2.0

package rawkv

import (
	"time"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/store/kit"
	"github.com/kvbench/kvbench/internal/store/tikv"
)

// session implements [store.Runner].
type session struct {
	client  func(i int) *tikv.Client // the instance for virtual thread i of this lane
	clk     clock.Clock
	timeout time.Duration

	inbox     *kit.Inbox[*kit.Thread]
	deadlines *kit.Deadlines
	threads   []*kit.Thread
	free      []*kit.Thread // those without a call
	done      []*store.Call // what the last Wait returned
}

func newSession(lane, threads int, clk clock.Clock, timeout time.Duration, client func(int) *tikv.Client) *session {
	return &session{
		client: func(i int) *tikv.Client { return client(lane + i) },
		clk:    clk, timeout: timeout,
		inbox:     kit.NewInbox[*kit.Thread](clk),
		deadlines: kit.NewDeadlines(timeout),
		threads:   make([]*kit.Thread, 0, threads),
	}
}

// Submit implements [store.Session].
func (s *session) Submit(c *store.Call) {
	t := s.idle()
	t.Start(c)
	s.deadlines.Add(t.Index, c.Start)
}

// idle returns a thread without a call; the one that was busy last, whose memory is warm.
func (s *session) idle() *kit.Thread {
	if n := len(s.free); n > 0 {
		t := s.free[n-1]
		s.free = s.free[:n-1]
		return t
	}
	i := len(s.threads)
	t := kit.NewThread(i, tikv.NewCaller(s.client(i)), s.clk, s.inbox.Put)
	s.threads = append(s.threads, t)
	return t
}

// Wait implements [store.Session].
func (s *session) Wait(until time.Duration) []*store.Call {
	s.done = s.done[:0]
	for {
		threads, woken := s.inbox.Wait(min(until, s.deadlines.Next()))
		s.finish(threads)
		if !s.expire() || len(s.done) > 0 || woken {
			return s.done
		}
		// What has expired was cancelled, and will be here in a moment.
	}
}

// Run implements [store.Runner]. A thread whose call has come back takes the lane's turn, and most often
// finds its next call there: as in an application, a goroutine goes on with the next call when one has ended.
func (s *session) Run(turn func(completed []*store.Call) (until time.Duration, more bool)) {
	s.inbox.Run(func(threads []*kit.Thread) (time.Duration, bool) {
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
func (s *session) finish(threads []*kit.Thread) {
	for _, t := range threads {
		s.deadlines.Remove(t.Index)
		s.done = append(s.done, t.Finish(s.timeout))
		s.free = append(s.free, t)
	}
}

// expire gives up the calls whose time is over, and tells whether there were any.
func (s *session) expire() bool {
	if s.deadlines.Next() == store.Forever {
		return false
	}
	now, any := s.clk.Now(), false
	for i := s.deadlines.Expired(now); i >= 0; i = s.deadlines.Expired(now) {
		s.threads[i].GiveUp(store.Timeout)
		any = true
	}
	return any
}

// Wake implements [store.Session].
func (s *session) Wake() { s.inbox.Wake() }

// Cancel implements [store.Session].
func (s *session) Cancel() {
	for _, t := range s.threads {
		t.GiveUp(store.Cancelled)
	}
}

// Close implements [store.Session].
func (s *session) Close() error {
	for _, t := range s.threads {
		t.Stop()
	}
	return s.inbox.Close()
}
