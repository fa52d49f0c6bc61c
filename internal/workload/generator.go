// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"fmt"
	"math"

	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/store"
)

// Place says which lane of the fleet a generator is for.
type Place struct{ Worker, Workers, Lane, Lanes int }

// Index returns the lane's j-th index in the fleet's sequence, counting from 0:
// lanes of a worker, and workers of the fleet, take turns.
func (p Place) Index(j int64) int64 {
	return int64(p.Worker) + int64(p.Workers)*(int64(p.Lane)+int64(p.Lanes)*j)
}

// Turn is the inverse of Index. false: the index is another lane's.
func (p Place) Turn(index int64) (j int64, ok bool) {
	turn := index / int64(p.Workers)
	return turn / int64(p.Lanes), index%int64(p.Workers) == int64(p.Worker) && turn%int64(p.Lanes) == int64(p.Lane)
}

func (p Place) check() error {
	if p.Worker < 0 || p.Worker >= p.Workers || p.Lane < 0 || p.Lane >= p.Lanes {
		return fmt.Errorf("worker %d of %d, lane %d of %d is no place in a fleet", p.Worker, p.Workers, p.Lane, p.Lanes)
	}
	return nil
}

// Batches returns how many indexes the sequence has: batches of the load, or of
// the run if that is bounded by operations. 0: as many as time allows.
func Batches(s *spec.Spec) int64 {
	n, batch := s.Operations, int64(s.Batch)
	if s.Phase == spec.Load {
		n = s.InsertCount
	}
	return n/batch + (n%batch+batch-1)/batch
}

// Generator makes the operations of one lane. It is for one goroutine. An operation
// follows from (properties, seed, index), with one exception that cannot be
// avoided: which of a run's inserts may already be read depends on their acknowledgements.
type Generator struct {
	spec    *spec.Spec
	load    bool
	total   int64 // operations after the warm-up; 0 is without end
	warmUp  int64 // indexes of its share that the warm-up took
	step    int64 // from one index of its share to the next
	batch   int64
	kinds   [Kinds]uint64 // cumulated probabilities, of 2^64
	last    Kind          // the last one with any
	keys    keyCodec
	scanEnd []byte
	choose  chooser
	values  values
	fields  lengths
	scans   lengths
	bank    bool // rows are balances
	inserts inserts
	ttl     uint64
	known   *known
	absent  int // scans that lacked only rows that are not there
}

// New returns the generator of a lane.
func New(s *spec.Spec, p Place) (*Generator, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if s.InsertCount < 1 || s.Batch < 1 {
		return nil, errors.New("the specification was not made by spec.Parse")
	}
	g := &Generator{
		spec:    s,
		load:    s.Phase == spec.Load,
		total:   s.Operations,
		step:    p.Index(1) - p.Index(0),
		batch:   int64(s.Batch),
		keys:    newKeyCodec(s),
		choose:  newChooser(s),
		inserts: newInserts(s.Records, p),
		ttl:     uint64(s.TTL.Seconds()),
	}
	g.scanEnd = g.keys.end()
	g.bank = s.Row.Format == spec.Balance
	g.values = newValues(s, &g.keys)
	g.known = newKnown(s, &g.keys)
	g.fields = newLengths(s.Row.LengthDistribution, int64(s.Row.MinFieldLength), int64(s.Row.FieldLength), s.Row.LengthHistogram)
	g.scans = newLengths(s.ScanDistribution, s.MinScan, s.MaxScan, spec.LengthHistogram{})
	if g.load {
		g.total = s.InsertCount
	}
	weights := [Kinds]float64{
		Read: s.Proportions.Read, Update: s.Proportions.Update, Insert: s.Proportions.Insert,
		Delete: s.Proportions.Delete, Scan: s.Proportions.Scan, ReadModifyWrite: s.Proportions.ReadModifyWrite,
	}
	var sum float64
	for kind, weight := range weights {
		sum += weight
		g.kinds[kind] = ofTwo64(sum / s.Proportions.Sum())
		if weight > 0 {
			g.last = Kind(kind)
		}
	}
	return g, nil
}

// Salt makes all values differ from those under another salt; kinds, keys and lengths
// stay. It comes before the first operation.
func (g *Generator) Salt(salt uint64) { g.values.salt = salt }

// Letters returns how many random letters a write has at least: with few of them, some
// writes are the same as others. With go-ycsb's dataintegrity there are none.
func (g *Generator) Letters() int {
	s := g.spec
	if s.Integrity && g.values.text {
		return 0
	}
	length := int(g.fields.least())
	if s.Integrity {
		length = max(0, length-sumSize)
	}
	n := int(float64(length)*g.values.random + 0.5)
	changesFields := s.Proportions.Update > 0 && s.UpdateMode != spec.Blind || s.Proportions.ReadModifyWrite > 0
	if changesFields && !s.WriteAllFields {
		return n
	}
	return n * s.Row.Fields
}

