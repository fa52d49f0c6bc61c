// SPDX-License-Identifier: Apache-2.0

// Package chart draws charts as HTML and SVG: numbers in, markup out. What it draws can be read without a script;
// [Script] adds a cursor that reads values, and a closer look at a part of the time. Text is HTML, so that it
// keeps its size when a chart is narrow, and the drawing is stretched below it. Colours are the style sheet's.
package chart

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// Script is what makes charts answer to pointer and keys, and Style how they look; a page has each once.
var (
	//go:embed chart.js
	Script string
	//go:embed chart.css
	Style string
)

// Chart is lines, or a heat map, over one horizontal axis.
type Chart struct {
	Title string // what is shown, with its unit
	Note  string // what must be known to read it; may be empty
	X, Y  Axis
	Over  string    // charts with the same Over share cursor and closer look; empty: none does
	At    []float64 // where the points of all lines are on X, rising
	Lines []Line
	Heat  *Heat
	Areas []Area
	Marks []Mark
	Named bool // another chart over the same time has the text of the marks
	Small bool // one of many, without legend and table
}

// Line is one line. Where nothing was measured, its value is NaN and the line has a gap.
type Line struct {
	Name   string
	Class  string // of the style sheet, as in "c1 dash"
	Values []float64
	Lows   []float64 // nil, or the lower end of each point, of which Values is the upper: drawn as a band
}

// Area is a stretch of X in another shade.
type Area struct {
	Name     string
	From, To float64
}

// Mark is a moment, drawn as an upright line with its label.
type Mark struct {
	At    float64
	Label string // short
	Text  string
}

// The drawing in its own units. They are stretched to what place there is.
const width, height = 3000, 1000

// view is what the template of a chart is given.
type view struct {
	*Chart
	ID       string
	Shapes   template.HTML
	XTicks   []tick
	YTicks   []tick
	Labels   []tick // of the marks
	Summary  string
	Table    [][]string
	Data     template.HTML
	HeatKeys []string
}

// tick is a label at a place, in percent from left or top.
type tick struct {
	Place float64
	Text  string
	More  string // a second line
	Odd   bool   // left out where there is little place
}

// HTML draws the chart. The id must be the page's only one.
func (c *Chart) HTML(id string) (template.HTML, error) {
	c.fit()
	v := view{Chart: c, ID: id, Shapes: template.HTML(c.shapes()), Summary: c.summary()}
	for _, at := range c.Y.ticks(c.ticks()) {
		v.YTicks = append(v.YTicks, tick{Place: 100 - 100*c.Y.place(at), Text: c.Y.Unit.Show(at)})
	}
	for i, at := range c.X.ticks(2 * c.ticks()) {
		v.XTicks = append(v.XTicks, tick{Place: 100 * c.X.place(at), Text: c.X.show(at), More: c.X.More[at], Odd: i%2 == 1 && c.X.Marks == nil})
	}
	for _, m := range c.Marks {
		n, place := len(v.Labels), 100*c.X.place(m.At)
		if n > 0 && place-v.Labels[n-1].Place < 2 { // too near to stand beside each other
			first, _, _ := strings.Cut(v.Labels[n-1].Text, "–")
			v.Labels[n-1].Text = first + "–" + m.Label
			continue
		}
		v.Labels = append(v.Labels, tick{Place: place, Text: m.Label})
	}
	if c.Heat != nil {
		v.HeatKeys = c.Heat.keys()
	} else if !c.Small {
		v.Table = c.table()
	}
	data, err := json.Marshal(c.data())
	if err != nil {
		return "", err
	}
	v.Data = template.HTML(`<script type="application/json">` + string(data) + `</script>`) // json.Marshal escapes <, > and &
	var b strings.Builder
	if err := figure.Execute(&b, &v); err != nil {
		return "", err
	}
	return template.HTML(b.String()), nil // made by html/template
}

//go:embed chart.html
var markup string

