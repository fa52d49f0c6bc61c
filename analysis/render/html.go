// SPDX-License-Identifier: Apache-2.0

package render

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/analysis/render/chart"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/units"
)

var (
	//go:embed report.html
	page string
	//go:embed report.css
	style string
)

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"gap":              gap,
	"headline":         headline,
	"seconds":          units.Seconds,
	"number":           units.Number,
	"clients":          clients,
	"tooFew":           tooFew,
	"verdict":          verdictClass,
	"latencies":        latencyGrid,
	"workerTable":      workerGrid,
	"storeTable":       storeGrid,
	"serverTable":      serverGrid,
	"silent":           silent,
	"errorTable":       errorGrid,
	"eventTable":       eventGrid,
	"disturbance":      func(d analysis.Disturbance, paced bool) string { return disturbance(&d, paced) },
	"partsTable":       partsGrid,
	"configTable":      configGrid,
	"prose":            func(column string) bool { return slices.Contains(proseColumns, column) },
	"sharing":          func(t *analysis.Traffic) string { return sharing(&t.Sent) },
	"fallbacks":        func(t *analysis.Traffic) string { return fallbacks(&t.Sent) },
	"objectiveTable":   objectiveGrid,
	"transactionTable": transactionGrid,
	"phaseTable":       phaseGrid,
	"sentFor":          sentFor,
	"alone":            alone,
	"probed":           probed,
	"probeTable":       probeGrid,
	"stallTexts":       stallTexts,
	"readBack":         readBack,
	"badWrites":        badWrites,
	"remarks":          remarks,
}).Parse(page))

// proseColumns are the columns of tables that hold text, which is broken at words.
var proseColumns = []string{"text", "first text", "value", "verdict", "workload", "event", "commands each"}

// frame is what every page has around its contents.
type frame struct {
	Title  string
	Policy string // no network, and no script but ours
	Style  template.CSS
	Script template.JS
}

// newFrame returns that of a page which needs nothing else: style and script are in it.
func newFrame(title string) frame {
	hash := sha256.Sum256([]byte(chart.Script))
	return frame{
		Title: title, Style: template.CSS(style + chart.Style), Script: template.JS(chart.Script), // both are ours
		Policy: "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "'",
	}
}

// htmlPage is what the template is given.
type htmlPage struct {
	frame
	Runs  []htmlRun
	Index *grid // of several runs
	Both  []template.HTML
	Left  int // runs that are not in the charts of several

	Foreign []foreignPage
}

// htmlRun is a report with its charts.
type htmlRun struct {
	*analysis.Report
	ID            string
	Facts         []tile
	Tiles         []tile
	Point         string // what a point of the charts over time is
	OverTime      []template.HTML
	ByPercentile  []template.HTML
	ByWorker      []multiples
	ByStore       []multiples
	OwnFigures    []template.HTML
	Apart         float64 // of two readings of the stores' own figures, in seconds
	EventsInChart bool
}

// writeHTML writes one page, with its charts.
func writeHTML(w io.Writer, d *analysis.Document) error {
	p := htmlPage{frame: newFrame("kvbench")}
	for i, r := range d.Runs {
		p.Title += " · " + r.RunID
		run, err := newHTMLRun(r, fmt.Sprintf("r%d", i+1))
		if err != nil {
			return err
		}
		p.Runs = append(p.Runs, run)
	}
	if len(d.Runs) > 1 {
		p.Index = indexGrid(p.Runs)
		drawing := drawing{prefix: "all"}
		p.Both, p.Left = drawing.several(d.Runs), max(0, len(d.Runs)-maxOverlaid)
		if drawing.err != nil {
			return drawing.err
		}
	}
	for i, r := range d.Foreign {
		p.Title += " · " + printable(r.Name)
		p.Foreign = append(p.Foreign, newForeignPage(r, fmt.Sprintf("f%d", i+1)))
	}
	return pageTemplate.Execute(w, &p)
}

