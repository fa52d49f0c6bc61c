// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/store"
)

// A bank's rows are balances: decimal numbers, with zeros up to their length. An UPDATE transfers between two accounts in one
// transaction, and a SCAN sums all of them in one snapshot. Every sum is the same, whatever transfers are under way, lost to
// others, or undetermined.

// mostTransferred is the most that one transfer moves. One from an account that has less moves all of it.
const mostTransferred = 100

// beginBank makes the first call of a transfer, or that of a sum.
func (g *Generator) beginBank(op *Operation) {
	call := &op.Call
	if op.Kind == Scan {
		op.step = stepScan
		op.keyBytes = append(op.keyBytes, g.keys.head[:g.keys.table]...)
		op.keys = append(op.keys, op.keyBytes)
		call.Verb, call.Keys, call.Values = store.Scan, op.keys, nil
		call.EndKey, call.Reverse, call.KeyOnly = g.scanEnd, false, false
		call.Limit = int(g.spec.InsertCount) + 1 // one too many is seen
		return
	}
	n := g.spec.InsertCount
	from, to := g.choose.next(&op.random, n, op.Index), g.choose.next(&op.random, n, op.Index)
	if to == from {
		to = (from + 1) % n
	}
	op.addKey(&g.keys, from)
	op.addKey(&g.keys, to)
	op.amount = 1 + op.random.below(mostTransferred)
	g.getAccounts(op)
}

func (g *Generator) getAccounts(op *Operation) {
	op.step = stepAccounts
	op.Call.Verb, op.Call.Keys, op.Call.Values, op.Call.ForUpdate = store.Get, op.keys, nil, true
}

// afterAccounts makes the transfer. Balances that are wrong are left as they are, to be looked at.
func (g *Generator) afterAccounts(op *Operation) bool {
	if g.again(op) {
		return true
	}
	if op.failed(1) {
		return false
	}
	var balances [2]int64
	for i, key := range op.keys {
		var err error
		if balances[i], err = g.values.balanceOf(key, op.found(i)); err != nil {
			op.wrong(err)
			return op.unlock()
		}
	}
	amount := min(op.amount, balances[0])
	op.addValue(g.values.appendBalance(op.valueBytes, balances[0]-amount))
	op.addValue(g.values.appendBalance(op.valueBytes, balances[1]+amount))
	g.put(op, stepTransfer)
	return true
}

func (g *Generator) afterTransfer(op *Operation) bool {
	if g.again(op) { // what was read is not what is there any more
		op.values, op.valueBytes = op.values[:0], op.valueBytes[:0]
		g.getAccounts(op)
		return true
	}
	if !op.failed(1) {
		op.Result.Count[OK]++
	}
	return false
}

// checkSum checks that a snapshot holds all accounts, and in them what they held when they were loaded.
func (g *Generator) checkSum(call *store.Call) error {
	var sum int64
	for i, key := range call.FoundKeys {
		balance, err := g.values.balanceOf(key, call.Found[i])
		if err != nil {
			return err
		}
		sum += balance
	}
	accounts, want := int64(len(call.Found)), g.spec.InsertCount*spec.OpeningBalance
	if accounts == g.spec.InsertCount && sum == want {
		return nil
	}
	return fmt.Errorf("the sum of %d accounts is %d in the snapshot at timestamp %d; that of the %d which were loaded is %d",
		accounts, sum, call.Snapshot, g.spec.InsertCount, want)
}

// appendBalance appends a row that is a balance.
func (v *values) appendBalance(dst []byte, balance int64) []byte {
	var digits [20]byte
	text := strconv.AppendInt(digits[:0], balance, 10)
	for range v.length - len(text) {
		dst = append(dst, '0')
	}
	return append(dst, text...)
}

// balanceOf reads a row that is a balance, and so never negative. nil: the account is not there.
func (v *values) balanceOf(key, row []byte) (int64, error) {
	if row == nil {
		return 0, &WrongValue{bytes.Clone(key), "is missing: the account was loaded"}
	}
	balance, err := strconv.ParseUint(string(row), 10, 63)
	if err != nil || len(row) != v.length {
		return 0, &WrongValue{bytes.Clone(key), fmt.Sprintf("is no balance of %d digits: %q", v.length, clip(row))}
	}
	return int64(balance), nil
}
