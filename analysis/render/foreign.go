// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/analysis/foreign"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/units"
)

// withForeign are the formats that have a place for what results of other tools are, and for what they cannot tell.
var withForeign = []Format{Text, Markdown, JSON, CSV, HTML, JUnit}

// Check says why a document cannot be shown in a format.
func Check(d *analysis.Document, f Format) error {
	if len(d.Foreign) > 0 && !slices.Contains(withForeign, f) {
		return fmt.Errorf("results of other tools have no form %s: want one of %s", f, List(withForeign))
	}
	return nil
}

// foreignHeadline says in a line whose results they are, and of how much.
func foreignHeadline(r *foreign.Result) string {
	parts := []string{r.Maker}
	if r.SpanS > 0 {
		parts = append(parts, units.Seconds(r.SpanS))
	}
	if n := len(r.Sources); n > 0 {
		clients := fmt.Sprintf("%d %s", n, units.Plural(int64(n), "client", "clients"))
		if r.SourcesExpected > n {
			clients = fmt.Sprintf("%d of %d clients", n, r.SourcesExpected)
		}
		parts = append(parts, clients)
	}
	return strings.Join(parts, " · ")
}

// foreignFacts are what is known beside the numbers.
func foreignFacts(r *foreign.Result) (known []fact) {
	known = append(known, fact{"read from", printable(r.Path)})
	if r.Start != nil {
		known = append(known, fact{"start", r.Start.Format("2006-01-02 15:04:05 UTC") + ", by the client's clock"})
	}
	if r.Rated != "" {
		known = append(known, fact{"rates", "over " + printable(r.Rated)})
	}
	return known
}

// foreignTable is the table of rates and latencies, its header first.
func foreignTable(r *foreign.Result) [][]string {
	header, metrics := []string{"operation", "outcome", "operations", "per s", "time"}, analysis.MetricsAt(r.Percentiles)
	for _, m := range metrics {
		header = append(header, m.Title())
	}
	table := [][]string{header}
	for i := range r.Rows {
		row := &r.Rows[i]
		cells := []string{printable(row.Kind), row.Outcome, units.Count(row.Samples), none, row.Time}
		if row.PerS > 0 {
			cells[3] = units.Number(row.PerS)
		}
		for _, m := range metrics {
			text := none
			if row.LatencyUS != nil {
				text = cell(m, row.LatencyUS, analysis.Metric.Show)
			} else if us, ok := row.Number(m.Name); ok {
				text = units.Micros(us)
			}
			cells = append(cells, text)
		}
		table = append(table, cells)
	}
	return table
}

// foreignNone explains what the table has in place of some numbers; "" if it has them all.
func foreignNone(r *foreign.Result) string {
	for _, row := range foreignTable(r)[1:] {
		if slices.Contains(row, none) {
			return none + ": not known from these results, or too few operations for this percentile."
		}
	}
	return ""
}

// sourceTable is the table of the clients, its header first; nil if there is one alone, of which it would say nothing new.
func sourceTable(r *foreign.Result) [][]string {
	if len(r.Sources) < 2 {
		return nil
	}
	table := [][]string{{"client", "operations", "failed", "from", "to", "service p50", "p99"}}
	for _, s := range r.Sources {
		row := []string{printable(s.Name), units.Count(s.Samples), units.Count(s.Failed), units.Seconds(s.StartS), units.Seconds(s.EndS), none, none}
		if s.ServiceUS != nil {
			row[5], row[6] = shownOf("p50", s.ServiceUS), shownOf("p99", s.ServiceUS)
		}
		table = append(table, row)
	}
	return table
}

// settings are how the tool was set up, as far as its files tell.
func settings(r *foreign.Result) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(r.Settings)) {
		list = append(list, printable(name+"="+r.Settings[name]))
	}
	return list
}

// leftOut says what was left out.
func leftOut(r *foreign.Result) (list []string) {
	for _, p := range r.Problems {
		list = append(list, printable(p.String()))
	}
	if more := r.LeftOut - int64(len(r.Problems)); more > 0 {
		list = append(list, fmt.Sprintf("and %s more", units.Count(more)))
	}
	return list
}

// remarks are all that a reader must know beside the numbers, each with what it is.
type remark struct{ colour, what, text string }

func foreignRemarks(r *foreign.Result) (all []remark) {
	for _, list := range []struct {
		colour, what string
		texts        []string
	}{{red, "missing", r.Missing}, {yellow, "left out", leftOut(r)}, {yellow, "note", r.Notes}, {"", "not known", r.Unknown}} {
		for _, text := range list.texts {
			all = append(all, remark{list.colour, list.what, printable(text)})
		}
	}
	return all
}

