// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/internal/units"
)

// chart draws lines as SVG. Colours are classes, so that the page's style sheet
// decides on them, for light and for dark.
type chart struct {
	title string
	x, y  axis
	lines []line
	areas []area
}

// axis maps values to places and chooses where the marks are.
type axis struct {
	name  string
	low   float64
	high  float64
	log   bool
	show  func(float64) string
	marks []float64 // chosen by ticks if nil
}

// line is one polyline. A gap in it is a NaN.
type line struct {
	name   string
	class  string
	points [][2]float64
}

// area is a stretch of x in another shade.
type area struct {
	name     string
	from, to float64
}

// The size of a chart in its own units, and the margins around the plot.
const (
	chartWidth, chartHeight  = 860.0, 260.0
	left, right, top, bottom = 70.0, 26.0, 28.0, 34.0
)

// place returns where v lies on an axis of this length, within 0 and length.
func (a *axis) place(v, length float64) float64 {
	low, high := a.low, a.high
	if a.log {
		low, high, v = math.Log10(low), math.Log10(high), math.Log10(max(v, a.low))
	}
	if high <= low {
		return 0
	}
	return length * min(1, max(0, (v-low)/(high-low)))
}

// ticks chooses about n round values.
func (a *axis) ticks(n int) []float64 {
	if a.marks != nil {
		return a.marks
	}
	var marks []float64
	if a.log {
		for e := math.Floor(math.Log10(a.low)); e <= math.Log10(a.high); e++ {
			for _, m := range []float64{1, 3} {
				if v := m * math.Pow(10, e); v >= a.low && v <= a.high {
					marks = append(marks, v)
				}
			}
		}
		return marks
	}
	step := math.Pow(10, math.Floor(math.Log10((a.high-a.low)/float64(n))))
	for _, m := range []float64{1, 2, 5, 10} {
		if (a.high-a.low)/(m*step) <= float64(n) {
			step *= m
			break
		}
	}
	for v := math.Ceil(a.low/step) * step; v <= a.high*1.0001; v += step {
		marks = append(marks, v)
	}
	return marks
}