var figure = template.Must(template.New("chart").Funcs(template.FuncMap{
	"percent": func(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) },
}).Parse(markup))

// ticks is about how many labels the vertical axis has; the other has twice as many.
func (c *Chart) ticks() int {
	if c.Small {
		return 3
	}
	return 5
}

// shapes returns what is inside of the SVG element. Nothing in it is text from outside.
func (c *Chart) shapes() string {
	var b strings.Builder
	for _, a := range c.Areas {
		from, to := c.x(a.From), c.x(a.To)
		fmt.Fprintf(&b, `<path class="area" d="M%d 0h%dv%dh%dz"/>`, from, to-from, height, from-to)
	}
	if c.Heat != nil {
		b.WriteString(c.Heat.shapes(c))
	}
	b.WriteString(`<path class="grid" d="`)
	for _, v := range c.Y.ticks(c.ticks()) {
		fmt.Fprintf(&b, "M0 %dh%d", c.y(v), width)
	}
	b.WriteString(`"/>`)
	for i, l := range c.Lines {
		if l.Lows != nil {
			fmt.Fprintf(&b, `<path class="band s%d %s" d="%s"/>`, i, l.Class, c.band(&l))
		}
		fmt.Fprintf(&b, `<path class="line s%d %s" d="%s"/>`, i, l.Class, c.path(l.Values))
	}
	if len(c.Marks) > 0 {
		b.WriteString(`<path class="event" d="`)
		for _, m := range c.Marks {
			fmt.Fprintf(&b, "M%d 0v%d", c.x(m.At), height)
		}
		b.WriteString(`"/>`)
	}
	return b.String()
}

func (c *Chart) x(v float64) int { return int(math.Round(width * c.X.place(v))) }
func (c *Chart) y(v float64) int { return int(math.Round(height * (1 - c.Y.place(v)))) }

// pen writes SVG path data, short: relative, and without the points in the midst of a level stretch.
type pen struct {
	strings.Builder
	x, y  int // of the last point written
	level int // how far the line goes on at y from there
}

// move begins at a point. One that nothing follows is a dot.
func (p *pen) move(x, y int) {
	fmt.Fprintf(p, "M%d %dl0 0", x, y)
	p.x, p.y, p.level = x, y, x
}

func (p *pen) line(x, y int) {
	if y == p.y {
		p.level = x
		return
	}
	p.lift()
	p.write(x, y)
}

// lift writes what is left of a level stretch.
func (p *pen) lift() {
	if p.level != p.x {
		p.write(p.level, p.y)
	}
}

func (p *pen) write(x, y int) {
	space := " "
	if y < p.y {
		space = ""
	}
	fmt.Fprintf(p, " %d%s%d", x-p.x, space, y-p.y)
	p.x, p.y, p.level = x, y, x
}

// stretches calls f for each stretch of values that were measured.
func stretches(values []float64, f func(from, to int)) {
	for from := 0; from < len(values); from++ {
		to := from
		for to < len(values) && !math.IsNaN(values[to]) {
			to++
		}
		if to > from {
			f(from, to)
		}
		from = to
	}
}

// path returns a line as SVG path data.
func (c *Chart) path(values []float64) string {
	var p pen
	stretches(values, func(from, to int) {
		p.move(c.x(c.At[from]), c.y(values[from]))
		for i := from + 1; i < to; i++ {
			p.line(c.x(c.At[i]), c.y(values[i]))
		}
		p.lift()
	})
	return p.String()
}

// band returns the area between the lows and the values of a line.
func (c *Chart) band(l *Line) string {
	var p pen
	stretches(l.Values, func(from, to int) {
		p.move(c.x(c.At[from]), c.y(l.Values[from]))
		for i := from + 1; i < to; i++ {
			p.line(c.x(c.At[i]), c.y(l.Values[i]))
		}
		for i := to - 1; i >= from; i-- {
			p.line(c.x(c.At[i]), c.y(l.Lows[i]))
		}
		p.lift()
	})
	return p.String()
}
