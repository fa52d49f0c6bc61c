// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/analysis/render/chart"
	"github.com/kvbench/kvbench/internal/units"
)

// drawing makes the charts of one run, or of several in one. Each gets an id of its own.
type drawing struct {
	prefix string
	drawn  int
	err    error
}

func (d *drawing) draw(c *chart.Chart) template.HTML {
	d.drawn++
	markup, err := c.HTML(fmt.Sprintf("%s-%d", d.prefix, d.drawn))
	if err != nil && d.err == nil {
		d.err = err
	}
	return markup
}

// timeline is what the charts over the time of a run share.
type timeline struct {
	r     *analysis.Report
	x     chart.Axis
	at    []float64
	areas []chart.Area
	marks []chart.Mark
	over  string
	named bool // a chart has the text of the marks
}

func newTimeline(r *analysis.Report, over string) *timeline {
	t := &timeline{r: r, over: over, x: chart.Axis{Unit: chart.Seconds, High: seriesEnd(r)}}
	for i := range r.Series {
		t.at = append(t.at, r.Series[i].S)
	}
	width := seriesWidth(r.Series)
	for _, p := range r.Series {
		if p.Phase == "window" {
			continue
		}
		if n := len(t.areas); n > 0 && t.areas[n-1].Name == p.Phase {
			t.areas[n-1].To = p.S + width
		} else {
			t.areas = append(t.areas, chart.Area{Name: p.Phase, From: p.S, To: p.S + width})
		}
	}
	for i := range r.Disturbances {
		if d := &r.Disturbances[i]; d.Dip {
			t.marks = append(t.marks, chart.Mark{At: d.AtS, Label: "dip", Text: disturbance(d, r.Paced)})
		}
	}
	for i, e := range r.Events {
		if e.S > 0 && e.S <= t.x.High {
			text := e.Kind
			for _, more := range []string{e.Worker, e.Text} {
				if more != "" {
					text += " " + printable(more)
				}
			}
			t.marks = append(t.marks, chart.Mark{At: e.S, Label: fmt.Sprint(i + 1), Text: text})
		}
	}
	slices.SortStableFunc(t.marks, func(a, b chart.Mark) int { return cmp.Compare(a.At, b.At) })
	return t
}

func seriesWidth(s []analysis.Point) float64 {
	if len(s) > 1 {
		return s[1].S - s[0].S
	}
	return 1
}

// seriesEnd is where the last point of a series ends.
func seriesEnd(r *analysis.Report) float64 {
	if len(r.Series) == 0 {
		return 1
	}
	return r.Series[len(r.Series)-1].S + seriesWidth(r.Series)
}

// chart returns one over the run's time.
func (t *timeline) chart(title, note string, y chart.Axis, lines ...chart.Line) *chart.Chart {
	c := &chart.Chart{Title: title, Note: note, X: t.x, Y: y, Over: t.over, At: t.at, Lines: lines, Areas: t.areas, Marks: t.marks, Named: t.named}
	t.named = true
	return c
}

// line takes a value of every point; where no journal tells of the time, or ok says no, it has a gap.
func (t *timeline) line(name, class string, of func(*analysis.Point) float64, ok func(*analysis.Point) bool) chart.Line {
	l := chart.Line{Name: name, Class: class}
	for i := range t.r.Series {
		p, v := &t.r.Series[i], math.NaN()
		if p.Workers > 0 && ok(p) {
			v = of(p)
		}
		l.Values = append(l.Values, v)
	}
	return l
}

func always(*analysis.Point) bool { return true }

// loaded tells whether operations were started: what completes in the grace period says nothing of a rate.
func loaded(p *analysis.Point) bool { return p.Phase != "grace" }