// fit sets the range of y by the lines.
func (c *chart) fit() {
	low, high := math.Inf(1), math.Inf(-1)
	for _, l := range c.lines {
		for _, p := range l.points {
			if v := p[1]; !math.IsNaN(v) && (!c.y.log || v > 0) {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	switch {
	case math.IsInf(high, -1):
		c.y.low, c.y.high = 1, 10
	case c.y.log:
		c.y.low, c.y.high = low/1.2, high*1.2
	default:
		c.y.low, c.y.high = 0, max(high*1.08, 1e-9)
	}
}

// SVG draws the chart.
func (c *chart) SVG() template.HTML {
	c.fit()
	var b strings.Builder
	width, height := chartWidth-left-right, chartHeight-top-bottom
	x := func(v float64) float64 { return left + c.x.place(v, width) }
	y := func(v float64) float64 { return top + height - c.y.place(v, height) }
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s"><text class="title" x="%g" y="16">%s</text>`,
		chartWidth, chartHeight, html.EscapeString(c.title), left, html.EscapeString(c.title))
	for _, a := range c.areas {
		from, to := x(a.from), x(a.to)
		fmt.Fprintf(&b, `<rect class="area" x="%.1f" y="%g" width="%.1f" height="%g"><title>%s</title></rect>`, from, top, max(0, to-from), height, html.EscapeString(a.name))
	}
	for _, v := range c.y.ticks(5) {
		fmt.Fprintf(&b, `<path class="grid" d="M%g %.1fh%g"/><text class="mark" x="%g" y="%.1f" text-anchor="end">%s</text>`,
			left, y(v), width, left-6, y(v)+4, html.EscapeString(c.y.show(v)))
	}
	for _, v := range c.x.ticks(10) {
		fmt.Fprintf(&b, `<path class="grid" d="M%.1f %gv%g"/><text class="mark" x="%.1f" y="%g" text-anchor="middle">%s</text>`,
			x(v), top, height, x(v), chartHeight-bottom+15, html.EscapeString(c.x.show(v)))
	}
	fmt.Fprintf(&b, `<text class="mark" x="%g" y="%g" text-anchor="end">%s</text>`, chartWidth-right, chartHeight-4, html.EscapeString(c.x.name))
	legend := chartWidth - right
	for i := len(c.lines) - 1; i >= 0; i-- {
		l := &c.lines[i]
		fmt.Fprintf(&b, `<path class="line %s" d="%s"/>`, l.class, path(l.points, x, y))
		fmt.Fprintf(&b, `<text class="mark %s" x="%g" y="16" text-anchor="end">%s</text>`, l.class, legend, html.EscapeString(l.name))
		legend -= float64(len(l.name))*6.2 + 14
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) // all text in it has been escaped
}

// path returns a line's points as SVG path data.
func path(points [][2]float64, x, y func(float64) float64) string {
	var b strings.Builder
	command := 'M'
	for _, p := range points {
		if math.IsNaN(p[1]) {
			command = 'M'
			continue
		}
		fmt.Fprintf(&b, "%c%.1f %.1f", command, x(p[0]), y(p[1]))
		command = 'L'
	}
	return b.String()
}

// timeAxis spans a series.
func timeAxis(s []analysis.Point, width float64) axis {
	end := 1.0
	if len(s) > 0 {
		end = s[len(s)-1].S + width
	}
	return axis{name: "seconds of the run", high: end, show: func(v float64) string { return units.Number(v) }}
}

// over returns a value of every point as a line; where it is not measured, a gap.
func over(s []analysis.Point, name, class string, of func(*analysis.Point) float64) line {
	l := line{name: name, class: class}
	for i := range s {
		l.points = append(l.points, [2]float64{s[i].S, of(&s[i])})
	}
	return l
}

// beyond is said of a chart in which lines end where the histograms do.
const beyond = "; what the histograms do not reach is drawn at their end"

// charts returns the charts of a report.
func charts(r *analysis.Report) []template.HTML {
	var drawn []template.HTML
	if len(r.Series) > 0 {
		rates := chart{title: "operations per second", x: timeAxis(r.Series, seriesWidth(r.Series)),
			y: axis{show: units.Number}, areas: outside(r)}
		// What completes in the grace period says nothing of a rate: nothing is started there.
		rate := func(of func(*analysis.Point) float64) func(*analysis.Point) float64 {
			return func(p *analysis.Point) float64 {
				if p.Phase == "grace" {
					return math.NaN()
				}
				return of(p)
			}
		}
		rates.lines = append(rates.lines, over(r.Series, "answered", "a", rate(func(p *analysis.Point) float64 { return p.OpsPerS })))
		if r.Paced {
			rates.lines = append(rates.lines, over(r.Series, "target", "target", rate(func(p *analysis.Point) float64 { return p.Target })))
		}
		if len(r.Errors) > 0 {
			rates.lines = append(rates.lines, over(r.Series, "errors", "bad", rate(func(p *analysis.Point) float64 { return p.ErrorsPerS })))
		}
		latency := chart{title: "latency, all operations", x: rates.x, y: axis{log: true, show: units.Micros}, areas: rates.areas}
		positive := func(of func(*analysis.Point) int64) func(*analysis.Point) float64 {
			return func(p *analysis.Point) float64 {
				if v := of(p); v > 0 {
					return float64(v)
				}
				return math.NaN()
			}
		}
		latency.lines = append(latency.lines,
			over(r.Series, "service p50", "a", positive(func(p *analysis.Point) int64 { return p.ServiceP50 })),
			over(r.Series, "service p99 (dashed)", "a dash", positive(func(p *analysis.Point) int64 { return p.ServiceP99 })))
		if r.Paced {
			latency.lines = append(latency.lines,
				over(r.Series, "response p50", "b", positive(func(p *analysis.Point) int64 { return p.ResponseP50 })),
				over(r.Series, "response p99 (dashed)", "b dash", positive(func(p *analysis.Point) int64 { return p.ResponseP99 })),
				over(r.Series, "response max", "bad", positive(func(p *analysis.Point) int64 { return p.ResponseMax })))
		} else {
			latency.lines = append(latency.lines, over(r.Series, "service max", "bad", positive(func(p *analysis.Point) int64 { return p.ServiceMax })))
		}
		if slices.ContainsFunc(r.Series, func(p analysis.Point) bool { return len(p.AtLeast) > 0 }) {
			latency.title += beyond
		}
		drawn = append(drawn, rates.SVG(), latency.SVG())
	}
	kinds := make(map[string]*chart)
	var order []string
	for _, c := range r.Curves {
		if kinds[c.Kind] == nil {
			kinds[c.Kind] = &chart{title: "latency by percentile, " + c.Kind, y: axis{log: true, show: units.Micros}, x: percentileAxis()}
			order = append(order, c.Kind)
		}
		l := line{name: c.Time, class: map[string]string{"service": "a", "response": "b"}[c.Time]}
		for _, p := range c.Points {
			l.points = append(l.points, [2]float64{1 / (1 - min(p[0]/100, 0.999995)), max(p[1], 1)})
		}
		if c.Range > 0 && !strings.HasSuffix(kinds[c.Kind].title, beyond) {
			kinds[c.Kind].title += beyond
		}
		kinds[c.Kind].lines = append(kinds[c.Kind].lines, l)
	}
	for _, k := range order {
		drawn = append(drawn, kinds[k].SVG())
	}
	return drawn
}

// percentileAxis gives every nine the same room.
func percentileAxis() axis {
	return axis{name: "percentile", low: 1, high: 1e5, log: true,
		marks: []float64{1, 2, 10, 100, 1000, 1e4, 1e5},
		show: func(v float64) string {
			return map[float64]string{1: "0", 2: "50", 10: "90", 100: "99", 1000: "99.9", 1e4: "99.99", 1e5: "99.999"}[v]
		}}
}

func seriesWidth(s []analysis.Point) float64 {
	if len(s) > 1 {
		return s[1].S - s[0].S
	}
	return 1
}

// outside returns the stretches of a run that are not its measured window.
func outside(r *analysis.Report) []area {
	var areas []area
	width := seriesWidth(r.Series)
	for _, p := range r.Series {
		if p.Phase == "window" {
			continue
		}
		if n := len(areas); n > 0 && areas[n-1].name == p.Phase {
			areas[n-1].to = p.S + width
		} else {
			areas = append(areas, area{p.Phase, p.S, p.S + width})
		}
	}
	return areas
}
