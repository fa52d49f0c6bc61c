// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/store"
)

// Findings is what lanes found when they read a table to verify it. Sums of hashes
// of keys, modulo 2^64, tell whether two sets of keys are the same without either being kept.
type Findings struct {
	Rows        int64     `json:"rows"`     // found
	Expected    int64     `json:"expected"` // records that should be there
	FoundSum    uint64    `json:"found_sum,string"`
	ExpectedSum uint64    `json:"expected_sum,string"`
	Missing     int64     `json:"missing"`    // records without a row; known when every record is got
	Wrong       int64     `json:"wrong"`      // rows that are not as they should be
	Unexpected  int64     `json:"unexpected"` // rows under keys that no record has, as far as one can see from the key
	Unread      int64     `json:"unread"`     // calls that failed: the rest is not known
	Problems    []Problem `json:"problems"`   // the first ones
}

// Problem is what is wrong with a key.
type Problem struct {
	Key  string `json:"key"` // as in Go source, without the quotes
	Text string `json:"text"`
}

// MaxProblems bounds how many are kept with their keys.
const MaxProblems = 20

// Note keeps a problem, if there are not many yet.
func (f *Findings) Note(key []byte, format string, args ...any) {
	if len(f.Problems) < MaxProblems {
		quoted := fmt.Sprintf("%q", key)
		f.Problems = append(f.Problems, Problem{quoted[1 : len(quoted)-1], fmt.Sprintf(format, args...)})
	}
}

// Add adds what another lane or worker found.
func (f *Findings) Add(o *Findings) {
	f.Rows += o.Rows
	f.Expected += o.Expected
	f.FoundSum += o.FoundSum
	f.ExpectedSum += o.ExpectedSum
	f.Missing += o.Missing
	f.Wrong += o.Wrong
	f.Unexpected += o.Unexpected
	f.Unread += o.Unread
	f.Problems = append(f.Problems, o.Problems[:min(len(o.Problems), MaxProblems-len(f.Problems))]...)
}

// Sweep makes the operations of one lane of a verification: by scan, of a slice of
// the key space each, so that together they see every row; or by get, of a batch
// of records each, which also tells which ones are missing. Its rows count as
// operations. It is for one goroutine.
type Sweep struct {
	*Generator
	bounds [][]byte // by scan: of the slices
	limit  int      // rows of a call
	batch  int64    // by get: records of a call
	found  Findings
}

const (
	callBytes = 1 << 20 // about as much is read in one call
	callRows  = 1024
	getBatch  = 64 // records, unless the properties say more

	sliceRecords = 500 // of a slice, about, in small tables
	maxSlices    = 1 << 16
	samples      = 4 // per slice, to cut the key space by

	sweepRetries = 3 // of a call that failed
)

// Slices cuts a table's part of the key space where its keys are: into slices with
// about as many records each, whatever the keys look like. There is one bound
// more than there are slices.
func Slices(s *spec.Spec) ([][]byte, error) {
	g, err := New(s, Place{Workers: 1, Lanes: 1})
	if err != nil {
		return nil, err
	}
	n := max(1, min(s.InsertCount/sliceRecords, maxSlices))
	keys := make([][]byte, samples*n)
	for i := range keys {
		keys[i] = g.Key(nil, s.InsertStart+part(s.InsertCount, int64(len(keys)), int64(i)))
	}
	slices.SortFunc(keys, bytes.Compare)
	first, end := g.KeyRange()
	bounds := [][]byte{first}
	for i := samples; i < len(keys); i += samples {
		if !bytes.Equal(keys[i], bounds[len(bounds)-1]) {
			bounds = append(bounds, keys[i])
		}
	}
	return append(bounds, end), nil
}

// part returns where the i-th of n parts of [0, all) begins, all of them nearly equal.
func part(all, n, i int64) int64 { return all/n*i + min(i, all%n) }

