// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Done is a set of numbers from 0 on that is built up nearly in order: those of
// the batches that a lane has loaded. It takes memory for its gaps only. The zero
// value is the empty set. As text it is "0-99,105,107-120".
type Done struct {
	upTo  int64  // all below
	later []span // sorted, disjoint, not touching each other or upTo
}

type span struct{ from, to int64 } // [from, to)

// Add puts n ≥ 0 into the set.
func (d *Done) Add(n int64) { d.AddRange(n, n+1) }

// AddRange puts [from, to) into the set.
func (d *Done) AddRange(from, to int64) {
	from = max(from, 0)
	if from >= to {
		return
	}
	// The spans [i, j) overlap or touch the new one.
	i, _ := slices.BinarySearchFunc(d.later, from, func(s span, from int64) int {
		if s.to < from {
			return -1
		}
		return 1
	})
	j := i
	for ; j < len(d.later) && d.later[j].from <= to; j++ {
		from, to = min(from, d.later[j].from), max(to, d.later[j].to)
	}
	if from > d.upTo {
		d.later = slices.Replace(d.later, i, j, span{from, to})
		return
	}
	d.upTo = max(d.upTo, to)
	d.later = slices.Delete(d.later, 0, j)
}

// Union puts all of other into the set.
func (d *Done) Union(other Done) {
	d.AddRange(0, other.upTo)
	for _, s := range other.later {
		d.AddRange(s.from, s.to)
	}
}

// Without returns the set without [from, to).
func (d *Done) Without(from, to int64) Done {
	var rest Done
	for s := range d.spans {
		rest.AddRange(s.from, min(s.to, from))
		rest.AddRange(max(s.from, to), s.to)
	}
	return rest
}

// spans yields the set in order.
func (d *Done) spans(yield func(span) bool) {
	if d.upTo > 0 && !yield(span{0, d.upTo}) {
		return
	}
	for _, s := range d.later {
		if !yield(s) {
			return
		}
	}
}

// CountIn returns how many numbers of [from, to) are in the set.
func (d *Done) CountIn(from, to int64) int64 {
	var n int64
	for s := range d.spans {
		n += max(0, min(s.to, to)-max(s.from, from))
	}
	return n
}

// Contains reports whether n is in the set.
func (d *Done) Contains(n int64) bool { return n < d.Next(n) }

// Next returns the smallest number from n on that is not in the set.
func (d *Done) Next(n int64) int64 {
	if n < d.upTo {
		return d.upTo
	}
	i, _ := slices.BinarySearchFunc(d.later, n, func(s span, n int64) int {
		if s.to <= n {
			return -1
		}
		return 1
	})
	if i < len(d.later) && d.later[i].from <= n {
		return d.later[i].to
	}
	return n
}

// Bounds returns the smallest number in the set and the one after the largest; both
// are 0 if it is empty.
func (d *Done) Bounds() (from, to int64) {
	to = d.upTo
	if d.upTo == 0 && len(d.later) > 0 {
		from = d.later[0].from
	}
	if n := len(d.later); n > 0 {
		to = d.later[n-1].to
	}
	return from, to
}

// Len returns how many numbers are in the set.
func (d *Done) Len() int64 {
	n := d.upTo
	for _, s := range d.later {
		n += s.to - s.from
	}
	return n
}

// MarshalText implements encoding.TextMarshaler.
func (d Done) MarshalText() ([]byte, error) {
	var text []byte
	add := func(s span) {
		if len(text) > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, s.from, 10)
		if s.to > s.from+1 {
			text = append(text, '-')
			text = strconv.AppendInt(text, s.to-1, 10)
		}
	}
	if d.upTo > 0 {
		add(span{0, d.upTo})
	}
	for _, s := range d.later {
		add(s)
	}
	return text, nil
}

// maxSpans bounds what UnmarshalText takes: gaps come from calls in flight.
const maxSpans = 1 << 20

// UnmarshalText implements encoding.TextUnmarshaler. Numbers must ascend.
func (d *Done) UnmarshalText(text []byte) error {
	*d = Done{}
	if len(text) == 0 {
		return nil
	}
	last := int64(-1)
	for part := range strings.SplitSeq(string(text), ",") {
		low, high, isRange := strings.Cut(part, "-")
		from, err := strconv.ParseInt(low, 10, 64)
		to := from
		if err == nil && isRange {
			to, err = strconv.ParseInt(high, 10, 64)
		}
		if err != nil || from <= last || to < from || to >= 1<<62 {
			return fmt.Errorf("progress: %q is not an ascending list of numbers and ranges as 0-99,105", part)
		}
		if len(d.later) == maxSpans {
			return errors.New("progress: too many gaps")
		}
		d.AddRange(from, to+1)
		last = to
	}
	return nil
}