func newHTMLRun(r *analysis.Report, id string) (htmlRun, error) {
	d, t := drawing{prefix: id}, newTimeline(r, id)
	run := htmlRun{Report: r, ID: id, Tiles: tiles(r), OverTime: d.overTime(r, t), ByPercentile: d.byPercentile(r),
		ByWorker: d.byWorker(r, t), ByStore: d.byStore(r, t), EventsInChart: len(t.marks) > 0 && len(r.Series) > 0}
	run.OwnFigures, run.Apart = d.ownFigures(r, t)
	for _, f := range facts(r) {
		run.Facts = append(run.Facts, tile{Name: f.name, Value: f.text})
	}
	if width := seriesWidth(r.Series); width > 1 {
		run.Point = units.Seconds(width) + ", merged"
	} else {
		run.Point = "a second"
	}
	return run, d.err
}

// verdictClass is how a verdict looks.
func verdictClass(code int) string {
	switch code {
	case exitcode.Valid:
		return "good"
	case exitcode.Target, exitcode.Interrupted:
		return "warn"
	}
	return "bad"
}

// tile is one of the numbers at the head of a report.
type tile struct{ Name, Value, More string }

// tiles are the numbers that a reader looks for first.
func tiles(r *analysis.Report) (all []tile) {
	if alone(r) {
		return probeTiles(r.Probe)
	}
	rate := tile{Name: "answered", Value: units.Rate(r.OpsPerS), More: "as fast as it went"}
	if r.Paced && r.TargetOps > 0 {
		rate.More = fmt.Sprintf("%s of the target of %s", units.Percent(r.OpsPerS/r.TargetOps), units.Rate(r.TargetOps))
	}
	all = append(all, rate)
	if i := slices.IndexFunc(r.Kinds, func(k analysis.KindRow) bool { return k.Kind == analysis.AllKinds }); i >= 0 {
		clock, l, never := "service time", r.Kinds[i].ServiceUS, (*analysis.Latency)(nil)
		if r.Paced {
			clock, l = "response time", r.Kinds[i].ResponseUS
		}
		if n := r.Kinds[i].NeverAnswered; n != nil {
			if never = n.ServiceUS; r.Paced {
				never = n.ResponseUS
			}
		}
		for _, name := range []string{"p50", "p99", "p99_9"} {
			if m := analysis.MetricNamed(name); l != nil {
				t := tile{m.Title() + " of the " + clock, cell(m, l, analysis.Metric.Show), ""}
				if never != nil {
					t.More = cell(m, never, analysis.Metric.AtLeast) + " with what was never answered"
				}
				all = append(all, t)
			}
		}
	}
	failed := tile{Name: "errors", Value: units.Rate(r.ErrorsPerS), More: "none"}
	if n := errorsOf(r); n > 0 {
		failed.More = fmt.Sprintf("%s operations, %s", units.Count(n), units.Percent(float64(n)/float64(n+r.Operations)))
	}
	all = append(all, failed)
	window := tile{Name: "measured", Value: units.Seconds(r.MeasuredS), More: units.Count(r.Operations) + " operations"}
	all = append(all, window)
	if r.CPUPerOpUS > 0 {
		all = append(all, tile{"client CPU", units.Micros(r.CPUPerOpUS), "for each operation"})
	}
	return all
}

func errorsOf(r *analysis.Report) (n int64) {
	for _, e := range r.Errors {
		n += e.Count
	}
	return n
}

// grid is a table: where there is little place, each row stands by itself, its cells with their names.
type grid struct {
	Caption string
	Head    []string
	Rows    [][]string
	Left    int      // so many columns are aligned to the left
	Classes []string // of the rows, as far as there are any
	Links   []string // of the first cells, as far as there are any
}

func latencyGrid(r *analysis.Report) *grid {
	table := latencyTable(r)
	return &grid{Caption: "Latencies", Head: table[0], Rows: table[1:], Left: 2}
}

