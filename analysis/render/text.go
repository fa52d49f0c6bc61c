// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/internal/exitcode"
	clean "github.com/kvbench/kvbench/internal/printable"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/units"
)

// writeText writes reports for people, for terminals if colour is set.
func writeText(w io.Writer, d *analysis.Document, colour bool) error {
	t := &text{colour: colour}
	for i, r := range d.Runs {
		if i > 0 {
			t.line("")
		}
		t.report(r)
	}
	_, err := io.WriteString(w, t.printed())
	return err
}

// text is a report in the making.
type text struct {
	strings.Builder
	colour bool
}

func (t *text) line(format string, args ...any) { fmt.Fprintf(t, format+"\n", args...) }

// Terminal colours (ECMA-48, "select graphic rendition").
const (
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
)

func (t *text) paint(colour, s string) string {
	if !t.colour || colour == "" {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}

func (t *text) report(r *analysis.Report) {
	t.line("%s", t.paint(bold, "run "+printable(r.RunID))+"  "+headline(r))
	for _, l := range r.WorkersLost {
		text := fmt.Sprintf("WORKER LOST: %s at %s", l.Name, units.Seconds(l.AtS))
		if l.Reason != "" {
			text += ": " + printable(l.Reason)
		}
		t.line("%s", t.paint(red, text))
	}
	colour := red
	switch r.Verdict.Code {
	case exitcode.Valid:
		colour = green
	case exitcode.Target, exitcode.Interrupted:
		colour = yellow
	}
	t.line("verdict  %s", t.paint(colour, printable(r.Verdict.Text)))
	t.line("because  %s", r.Limit.Why)
	if r.Ended.Text != "" {
		t.line("ended    after %s: %s", units.Seconds(r.Ended.AtS), printable(r.Ended.Text))
	}
	t.line("")
	t.rates(r)
	t.line("")
	t.latencies(r)
	t.line("%s", gap(r))
	t.errors(r)
	t.verification(r.Verification)
	t.workers(r)
	for _, n := range r.Notes {
		t.line("%s", t.paint(yellow, "note: "+n))
	}
	for _, m := range r.Missing {
		t.line("%s", t.paint(red, "missing: "+printable(m)))
	}
	for _, w := range r.Warnings {
		t.line("%s", t.paint(yellow, "warning: "+printable(w)))
	}
}

// headline says in a line what was run.
func headline(r *analysis.Report) string {
	parts := []string{r.Phase, units.Seconds(r.WindowS) + " measured"}
	if r.WarmupS > 0 {
		parts[1] += " after " + units.Seconds(r.WarmupS) + " of warm-up"
	}
	parts = append(parts, fmt.Sprintf("%d %s × %d %s", r.WorkersExpected, units.Plural(int64(r.WorkersExpected), "worker", "workers"),
		r.Plan.Threads, units.Plural(int64(r.Plan.Threads), "thread", "threads")))
	if r.Plan.Batch > 1 {
		parts = append(parts, fmt.Sprintf("batches of %d", r.Plan.Batch))
	}
	return strings.Join(parts, " · ")
}

// answered says how many operations were answered, at which rate, and what was asked for. Both may be over
// different times, if not all workers ran all the time.
func answered(r *analysis.Report, rate string) string {
	text := units.Count(r.Operations) + " operations"
	all := r.Rated >= float64(r.Operations)
	if !all {
		text += " in " + units.Seconds(r.MeasuredS)
	}
	text += ", " + rate
	switch due := r.TargetOps * r.WindowS; {
	case !r.Paced || r.TargetOps <= 0:
		text += ", as fast as it went"
	case due < 1: // by chance one was due, or none
		text += " of a target of " + units.Rate(r.TargetOps)
	default:
		text += fmt.Sprintf(" of a target of %s (%s)", units.Rate(r.TargetOps), units.Percent(r.OpsPerS/r.TargetOps))
	}
	if !all {
		text += fmt.Sprintf(", over the %s in which all workers ran", units.Seconds(r.WindowS))
	}
	return text
}

// scansOf counts the scans that were answered.
func scansOf(r *analysis.Report) (n int64) {
	for _, k := range r.Kinds {
		if k.Kind == "SCAN" && k.Outcome != "error" {
			n += k.Operations
		}
	}
	return n
}

func (t *text) rates(r *analysis.Report) {
	t.line("%s", answered(r, t.paint(bold, units.Rate(r.OpsPerS))))
	line := units.Rate(r.RPCsPerS) + " RPCs"
	if r.Plan.Batch > 1 {
		line = units.Rate(r.BatchesPS) + " batches · " + line
	}
	if scans := scansOf(r); r.Phase == "run" && scans > 0 {
		line += fmt.Sprintf(" · %s rows a scan", units.Number(float64(r.Scanned)/float64(scans)))
	}
	if r.ErrorsPerS > 0 {
		line += " · " + t.paint(red, units.Rate(r.ErrorsPerS)+" errors")
	}
	for _, c := range []struct {
		n    int64
		what string
	}{{r.Skipped, "slots skipped"}, {r.CutOff, "operations cut off at the end"}, {r.Clamped, "calls beyond the histograms"}} {
		if c.n > 0 {
			line += " · " + t.paint(yellow, units.Count(c.n)+" "+c.what)
		}
	}
	if r.CPUPerOpUS > 0 {
		line += fmt.Sprintf(" · client CPU %s per operation", units.Micros(r.CPUPerOpUS))
	}
	t.line("%s", line)
	for _, c := range clients(r) {
		t.line("client: %s", c)
	}
	if r.Connections > 0 {
		t.line("%d %s to each store, over the fleet", r.Connections, units.Plural(int64(r.Connections), "connection", "connections"))
	}
	t.traffic(r.Traffic)
}

func (t *text) latencies(r *analysis.Report) {
	if table := latencyTable(r); len(table) > 1 {
		t.table(table, 2, 4)
	}
}

// latencyTable is the table of latencies as text, its header first.
func latencyTable(r *analysis.Report) [][]string {
	header := []string{"operation", "outcome", "operations", "per s", "time"}
	for _, m := range analysis.Metrics {
		header = append(header, m.Title())
	}
	table := [][]string{header}
	for i := range r.Kinds {
		k := &r.Kinds[i]
		if k.Kind == analysis.AllKinds && len(r.Kinds) == 2 {
			continue // of one row there is no total
		}
		for _, row := range latencyRows(k) {
			table = append(table, append([]string{row.Kind, row.Outcome, row.Operations, row.Rate, row.Time}, row.Values...))
		}
	}
	return table
}

// latencyRow is a line of the table of latencies, as text.
type latencyRow struct {
	Kind, Outcome, Operations, Rate, Time string
	Values                                []string // of the metrics, in their order
}

// latencyRows are those of one kind and outcome: service and response time of what was answered, and what
// they are at least with what was not.
func latencyRows(k *analysis.KindRow) (rows []latencyRow) {
	first := latencyRow{Kind: k.Kind, Outcome: k.Outcome, Operations: units.Count(k.Operations), Rate: units.Number(k.OpsPerS)}
	add := func(time string, l *analysis.Latency, show func(analysis.Metric, *analysis.Latency) string) {
		if l == nil {
			return
		}
		first.Time = time
		for _, m := range analysis.Metrics {
			first.Values = append(first.Values, show(m, l))
		}
		rows, first = append(rows, first), latencyRow{}
	}
	add("service", k.ServiceUS, analysis.Metric.Show)
	add("response", k.ResponseUS, analysis.Metric.Show)
	if first.Kind != "" { // its operations were all in batches with a worse outcome, or never answered
		first.Values = make([]string, len(analysis.Metrics))
		rows, first = append(rows, first), latencyRow{}
	}
	if n := k.NeverAnswered; n != nil {
		first.Outcome, first.Operations = "never answered", "+ "+units.Count(n.Operations)
		add("service", n.ServiceUS, analysis.Metric.AtLeast)
		add("response", n.ResponseUS, analysis.Metric.AtLeast)
	}
	return rows
}

// table writes rows in columns, of which the first so many, and the one numbered
// by text, are aligned to the left. The first row is the header; the rows have the
// colours given, as far as there are any.
func (t *text) table(rows [][]string, left, text int, colours ...string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for n, row := range rows {
		line := ""
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i > 0 {
				line += "  "
			}
			if i < left || i == text {
				line += cell + pad
			} else {
				line += pad + cell
			}
		}
		line = strings.TrimRight(line, " ")
		switch {
		case n < len(colours):
			line = t.paint(colours[n], line)
		case n == 0:
			line = t.paint(bold, line)
		}
		t.line("%s", line)
	}
}

