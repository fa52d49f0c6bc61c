// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kvbench/kvbench/internal/store"
)

// The numbers of a command's field in tikvpb's BatchCommandsRequest.Request and
// of its answer's in BatchCommandsResponse.Response are the same.
const (
	cmdRawGet         protowire.Number = 13
	cmdRawBatchGet    protowire.Number = 14
	cmdRawPut         protowire.Number = 15
	cmdRawBatchPut    protowire.Number = 16
	cmdRawDelete      protowire.Number = 17
	cmdRawBatchDelete protowire.Number = 18
	cmdRawScan        protowire.Number = 19
)

// message is a BatchCommandsRequest in the making. Commands are written in the
// wire format at once: their context comes ready-made with the route, so that
// all of a command is copied once and no structure is built for it.
type message struct {
	commands []byte   // field 1, once for each command
	ids      []uint64 // field 2
}

// dialect is what all commands of a session have in common.
type dialect struct {
	prefix []byte // of the keyspace, before every key
	end    []byte // of the keyspace: where a scan without an end stops
	cf     string
}

// finish appends the ids and returns the whole message. m must be reset after.
func (m *message) finish() []byte {
	size := 0
	for _, id := range m.ids {
		size += protowire.SizeVarint(id)
	}
	b := protowire.AppendTag(m.commands, 2, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(size))
	for _, id := range m.ids {
		b = protowire.AppendVarint(b, id)
	}
	return b
}

// add appends the command that p stands for. For each verb there is first its
// size, since lengths come before what they measure, then the fields in order.
func (m *message) add(id uint64, p *part, d *dialect) {
	m.ids = append(m.ids, id)
	c := p.flight.call
	switch p.command {
	case cmdRawGet, cmdRawDelete: // context 1, key 2, cf 3
		key := c.Keys[p.first()]
		context := p.route.context(p.command)
		m.open(p.command, bytesSize(len(context))+bytesSize(len(d.prefix)+len(key))+cfSize(d.cf))
		m.bytes(1, context, nil)
		m.bytes(2, d.prefix, key)
		m.string(3, d.cf)

	case cmdRawPut: // context 1, key 2, value 3, cf 4, ttl 5
		i := p.first()
		key, value := c.Keys[i], c.Values[i]
		context := p.route.context(p.command)
		m.open(p.command, bytesSize(len(context))+bytesSize(len(d.prefix)+len(key))+bytesSize(len(value))+cfSize(d.cf)+uintSize(c.TTL))
		m.bytes(1, context, nil)
		m.bytes(2, d.prefix, key)
		m.bytes(3, value, nil)
		m.string(4, d.cf)
		m.uint(5, c.TTL)

	case cmdRawBatchGet, cmdRawBatchDelete: // context 1, keys 2, cf 3
		context := p.route.context(p.command)
		size := bytesSize(len(context)) + cfSize(d.cf)
		for _, i := range p.keys {
			size += bytesSize(len(d.prefix) + len(c.Keys[i]))
		}
		m.open(p.command, size)
		m.bytes(1, context, nil)
		for _, i := range p.keys {
			m.bytes(2, d.prefix, c.Keys[i])
		}
		m.string(3, d.cf)

	case cmdRawBatchPut: // context 1, pairs 2 {key 2, value 3}, cf 3, ttl 4 (of old), ttls 6: one for all
		context := p.route.context(p.command)
		size := bytesSize(len(context)) + cfSize(d.cf) + uintSize(c.TTL)
		if c.TTL > 0 {
			size += bytesSize(protowire.SizeVarint(c.TTL))
		}
		for _, i := range p.keys {
			size += bytesSize(pairSize(d, c, i))
		}
		m.open(p.command, size)
		m.bytes(1, context, nil)
		for _, i := range p.keys {
			m.length(2, pairSize(d, c, i))
			m.bytes(2, d.prefix, c.Keys[i])
			m.bytes(3, c.Values[i], nil)
		}
		m.string(3, d.cf)
		m.uint(4, c.TTL)
		if c.TTL > 0 {
			m.length(6, protowire.SizeVarint(c.TTL))
			m.commands = protowire.AppendVarint(m.commands, c.TTL)
		}

	case cmdRawScan: // context 1, start 2, limit 3, key_only 4, cf 5, end 7
		context := p.route.context(p.command)
		start, limit := p.flight.scanFrom, uint64(c.Limit-len(c.FoundKeys))
		keyOnly := uint64(0)
		if c.KeyOnly {
			keyOnly = 1
		}
		prefix, end := d.prefix, c.EndKey
		if len(end) == 0 {
			prefix, end = d.end, nil
		}
		m.open(p.command, bytesSize(len(context))+bytesSize(len(d.prefix)+len(start))+uintSize(limit)+uintSize(keyOnly)+cfSize(d.cf)+bytesSize(len(prefix)+len(end)))
		m.bytes(1, context, nil)
		m.bytes(2, d.prefix, start)
		m.uint(3, limit)
		m.uint(4, keyOnly)
		m.string(5, d.cf)
		m.bytes(7, prefix, end)
	}
}

func pairSize(d *dialect, c *store.Call, i int32) int {
	return bytesSize(len(d.prefix)+len(c.Keys[i])) + bytesSize(len(c.Values[i]))
}

// open starts a command whose fields take size bytes.
func (m *message) open(command protowire.Number, size int) {
	m.length(1, protowire.SizeTag(command)+protowire.SizeBytes(size))
	m.length(command, size)
}

// length starts a field of n bytes.
func (m *message) length(field protowire.Number, n int) {
	m.commands = protowire.AppendTag(m.commands, field, protowire.BytesType)
	m.commands = protowire.AppendVarint(m.commands, uint64(n))
}

// bytes appends a field whose content is in two pieces.
func (m *message) bytes(field protowire.Number, a, b []byte) {
	m.length(field, len(a)+len(b))
	m.commands = append(append(m.commands, a...), b...)
}

func (m *message) string(field protowire.Number, s string) {
	if s != "" {
		m.length(field, len(s))
		m.commands = append(m.commands, s...)
	}
}

func (m *message) uint(field protowire.Number, v uint64) {
	if v != 0 {
		m.commands = protowire.AppendTag(m.commands, field, protowire.VarintType)
		m.commands = protowire.AppendVarint(m.commands, v)
	}
}

// The sizes of fields whose number is below 16, and whose tag so takes one byte.

func bytesSize(n int) int { return 1 + protowire.SizeBytes(n) }

func cfSize(cf string) int {
	if cf == "" {
		return 0
	}
	return bytesSize(len(cf))
}

func uintSize(v uint64) int {
	if v == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(v)
}
