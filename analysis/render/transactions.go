// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"strings"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/internal/units"
)

// transactionTable is what a transaction costs, by kind of operation, as text, its header first.
func transactionTable(x *analysis.Transactions) [][]string {
	table := [][]string{{"operation", "transactions", "made again", "timestamps each", "commands each"}}
	for i := range x.Kinds {
		k := &x.Kinds[i]
		if k.Known < k.Batches {
			table = append(table, []string{k.Kind, "unknown", "unknown", "unknown", "unknown"})
			continue
		}
		each := float64(max(1, k.Transactions))
		table = append(table, []string{k.Kind, units.Count(k.Transactions), fmt.Sprintf("%s (%s)", units.Count(k.Retries), units.Percent(float64(k.Retries)/each)),
			fmt.Sprintf("%.2f", float64(k.Timestamps)/each), commandsEach(k.Commands)})
	}
	return table
}

// commandsEach are the commands of a transaction, by kind.
func commandsEach(commands []analysis.CommandRow) string {
	if len(commands) == 0 {
		return "none"
	}
	var each []string
	for _, c := range commands {
		each = append(each, fmt.Sprintf("%.3g %s", c.PerTransaction, printable(c.Command)))
	}
	return strings.Join(each, ", ")
}

// phaseTable is where the time of transactions went, as text, its header first.
func phaseTable(x *analysis.Transactions) [][]string {
	table := [][]string{{"operation", "phase", "of its time", "had it", "p50", "p99", "max"}}
	share := func(s *float64) string {
		if s == nil {
			return "unknown"
		}
		return units.Percent(*s)
	}
	for i := range x.Kinds {
		k := &x.Kinds[i]
		for _, p := range k.Phases {
			l := p.LatencyUS
			table = append(table, []string{k.Kind, strings.ReplaceAll(printable(p.Phase), "_", " "), share(p.Share),
				units.Percent(float64(l.Samples) / float64(max(1, k.Known))), shownOf("p50", l), shownOf("p99", l), shownOf("max", l)})
		}
		if len(k.Phases) > 0 {
			table = append(table, []string{k.Kind, "other", share(k.OtherShare), "", "", "", ""})
		}
	}
	return table
}

// sentFor says what stores were sent for a transaction; "" if that is not known.
func sentFor(x *analysis.Transactions) string {
	if len(x.Sent) == 0 {
		return ""
	}
	return "Sent for each transaction, in the background as well: " + commandsEach(x.Sent) + "."
}

// transactions writes what a run's transactions cost.
func (t *text) transactions(x *analysis.Transactions) {
	if x == nil {
		return
	}
	t.line("")
	t.line("%s", t.paint(bold, "transactions"))
	t.prose("", "", x.Text)
	if text := sentFor(x); text != "" {
		t.prose("", "", text)
	}
	if len(x.Kinds) == 0 {
		return
	}
	table, commands := transactionTable(x), ""
	for i, row := range table {
		last := len(row) - 1
		if i > 0 {
			commands += fmt.Sprintf("; %s %s", row[0], row[last])
		}
		table[i] = row[:last]
	}
	table, _ = t.fit(table, "transactions")
	t.table(table, 1, 0)
	t.prose("", "", "commands each"+strings.Replace(commands, ";", ":", 1))
	if phases := phaseTable(x); len(phases) > 1 {
		t.line("")
		phases, _ = t.fit(phases, "max", "had it")
		t.table(phases, 2, 1)
	}
}

func transactionGrid(x *analysis.Transactions) *grid {
	table := transactionTable(x)
	return &grid{Caption: "What a transaction costs", Head: table[0], Rows: table[1:], Left: 1}
}

func phaseGrid(x *analysis.Transactions) *grid {
	table := phaseTable(x)
	return &grid{Caption: "Where the time of the transactions of an operation went, those that were made again included", Head: table[0], Rows: table[1:], Left: 2}
}

// transactions writes what a run's transactions cost.
func (m *markdown) transactions(x *analysis.Transactions) {
	if x == nil {
		return
	}
	m.line("%s", plain(strings.TrimSpace(x.Text+" "+sentFor(x))))
	m.line("")
	if len(x.Kinds) == 0 {
		return
	}
	m.table(transactionTable(x), "|---|--:|--:|--:|---|")
	if phases := phaseTable(x); len(phases) > 1 {
		m.table(phases, "|---|---|--:|--:|--:|--:|--:|")
	}
}
