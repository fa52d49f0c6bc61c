// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/store"
)

const accounts = 20

// bank are the properties of a small one, with more that changes some of them.
func bank(more ...string) []string {
	return append([]string{"tikv.type", "txn", "valueformat", "balance", "recordcount", fmt.Sprint(accounts), "fieldcount", "1", "fieldlength", "8",
		"readproportion", "0", "updateproportion", "0.9", "scanproportion", "0.1", "txn.retries", "2"}, more...)
}

// Whatever becomes of transfers, no sum changes: those that were lost are made again with what is there then.
func TestBank(t *testing.T) {
	t.Parallel()
	for _, distribution := range []string{spec.Uniform, spec.Sequential, spec.Zipfian} {
		m := newMemory()
		m.load(t, bank()...)
		puts, moved, outcomes := 0, false, map[store.Class]int{}
		m.before = func(c *store.Call) {
			if c.Verb == store.Scan {
				return
			}
			if len(c.Keys) != 2 || string(c.Keys[0]) == string(c.Keys[1]) || !c.ForUpdate {
				t.Fatalf("a %v of %q, for update %v", c.Verb, c.Keys, c.ForUpdate)
			}
			if c.Verb != store.Put {
				return
			}
			was := slices.Concat(m.rows[string(c.Keys[0])], m.rows[string(c.Keys[1])])
			moved = moved || string(was) != string(slices.Concat(c.Values...))
			puts++
			switch {
			case puts%5 == 0: // another transfer was faster
				c.Class, c.Err = store.Conflict, errors.New("write conflict")
				a, b := m.rows[string(c.Keys[0])], m.rows[string(c.Keys[1])]
				m.rows[string(c.Keys[0])], m.rows[string(c.Keys[1])] = b, a
			case puts%7 == 0: // committed, and nobody knows
				c.Class, c.Err = store.Undetermined, errors.New("the answer was lost")
				for i, key := range c.Keys {
					m.rows[string(key)] = slices.Clone(c.Values[i])
				}
			case puts%11 == 0: // not committed, and nobody knows
				c.Class, c.Err = store.Undetermined, errors.New("the answer was lost")
			}
			outcomes[c.Class]++
		}
		lanes := []*Generator{}
		for lane := range 2 {
			lanes = append(lanes, laneOf(t, parse(t, bank("requestdistribution", distribution)...), Place{0, 1, lane, 2}))
		}
		var op Operation
		sums := 0
		for index := range int64(500) {
			m.run(lanes[index%2], &op, index)
			var n int32
			for _, count := range op.Result.Count {
				n += count
			}
			if n != 1 || op.Size != 1 || op.Result.Count[Failed] == 0 && op.Result.Count[OK] == 0 {
				t.Fatalf("%s: %v: %+v", distribution, op.Kind, op.Result)
			}
			if op.Kind == Scan {
				sums++
				if op.Result.Rows != accounts {
					t.Fatalf("a sum of %d accounts", op.Result.Rows)
				}
			}
		}
		if !moved || sums == 0 || outcomes[store.Undetermined] == 0 || outcomes[store.Conflict] == 0 {
			t.Errorf("%s: moved %v, %d sums, %v", distribution, moved, sums, outcomes)
		}
	}
}

// A sum, or an account, that cannot be is wrong, with what was seen; a transfer leaves such accounts alone.
func TestBankIsWrong(t *testing.T) {
	t.Parallel()
	name := string(laneOf(t, parse(t, bank()...), Place{0, 1, 0, 1}).Key(nil, 3))
	for what, tt := range map[string]struct {
		row            string // of an account; "": none
		sum, transfers string // what is said of it; "": nothing is wrong
	}{
		"lost update":   {"00000970", "the sum of 20 accounts is 19970 in the snapshot at timestamp 77; that of the 20 which were loaded is 20000", ""},
		"lost account":  {"", "the sum of 19 accounts is 19000 in the snapshot at timestamp 77", "is missing"},
		"negative":      {"-0000001", `is no balance of 8 digits: "-0000001"`, "is no balance"},
		"not a number":  {"0000100x", `is no balance of 8 digits: "0000100x"`, "is no balance"},
		"another shape": {"1000", `is no balance of 8 digits: "1000"`, "is no balance"},
	} {
		m := newMemory()
		m.load(t, bank()...)
		m.rows[name] = []byte(tt.row)
		if tt.row == "" {
			delete(m.rows, name)
		}
		m.after = func(c *store.Call) { c.Snapshot, c.Locked = 77, c.Verb == store.Get }
		check := func(kind Kind, want string) {
			t.Helper()
			other := map[Kind]string{Update: "scanproportion", Scan: "updateproportion"}[kind]
			g := generator(t, bank("requestdistribution", "sequential", other, "0")...)
			var op Operation
			m.calls = nil
			m.run(g, &op, 3)
			switch {
			case want == "" && op.Result.Outcome() != OK:
				t.Errorf("%s: %v: %v", what, kind, op.Result.Err)
			case want != "" && (op.Result.Outcome() != Wrong || !strings.Contains(fmt.Sprint(op.Result.Err), want)):
				t.Errorf("%s: %v: %v, want %s", what, kind, op.Result.Err, want)
			case want != "" && kind == Update && !slices.Equal(m.calls, []store.Verb{store.Get, store.Unlock}):
				t.Errorf("%s: %v", what, m.calls)
			}
		}
		check(Scan, tt.sum)
		check(Update, tt.transfers)
	}

	m := newMemory()
	m.load(t, bank("recordcount", "21")...)
	var op Operation
	m.run(generator(t, bank("updateproportion", "0")...), &op, 0)
	if op.Result.Outcome() != Wrong || !strings.Contains(fmt.Sprint(op.Result.Err), "the sum of 21 accounts is 21000") {
		t.Errorf("one account too many: %v", op.Result.Err)
	}
}
