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

// writeText writes reports for people.
func writeText(w io.Writer, d *analysis.Document, style Style) error {
	t := &text{style: style}
	for i, r := range d.Runs {
		if i > 0 {
			t.line("")
		}
		t.report(r)
	}
	for i, r := range d.Foreign {
		if i+len(d.Runs) > 0 {
			t.line("")
		}
		t.foreign(r)
	}
	_, err := io.WriteString(w, t.printed())
	return err
}

// text is a report in the making.
type text struct {
	strings.Builder
	style Style
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
	if !t.style.Colour || colour == "" {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}

func (t *text) report(r *analysis.Report) {
	t.remark("", t.paint(bold, "run "+printable(r.RunID))+" · "+printable(headline(r)))
	for _, l := range r.WorkersLost {
		text := fmt.Sprintf("WORKER LOST: %s at %s", l.Name, units.Seconds(l.AtS))
		if l.Reason != "" {
			text += ": " + printable(l.Reason)
		}
		t.remark(red, text)
	}
	colour := red
	switch r.Verdict.Code {
	case exitcode.Valid:
		colour = green
	case exitcode.Target, exitcode.Interrupted:
		colour = yellow
	}
	t.prose("verdict  ", colour, printable(r.Verdict.Text))
	if !alone(r) {
		t.prose("because  ", "", r.Limit.Why)
	}
	if r.Ended.Text != "" {
		t.prose("ended    ", "", fmt.Sprintf("after %s: %s", units.Seconds(r.Ended.AtS), printable(r.Ended.Text)))
	}
	for _, f := range facts(r) {
		t.prose(fmt.Sprintf("%-9s", f.name), "", f.text)
	}
	t.objectives(r)
	if !alone(r) {
		t.line("")
		t.rates(r)
		t.line("")
		t.latencies(r)
		t.prose("", "", gap(r))
	}
	t.transactions(r.Transactions)
	t.probe(r.Probe)
	t.servers(r.Servers)
	t.errors(r)
	t.disturbances(r)
	t.verification(r.Verification)
	t.workers(r)
	for _, n := range r.Notes {
		t.remark(yellow, "note: "+printable(n))
	}
	for _, m := range r.Missing {
		t.remark(red, "missing: "+printable(m))
	}
	for _, w := range r.Warnings {
		t.remark(yellow, "warning: "+printable(w))
	}
}

// fact is something that a report says of a run beside its numbers.
type fact struct{ name, text string }

// facts are what was run, on what, when and how; what is not known is left out.
func facts(r *analysis.Report) (known []fact) {
	for _, f := range []fact{
		{"workload", printable(workload(r))},
		{"cluster", cluster(&r.Cluster)},
		{"loaded", loadOf(r)},
		{"cost", costOf(r.Cost)},
		{"start", r.Start.UTC().Format("2006-01-02 15:04:05 UTC")},
		{"command", printable(r.Command)},
		{"label", printable(r.Label)},
		{"note", printable(r.Note)},
	} {
		if f.text != "" && !(f.name == "start" && r.Start.IsZero()) {
			known = append(known, f)
		}
	}
	return known
}

// costOf says what it cost; "" if that is not known.
func costOf(c *analysis.Cost) string {
	if c == nil {
		return ""
	}
	return printable(c.Text())
}

// workload says in a line what a run did; a probe alone has none.
func workload(r *analysis.Report) string {
	if alone(r) {
		return ""
	}
	return r.Workload
}

// cluster says which database it was.
func cluster(c *results.Cluster) string {
	var parts []string
	if len(c.PD) > 0 {
		parts = append(parts, "PD "+printable(strings.Join(c.PD, ", ")))
	}
	if c.ID != 0 {
		parts = append(parts, fmt.Sprintf("cluster %d", c.ID))
	}
	if n := len(c.Stores); n > 0 {
		parts = append(parts, fmt.Sprintf("%d %s", n, units.Plural(int64(n), "store", "stores")))
	}
	return strings.Join(parts, " · ")
}

// headline says in a line what was run.
func headline(r *analysis.Report) string {
	if alone(r) {
		if r.Probe == nil {
			return r.Phase
		}
		return r.Phase + " · " + units.Seconds(r.Probe.LengthS)
	}
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
	t.prose("", "", answered(r, t.paint(bold, units.Rate(r.OpsPerS))))
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
	t.prose("", "", line)
	for _, c := range clients(r) {
		t.prose("client: ", "", c)
	}
	if r.Connections > 0 {
		t.line("%d %s to each store, over the fleet", r.Connections, units.Plural(int64(r.Connections), "connection", "connections"))
	}
	t.traffic(r.Traffic)
}

// leastLatencies are the columns of the table of latencies that go first where the page is too narrow for all.
var leastLatencies = []string{"p95", "mean", "p90", "p99.99", "per s", "operations", "p99.9"}

func (t *text) latencies(r *analysis.Report) {
	table := latencyTable(r)
	if len(table) < 2 {
		return
	}
	may := leastLatencies
	if len(r.Percentiles) > 0 { // what was asked for stays
		may = []string{"mean", "per s", "operations"}
	}
	table, out := t.fit(table, may...)
	t.table(table, 2, slices.Index(table[0], "time"))
	if len(out) > 0 {
		t.prose("", "", fmt.Sprintf("Not shown in %d columns: %s.", t.style.columns(), strings.Join(out, ", ")))
	}
	if text := tooFew(r); text != "" {
		t.prose("", "", text)
	}
}

// none is what a table has in place of a percentile that the samples do not carry.
const none = "–"

// tooFew explains what a table has in place of some percentiles; "" if it has them all.
func tooFew(r *analysis.Report) string {
	for i := range r.Kinds {
		for _, row := range latencyRows(&r.Kinds[i], analysis.MetricsOf(r)) {
			if slices.Contains(row.Values, none) {
				return none + ": too few operations for this percentile; not one of them lies beyond it."
			}
		}
	}
	return ""
}

// cell shows a metric in a table, with what shows the metrics that the samples carry.
func cell(m analysis.Metric, l *analysis.Latency, show func(analysis.Metric, *analysis.Latency) string) string {
	if !m.Carried(l) {
		return none
	}
	return show(m, l)
}

// latencyTable is the table of latencies as text, its header first.
func latencyTable(r *analysis.Report) [][]string {
	header, metrics := []string{"operation", "outcome", "operations", "per s", "time"}, analysis.MetricsOf(r)
	for _, m := range metrics {
		header = append(header, m.Title())
	}
	table := [][]string{header}
	for i := range r.Kinds {
		k := &r.Kinds[i]
		if k.Kind == analysis.AllKinds && len(r.Kinds) == 2 {
			continue // of one row there is no total
		}
		for _, row := range latencyRows(k, metrics) {
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
func latencyRows(k *analysis.KindRow, metrics []analysis.Metric) (rows []latencyRow) {
	first := latencyRow{Kind: k.Kind, Outcome: k.Outcome, Operations: units.Count(k.Operations), Rate: units.Number(k.OpsPerS)}
	add := func(time string, l *analysis.Latency, show func(analysis.Metric, *analysis.Latency) string) {
		if l == nil {
			return
		}
		first.Time = time
		for _, m := range metrics {
			first.Values = append(first.Values, cell(m, l, show))
		}
		rows, first = append(rows, first), latencyRow{}
	}
	add("service", k.ServiceUS, analysis.Metric.Show)
	add("response", k.ResponseUS, analysis.Metric.Show)
	if first.Kind != "" { // its operations were all in batches with a worse outcome, or never answered
		first.Values = make([]string, len(metrics))
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
	widths := columnWidths(rows)
	for n, row := range rows {
		line := ""
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i > 0 {
				line += gutter
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
	worst := widest(carried(service), service, response)
	if s, p := worst.Of(service), worst.Of(response); !apart(s, p) {
		worst = analysis.Metrics[len(analysis.Metrics)-1]
	}
	s, p := worst.Of(service), worst.Of(response)
	if !apart(s, p) && least != nil {
		if worst = widest(carried(response), response, least); apart(worst.Of(response), worst.Of(least)) {
			return fmt.Sprintf("Response time, which counts from when an operation was due, is close to service time, which counts from when it was sent, only for what was answered: with what was not its %s is %s, and users would have felt that.", worst.Title(), worst.AtLeast(least))
		}
	}
	if !apart(s, p) {
		return "Response time, which counts from when an operation was due, is close to service time, which counts from when it was sent: hardly any had to wait."
	}
	return fmt.Sprintf("Response time counts from when an operation was due, service time from when it was sent: at %s they are %s and %s, so operations had to wait for those before them; users would have felt the response time.",
		worst.Title(), worst.Show(response), worst.Show(service))
}

// carried are the percentiles of which a sentence may speak: all but the furthest, if the samples carry them.
func carried(l *analysis.Latency) (all []analysis.Metric) {
	for _, m := range analysis.Metrics[1:6] {
		if m.Carried(l) || len(all) == 0 {
			all = append(all, m)
		}
	}
	return all
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
		t.prose("  ", red, fmt.Sprintf("%s %s %s: %s", e.Kind, e.Class, units.Count(e.Count), printable(e.FirstText)))
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
	t.remark(colour, v.Text())
	for _, p := range v.Problems[:min(len(v.Problems), shownProblems)] {
		t.prose("  key ", "", printable(p.Key)+" "+printable(p.Text))
	}
	for _, n := range v.Notes {
		t.remark(yellow, "note: "+printable(n))
	}
}

// leastOfWorkers are the columns of the table of workers that go first where the page is too narrow for all.
var leastOfWorkers = []string{"GC", "start", "worst s", "lag p99", "service p50", "state"}

// workers writes a line for every worker, if there are several.
func (t *text) workers(r *analysis.Report) {
	if len(r.Workers) < 2 {
		return
	}
	t.line("")
	table := [][]string{{"worker", "state", "operations", "per s", "errors", "service p50", "p99", "lag p99", "CPU", "worst s", "GC", "start"}}
	shown := tellingWorkers(r)
	for _, i := range shown {
		w := &r.Workers[i]
		p50, p99, lag := "", "", ""
		if w.ServiceUS != nil {
			p50, p99 = shownOf("p50", w.ServiceUS), shownOf("p99", w.ServiceUS)
		}
		if w.LagUS != nil {
			lag = shownOf("p99", w.LagUS)
		}
		table = append(table, []string{w.Name, string(w.State), units.Count(w.Operations), units.Number(w.OpsPerS), units.Count(w.Errors),
			p50, p99, lag, units.Percent(w.CPUShare), units.Percent(w.CPUShareMax), units.Micros(w.GCPauseS * 1e6), signed(w.StartSkewUS)})
	}
	table, _ = t.fit(table, leastOfWorkers...)
	t.table(table, 1, slices.Index(table[0], "state"))
	if n := len(r.Workers) - len(shown); n > 0 {
		t.prose("", "", fmt.Sprintf("Not shown: %d workers that did their part and lie between these.", n))
	}
}

// shownOf shows a metric of a latency in a table.
func shownOf(name string, l *analysis.Latency) string {
	return cell(analysis.MetricNamed(name), l, analysis.Metric.Show)
}

// manyWorkers is from how many workers on only those are shown that tell something.
const manyWorkers = 20

// tellingWorkers are the indices of all workers, or, of many, of those that did not do their part and of
// the extremes: the fastest and the slowest, and those with the most errors, the longest latencies and the busiest processors.
func tellingWorkers(r *analysis.Report) []int {
	telling := make([]bool, len(r.Workers))
	of := func(value func(*analysis.WorkerRow) float64) {
		low, high := 0, 0
		for i := range r.Workers {
			v := value(&r.Workers[i])
			if v < value(&r.Workers[low]) {
				low = i
			}
			if v > value(&r.Workers[high]) {
				high = i
			}
		}
		telling[low], telling[high] = true, true
	}
	of(func(w *analysis.WorkerRow) float64 { return w.OpsPerS })
	of(func(w *analysis.WorkerRow) float64 { return float64(w.Errors) })
	of(func(w *analysis.WorkerRow) float64 { return w.CPUShare })
	of(func(w *analysis.WorkerRow) float64 {
		if w.ServiceUS == nil {
			return 0
		}
		return float64(w.ServiceUS.P99)
	})
	var shown []int
	for i, w := range r.Workers {
		if len(r.Workers) <= manyWorkers || telling[i] || w.State != results.Finished {
			shown = append(shown, i)
		}
	}
	return shown
}

func signed(us float64) string {
	if us < 0 {
		return "-" + units.Micros(-us)
	}
	return "+" + units.Micros(us)
}

// printable makes what came from a file fit for one line of a terminal.
func printable(s string) string { return clean.Line(s) }

// ours are the colours that paint makes.
var ours = regexp.MustCompile(`\x1b\[(?:0|1|31|32|33)m`)

// printed is the report as it may be shown: whatever came into it from files, nothing but our own colours reaches
// the terminal.
func (t *text) printed() string {
	s := t.String()
	if !t.style.Colour {
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
