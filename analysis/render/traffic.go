// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/internal/units"
)

// manyFallbacks is from which share of the commands on fallbacks are a warning: they cost what client-go costs.
const manyFallbacks = 0.01

// traffic writes how commands shared messages, and which of them took fallbacks.
func (t *text) traffic(sent *analysis.Traffic) {
	if sent == nil {
		return
	}
	if sent.PerMessage != nil {
		t.prose("", "", sharing(&sent.Sent))
	}
	if text := fallbacks(&sent.Sent); text != "" {
		colour := ""
		if fallbackShare(&sent.Sent) >= manyFallbacks {
			colour = yellow
		}
		t.prose("", colour, text)
	}
	if !uneven(sent) {
		return
	}
	t.line("")
	table := [][]string{{"store", "commands", "messages", "mean", "p99", "max", "fallbacks", "breaks"}}
	for _, s := range sent.Stores {
		m := s.PerMessage
		if m == nil {
			m = &analysis.PerMessage{}
		}
		table = append(table, []string{printable(s.Store), units.Rate(s.CommandsPS), units.Rate(s.MessagesPS),
			units.Number(m.Mean), units.Count(m.P99), units.Count(m.Max), units.Count(fallbackCount(&s.Sent)), units.Count(s.Breaks)})
	}
	table, _ = t.fit(table, "mean", "max", "messages", "breaks")
	t.table(table, 1, 0)
}

// sharing says in a line how many commands shared a message.
func sharing(s *analysis.Sent) string {
	m := s.PerMessage
	return fmt.Sprintf("%s commands in %s messages: %s in one on average (p50 %s, p99 %s, max %s)",
		units.Rate(s.CommandsPS), units.Rate(s.MessagesPS), units.Number(m.Mean), units.Count(m.P50), units.Count(m.P99), units.Count(m.Max))
}

// fallbacks says in a line what took another way than the driver's own; "" if nothing did.
func fallbacks(s *analysis.Sent) string {
	if len(s.Fallbacks) == 0 {
		return ""
	}
	var causes []string
	for _, d := range s.Fallbacks {
		causes = append(causes, units.Count(d.Count)+" "+printable(d.Cause))
	}
	return fmt.Sprintf("%s of the commands (%s) were fallbacks through client-go: %s", units.Count(fallbackCount(s)), units.Percent(fallbackShare(s)), strings.Join(causes, ", "))
}

func fallbackCount(s *analysis.Sent) (n int64) {
	for _, d := range s.Fallbacks {
		n += d.Count
	}
	return n
}

func fallbackShare(s *analysis.Sent) (share float64) {
	for _, d := range s.Fallbacks {
		share += d.Share
	}
	return min(1, share)
}

// uneven tells whether the stores differ enough to be shown one by one.
func uneven(t *analysis.Traffic) bool {
	low, high := math.Inf(1), 0.0
	for i := range t.Stores {
		low, high = min(low, t.Stores[i].CommandsPS), max(high, t.Stores[i].CommandsPS)
	}
	return len(t.Stores) > 1 && (high > 1.5*low || t.Breaks > 0)
}

// maxShares is of how many stores a load says what each was sent.
const maxShares = 6

// loadOf says of a load how long it took, and what each store had to take of it: with one region, one of them all. "" if it is no load.
func loadOf(r *analysis.Report) string {
	if r.Phase != "load" || r.Operations == 0 || r.MeasuredS <= 0 {
		return ""
	}
	text := fmt.Sprintf("%s records in %s, %s", units.Count(r.Operations), units.Seconds(r.MeasuredS), units.Rate(r.OpsPerS))
	if r.Traffic == nil {
		return text
	}
	sent, sum := make(map[string]float64), 0.0
	for _, s := range r.Traffic.Stores {
		sent[s.Store] = s.CommandsPS
		sum += s.CommandsPS
	}
	for _, address := range r.Cluster.Stores {
		sent[address] += 0 // it was sent nothing
	}
	if sum == 0 || len(sent) < 2 {
		return text
	}
	stores := slices.SortedFunc(maps.Keys(sent), func(a, b string) int { return cmp.Or(cmp.Compare(sent[b], sent[a]), cmp.Compare(a, b)) })
	share := func(s string) string {
		return fmt.Sprintf("%s %s (%s)", printable(s), units.Rate(sent[s]), units.Percent(sent[s]/sum))
	}
	if n := len(stores); n > maxShares {
		return fmt.Sprintf("%s; commands by store, of %d: the most %s, the least %s", text, n, share(stores[0]), share(stores[n-1]))
	}
	var parts []string
	for _, s := range stores {
		parts = append(parts, share(s))
	}
	return text + "; commands by store: " + strings.Join(parts, ", ")
}
