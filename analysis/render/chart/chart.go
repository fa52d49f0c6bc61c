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
	ticks := 5
	if c.Small {
		ticks = 2
	}
	for _, at := range c.Y.ticks(ticks) {
		v.YTicks = append(v.YTicks, tick{Place: 100 - 100*c.Y.place(at), Text: c.Y.Unit.Show(at)})
	}
	for i, at := range c.X.ticks(2 * ticks) {
		v.XTicks = append(v.XTicks, tick{Place: 100 * c.X.place(at), Text: c.X.show(at), More: c.X.More[at], Odd: i%2 == 1 && c.X.Marks == nil})
	}
	last := math.Inf(-1)
	for _, m := range c.Marks {
		if place := 100 * c.X.place(m.At); place-last > 2 {
			v.Labels = append(v.Labels, tick{Place: place, Text: m.Label})
			last = place
		}
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
	for _, v := range c.Y.ticks(5) {
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

// path returns the points of a line as SVG path data: relative, and without those in the midst of a level stretch.
func (c *Chart) path(values []float64) string {
	var b strings.Builder
	drawn := false // there is a point to go on from, at x and y
	var x, y, level int
	to := func(nx, ny int) {
		space := " "
		if ny < y {
			space = ""
		}
		fmt.Fprintf(&b, " %d%s%d", nx-x, space, ny-y)
		x, y = nx, ny
	}
	for i, v := range values {
		if math.IsNaN(v) {
			if drawn && level > x {
				to(level, y)
			}
			drawn = false
			continue
		}
		nx, ny := c.x(c.At[i]), c.y(v)
		switch {
		case !drawn:
			fmt.Fprintf(&b, "M%d %dl0 0", nx, ny) // a point of its own is a dot
			x, y, drawn = nx, ny, true
		case ny == y && i+1 < len(values):
		default:
			if level > x && ny != y {
				to(level, y)
			}
			to(nx, ny)
		}
		level = nx
	}
	return b.String()
}

// band returns the area between the lows and the values of a line.
func (c *Chart) band(l *Line) string {
	var b strings.Builder
	for from := 0; from < len(l.Values); from++ {
		to := from
		for to < len(l.Values) && !math.IsNaN(l.Values[to]) {
			to++
		}
		for i := from; i < to; i++ {
			command := byte('L')
			if i == from {
				command = 'M'
			}
			fmt.Fprintf(&b, "%c%d %d", command, c.x(c.At[i]), c.y(l.Values[i]))
		}
		for i := to - 1; i >= from; i-- {
			fmt.Fprintf(&b, "L%d %d", c.x(c.At[i]), c.y(l.Lows[i]))
		}
		from = to
	}
	return b.String()
}