func (t *text) foreign(r *foreign.Result) {
	t.remark("", t.paint(bold, printable(r.Name))+" · "+foreignHeadline(r))
	t.prose("verdict    ", map[bool]string{true: green, false: red}[r.Whole()], printable(r.Verdict()))
	for _, f := range foreignFacts(r) {
		t.prose(fmt.Sprintf("%-11s", f.name), "", f.text)
	}
	if set := settings(r); len(set) > 0 {
		t.prose("settings   ", "", strings.Join(set, " "))
	}
	if len(r.Rows) > 0 {
		t.line("")
		table, out := t.fit(foreignTable(r), leastLatencies...)
		t.table(table, 2, slices.Index(table[0], "time"))
		if len(out) > 0 {
			t.prose("", "", fmt.Sprintf("Not shown in %d columns: %s.", t.style.columns(), strings.Join(out, ", ")))
		}
		if text := foreignNone(r); text != "" {
			t.prose("", "", text)
		}
	}
	if table := sourceTable(r); table != nil {
		t.line("")
		t.table(table, 1, -1)
	}
	t.line("")
	for _, m := range foreignRemarks(r) {
		t.remark(m.colour, m.what+": "+m.text)
	}
}

func (m *markdown) foreign(r *foreign.Result) {
	m.line("### %s", plain(r.Name+" · "+foreignHeadline(r)))
	m.line("")
	m.line("**%s**", plain(r.Verdict()))
	m.line("")
	if len(r.Rows) > 0 {
		m.table(foreignTable(r), "|---|---|--:|--:|---|"+strings.Repeat("--:|", len(analysis.MetricsAt(r.Percentiles))))
		if text := foreignNone(r); text != "" {
			m.line("%s", plain(text))
			m.line("")
		}
	}
	if table := sourceTable(r); table != nil {
		m.table(table, "|---|--:|--:|--:|--:|--:|--:|")
	}
	for _, f := range foreignFacts(r) {
		m.point(f.name, f.text)
	}
	if set := settings(r); len(set) > 0 {
		m.point("settings", strings.Join(set, " "))
	}
	for _, r := range foreignRemarks(r) {
		m.point(r.what, r.text)
	}
}

// junitOfForeign is a suite of one test: whether everything could be read.
func junitOfForeign(r *foreign.Result) junitSuite {
	took := fmt.Sprintf("%.3f", r.SpanS)
	s := junitSuite{Name: printable(r.Maker + " " + r.Name), Tests: 1, Time: took}
	for _, f := range foreignFacts(r) {
		s.Properties = append(s.Properties, junitProperty{f.name, f.text})
	}
	c := junitCase{Class: "kvbench.foreign", Name: "whole", Time: took}
	if code := r.Code(); code != exitcode.Valid {
		s.Failures, c.Failure = 1, &junitProblem{printable(r.Verdict()), fmt.Sprintf("exit code %d", code)}
	}
	s.Cases = []junitCase{c}
	t := &text{}
	t.foreign(r)
	s.Output = t.printed()
	return s
}

// foreignPage is what the HTML page shows of a result: its tables as grids.
type foreignPage struct {
	*foreign.Result
	ID, Name, Headline string
	Facts              []tile
	Latencies, Source  *grid
	None               string
	Remarks            []tile
	Settings           *grid
}

func newForeignPage(r *foreign.Result, id string) foreignPage {
	p := foreignPage{Result: r, ID: id, Name: printable(r.Name), Headline: foreignHeadline(r), None: foreignNone(r)}
	for _, f := range foreignFacts(r) {
		p.Facts = append(p.Facts, tile{Name: f.name, Value: f.text})
	}
	if table := foreignTable(r); len(table) > 1 {
		p.Latencies = &grid{Caption: "Latencies", Head: table[0], Rows: table[1:], Left: 2}
	}
	if table := sourceTable(r); table != nil {
		p.Source = &grid{Caption: "Clients", Head: table[0], Rows: table[1:], Left: 1}
	}
	for _, m := range foreignRemarks(r) {
		p.Remarks = append(p.Remarks, tile{Name: m.what, Value: m.text, More: map[string]string{red: "bad", yellow: "warn", "": "soft"}[m.colour]})
	}
	if len(r.Settings) > 0 {
		p.Settings = &grid{Caption: "Settings", Head: []string{"property", "value"}, Left: 2}
		for _, name := range slices.Sorted(maps.Keys(r.Settings)) {
			p.Settings.Rows = append(p.Settings.Rows, []string{printable(name), printable(r.Settings[name])})
		}
	}
	return p
}

// foreignLine is the line of a row under CSV's header; what is not known is empty.
func foreignLine(header []string, r *foreign.Result, row *foreign.Measured) []string {
	cells := map[string]string{"run_id": r.Name, "tool": r.Maker, "verdict": strconv.Itoa(r.Code()), "kind": row.Kind, "outcome": row.Outcome,
		"operations": strconv.FormatInt(row.Samples, 10)}
	if r.Start != nil {
		cells["start"] = r.Start.Format(time.RFC3339)
	}
	if r.SpanS > 0 {
		cells["window_s"] = plainNumber(r.SpanS)
	}
	if row.PerS > 0 {
		cells["ops_per_s"] = plainNumber(row.PerS)
	}
	prefix := row.Time + "_us_"
	if row.Time == foreign.Either {
		prefix = "unknown_time_us_"
	}
	line := make([]string, len(header))
	for i, column := range header {
		line[i] = cells[column]
		if name, ok := strings.CutPrefix(column, prefix); ok {
			if us, ok := row.Number(name); ok {
				line[i] = plainNumber(us)
			}
		}
	}
	return line
}

func plainNumber(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