// overTime returns the charts of a run over its time.
func (d *drawing) overTime(r *analysis.Report, t *timeline) (charts []template.HTML) {
	if len(r.Series) == 0 {
		return nil
	}
	add := func(c *chart.Chart) { charts = append(charts, d.draw(c)) }
	rates := []chart.Line{t.line("answered", "c0", func(p *analysis.Point) float64 { return p.OpsPerS }, loaded)}
	title := "Operations answered per second"
	if r.Paced {
		title += ", and the target"
		rates = append(rates, t.line("target", "target dash", func(p *analysis.Point) float64 { return p.Target }, loaded))
	}
	add(t.chart(title, "", chart.Axis{Unit: chart.Rate}, rates...))
	if classes := t.classes(); len(classes) > 0 {
		add(t.chart("Errors per second, by class", "an axis of their own", chart.Axis{Unit: chart.Rate}, classes...))
	}
	for _, of := range timesOf(r) {
		add(t.latency(of))
		for _, h := range heatOf(r, of.name) {
			add(t.heat(of, h))
		}
	}
	if r.Paced {
		add(t.chart("Lag: from due to sent", "the client was late, or all of its threads waited for the database", chart.Axis{Unit: chart.Micros, Log: true},
			t.quantiles("lag_", []string{"p50", "p99", "max"}, func(p *analysis.Point) []int64 { return []int64{p.LagP50, p.LagP99, p.LagMax} })...))
	}
	if slices.ContainsFunc(r.Series, func(p analysis.Point) bool { return p.InFlight > 0 }) {
		note := ""
		if r.Threads > 0 {
			note = fmt.Sprintf("on average; %s at once are possible (threads)", units.Count(int64(r.Threads)))
		}
		add(t.chart("Calls in flight", note, chart.Axis{Unit: chart.Number}, t.line("in flight", "c0", func(p *analysis.Point) float64 { return p.InFlight }, always)))
	}
	add(t.chart("Client CPU", "share of the cores that the workers may use", chart.Axis{Unit: chart.Share, High: 1},
		t.line("all workers", "c0", func(p *analysis.Point) float64 { return p.CPUShare }, func(p *analysis.Point) bool { return p.CPUShare > 0 }),
		t.line("the busiest", "c1 thin", func(p *analysis.Point) float64 { return p.CPUMax }, func(p *analysis.Point) bool { return p.CPUMax > 0 })))
	return charts
}

// classes are the lines of errors, the most frequent first.
func (t *timeline) classes() (lines []chart.Line) {
	sums := make(map[string]float64)
	for _, p := range t.r.Series {
		for class, n := range p.Errors {
			sums[class] += n
		}
	}
	names := slices.Sorted(maps.Keys(sums))
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(sums[b], sums[a]) })
	for i, name := range names {
		lines = append(lines, t.line(name, fmt.Sprintf("c%d", (i+3)%8), func(p *analysis.Point) float64 { return p.Errors[name] }, always))
	}
	return lines
}

// clock is service or response time: what a point has of it.
type clock struct {
	name, title, note string
	of                func(*analysis.Point) []int64 // p50, p99, p99.9, max; 0: none
}

// timesOf are the clocks of a run, the one that users would have felt first.
func timesOf(r *analysis.Report) (all []clock) {
	if r.Paced {
		all = append(all, clock{"response", "Response time", "from due to answered: what a user would have felt",
			func(p *analysis.Point) []int64 {
				return []int64{p.ResponseP50, p.ResponseP99, p.ResponseP999, p.ResponseMax}
			}})
	}
	return append(all, clock{"service", "Service time", "from sent to answered: what the database took",
		func(p *analysis.Point) []int64 {
			return []int64{p.ServiceP50, p.ServiceP99, p.ServiceP999, p.ServiceMax}
		}})
}

// styles of the lines of percentiles: told apart without colour, too.
var styles = map[string]string{"p50": "c0", "p99": "c1 dash", "p99.9": "c2 dot", "max": "c3 thin"}

// quantiles are lines of percentiles, over all answered operations.
func (t *timeline) quantiles(prefix string, names []string, of func(*analysis.Point) []int64) (lines []chart.Line) {
	for i, name := range names {
		field := prefix + strings.ReplaceAll(name, ".", "_") + "_us"
		l := t.line(name, styles[name], func(p *analysis.Point) float64 { return float64(max(1, of(p)[i])) },
			func(p *analysis.Point) bool { return of(p)[i] > 0 || prefix == "lag_" && p.OpsPerS > 0 })
		if slices.ContainsFunc(t.r.Series, func(p analysis.Point) bool { return slices.Contains(p.AtLeast, field) }) {
			l.Name += beyond
		}
		lines = append(lines, l)
	}
	return lines
}

// beyond is said of a line that ends where the histograms do.
const beyond = " (some beyond the histograms, and at least so much)"

func (t *timeline) latency(of clock) *chart.Chart {
	return t.chart(of.title+", all operations", of.note, chart.Axis{Unit: chart.Micros, Log: true},
		t.quantiles(of.name+"_", []string{"p50", "p99", "p99.9", "max"}, of.of)...)
}

