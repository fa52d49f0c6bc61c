// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/analysis/render/chart"
	"github.com/kvbench/kvbench/internal/units"
)

// maxOverlaid is how many runs are shown in one chart: as many as there are colours.
const maxOverlaid = 8

// indexGrid lists runs with what one compares first.
func indexGrid(runs []htmlRun) *grid {
	g := &grid{Caption: "Runs", Left: 3, Head: []string{"run", "start", "workload", "target", "answered", "p50", "p99", "p99.9", "errors", "verdict"}}
	for _, r := range runs {
		g.Classes = append(g.Classes, verdictClass(r.Verdict.Code))
		g.Links = append(g.Links, r.ID)
		target := none
		if r.Paced && r.TargetOps > 0 {
			target = units.Rate(r.TargetOps)
		}
		row := []string{printable(r.RunID), r.Start.UTC().Format("2006-01-02 15:04"), printable(r.Workload), target, units.Rate(r.OpsPerS)}
		for _, name := range []string{"p50", "p99", "p99_9"} {
			text := none
			if l := felt(r.Report); l != nil {
				text = cell(analysis.MetricNamed(name), l, analysis.Metric.Show)
			}
			row = append(row, text)
		}
		g.Rows = append(g.Rows, append(row, units.Rate(r.ErrorsPerS), printable(r.Verdict.Text)))
	}
	return g
}

// felt is the latency of all that was answered OK, as users felt it: response time if there is one.
func felt(r *analysis.Report) *analysis.Latency {
	i := slices.IndexFunc(r.Kinds, func(k analysis.KindRow) bool { return k.Kind == analysis.AllKinds })
	if i < 0 {
		return nil
	}
	if l := r.Kinds[i].ResponseUS; l != nil {
		return l
	}
	return r.Kinds[i].ServiceUS
}

// several returns charts in which several runs lie over each other, from the start of each.
func (d *drawing) several(runs []*analysis.Report) (charts []template.HTML) {
	runs = runs[:min(len(runs), maxOverlaid)]
	longest := runs[0]
	for _, r := range runs {
		if seriesEnd(r) > seriesEnd(longest) {
			longest = r
		}
	}
	step := seriesWidth(longest.Series)
	var at []float64
	for s := 0.0; s < seriesEnd(longest); s += step {
		at = append(at, s)
	}
	x := chart.Axis{Unit: chart.Seconds, High: seriesEnd(longest)}
	line := func(i int, of func(*analysis.Point) float64) chart.Line {
		l := chart.Line{Name: printable(runs[i].RunID), Class: fmt.Sprintf("c%d %s", i, []string{"", "dash", "dot"}[i%3])}
		series := runs[i].Series
		for _, s := range at {
			v := math.NaN()
			// The last point that begins by then, if it is of this time.
			n, exact := slices.BinarySearchFunc(series, s, func(p analysis.Point, s float64) int { return cmp.Compare(p.S, s) })
			if !exact {
				n--
			}
			if n >= 0 && n < len(series) && s < series[n].S+seriesWidth(series) && series[n].Workers > 0 && loaded(&series[n]) {
				v = of(&series[n])
			}
			l.Values = append(l.Values, v)
		}
		return l
	}
	positive := func(v int64) float64 {
		if v <= 0 {
			return math.NaN()
		}
		return float64(v)
	}
	rates := &chart.Chart{Title: "Operations answered per second", X: x, Y: chart.Axis{Unit: chart.Rate}, Over: d.prefix, At: at}
	p99 := &chart.Chart{Title: "p99 over time", Note: "response time; service time of runs without a target", X: x, Y: chart.Axis{Unit: chart.Micros, Log: true}, Over: d.prefix, At: at}
	curves := map[string]*chart.Chart{}
	for i, r := range runs {
		rates.Lines = append(rates.Lines, line(i, func(p *analysis.Point) float64 { return p.OpsPerS }))
		p99.Lines = append(p99.Lines, line(i, func(p *analysis.Point) float64 {
			if r.Paced {
				return positive(p.ResponseP99)
			}
			return positive(p.ServiceP99)
		}))
		for j := range r.Curves {
			c := &r.Curves[j]
			if c.Kind != analysis.AllKinds && slices.ContainsFunc(r.Curves, func(o analysis.Curve) bool { return o.Kind != c.Kind }) {
				continue // one kind of several
			}
			if curves[c.Time] == nil {
				curves[c.Time] = &chart.Chart{Title: "Latency by percentile, " + c.Time + " time, all operations", X: percentileAxis(0), Y: chart.Axis{Unit: chart.Micros, Log: true}}
			}
			k := curves[c.Time]
			k.Lines = append(k.Lines, curveLine(k, c, printable(r.RunID), p99.Lines[i].Class))
		}
	}
	charts = append(charts, d.draw(rates), d.draw(p99))
	for _, time := range []string{"response", "service"} {
		if k := curves[time]; k != nil {
			charts = append(charts, d.draw(k))
		}
	}
	return charts
}
