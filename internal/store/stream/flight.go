// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"bytes"
	"errors"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/store/tikv"
)

// flight is a call in flight. It has one part, or as many as its keys have
// regions. Its memory is used again.
type flight struct {
	index  int // in session.flights
	call   *store.Call
	parts  []*part // those that are not done
	gaveUp store.Class

	scanFrom []byte // Scan: where to go on
	arena    []byte // holds what was found
}

// part is what a call asks of one region: one command, or one fallback.
type part struct {
	slot     int // in session.parts
	flight   *flight
	id       uint64 // on the wire. A part has a new one each time it is sent or given up, so that no late or double answer finds it
	command  protowire.Number
	keys     []int32 // positions among the call's keys
	size     int     // bytes of these keys and their values
	route    *route
	link     *link // on which the answer is to come; nil: not sent
	fallback *fallback
}

func (p *part) first() int32 { return p.keys[0] }

// begin makes f ready for a call.
func (f *flight) begin(c *store.Call) {
	f.call, f.gaveUp, f.arena = c, store.OK, f.arena[:0]
	c.Slot = f
	c.Found, c.FoundKeys, c.Swapped = c.Found[:0], c.FoundKeys[:0], false
	c.RPCs, c.End, c.Class, c.Err = 0, c.Start, store.OK, nil
	if c.Verb == store.Get {
		for range c.Keys {
			c.Found = append(c.Found, nil)
		}
	}
}

// keep copies what was found out of a message.
func (f *flight) keep(b []byte) []byte {
	n := len(f.arena)
	f.arena = append(f.arena, b...)
	if f.arena == nil {
		f.arena = make([]byte, 0, 64) // an empty value is not nil
	}
	return f.arena[n:len(f.arena):len(f.arena)]
}

// fail notes an error. The first one is the call's.
func (f *flight) fail(class store.Class, err error) {
	if f.call.Class == store.OK {
		f.call.Class, f.call.Err = class, err
	}
}

var errOutside = errors.New("an answer with a key that was not asked for")

// take fills in an answer without a region error.
func (p *part) take(a *answer, d *dialect) error {
	c := p.flight.call
	if a.failed {
		p.flight.fail(store.RawError, errors.New(string(a.text)))
		return nil
	}
	switch p.command {
	case cmdRawGet:
		if !a.notFound {
			c.Found[p.first()] = p.flight.keep(a.value)
		}
	case cmdRawBatchGet:
		return p.takePairs(a, d)
	case cmdRawScan:
		return p.takeScan(a, d)
	}
	return nil
}

// takePairs fills in the answer to a batch read: pairs that were found, in the order in which they were asked for.
func (p *part) takePairs(a *answer, d *dialect) error {
	c, at := p.flight.call, 0
	var kv pair
	for _, data := range a.pairs {
		key, err := p.pair(&kv, data, d)
		if err != nil || c.Class != store.OK {
			return err
		}
		if at = p.position(key, at); at < 0 {
			if at = p.position(key, 0); at < 0 {
				return errOutside
			}
		}
		c.Found[p.keys[at]] = p.flight.keep(kv.value)
		at++
	}
	return nil
}

// position returns where among the part's keys, from at on, there is key; or -1.
func (p *part) position(key []byte, at int) int {
	for ; at < len(p.keys); at++ {
		if bytes.Equal(p.flight.call.Keys[p.keys[at]], key) {
			return at
		}
	}
	return -1
}

// takeScan appends the pairs of one region.
func (p *part) takeScan(a *answer, d *dialect) error {
	f := p.flight
	c := f.call
	if len(a.pairs) > c.Limit-len(c.FoundKeys) {
		return errOutside
	}
	var kv pair
	for _, data := range a.pairs {
		key, err := p.pair(&kv, data, d)
		if err != nil || c.Class != store.OK {
			return err
		}
		if bytes.Compare(key, f.scanFrom) < 0 || len(c.EndKey) > 0 && bytes.Compare(key, c.EndKey) >= 0 {
			return errOutside
		}
		c.FoundKeys = append(c.FoundKeys, f.keep(key))
		c.Found = append(c.Found, f.keep(kv.value))
	}
	return nil
}

// pair reads a pair and returns its key without the prefix. The pair may be an
// error, by which TiKV reports that the whole command failed.
func (p *part) pair(kv *pair, data []byte, d *dialect) (key []byte, err error) {
	if err := kv.parse(data); err != nil {
		return nil, err
	}
	if kv.failed {
		var e kvrpcpb.KeyError
		if err := e.Unmarshal(kv.err); err != nil {
			return nil, err
		}
		p.flight.fail(store.RawError, errors.New(tikv.PairError([]*kvrpcpb.KvPair{{Error: &e}})))
		return nil, nil
	}
	key, ok := bytes.CutPrefix(kv.key, d.prefix)
	if !ok {
		return nil, errOutside
	}
	return key, nil
}

// scanned tells whether a scan is complete when the region that ends at end has been read.
func (f *flight) scanned(end []byte) bool {
	c := f.call
	return c.Class != store.OK || len(c.FoundKeys) >= c.Limit || len(end) == 0 || len(c.EndKey) > 0 && bytes.Compare(end, c.EndKey) >= 0
}

// ended notes when a part was done: a call ends with its slowest part.
func (f *flight) ended(at time.Duration) { f.call.End = max(f.call.End, at) }