// gap explains in one sentence why service and response time differ, or that
// there is no response time.
func gap(r *analysis.Report) string {
	if !r.Paced {
		return "There is no response time, for without a target no operation is ever due; while the server stalls, few are sent, and service time shows little of it."
	}
	var service, response, least *analysis.Latency
	for _, k := range r.Kinds {
		if k.Kind == analysis.AllKinds {
			service, response = k.ServiceUS, k.ResponseUS
			if k.NeverAnswered != nil {
				least = k.NeverAnswered.ResponseUS
			}
		}
	}
	if service == nil || response == nil {
		return "Service time counts from when an operation was sent, response time from when it was due."
	}
	// Speak of where it is widest, of the maximum only if it is the only place.
	worst := widest(analysis.Metrics[1:6], service, response)
	if s, p := worst.Of(service), worst.Of(response); !apart(s, p) {
		worst = analysis.Metrics[len(analysis.Metrics)-1]
	}
	s, p := worst.Of(service), worst.Of(response)
	if !apart(s, p) && least != nil {
		if worst = widest(analysis.Metrics[1:6], response, least); apart(worst.Of(response), worst.Of(least)) {
			return fmt.Sprintf("Response time, which counts from when an operation was due, is close to service time, which counts from when it was sent, only for what was answered: with what was not its %s is %s, and users would have felt that.", worst.Title(), worst.AtLeast(least))
		}
	}
	if !apart(s, p) {
		return "Response time, which counts from when an operation was due, is close to service time, which counts from when it was sent: hardly any had to wait."
	}
	return fmt.Sprintf("Response time counts from when an operation was due, service time from when it was sent: at %s they are %s and %s, so operations had to wait for those before them; users would have felt the response time.",
		worst.Title(), worst.Show(response), worst.Show(service))
}