// ofTwo64 scales a probability to 2^64.
func ofTwo64(p float64) uint64 {
	if p >= 1 {
		return math.MaxUint64
	}
	return uint64(p * 0x1p64)
}

// KeyBytes returns the most bytes of a key.
func (g *Generator) KeyBytes() int { return g.keys.size() }

// RowBytes returns the most bytes of a row.
func (g *Generator) RowBytes() int64 { return g.values.codec.size(g.fields.high) }

// KeyRange returns the range [first, end) that holds the whole table.
func (g *Generator) KeyRange() (first, end []byte) {
	return append([]byte(nil), g.keys.head[:g.keys.table]...), g.keys.end()
}

// Key appends the key of a record.
func (g *Generator) Key(dst []byte, record int64) []byte { return g.keys.append(dst, record) }

// Check checks a row that was read: its shape, and with dataintegrity its content.
// The error is a [*WrongValue].
func (g *Generator) Check(key, row []byte) error {
	return g.values.checkWhole(key, row)
}

// Checker checks rows as a [Generator] does, for who needs no more of it. It is for one goroutine.
type Checker struct {
	keys   keyCodec
	values values
}

// NewChecker returns a checker of the rows that a specification makes.
func NewChecker(s *spec.Spec) *Checker {
	c := &Checker{keys: newKeyCodec(s)}
	c.values = newValues(s, &c.keys)
	return c
}

// Check is [Generator.Check].
func (c *Checker) Check(key, row []byte) error { return c.values.checkWhole(key, row) }

// state is the generator's part of an operation.
type state struct {
	step    step
	random  random
	done    int   // of them done one after the other: scans, swaps
	field   int   // the field that is read or written, or allFields
	amount  int64 // of the transfer
	retries int   // of the current call

	keys    [][]byte // one per operation
	values  [][]byte // new rows
	olds    [][]byte // rows that swaps expect; nil: none
	inserts []int64  // numbers of the run's inserts

	keyBytes, valueBytes, oldBytes []byte // what the slices above lie in
}

// step is what the current call is for.
type step uint8

const (
	stepRead   step = iota // get, and that is all
	stepGet                // get, to put or to swap
	stepPut                // put what was got and changed
	stepSwap               // one row after the other
	stepInsert             // put new rows
	stepBlind              // put whole rows over what is there
	stepDelete
	stepScan     // one after the other
	stepLook     // get what a scan has left out
	stepUnlock   // give up what was got and will not be put
	stepAccounts // get two balances, to transfer from the first to the second
	stepTransfer // put them
)

// Begin makes the operation with that index of the fleet's sequence, and its first
// call. It returns false beyond the end: the load is complete, or operationcount is reached,
// for which those of the warm-up do not count.
func (g *Generator) Begin(op *Operation, index int64) bool {
	size := g.batch
	switch {
	case index < 0:
		return false
	case op.WarmUp && !g.load:
		g.warmUp++
	case g.total > 0:
		left := g.total - (index-g.warmUp*g.step)*g.batch
		if left <= 0 {
			return false
		}
		size = min(size, left)
	}
	first := index * g.batch
	op.Index, op.Result = index, Result{}
	op.reserve(int(size), g.keys.size())
	op.done, op.retries, op.field = 0, 0, allFields
	op.Call.ForUpdate, op.Call.Relaxed = false, false
	g.count(op)
	op.random = newRandom(g.spec.Seed, index)
	if g.load {
		g.beginLoad(op, first)
		return true
	}
	op.Kind = g.kind(&op.random)
	if g.bank {
		g.beginBank(op)
		return true
	}
	switch op.Kind {
	case Insert:
		g.beginInsert(op)
		return true
	case Scan, Read:
		op.field = g.readField(&op.random)
		op.Call.Relaxed = true
	case Update, ReadModifyWrite:
		op.field = g.writeField(&op.random)
	}
	n := g.spec.InsertCount + g.inserts.grown()
	for i := range op.Size {
		op.addKey(&g.keys, g.record(g.choose.next(&op.random, n, first+int64(i))))
	}
	call := &op.Call
	call.Keys, call.Values = op.keys, nil
	switch {
	case op.Kind == Scan:
		op.step = stepScan
		g.nextScan(op)
	case op.Kind == Delete:
		op.step = stepDelete
		call.Verb = store.Delete
	case op.Kind == Update && g.spec.UpdateMode == spec.Blind:
		for _, key := range op.keys {
			op.addValue(g.values.row(op.valueBytes, &op.random, key, &g.fields))
		}
		g.put(op, stepBlind)
	default:
		op.step = stepRead
		call.Verb = store.Get
		if op.Kind != Read {
			g.getForUpdate(op)
		}
	}
	return true
}

