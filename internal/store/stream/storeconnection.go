// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"context"
	"slices"
	"time"

	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/store/kit"
)

// storeConnection is a store as one lane sees it: its links (streams on connections of their own), and the messages that wait for one.
type storeConnection struct {
	id      uint64
	address string
	links   []*link
	turn    int // of the links
	count   *storeCounters
	ctx     context.Context // of the links
	close   func()          // ends it

	queue   []*parcel     // messages that are full, or found no link; the last one is being filled
	waiting int           // commands in them
	idle    []*parcel     // whose memory can be used again
	since   time.Duration // when the first command was put in
}

// parcel is a message with the parts that are in it: parts[i] has the id
// message.ids[i], unless it was given up since.
type parcel struct {
	buffer *[]byte // the memory of message.commands
	message
	parts []*part
	ends  []int // where in message.commands each command ends
}

// maxBytes is the size at which a message is full, whatever it holds.
const maxBytes = 512 << 10

// add puts a command into a message.
func (t *storeConnection) add(p *part, d *dialect, maxBatch int, now time.Duration) {
	var m *parcel
	if n := len(t.queue); n > 0 {
		m = t.queue[n-1]
	}
	if m == nil || len(m.ids) >= maxBatch || len(m.commands) >= maxBytes {
		m = t.parcel()
		t.queue = append(t.queue, m)
	}
	if t.waiting == 0 {
		t.since = now
	}
	m.add(p.id, p, d)
	m.parts = append(m.parts, p)
	m.ends = append(m.ends, len(m.commands))
	t.waiting++
}

func (t *storeConnection) parcel() *parcel {
	var m *parcel
	if n := len(t.idle); n > 0 {
		m = t.idle[n-1]
		t.idle = t.idle[:n-1]
	} else {
		m = new(parcel)
	}
	m.buffer = buffers.Get(0)
	m.commands = *m.buffer
	return m
}

// sendable returns a link that is up and has room, and tells whether to wait for one.
func (t *storeConnection) sendable() (l *link, wait bool) {
	for range t.links {
		t.turn = (t.turn + 1) % len(t.links)
		l := t.links[t.turn]
		switch {
		case l.state == connecting:
			wait = true
		case l.state == up && len(l.out) < cap(l.out):
			return l, true
		case l.state == up:
			l.starved.Store(true)
			if len(l.out) < cap(l.out) { // meanwhile
				return l, true
			}
			wait = true
		}
	}
	return nil, wait
}

// open tells whether the connection has not been closed.
func (t *storeConnection) open() bool { return t.ctx.Err() == nil }

// reachable tells whether a command may be put in: it will be sent, or refused, in a moment.
func (t *storeConnection) reachable() bool {
	for _, l := range t.links {
		if l.state == up || l.state == connecting {
			return true
		}
	}
	return false
}

// send hands the first message to l.
func (t *storeConnection) send(l *link) {
	m := t.queue[0]
	before := len(m.ids)
	m.drop()
	if n := len(m.ids); n > 0 {
		var kinds kit.Kinds
		for _, p := range m.parts {
			p.link = l
			kinds.Add(store.Command(p.command - cmdRawGet))
		}
		t.count.messages.Sent(n, &kinds)
		*m.buffer = m.finish()
		l.out <- outgoing{l.grpc, m.buffer}
		m.buffer = nil
	}
	t.pop(before)
}

// drop takes out the commands that were given up: a write should not take effect long after its call has ended.
func (m *parcel) drop() {
	kept, bytes, from := 0, 0, 0
	for i, p := range m.parts {
		if p.id == m.ids[i] {
			if kept != i {
				bytes += copy(m.commands[bytes:], m.commands[from:m.ends[i]])
				m.ids[kept], m.parts[kept] = m.ids[i], p
			} else {
				bytes = m.ends[i]
			}
			kept++
		}
		from = m.ends[i]
	}
	clear(m.parts[kept:])
	m.ids, m.parts, m.commands = m.ids[:kept], m.parts[:kept], m.commands[:bytes]
}

// pop takes the first message, in which so many commands were, out of the queue.
func (t *storeConnection) pop(commands int) {
	m := t.queue[0]
	t.queue = slices.Delete(t.queue, 0, 1)
	t.waiting -= commands
	if m.buffer != nil {
		*m.buffer = m.commands
		buffers.Put(m.buffer)
	}
	clear(m.parts)
	*m = parcel{message: message{ids: m.ids[:0]}, parts: m.parts[:0], ends: m.ends[:0]}
	t.idle = append(t.idle, m)
}