func heatOf(r *analysis.Report, time string) (maps []analysis.Heat) {
	if r.Detail != nil {
		for _, h := range r.Detail.Heat {
			if h.Time == time {
				maps = append(maps, h)
			}
		}
	}
	return maps
}

// heat draws the rows of a heat map that are in use.
func (t *timeline) heat(of clock, h analysis.Heat) *chart.Chart {
	from, to := analysis.HeatRows, 0
	for i := range h.Columns {
		for row, n := range h.Columns[i] {
			if n > 0 {
				from, to = min(from, row), max(to, row+1)
			}
		}
	}
	drawn := &chart.Heat{Width: h.Width}
	for row := from; row <= to; row++ {
		drawn.Edges = append(drawn.Edges, analysis.HeatFrom(row))
	}
	for i := range h.Columns {
		drawn.Columns = append(drawn.Columns, h.Columns[i][from:to])
	}
	c := t.chart(of.title+", every operation", fmt.Sprintf("the stronger, the more operations took so long in these %s; each shade is four times the next", units.Seconds(h.Width)),
		chart.Axis{Unit: chart.Micros, Log: true, Low: drawn.Edges[0], High: drawn.Edges[len(drawn.Edges)-1]})
	c.At, c.Heat = nil, drawn
	return c
}

// percentileAxis gives every nine the same room. Of each percentile it says how often something takes longer, at a rate.
func percentileAxis(rate float64) chart.Axis {
	a := chart.Axis{Unit: chart.Percent, Low: 1, High: 1e5, Log: true,
		Names: map[float64]string{2: "p50", 10: "p90", 100: "p99", 1e3: "p99.9", 1e4: "p99.99", 1e5: "p99.999"}, More: map[float64]string{}}
	a.Marks = slices.Sorted(maps.Keys(a.Names))
	for _, at := range a.Marks[1:] {
		switch often := rate / at; {
		case rate <= 0:
		case often >= 0.95:
			a.More[at] = units.Rate(often)
		default:
			a.More[at] = "1 in " + units.Seconds(math.Round(1/often))
		}
	}
	return a
}

// axisRate is at which rate the axis of percentiles says how often something is, and what to call it.
func axisRate(r *analysis.Report) (float64, string) {
	if r.Paced && r.TargetOps > 0 {
		return r.TargetOps, "the target of " + units.Rate(r.TargetOps)
	}
	return r.OpsPerS, "the " + units.Rate(r.OpsPerS) + " that were answered"
}

// byPercentile returns the curves: of all kinds together, if there are several, and of each.
func (d *drawing) byPercentile(r *analysis.Report) (charts []template.HTML) {
	rate, called := axisRate(r)
	kinds := make(map[string]*chart.Chart)
	var order []*chart.Chart
	for _, c := range r.Curves {
		k := kinds[c.Kind]
		if k == nil {
			k = &chart.Chart{Title: "Latency by percentile, " + kindTitle(c.Kind), X: percentileAxis(0), Y: chart.Axis{Unit: chart.Micros, Log: true}}
			if c.Kind == analysis.AllKinds || len(r.Curves) <= 2 {
				k.X, k.Note = percentileAxis(rate), "below a percentile: how many take longer, at "+called
			}
			kinds[c.Kind] = k
			order = append(order, k)
		}
		k.Lines = append(k.Lines, curveLine(k, &c, c.Time, map[string]string{"service": "c0", "response": "c1 dash"}[c.Time]))
	}
	for _, k := range order {
		if k.At == nil {
			continue
		}
		charts = append(charts, d.draw(k))
	}
	return charts
}

func kindTitle(kind string) string {
	if kind == analysis.AllKinds {
		return "all operations"
	}
	return kind
}

// curveLine returns a curve as a line over the places of a chart, which get those that they lack.
func curveLine(c *chart.Chart, curve *analysis.Curve, name, class string) chart.Line {
	for i := len(c.At); i < len(curve.Points); i++ {
		c.At = append(c.At, 1/(1-min(curve.Points[i][0]/100, 0.999995)))
		for j := range c.Lines {
			c.Lines[j].Values = append(c.Lines[j].Values, math.NaN())
		}
	}
	l := chart.Line{Name: name, Class: class}
	if curve.Range > 0 {
		l.Name += beyond
	}
	for i := range c.At {
		v := math.NaN()
		if i < len(curve.Points) {
			v = max(curve.Points[i][1], 1)
		}
		l.Values = append(l.Values, v)
	}
	return l
}
