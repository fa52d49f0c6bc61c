// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/units"
	"github.com/kvbench/kvbench/internal/workload"
)

// cost is what the transactions of a kind of operation have cost.
type cost struct {
	measure.CostCounts
	phases [store.Phases]measure.Sum
}

func (c *cost) merge(o *cost) {
	c.Add(&o.CostCounts)
	for phase := range o.phases {
		c.phases[phase].Merge(&o.phases[phase])
	}
}

// Transactions is what a run's transactions have cost: those of the window's batches, whatever their outcome.
type Transactions struct {
	// TimestampShare is which part of the transactions' time was spent waiting for timestamps of PD; nil: unknown.
	TimestampShare *float64         `json:"timestamp_share"`
	Text           string           `json:"text"` // says it
	Kinds          []TransactionRow `json:"kinds"`
	// Sent are the commands of the window, those in the background included.
	Sent []CommandRow `json:"sent"`
}

// TransactionRow is what the transactions of one kind of operation have cost.
type TransactionRow struct {
	Kind           string       `json:"kind"`
	Batches        int64        `json:"batches"` // each of which is one transaction, but for those of scans and what was made again
	Known          int64        `json:"known"`   // of them, those of which it is known what they have cost
	Transactions   int64        `json:"transactions"`
	Retries        int64        `json:"retries"`         // of these, those that were made again
	Timestamps     int64        `json:"timestamps"`      // asked of PD
	TimestampShare *float64     `json:"timestamp_share"` // of the batches' service time, spent waiting for these; nil: unknown
	OtherShare     *float64     `json:"other_share"`     // of the batches' service time, spent in none of the phases; nil: unknown
	Commands       []CommandRow `json:"commands"`        // that were waited for
	Phases         []PhaseRow   `json:"phases"`
}

// CommandRow is how many commands of a kind were sent.
type CommandRow struct {
	Command        string  `json:"command"` // under the stores' name
	Count          int64   `json:"count"`
	PerTransaction float64 `json:"per_transaction"`
}

// PhaseRow is the time that the batches of a kind have spent in a phase of their transactions.
type PhaseRow struct {
	Phase     string   `json:"phase"`
	Share     *float64 `json:"share"` // of the batches' service time; nil: unknown
	LatencyUS *Latency `json:"latency_us"`
}

// transactions reports what the run's transactions have cost; nil if it made none.
func (r *Run) transactions() *Transactions {
	if r.record.Spec["tikv.type"] != spec.TxnAPI || r.record.Phase == results.Probing || r.record.Phase == "verify" {
		return nil
	}
	t := &Transactions{Kinds: []TransactionRow{}}
	var waited, whole float64 // µs
	var began int64
	var unknown, parts []string
	for k := range workload.Kind(workload.Kinds) {
		all := r.fleet.sum(func(row measure.Row) bool { return row.Kind() == k })
		if all.Batches == 0 {
			continue
		}
		row, stamps, took := transactionsOf(k, &all, &r.fleet.costs[k])
		t.Kinds = append(t.Kinds, row)
		began += row.Transactions
		if row.TimestampShare == nil {
			unknown = append(unknown, k.String())
			continue
		}
		waited, whole = waited+stamps, whole+took
		parts = append(parts, k.String()+" "+units.Percent(*row.TimestampShare))
	}
	switch {
	case whole == 0:
		t.Text = "Which part of the transactions' time the timestamps of PD cost is unknown: it was not seen."
	case len(unknown) > 0:
		t.Text = fmt.Sprintf("Which part of the transactions' time the timestamps of PD cost was not seen of all: %s, %s unknown.", strings.Join(parts, ", "), strings.Join(unknown, " and "))
	default:
		share := min(1, waited/whole)
		t.TimestampShare = &share
		t.Text = fmt.Sprintf("Waiting for timestamps of PD took %s of the transactions' time", units.Percent(share))
		if len(parts) > 1 {
			t.Text += " (" + strings.Join(parts, ", ") + ")"
		}
		t.Text += "."
	}
	t.Sent = sentFor(began, r.fleet.traffic, len(unknown) == 0)
	return t
}

// transactionsOf is what those of one kind have cost, and how many microseconds its batches took, and waited for PD.
func transactionsOf(k workload.Kind, all *row, c *cost) (row TransactionRow, waited, whole float64) {
	row = TransactionRow{
		Kind: k.String(), Batches: all.Batches, Known: c.Batches, Retries: all.Retries,
		Transactions: c.Transactions, Timestamps: c.Timestamps, Commands: []CommandRow{}, Phases: []PhaseRow{},
	}
	for command, n := range c.Commands {
		if n > 0 {
			row.Commands = append(row.Commands, CommandRow{store.Command(command).String(), n, float64(n) / float64(c.Transactions)})
		}
	}
	known := c.Batches == all.Batches
	if service := measure.LatencyOf(all.service); known && service != nil && service.Beyond == 0 && service.Mean > 0 {
		whole = service.Mean * float64(service.Samples)
	}
	rest := whole
	for phase := range store.Phase(store.Phases) {
		l := measure.LatencyOf(c.phases[phase].HDR())
		if l == nil {
			continue
		}
		part := PhaseRow{Phase: phase.String(), LatencyUS: l}
		if whole > 0 {
			took := l.Mean * float64(l.Samples)
			share := min(1, took/whole)
			part.Share = &share
			if phase != store.Backoff {
				rest -= took
			}
			if phase == store.BeginTimestamp || phase == store.CommitTimestamp {
				waited += took
			}
		}
		row.Phases = append(row.Phases, part)
	}
	if whole > 0 {
		stamps, other := min(1, waited/whole), max(0, rest/whole)
		row.TimestampShare, row.OtherShare = &stamps, &other
	}
	return row, waited, whole
}

// sentFor are the commands that stores were sent, by kind, for so many transactions; none if that is not known.
func sentFor(transactions int64, traffic map[string]*traffic, known bool) []CommandRow {
	rows := []CommandRow{}
	if !known || transactions == 0 {
		return rows
	}
	kinds := make(map[string]int64)
	for _, sent := range traffic {
		for kind, n := range sent.Kinds {
			kinds[kind] += n
		}
	}
	for _, kind := range slices.SortedFunc(maps.Keys(kinds), func(a, b string) int { return cmp.Or(cmp.Compare(kinds[b], kinds[a]), cmp.Compare(a, b)) }) {
		rows = append(rows, CommandRow{kind, kinds[kind], float64(kinds[kind]) / float64(transactions)})
	}
	return rows
}
