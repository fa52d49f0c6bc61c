// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"cmp"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/tikvpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// BatchCommands serves one stream. The commands of a message are served where they were received, one after another, and answered
// by one message: with nothing in the way this costs no goroutine and no allocation. Commands that a disturbance or a queue delays and
// heavy ones leave this path together, on a goroutine of their own, so that they hold up nothing that came with or after them.
func (s *store) BatchCommands(stream tikvpb.Tikv_BatchCommandsServer) error {
	var (
		sending  sync.Mutex
		detached sync.WaitGroup
		x        = newExchange()
		thread   = s.stats.thread(stream.Context())
	)
	x.done = stream.Context().Done()
	defer func() { x.free() }()
	defer detached.Wait()
	reply := func(x *exchange) error {
		sending.Lock()
		defer sending.Unlock()
		return stream.SendMsg(&x.answers)
	}
	for {
		switch err := stream.RecvMsg(x); err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
		x.arrived = time.Now()
		s.stats.message(x.slots[:x.used])
		d := s.trouble.Load()
		for _, w := range s.waiting(d, x) {
			w.exchange.done = x.done
			detached.Go(func() {
				if s.hold(stream.Context(), w.due) == nil {
					_ = s.serve(thread, w.exchange, w.exchange.slots, w.faults, reply) // as below
				}
			})
		}
		if d == nil && !x.anyHeavy() {
			if err := s.serve(thread, x, x.slots[:x.used], nil, reply); err != nil {
				return err
			}
			continue
		}
		now, later := s.divide(d, x)
		if err := s.serve(thread, x, now.slots, now.faults, reply); err != nil {
			return err
		}
		if len(later) == 0 {
			continue
		}
		owned := x
		x = newExchange()
		x.done = owned.done
		detached.Go(func() {
			defer owned.free()
			for _, p := range later {
				if s.hold(stream.Context(), owned.arrived.Add(p.delay)) != nil {
					return
				}
				// An error here is the stream's own end, which RecvMsg reports.
				_ = s.serve(thread, owned, p.slots, p.faults, reply)
			}
		})
	}
}

// serve answers some commands of a message with one message, on the thread that the stream lives on.
func (s *store) serve(t *thread, x *exchange, slots []*slot, faults []fault, reply func(*exchange) error) error {
	if len(slots) == 0 {
		return nil
	}
	x.begin(s)
	x.reset()
	for i, slot := range slots {
		if faults != nil {
			x.fault = faults[i]
		}
		x.serve(slot)
	}
	if err := x.finish(); err != nil {
		return status.Errorf(codes.Internal, "store %d: %v", s.id, err)
	}
	s.stats.answered(t, slots, x.arrived, time.Now())
	return reply(x)
}

// waiting is a command that is served apart from those of its message, because it may wait for one of them.
type waiting struct {
	exchange *exchange
	faults   []fault
	due      time.Time
}

// waiting takes the commands that may wait for others out of a message.
func (s *store) waiting(d *trouble, x *exchange) (all []waiting) {
	for i := 0; i < x.used; {
		taken := x.slots[i]
		if !taken.cmd.waits() {
			i++
			continue
		}
		own, f := newExchange(), d.strike(taken.cmd, x.arrived)
		own.arrived, own.used = x.arrived, 1
		own.slots = []*slot{{id: taken.id, cmd: taken.cmd, other: taken.other}}
		taken.other.Cmd = nil
		all = append(all, waiting{own, []fault{f}, x.arrived.Add(f.delay)})
		x.used--
		x.slots[i], x.slots[x.used] = x.slots[x.used], taken
	}
	return all
}

// portion is a part of a message: commands that are served together, what happens to each, and how long after their arrival.
type portion struct {
	slots  []*slot
	faults []fault
	delay  time.Duration
}

func (p *portion) add(s *slot, f fault) {
	p.slots, p.faults = append(p.slots, s), append(p.faults, f)
}

// divide separates the commands of a message that are served at once from those that are delayed or heavy, which come in the order
// in which they are due.
func (s *store) divide(d *trouble, x *exchange) (now portion, later []portion) {
	stalled := d.stalled(x.arrived)
	for _, slot := range x.slots[:x.used] {
		f := d.strike(slot.cmd, x.arrived)
		if empty := slot.other.GetEmpty(); slot.cmd == cmdEmpty && empty != nil {
			f.delay += time.Duration(min(empty.DelayTime, maxEmptyDelay)) * time.Millisecond
		}
		if f.delay == 0 && !stalled && !slot.cmd.heavy() {
			now.add(slot, f)
			continue
		}
		if n := len(later); n == 0 || later[n-1].delay != f.delay {
			later = append(later, portion{delay: f.delay})
		}
		later[len(later)-1].add(slot, f)
	}
	slices.SortStableFunc(later, func(a, b portion) int { return cmp.Compare(a.delay, b.delay) })
	return now, later
}

// maxEmptyDelay bounds, in milliseconds, the delay that an Empty command may ask for.
const maxEmptyDelay = 60_000

func (x *exchange) anyHeavy() bool {
	for _, s := range x.slots[:x.used] {
		if s.cmd.heavy() || s.cmd == cmdEmpty {
			return true
		}
	}
	return false
}
