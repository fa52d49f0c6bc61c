// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/kvbench/kvbench/analysis/plan"
	"github.com/kvbench/kvbench/internal/units"
)

// Plan writes a plan, as JSON or as text.
func Plan(w io.Writer, p *plan.Plan, f Format, style Style) error {
	if f == JSON {
		return writeJSON(w, p)
	}
	t := &text{style: style}
	in := &p.Input
	t.prose("", bold, fmt.Sprintf("%s records with keys of %s and values of %s, %d %s, compressed %s : 1",
		spanned(in.Records, units.Number), spanned(in.Key, units.Bytes), spanned(in.Value, units.Bytes), in.Replicas, units.Plural(int64(in.Replicas), "replica", "replicas"), spanned(in.Compression, units.Number)))
	t.line("")
	rows := [][]string{
		{"", "how much"},
		{"raw: keys and values", spanned(p.Raw, units.Bytes)},
		{"replicated", spanned(p.Replicated, units.Bytes)},
		{"on disk", spanned(p.Disk, units.Bytes)},
		{"regions", spanned(p.Regions, units.Grouped)},
		{"room in a store", fmt.Sprintf("%s of %s", units.Bytes(p.Usable), units.Bytes(in.StoreSize))},
		{"stores for space", storesOf(p.ForSpace)},
	}
	if in.Rate != nil {
		rows = append(rows, []string{"rate", spanned(*in.Rate, units.Rate)}, []string{"a store answers", rateOfStore(p.RateOfStore)},
			[]string{"stores for rate", storesOf(p.ForRate)}, []string{"stores for both", storesOf(p.Stores)})
	}
	load := "unknown"
	if p.LoadS != nil {
		load = spanned(*p.LoadS, long)
	}
	rows = append(rows, []string{"time to load", load})
	t.table(rows, 2, 1)
	t.line("")
	t.prose("assumed  ", "", printable(strings.Join(p.Assumed, "; ")))
	for _, n := range p.Notes {
		t.remark(yellow, "note: "+printable(n))
	}
	_, err := io.WriteString(w, t.printed())
	return err
}

// spanned shows a range, or its value if it is one.
func spanned(r plan.Range, show func(float64) string) string {
	low, high := show(r.Low), show(r.High)
	if low == high {
		return low
	}
	return low + " to " + high
}

func storesOf(s plan.Stores) string {
	switch {
	case s.Least == nil && s.Most == nil:
		return "unknown"
	case s.Most == nil:
		return units.Count(*s.Least) + " or more"
	case s.Least == nil:
		return units.Count(*s.Most) + " or fewer"
	}
	return spanned(plan.Range{Low: float64(*s.Least), High: float64(*s.Most)}, units.Grouped)
}

func rateOfStore(r plan.Range) string {
	switch {
	case r.Low == 0:
		return "unknown"
	case r.High == 0:
		return units.Rate(r.Low) + " or more"
	}
	return spanned(r, units.Rate)
}

// long shows a time of seconds to days.
func long(s float64) string {
	const minute, hour, day = 60, 3600, 24 * 3600
	switch {
	case s < 2*minute:
		return units.Seconds(s)
	case s < 2*hour:
		return units.Number(s/minute) + " min"
	case s < 2*day:
		return units.Number(s/hour) + " h"
	}
	return units.Number(s/day) + " days"
}
