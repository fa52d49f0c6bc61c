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
	"github.com/kvbench/kvbench/analysis/availability"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/units"
)

// How many stalls, lost writes and remarks of a probe a report names.
const shownOfProbe = 10

// alone tells whether a report is of a probe in which no worker took part.
func alone(r *analysis.Report) bool { return r.Phase == results.Probing }

// probe writes what small writes to each store saw.
func (t *text) probe(p *availability.Probe) {
	if p == nil {
		return
	}
	t.line("")
	t.line("%s", t.paint(bold, "probe"))
	t.prose("  ", "", probed(p))
	table, out := t.fit(storesTable(p), "late", "failed", "p50", "writes", "max", "unavailable", "p99", "address")
	colours := []string{bold}
	for i := range p.Stores {
		colours = append(colours, probeColour(&p.Stores[i]))
	}
	t.table(table, 1, slices.Index(table[0], "address"), colours...)
	if slices.Contains(out, "address") {
		for _, s := range p.Stores {
			t.prose("  ", "", fmt.Sprintf("store %d is %s", s.ID, printable(s.Store)))
		}
	}
	for _, text := range stallTexts(p) {
		t.prose("  ", "", text)
	}
	if text := readBack(p); text != "" {
		colour := green
		if p.ReadBack.Bad() > 0 || !p.ReadBack.Complete || p.ReadBack.Unread > 0 {
			colour = red
		}
		t.prose("  ", colour, text)
	}
	for _, text := range badWrites(p) {
		t.prose("  ", red, text)
	}
	for _, text := range remarks(p) {
		t.prose("  ", yellow, text)
	}
}

func probeColour(s *availability.StoreSeen) string {
	if s.InTime < s.Probes || s.LongestS > 0 {
		return yellow
	}
	return ""
}

// probed says what was probed, and how much of it was there.
func probed(p *availability.Probe) string {
	n := int64(len(p.Stores))
	text := fmt.Sprintf("a small write to each of %d %s every %s for %s, to be acknowledged within %s",
		n, units.Plural(n, "store", "stores"), units.Micros(p.IntervalS*1e6), units.Seconds(p.LengthS), units.Micros(p.DeadlineS*1e6))
	c := &p.Cluster
	if c.Availability == nil {
		return text + ": nothing is known"
	}
	text += fmt.Sprintf(": %s of %s were", availabilityShown(c.Availability), units.Count(c.Probes))
	if c.UnavailableS > 0 {
		text += fmt.Sprintf("; for %s at least one store was unavailable", units.Micros(c.UnavailableS*1e6))
	}
	if s := c.LongestStall; s == nil {
		text += "; no store stalled for more than two intervals"
	} else {
		text += fmt.Sprintf("; longest stall %s (%s)", units.Micros(s.Seconds*1e6), printable(s.Store))
	}
	return text
}

// storesTable has a row for each store.
func storesTable(p *availability.Probe) [][]string {
	rows := [][]string{{"store", "availability", "unavailable", "longest stall", "not known", "writes", "late", "failed", "p50", "p99", "max", "address"}}
	for i := range p.Stores {
		s := &p.Stores[i]
		rows = append(rows, []string{fmt.Sprint(s.ID), availabilityShown(s.Availability), lengthShown(s.UnavailableS), lengthShown(s.LongestS), lengthShown(s.UnprobedS),
			units.Count(s.Probes), units.Count(s.Late), failedShown(s), cmp.Or(shownIf("p50", s.Response), none), cmp.Or(shownIf("p99", s.Response), none), cmp.Or(shownIf("max", s.Response), none), printable(s.Store)})
	}
	return rows
}

// failedShown shows how many writes failed, and of what most did.
func failedShown(s *availability.StoreSeen) string {
	n, class := int64(0), ""
	for _, c := range slices.Sorted(maps.Keys(s.Failed)) {
		if n += s.Failed[c]; class == "" || s.Failed[c] > s.Failed[class] {
			class = c
		}
	}
	if n == 0 {
		return "0"
	}
	return units.Count(n) + " " + printable(class)
}

// availabilityShown shows a share with two decimals, rounded down: less than all is never 100 %.
func availabilityShown(share *float64) string {
	switch {
	case share == nil:
		return none
	case *share >= 1:
		return "100 %"
	}
	return fmt.Sprintf("%.2f %%", math.Floor(*share*1e4)/100)
}

func lengthShown(s float64) string {
	if s == 0 {
		return none
	}
	return units.Micros(s * 1e6)
}

