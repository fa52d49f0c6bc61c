// SPDX-License-Identifier: Apache-2.0

// Package ledger keeps what one worker was told "OK" for: for each key, the values
// that it may hold now, as far as this worker is concerned.
//
// A write replaces another for certain only if it began after the other one was
// acknowledged. So a key keeps its last acknowledged write, those that overlapped
// with it, and all whose end is not known: a write that failed may have happened, or
// may happen yet. When a key is read back and holds none of these, the
// acknowledged write is gone, unless another worker wrote to it, which that worker's
// ledger can tell.
package ledger

import (
	"iter"
	"math"
	"sync"

	"github.com/cespare/xxhash/v2"
)

// Ledger is safe for concurrent use. When it is full it forgets half of all keys, by
// a hash, and from then on follows the other half only: what it says of those
// stays complete.
type Ledger struct {
	shards [Parts]shard
}

// Parts is into how many parts, by their hashes, keys are divided: the same ones in every ledger.
const Parts = 64

type shard struct {
	mu    sync.Mutex
	most  int
	level uint // keys whose hash has so many zero bits, above those that choose the shard, are followed
	keys  map[uint64]*entry
}

type entry struct {
	key    string
	lost   bool // no more can be said: too many writes whose end is not known, or two keys with one hash
	last   Span // of the acknowledged write that began last
	writes []write
}

// Span is when a call began and when its answer was there, in nanoseconds on the run's clock.
type Span struct{ Start, End int64 }

// Never is the end of a write that was not acknowledged.
const Never = math.MaxInt64

type write struct {
	value uint64
	end   int64
}

// mostWrites is how many values of a key are followed.
const mostWrites = 16

// New returns an empty ledger for about so many keys, of some 200 bytes each.
func New(keys int) *Ledger {
	l := &Ledger{}
	for i := range l.shards {
		l.shards[i] = shard{most: max(1, keys/Parts), keys: make(map[uint64]*entry)}
	}
	return l
}

// None is the hash of no value: of a key that is deleted.
const None = 0

// Hash returns the hash that stands for a value; nil is none.
func Hash(value []byte) uint64 {
	if value == nil {
		return None
	}
	return max(1, xxhash.Sum64(value))
}

func (s *shard) follows(hash uint64) bool { return Follows(hash, s.level) }

// Follows tells whether a ledger at that level follows a key with that hash.
func Follows(hash uint64, level uint) bool { return hash/Parts&(1<<level-1) == 0 }

// Begin notes that a value is about to be written.
func (l *Ledger) Begin(key []byte, value uint64) {
	hash := xxhash.Sum64(key)
	s := &l.shards[hash%Parts]
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.follows(hash) {
		return
	}
	e := s.keys[hash]
	if e == nil {
		if len(s.keys) >= s.most && !s.thin(hash) {
			return
		}
		e = &entry{key: string(key), last: Span{-1, -1}}
		s.keys[hash] = e
	}
	switch {
	case e.lost:
	case e.key != string(key) || len(e.writes) == mostWrites:
		e.lost, e.writes = true, nil
	default:
		e.writes = append(e.writes, write{value, Never})
	}
}

// thin forgets keys until there is room, and tells whether the one with the hash is
// still followed.
func (s *shard) thin(hash uint64) bool {
	for len(s.keys) >= s.most && s.level < 57 {
		s.level++
		for h := range s.keys {
			if !s.follows(h) {
				delete(s.keys, h)
			}
		}
	}
	return s.follows(hash)
}

// Acknowledge notes that a value whose write has begun was written. Every write
// that ended before this one began is replaced. A write of which the end is not
// known is never acknowledged.
func (l *Ledger) Acknowledge(key []byte, value uint64, at Span) {
	hash := xxhash.Sum64(key)
	s := &l.shards[hash%Parts]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.keys[hash]
	if e == nil || e.lost || e.key != string(key) {
		return
	}
	if at.Start > e.last.Start {
		e.last = at
	}
	kept, found := e.writes[:0], false
	for _, w := range e.writes {
		if !found && w.value == value && w.end == Never {
			found = true
			w.end = at.End
		} else if w.end < at.Start {
			continue
		}
		kept = append(kept, w)
	}
	e.writes = kept
	// The one that was acknowledged may itself have been replaced by one that began
	// after its end, whose answer was taken first.
	if at.End < e.last.Start {
		for i, w := range e.writes {
			if w.value == value && w.end == at.End {
				e.writes = append(e.writes[:i], e.writes[i+1:]...)
				break
			}
		}
	}
}

// Key is a key with an acknowledged write.
type Key struct {
	Key  []byte
	Hash uint64
	Last Span // of the acknowledged write that began last
}

// Keys yields every key of a part with an acknowledged write of which something can be
// said. Nothing may be written meanwhile.
func (l *Ledger) Keys(part int) iter.Seq[Key] {
	return func(yield func(Key) bool) {
		for hash, e := range l.shards[part].keys {
			if !e.lost && e.last.End >= 0 && !yield(Key{[]byte(e.key), hash, e.last}) {
				return
			}
		}
	}
}

// Untracked returns the hashes of the keys of a part that were written to and of which nothing can be said.
func (l *Ledger) Untracked(part int) (hashes []uint64) {
	s := &l.shards[part]
	s.mu.Lock()
	defer s.mu.Unlock()
	for hash, e := range s.keys {
		if e.lost {
			hashes = append(hashes, hash)
		}
	}
	return hashes
}

// Level says which keys of a part are followed (see [Follows]): one of 2 to that power.
func (l *Ledger) Level(part int) uint {
	s := &l.shards[part]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.level
}

// Wrote tells whether the key may hold a value that this worker has written: end is
// when the write was acknowledged, or Never. followed is false when nothing is known of the key.
func (l *Ledger) Wrote(key []byte, value uint64) (end int64, mine, followed bool) {
	hash := xxhash.Sum64(key)
	s := &l.shards[hash%Parts]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.keys[hash]
	switch {
	case e == nil:
		return 0, false, s.follows(hash) // never written to, if it would be followed
	case e.lost || e.key != string(key):
		return 0, false, false
	}
	for _, w := range e.writes {
		if w.value == value {
			end, mine = max(end, w.end), true
		}
	}
	return end, mine, true
}