// count has the driver count what the operation costs, if that is transactions.
func (g *Generator) count(op *Operation) {
	switch {
	case g.spec.TiKV.API != spec.TxnAPI:
	case op.Call.Cost == nil:
		op.Call.Cost = new(store.Cost)
	default:
		*op.Call.Cost = store.Cost{}
	}
	op.Result.Cost = op.Call.Cost
}

// getForUpdate gets the rows that are to be changed. A swap is an update of its own.
func (g *Generator) getForUpdate(op *Operation) {
	op.step = stepGet
	op.Call.Verb, op.Call.Keys = store.Get, op.keys
	op.Call.ForUpdate = !g.swaps(op)
}

func (g *Generator) kind(r *random) Kind {
	u := r.next()
	for kind := Read; kind < g.last; kind++ {
		if u < g.kinds[kind] {
			return kind
		}
	}
	return g.last
}

func (g *Generator) readField(r *random) int {
	if g.spec.ReadAllFields {
		return allFields
	}
	return int(r.below(int64(g.spec.Row.Fields)))
}

func (g *Generator) writeField(r *random) int {
	if g.spec.WriteAllFields {
		return allFields
	}
	return int(r.below(int64(g.spec.Row.Fields)))
}

// record turns the chooser's offset, from the oldest record to the newest, into a
// record that this lane knows to be there.
func (g *Generator) record(offset int64) int64 {
	base := g.spec.InsertCount
	if offset < base {
		return g.spec.InsertStart + offset
	}
	if m, ok := g.inserts.nearest(offset - base); ok {
		return g.inserts.record(m)
	}
	return g.spec.InsertStart + (offset-base)%base
}

// beginLoad inserts the records of one batch. A record's content follows from the seed
// and its number alone, whatever the batch size.
func (g *Generator) beginLoad(op *Operation, first int64) {
	op.Kind = Insert
	for i := range op.Size {
		record := g.spec.InsertStart + first + int64(i)
		op.addKey(&g.keys, record)
		r := newRandom(^g.spec.Seed, record)
		op.addValue(g.values.row(op.valueBytes, &r, op.keys[i], &g.fields))
	}
	g.put(op, stepInsert)
}

func (g *Generator) beginInsert(op *Operation) {
	for i := range op.Size {
		m := g.inserts.take()
		op.inserts = append(op.inserts, m)
		op.addKey(&g.keys, g.inserts.record(m))
		op.addValue(g.values.row(op.valueBytes, &op.random, op.keys[i], &g.fields))
	}
	g.put(op, stepInsert)
}

func (g *Generator) put(op *Operation, step step) {
	op.step = step
	op.Call.Verb, op.Call.TTL = store.Put, g.ttl
	op.Call.Keys, op.Call.Values = op.keys, op.values
}

// nextScan makes the scan of the next key.
func (g *Generator) nextScan(op *Operation) {
	call := &op.Call
	call.Verb = store.Scan
	call.Keys = op.keys[op.done : op.done+1]
	call.EndKey, call.Reverse, call.KeyOnly = g.scanEnd, false, false
	call.Limit = int(g.scans.next(&op.random))
}

// reserve empties the buffers and makes room for a batch.
func (op *Operation) reserve(size, keySize int) {
	op.Size = size
	if cap(op.keys) < size {
		op.keys = make([][]byte, 0, size)
		op.values = make([][]byte, 0, size)
		op.olds = make([][]byte, 0, size)
		op.inserts = make([]int64, 0, size)
		op.keyBytes = make([]byte, 0, size*keySize)
	}
	op.keys, op.values, op.olds, op.inserts = op.keys[:0], op.values[:0], op.olds[:0], op.inserts[:0]
	op.keyBytes, op.valueBytes, op.oldBytes = op.keyBytes[:0], op.valueBytes[:0], op.oldBytes[:0]
}

func (op *Operation) addKey(keys *keyCodec, record int64) {
	start := len(op.keyBytes)
	op.keyBytes = keys.append(op.keyBytes, record)
	op.keys = append(op.keys, op.keyBytes[start:len(op.keyBytes):len(op.keyBytes)])
}

// addValue takes valueBytes with a new row appended.
func (op *Operation) addValue(grown []byte) {
	start := len(op.valueBytes)
	op.valueBytes = grown
	op.values = append(op.values, grown[start:len(grown):len(grown)])
}