// apart tells whether a response time says something else than a service time:
// a fifth more, and a millisecond.
func apart(service, response float64) bool {
	return response > 1.2*service && response-service > 1000
}

// widest returns the metric in which two latencies differ most.
func widest(of []analysis.Metric, service, response *analysis.Latency) analysis.Metric {
	return slices.MaxFunc(of, func(a, b analysis.Metric) int {
		return cmp.Compare(a.Of(response)-a.Of(service), b.Of(response)-b.Of(service))
	})
}

func (t *text) errors(r *analysis.Report) {
	if len(r.Errors) == 0 {
		return
	}
	t.line("")
	t.line("%s", t.paint(bold, "errors"))
	for _, e := range r.Errors {
		t.line("  %s", t.paint(red, fmt.Sprintf("%s %s %s: %s", e.Kind, e.Class, units.Count(e.Count), printable(e.FirstText))))
	}
}

// shownProblems is how many of a verification's problems a text names.
const shownProblems = 5

// verification writes what was found of the data.
func (t *text) verification(v *results.Verification) {
	if v == nil {
		return
	}
	t.line("")
	colour := green
	if v.Bad() > 0 {
		colour = red
	}
	t.line("%s", t.paint(colour, v.Text()))
	for _, p := range v.Problems[:min(len(v.Problems), shownProblems)] {
		t.line("  key %s %s", printable(p.Key), printable(p.Text))
	}
	for _, n := range v.Notes {
		t.line("%s", t.paint(yellow, "note: "+printable(n)))
	}
}

// workers writes a line for every worker if they differ in what matters.
func (t *text) workers(r *analysis.Report) {
	if !differ(r) {
		return
	}
	t.line("")
	table := [][]string{{"worker", "state", "operations", "per s", "errors", "service p50", "p99", "lag p99", "CPU", "worst s", "GC", "start"}}
	for _, w := range r.Workers {
		p50, p99, lag := "", "", ""
		if w.ServiceUS != nil {
			p50, p99 = analysis.MetricNamed("p50").Show(w.ServiceUS), analysis.MetricNamed("p99").Show(w.ServiceUS)
		}
		if w.LagUS != nil {
			lag = analysis.MetricNamed("p99").Show(w.LagUS)
		}
		table = append(table, []string{w.Name, string(w.State), units.Count(w.Operations), units.Number(w.OpsPerS), units.Count(w.Errors),
			p50, p99, lag, units.Percent(w.CPUShare), units.Percent(w.CPUShareMax), units.Micros(w.GCPauseS * 1e6), signed(w.StartSkewUS)})
	}
	t.table(table, 2, 2)
}

func signed(us float64) string {
	if us < 0 {
		return "-" + units.Micros(-us)
	}
	return "+" + units.Micros(us)
}

// differ tells whether the workers' parts are different enough to be shown.
func differ(r *analysis.Report) bool {
	if len(r.Workers) < 2 {
		return false
	}
	if len(r.WorkersLost) > 0 {
		return true
	}
	spread := func(of func(*analysis.WorkerRow) float64, ratio, least float64) bool {
		var values []float64
		for i := range r.Workers {
			values = append(values, of(&r.Workers[i]))
		}
		low, high := slices.Min(values), slices.Max(values)
		return high > ratio*low && high-low > least
	}
	return spread(func(w *analysis.WorkerRow) float64 { return w.OpsPerS }, 1.05, 1) ||
		spread(func(w *analysis.WorkerRow) float64 { return float64(w.Errors) }, 1.5, 10) ||
		spread(func(w *analysis.WorkerRow) float64 { return w.CPUShare }, 1.5, 0.2) ||
		spread(func(w *analysis.WorkerRow) float64 {
			if w.ServiceUS == nil {
				return 0
			}
			return float64(w.ServiceUS.P99)
		}, 1.5, 1000)
}

// printable makes what came from a file fit for one line of a terminal.
func printable(s string) string { return clean.Line(s) }

// ours are the colours that paint makes.
var ours = regexp.MustCompile(`\x1b\[(?:0|1|31|32|33)m`)

// printed is the report as it may be shown: whatever came into it from files, nothing but our own colours reaches
// the terminal.
func (t *text) printed() string {
	s := t.String()
	if !t.colour {
		return clean.Text(s)
	}
	var b strings.Builder
	at := 0
	for _, m := range ours.FindAllStringIndex(s, -1) {
		b.WriteString(clean.Text(s[at:m[0]]) + s[m[0]:m[1]])
		at = m[1]
	}
	b.WriteString(clean.Text(s[at:]))
	return b.String()
}