// LaneProgress is how far one lane's share of a load has come: which of its
// batches (j of [Place.Index]) the store has acknowledged.
type LaneProgress struct {
	Worker  int   `json:"worker"`
	Workers int   `json:"workers"`
	Lane    int   `json:"lane"`
	Lanes   int   `json:"lanes"`
	Batch   int64 `json:"batch"`
	Done    Done  `json:"done"`
}

// Progress is how far a load has come, over all lanes that ever worked on it. A
// load is continued by beginning only the batches that are not done; the fleet and
// the batch size need not be the same as before.
type Progress struct{ shares []share }

// share is the work of one fleet: lanes of the same batch size and the same divisors.
type share struct {
	workers, lanes, batch int64
	done                  []*Done // worker·lanes + lane; nil: nothing known
	prefix                int64   // all records below are done
}

// NewProgress joins what lanes have reported. Reports of one lane may repeat.
func NewProgress(lanes ...LaneProgress) (*Progress, error) {
	p := &Progress{}
	for _, l := range lanes {
		if err := p.add(l); err != nil {
			return nil, err
		}
	}
	for i := range p.shares {
		s := &p.shares[i]
		s.prefix = s.allBelow()
	}
	return p, nil
}

// allBelow returns the first record of the first batch that is not done.
func (s *share) allBelow() int64 {
	first := int64(math.MaxInt64)
	for i, d := range s.done {
		var j int64
		if d != nil {
			j = min(d.Next(0), (1<<61)/(s.workers*s.lanes*s.batch)) // no product overflows
		}
		worker, lane := int64(i)/s.lanes, int64(i)%s.lanes
		first = min(first, worker+s.workers*(lane+s.lanes*j))
	}
	return first * s.batch
}

// maxLanes bounds a fleet, and a batch.
const maxLanes = 1 << 20

func (p *Progress) add(l LaneProgress) error {
	place := Place{l.Worker, l.Workers, l.Lane, l.Lanes}
	if err := place.check(); err != nil {
		return fmt.Errorf("progress: %w", err)
	}
	if l.Batch < 1 || l.Batch > maxLanes || int64(l.Workers)*int64(l.Lanes) > maxLanes {
		return fmt.Errorf("progress: batch %d, %d workers, %d lanes are no fleet", l.Batch, l.Workers, l.Lanes)
	}
	workers, lanes := int64(l.Workers), int64(l.Lanes)
	i := slices.IndexFunc(p.shares, func(s share) bool {
		return s.workers == workers && s.lanes == lanes && s.batch == l.Batch
	})
	if i < 0 {
		i = len(p.shares)
		p.shares = append(p.shares, share{workers: workers, lanes: lanes, batch: l.Batch, done: make([]*Done, workers*lanes)})
	}
	slot := &p.shares[i].done[l.Worker*l.Lanes+l.Lane]
	if *slot == nil {
		*slot = &Done{}
	}
	(*slot).Union(l.Done)
	return nil
}

// Loaded reports whether all of the records [from, to), counted from insertstart,
// are in the store.
func (p *Progress) Loaded(from, to int64) bool { return p.Next(from, to) == to }

// Next returns the first of the records [from, to), counted from insertstart, that is
// not known to be in the store; to if there is none.
func (p *Progress) Next(from, to int64) int64 {
	for from < to {
		reached := from
		for i := range p.shares {
			reached = max(reached, p.shares[i].reach(from))
		}
		if reached == from {
			return from
		}
		from = reached
	}
	return to
}

// reach returns the end of the batch around a record if that batch is done, and else the record.
func (s *share) reach(record int64) int64 {
	if record < s.prefix {
		return s.prefix
	}
	index := record / s.batch
	worker, turn := index%s.workers, index/s.workers
	lane, j := turn%s.lanes, turn/s.lanes
	if d := s.done[worker*s.lanes+lane]; d != nil && d.Contains(j) {
		return (index + 1) * s.batch
	}
	return record
}
