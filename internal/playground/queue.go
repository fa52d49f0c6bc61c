// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Spread is how the service times of a store's commands are spread around their mean.
type Spread string

const (
	Constant    Spread = "constant"    // all the same
	Exponential Spread = "exponential" // exponentially distributed
)

// Service is how a store works off its commands: so many servers at once, each of which is busy with a command for its service time.
// What finds none free waits, first come, first served. So a store's capacity is Servers/Time commands a second, and its latency that
// of a queue: with Poisson arrivals M/M/c with exponential times, and M/D/c with constant ones. The zero value is no queue.
//
// A command is one RPC, however many keys are in it. An UPDATE that reads first is two.
type Service struct {
	Time    time.Duration // that a command takes, on average; 0: no queue
	Servers int           // default 1
	Spread  Spread        // default Constant
}

const (
	maxServers     = 1000
	maxServiceTime = time.Hour
)

// Capacity is how many commands a store serves a second; 0: that is not limited.
func (s Service) Capacity() float64 {
	if s.Time == 0 {
		return 0
	}
	return float64(s.Servers) / s.Time.Seconds()
}

// withDefaults checks s and fills what is not set.
func (s Service) withDefaults() (Service, error) {
	if s.Servers == 0 {
		s.Servers = 1
	}
	if s.Spread == "" {
		s.Spread = Constant
	}
	switch {
	case s.Time < 0 || s.Time > maxServiceTime:
		return s, fmt.Errorf("service time of %v: want up to %v; 0s is no queue", s.Time, maxServiceTime)
	case s.Servers < 1 || s.Servers > maxServers:
		return s, fmt.Errorf("%d servers: want 1 to %d", s.Servers, maxServers)
	case s.Spread != Constant && s.Spread != Exponential:
		return s, fmt.Errorf("spread %q of service times: want %s or %s", s.Spread, Constant, Exponential)
	}
	return s, nil
}

// queue is a store's servers at work. It holds no commands, only until when each server is busy, so that when a command has been
// served is known as it arrives: the capacity is exact however late the machine wakes up those that wait.
type queue struct {
	Service

	mu   sync.Mutex
	busy []time.Time // until when; one for each server
}

// newQueue returns idle servers; nil if s has none.
func newQueue(s Service) *queue {
	if s.Time == 0 {
		return nil
	}
	return &queue{Service: s, busy: make([]time.Time, s.Servers)}
}

// take gives a command that arrives now to the server that is the first to be free, and returns when it will have been served.
// Commands must be given in the order of their arrival.
func (q *queue) take(now time.Time) time.Time {
	service := q.Time
	if q.Spread == Exponential {
		service = time.Duration(rand.ExpFloat64() * float64(q.Time))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	server := q.next()
	begin := *server
	if begin.Before(now) {
		begin = now
	}
	*server = begin.Add(service)
	return *server
}

// next is the server that is free first. It needs mu.
func (q *queue) next() *time.Time {
	first := &q.busy[0]
	for i := range q.busy {
		if q.busy[i].Before(*first) {
			first = &q.busy[i]
		}
	}
	return first
}

// wait is for how long a command that arrives now would wait for a server.
func (q *queue) wait(now time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return max(0, q.next().Sub(now))
}

// SetService gives a store's commands a queue, with idle servers; a service time of zero takes it away.
func (c *Cluster) SetService(id uint64, s Service) error {
	s, err := s.withDefaults()
	if err != nil {
		return err
	}
	return c.disturb(id, func(now *trouble) { now.queue = newQueue(s) })
}

// String says what the queue can do.
func (s Service) String() string {
	if s.Time == 0 {
		return "no queue"
	}
	servers := "1 server"
	if s.Servers > 1 {
		servers = fmt.Sprintf("%d servers", s.Servers)
	}
	return fmt.Sprintf("%s, %v (%s) for a command: %.4g commands a second", servers, s.Time, s.Spread, s.Capacity())
}