// NewSweep returns the sweep of a lane. The bounds are those of [Slices].
func NewSweep(s *spec.Spec, p Place, bounds [][]byte) (*Sweep, error) {
	g, err := New(s, p)
	if err != nil {
		return nil, err
	}
	w := &Sweep{
		Generator: g, bounds: bounds,
		limit: int(max(1, min(callBytes/max(1, g.RowBytes()), callRows))),
		batch: max(int64(s.Batch), min(getBatch, callBytes/max(1, g.RowBytes()))),
	}
	return w, nil
}

// Findings returns what was found so far. The lane must have ended.
func (w *Sweep) Findings() *Findings { return &w.found }

// Begin makes the operation with that index. It returns false beyond the end.
func (w *Sweep) Begin(op *Operation, index int64) bool {
	op.Kind, op.Index, op.Result = Scan, index, Result{}
	op.retries = 0
	if w.spec.Verify == spec.ByGet {
		return w.beginGet(op, index)
	}
	n := int64(len(w.bounds) - 1)
	if index < 0 || index >= n {
		return false
	}
	op.step = stepScan
	op.reserve(1, 0)
	op.keys = append(op.keys, w.bounds[index])
	c := &op.Call
	c.Verb, c.Keys, c.Values, c.EndKey = store.Scan, op.keys, nil, w.bounds[index+1]
	c.Limit, c.Reverse, c.KeyOnly = w.limit, false, false
	w.expect(part(w.spec.InsertCount, n, index), part(w.spec.InsertCount, n, index+1))
	return true
}

// expect counts records that should be there.
func (w *Sweep) expect(from, to int64) {
	var buf []byte
	for n := from; n < to; n++ {
		buf = w.Key(buf[:0], w.spec.InsertStart+n)
		w.found.ExpectedSum += xxhash.Sum64(buf)
	}
	w.found.Expected += to - from
}

func (w *Sweep) beginGet(op *Operation, index int64) bool {
	first := index * w.batch
	if index < 0 || first >= w.spec.InsertCount {
		return false
	}
	op.Kind, op.step = Read, stepRead
	op.reserve(int(min(w.batch, w.spec.InsertCount-first)), w.keys.size())
	for i := range op.Size {
		op.addKey(&w.keys, w.spec.InsertStart+first+int64(i))
	}
	op.Call.Verb, op.Call.Keys, op.Call.Values = store.Get, op.keys, nil
	w.found.Expected += int64(op.Size)
	return true
}

// Continue checks what was read. It returns true when op.Call is to be sent (again).
func (w *Sweep) Continue(op *Operation) bool {
	c := &op.Call
	op.Result.RPCs += c.RPCs
	if c.Class != store.OK {
		if c.Class != store.Cancelled && op.retries < sweepRetries {
			op.retries++
			op.Result.Retries++
			return true
		}
		w.found.Unread++
		op.fail(1, c.Class, c.Err)
		return false
	}
	op.retries = 0
	if c.Verb == store.Get {
		for i, key := range op.keys {
			if row := op.found(i); row != nil {
				w.row(op, key, row)
			} else {
				op.Result.Count[NotFound]++
				w.found.Missing++
				w.found.Note(key, "is missing")
			}
		}
		return false
	}
	for i, key := range c.FoundKeys {
		w.found.FoundSum += xxhash.Sum64(key)
		if !w.keys.possible(key) {
			w.found.Rows++
			w.found.Unexpected++
			w.found.Note(key, "is no key of this load")
			op.wrong(&WrongValue{bytes.Clone(key), "is under a key of no record"})
			continue
		}
		w.row(op, key, op.found(i))
	}
	if len(c.FoundKeys) < c.Limit {
		return false
	}
	last := c.FoundKeys[len(c.FoundKeys)-1]
	op.keyBytes = append(append(op.keyBytes[:0], last...), 0)
	op.keys[0] = op.keyBytes
	return true
}

// row counts and checks a row.
func (w *Sweep) row(op *Operation, key, row []byte) {
	w.found.Rows++
	if err := w.Check(key, row); err != nil {
		w.found.Wrong++
		text := err.Error()
		if wrong, ok := err.(*WrongValue); ok {
			text = wrong.Problem
		}
		w.found.Note(key, "%s", text)
		op.wrong(err)
		return
	}
	op.Result.Count[OK]++
}