func errorGrid(r *analysis.Report) *grid {
	g := &grid{Caption: "Errors", Head: []string{"operation", "class", "operations", "first text"}, Left: 2}
	for _, e := range r.Errors {
		g.Rows = append(g.Rows, []string{printable(e.Kind), printable(e.Class), units.Count(e.Count), printable(e.FirstText)})
	}
	return g
}

func workerGrid(r *analysis.Report) *grid {
	g := &grid{Caption: "Workers", Left: 2, Head: []string{"worker", "state", "operations", "per s", "errors", "service p50", "p99", "lag p99", "CPU", "busiest second", "GC pauses", "memory", "clock offset", "start"}}
	for i := range r.Workers {
		w := &r.Workers[i]
		class := ""
		if w.State != "finished" {
			class = "bad"
		}
		g.Classes = append(g.Classes, class)
		g.Rows = append(g.Rows, []string{printable(w.Name), string(w.State), units.Count(w.Operations), units.Number(w.OpsPerS), units.Count(w.Errors),
			shownIf("p50", w.ServiceUS), shownIf("p99", w.ServiceUS), shownIf("p99", w.LagUS), units.Percent(w.CPUShare), units.Percent(w.CPUShareMax),
			units.Seconds(w.GCPauseS), units.Megabytes(w.RSSBytes), signed(w.ClockOffsetUS), signed(w.StartSkewUS)})
	}
	return g
}

// shownIf shows a metric; nothing if there is none.
func shownIf(name string, l *analysis.Latency) string {
	if l == nil {
		return ""
	}
	return shownOf(name, l)
}

func storeGrid(t *analysis.Traffic) *grid {
	g := &grid{Caption: "Stores", Left: 1, Head: []string{"store", "commands per s", "messages per s", "commands per message", "p50", "p99", "max", "fallbacks", "stream breaks"}}
	for _, s := range t.Stores {
		var causes []string
		for _, f := range s.Fallbacks {
			causes = append(causes, units.Count(f.Count)+" "+printable(f.Cause))
		}
		row := []string{printable(s.Store), units.Number(s.CommandsPS), units.Number(s.MessagesPS), none, none, none, none, strings.Join(causes, ", "), units.Count(s.Breaks)}
		if m := s.PerMessage; m != nil {
			copy(row[3:], []string{units.Number(m.Mean), units.Count(m.P50), units.Count(m.P99), units.Count(m.Max)})
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

func eventGrid(r *analysis.Report) *grid {
	g := &grid{Caption: "Events", Left: 3, Head: []string{"", "at", "event", "text"}}
	for i, e := range r.Events {
		g.Rows = append(g.Rows, []string{fmt.Sprint(i + 1), units.Seconds(e.S), printable(strings.TrimSpace(e.Kind + " " + e.Worker)), printable(e.Text)})
	}
	return g
}

// partsGrid is how it was before, during and after each disturbance.
func partsGrid(r *analysis.Report) *grid {
	g := &grid{Caption: "Before, during and after", Left: 2, Head: []string{"at", "part", "from", "to", "per s", "time", "p50", "p99", "p99.9"}}
	for i := range r.Disturbances {
		g.Rows = append(g.Rows, parts(&r.Disturbances[i])...)
	}
	return g
}

func configGrid(r *analysis.Report) *grid {
	g := &grid{Caption: "Properties, versions and limits", Left: 2, Head: []string{"property", "value"}}
	for _, m := range []struct {
		prefix string
		of     map[string]string
	}{{"", r.Spec}, {"version of ", r.Versions}, {"cluster: ", r.Cluster.Details}} {
		for _, name := range slices.Sorted(maps.Keys(m.of)) {
			g.Rows = append(g.Rows, []string{printable(m.prefix + name), printable(m.of[name])})
		}
	}
	if len(r.Cluster.Stores) > 0 {
		g.Rows = append(g.Rows, []string{"cluster: stores", printable(strings.Join(r.Cluster.Stores, ", "))})
	}
	return g
}
