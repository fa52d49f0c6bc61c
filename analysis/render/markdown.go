// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/internal/units"
)

// writeMarkdown writes reports for an issue, or the summary of a CI job: GitHub's Markdown, without pictures.
func writeMarkdown(w io.Writer, d *analysis.Document) error {
	var m markdown
	for i, r := range d.Runs {
		if i > 0 {
			m.line("")
		}
		m.report(r)
	}
	for i, r := range d.Foreign {
		if i+len(d.Runs) > 0 {
			m.line("")
		}
		m.foreign(r)
	}
	_, err := io.WriteString(w, m.String())
	return err
}

// markdown is a report in the making.
type markdown struct{ strings.Builder }

func (m *markdown) line(format string, args ...any) { fmt.Fprintf(m, format+"\n", args...) }

// markup is what has a meaning in Markdown, and what it is written as to have none.
var markup = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "|", `\|`, "#", `\#`, "~", `\~`)

// plain returns text that stands in Markdown as it is.
func plain(text string) string { return markup.Replace(printable(text)) }

// table writes rows of text, the head first, and an empty line.
func (m *markdown) table(rows [][]string, aligned string) {
	for i, row := range rows {
		cells := make([]string, len(row))
		for j, cell := range row {
			cells[j] = plain(cell)
		}
		m.line("| %s |", strings.Join(cells, " | "))
		if i == 0 {
			m.line("%s", aligned)
		}
	}
	m.line("")
}

func (m *markdown) report(r *analysis.Report) {
	m.line("### %s", plain(r.RunID+" "+headline(r)))
	m.line("")
	m.line("**%s** (exit code %d)", plain(r.Verdict.Text), r.Verdict.Code)
	m.line("")
	if !alone(r) {
		m.line("%s, because %s.", plain(answered(r, units.Rate(r.OpsPerS))), plain(r.Limit.Why))
		m.line("")
	}
	if table, _ := objectiveTable(r); table != nil {
		m.table(table, "|---|---|---|")
	}
	if !alone(r) {
		m.table(latencyTable(r), "|---|---|--:|--:|---|"+strings.Repeat("--:|", len(analysis.MetricsOf(r))))
		if text := tooFew(r); text != "" {
			m.line("%s", plain(text))
			m.line("")
		}
		m.line("%s", plain(gap(r)))
		m.line("")
	}
	m.transactions(r.Transactions)
	m.probe(r.Probe)
	for _, f := range facts(r) {
		m.point(f.name, f.text)
	}
	for _, l := range r.WorkersLost {
		m.point("worker lost", fmt.Sprintf("%s at %s: %s", l.Name, units.Seconds(l.AtS), l.Reason))
	}
	for _, e := range r.Errors {
		m.point("error", fmt.Sprintf("%s %s %s: %s", e.Kind, e.Class, units.Count(e.Count), e.FirstText))
	}
	for i := range r.Disturbances {
		m.point("disturbance", disturbance(&r.Disturbances[i], r.Paced))
	}
	if v := r.Verification; v != nil {
		m.point("verification", v.Text())
		for _, p := range v.Problems[:min(len(v.Problems), shownProblems)] {
			m.point("key "+p.Key, p.Text)
		}
	}
	for _, list := range []struct {
		what  string
		texts []string
	}{{"missing", r.Missing}, {"warning", r.Warnings}, {"note", r.Notes}} {
		for _, text := range list.texts {
			m.point(list.what, text)
		}
	}
}

func (m *markdown) point(what, text string) { m.line("- %s: %s", plain(what), plain(text)) }
