// SPDX-License-Identifier: Apache-2.0

package rawkv

import (
	"sync"
	"time"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/store/cluster"
)

// session implements [store.Session].
type session struct {
	client  func(i int) *cluster.Client // the instance for virtual thread i of this lane
	clk     clock.Clock
	timeout time.Duration

	inbox     *store.Inbox[*thread]
	deadlines *store.Deadlines
	threads   []*thread
	free      []*thread // those without a call
	wg        sync.WaitGroup
	done      []*store.Call // what the last Wait returned
}

func newSession(lane, threads int, clk clock.Clock, timeout time.Duration, client func(int) *cluster.Client) *session {
	return &session{
		client: func(i int) *cluster.Client { return client(lane + i) },
		clk:    clk, timeout: timeout,
		inbox:     store.NewInbox[*thread](clk),
		deadlines: store.NewDeadlines(timeout),
		threads:   make([]*thread, 0, threads),
	}
}

// Submit implements [store.Session].
func (s *session) Submit(c *store.Call) {
	t := s.idle()
	t.start(c)
	s.deadlines.Add(t.index, c.Start)
}

// idle returns a thread without a call; the one that was busy last, whose memory is warm.
func (s *session) idle() *thread {
	if n := len(s.free); n > 0 {
		t := s.free[n-1]
		s.free = s.free[:n-1]
		return t
	}
	t := newThread(len(s.threads), s.client(len(s.threads)))
	s.threads = append(s.threads, t)
	s.wg.Go(func() { t.run(s.clk, s.inbox) })
	return t
}

// Wait implements [store.Session].
func (s *session) Wait(until time.Duration) []*store.Call {
	s.done = s.done[:0]
	for {
		for _, t := range s.inbox.Wait(min(until, s.deadlines.Next())) {
			s.deadlines.Remove(t.index)
			s.done = append(s.done, t.finish(s.timeout))
			s.free = append(s.free, t)
		}
		if !s.expire() || len(s.done) > 0 {
			return s.done
		}
		// What has expired was cancelled, and will be here in a moment.
	}
}

// expire gives up the calls whose time is over, and tells whether there were any.
func (s *session) expire() bool {
	if s.deadlines.Next() == store.Forever {
		return false
	}
	now, any := s.clk.Now(), false
	for i := s.deadlines.Expired(now); i >= 0; i = s.deadlines.Expired(now) {
		s.threads[i].giveUp(store.Timeout)
		any = true
	}
	return any
}

// Wake implements [store.Session].
func (s *session) Wake() { s.inbox.Wake() }

// Cancel implements [store.Session].
func (s *session) Cancel() {
	for _, t := range s.threads {
		if t.call != nil {
			t.giveUp(store.Cancelled)
		}
	}
}

// Close implements [store.Session].
func (s *session) Close() error {
	for _, t := range s.threads {
		t.stop()
	}
	s.wg.Wait()
	return s.inbox.Close()
}
