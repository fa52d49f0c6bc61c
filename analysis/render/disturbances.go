// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/internal/units"
)

// disturbances writes what disturbed the run: a sentence for each, and how it was before, during and after.
func (t *text) disturbances(r *analysis.Report) {
	if len(r.Disturbances) == 0 {
		return
	}
	t.line("")
	t.line("%s", t.paint(bold, "disturbances"))
	table := [][]string{{"at", "part", "from", "to", "per s", "time", "p50", "p99", "p99.9"}}
	for i := range r.Disturbances {
		d := &r.Disturbances[i]
		colour := ""
		if d.Dip {
			colour = yellow
		}
		t.prose("  ", colour, disturbance(d, r.Paced))
		table = append(table, parts(d)...)
	}
	t.line("")
	table, _ = t.fit(table, "time", "p50")
	t.table(table, 2, slices.Index(table[0], "time"))
}

// parts are the rows of a table: how it was before, during and after a disturbance.
func parts(d *analysis.Disturbance) (rows [][]string) {
	at := units.Seconds(d.AtS)
	for _, p := range []struct {
		name string
		*analysis.Stretch
	}{{"before", d.Before}, {"during", d.During}, {"after", d.After}} {
		if p.Stretch == nil {
			continue
		}
		time, l := "response", p.ResponseUS
		if l == nil {
			time, l = "service", p.ServiceUS
		}
		row := []string{at, p.name, units.Seconds(p.FromS), units.Seconds(p.ToS), units.Number(p.OpsPerS)}
		if l == nil {
			row = append(row, "", none, none, none)
		} else {
			row = append(row, time, shownOf("p50", l), shownOf("p99", l), shownOf("p99_9", l))
		}
		rows, at = append(rows, row), ""
	}
	return rows
}

// disturbance is the account of one in words.
func disturbance(d *analysis.Disturbance, paced bool) string {
	var said []string
	say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	before := "the rate before"
	if paced {
		before = "the target"
	}
	at := "At " + units.Seconds(d.AtS) + ": "
	switch {
	case !d.Judged:
		say("too early in the window to tell whether there was a dip; in the %s from then on", units.Seconds(d.ToS-d.AtS))
	case !d.Dip:
		say("no dip found within %s", units.Seconds(d.ToS-d.AtS))
	case d.Open:
		say("a dip that was not over at the end, %s later", units.Seconds(d.ToS-d.AtS))
	default:
		say("a dip, 95 %% of before again after %s", units.Seconds(d.ToS-d.AtS))
	}
	if d.Dip {
		say("its worst second lost %s of %s", units.Percent(d.Depth), before)
	}
	if g := d.NoAnswer; g != nil {
		say("no answer at all for %s from %s", units.Seconds(g.S), units.Seconds(g.AtS))
	}
	for _, e := range d.Errors {
		say("%s × %s", units.Count(e.Count), printable(e.Class))
	}
	if d.Queued > 0 {
		say("%s operations queued", units.Count(d.Queued))
	}
	if d.Skipped > 0 {
		say("%s slots skipped", units.Count(d.Skipped))
	}
	if d.Unseen > 0 {
		say("what %d lost %s did since is not known and counts as nothing", d.Unseen, units.Plural(int64(d.Unseen), "worker", "workers"))
	}
	text := at + strings.Join(said, "; ")
	var events []string
	for _, e := range d.Events {
		events = append(events, strings.TrimSuffix(strings.Join(strings.Fields(printable(fmt.Sprintf("%s %s at %s: %s", e.Kind, e.Worker, units.Seconds(e.S), e.Text))), " "), ":"))
	}
	if len(events) > 0 {
		text += ". With it: " + strings.Join(events, "; ")
	}
	return text + "."
}