// stalls are the longest ones, by their lengths, and how many there were.
func stallsOf(p *availability.Probe) (longest []availability.Stall, n int) {
	for _, s := range p.Stores {
		longest = append(longest, s.Stalls...)
	}
	n = len(longest)
	slices.SortStableFunc(longest, func(a, b availability.Stall) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return longest[:min(n, shownOfProbe)], n
}

func stallTexts(p *availability.Probe) (texts []string) {
	longest, n := stallsOf(p)
	for _, s := range longest {
		end := ""
		if !s.Ended {
			end = ", not over at the end"
		}
		texts = append(texts, fmt.Sprintf("stall of %s from %s on: %s%s", units.Micros(s.Seconds*1e6), units.Seconds(s.FromS), printable(s.Store), end))
	}
	if more := n - len(longest); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d shorter %s", more, units.Plural(int64(more), "stall", "stalls")))
	}
	return texts
}

// readBack says what became of the writes.
func readBack(p *availability.Probe) string {
	b := p.ReadBack
	if b == nil {
		return ""
	}
	text := fmt.Sprintf("read back: %s of %s acknowledged writes are there and right", units.Count(b.Right), units.Count(b.Acknowledged))
	for _, part := range []struct {
		n    int64
		text string
	}{{b.Lost, "lost"}, {b.Wrong, "wrong"}, {b.Unread, "could not be read"}} {
		if part.n > 0 {
			text += fmt.Sprintf(", %s %s", units.Count(part.n), part.text)
		}
	}
	if b.Undetermined > 0 {
		text += fmt.Sprintf("; %s %s not acknowledged and may have happened: %s did", units.Count(b.Undetermined), units.Plural(b.Undetermined, "write was", "writes were"), units.Count(b.Happened))
	}
	if !b.Complete {
		text += "; this was given up"
	}
	return text
}

func badWrites(p *availability.Probe) (texts []string) {
	if p.ReadBack == nil {
		return nil
	}
	for i, f := range p.ReadBack.Findings {
		if i == shownOfProbe {
			return append(texts, fmt.Sprintf("and %d more", len(p.ReadBack.Findings)-i))
		}
		text := fmt.Sprintf("%s: key %s, written to %s", printable(f.Problem), printable(f.Key), printable(f.Store))
		if f.AcknowledgedAt != nil {
			text += fmt.Sprintf(", acknowledged at %.3f s", *f.AcknowledgedAt)
		}
		if f.Found != "" {
			text += fmt.Sprintf(", holds %q", f.Found)
		}
		texts = append(texts, text)
	}
	return texts
}

// remarks are what was said meanwhile.
func remarks(p *availability.Probe) (texts []string) {
	for i, text := range p.Remarks {
		if i == shownOfProbe {
			return append(texts, fmt.Sprintf("and %d more remarks", len(p.Remarks)-i))
		}
		texts = append(texts, printable(strings.TrimSpace(text)))
	}
	if p.Kept {
		texts = append(texts, fmt.Sprintf("the keys are still there: kvbench clean -p table=%s removes them", printable(p.Table)))
	}
	return texts
}

func probeGrid(p *availability.Probe) *grid {
	table := storesTable(p)
	g := &grid{Caption: "Small writes, by store", Head: table[0], Rows: table[1:], Left: 1}
	for i := range p.Stores {
		class := ""
		if probeColour(&p.Stores[i]) != "" {
			class = "warn"
		}
		g.Classes = append(g.Classes, class)
	}
	return g
}

// probeTiles are the numbers that a reader looks for first.
func probeTiles(p *availability.Probe) []tile {
	if p == nil {
		return nil
	}
	c := &p.Cluster
	stall := tile{Name: "longest stall", Value: none, More: "none of more than two intervals"}
	if s := c.LongestStall; s != nil {
		stall = tile{Name: "longest stall", Value: units.Micros(s.Seconds * 1e6), More: printable(s.Store)}
	}
	there := tile{Name: "read back", Value: none, More: "not done"}
	if b := p.ReadBack; b != nil {
		there = tile{Name: "read back", Value: units.Count(b.Right), More: fmt.Sprintf("of %s acknowledged writes; %s lost or wrong", units.Count(b.Acknowledged), units.Count(b.Bad()))}
	}
	return []tile{
		{"availability", availabilityShown(c.Availability), fmt.Sprintf("of %s writes within %s", units.Count(c.Probes), units.Micros(p.DeadlineS*1e6))},
		{"unavailable", lengthShown(c.UnavailableS), "at least one store"},
		stall, there,
	}
}

// probe writes the same as a table and points.
func (m *markdown) probe(p *availability.Probe) {
	if p == nil {
		return
	}
	table := storesTable(p)
	m.table(table, "|---|"+strings.Repeat("--:|", len(table[0])-2)+"---|")
	m.point("probe", probed(p))
	texts := stallTexts(p)
	if text := readBack(p); text != "" {
		texts = append(texts, text)
	}
	for _, text := range slices.Concat(texts, badWrites(p), remarks(p)) {
		m.point("probe", text)
	}
}
