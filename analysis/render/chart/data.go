// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// data is what the script needs to know of a chart.
type data struct {
	X     axisData   `json:"x"`
	Y     axisData   `json:"y"`
	At    numbers    `json:"at,omitempty"`
	From  float64    `json:"from,omitempty"` // of places that are equally far from each other, instead of At
	Step  float64    `json:"step,omitempty"`
	Lines []lineData `json:"lines,omitempty"`
	Marks []markData `json:"marks,omitempty"`
	Heat  *heatData  `json:"heat,omitempty"`
}

type axisData struct {
	Unit string  `json:"unit"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	Log  bool    `json:"log,omitempty"`
}

type lineData struct {
	Name   string  `json:"name"`
	Values numbers `json:"v"`
	Lows   numbers `json:"low,omitempty"`
}

type markData struct {
	At   float64 `json:"at"`
	Text string  `json:"text"`
}

// numbers are short in JSON: seven digits, and null where nothing was measured.
type numbers []float64

// MarshalJSON implements json.Marshaler.
func (n numbers) MarshalJSON() ([]byte, error) {
	b := []byte{'['}
	for i, v := range n {
		if i > 0 {
			b = append(b, ',')
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			b = append(b, "null"...)
		} else {
			b = strconv.AppendFloat(b, v, 'g', 7, 64)
		}
	}
	return append(b, ']'), nil
}

// named are the marks whose text belongs to the chart.
func (c *Chart) named() []Mark {
	if c.Named {
		return nil
	}
	return c.Marks
}

func (a *Axis) data() axisData { return axisData{a.Unit.Name, a.Low, a.High, a.Log} }

func (c *Chart) data() *data {
	d := &data{X: c.X.data(), Y: c.Y.data()}
	if step, ok := even(c.At); ok {
		d.From, d.Step = c.At[0], step
	} else {
		d.At = c.At
	}
	for _, l := range c.Lines {
		d.Lines = append(d.Lines, lineData{l.Name, l.Values, l.Lows})
	}
	for _, m := range c.named() {
		d.Marks = append(d.Marks, markData{m.At, m.Label + " " + m.Text})
	}
	if c.Heat != nil {
		d.Heat = c.Heat.data()
	}
	return d
}

// even tells whether all places are equally far from each other.
func even(at []float64) (step float64, ok bool) {
	if len(at) < 2 {
		return 0, false
	}
	step = at[1] - at[0]
	for i := range at {
		if math.Abs(at[i]-at[0]-float64(i)*step) > 1e-6 {
			return 0, false
		}
	}
	return step, true
}

// extremes returns the lowest and the highest of some values, and where they are; ok is false if there are none.
func extremes(values []float64) (low, high int, ok bool) {
	low, high = -1, -1
	for i, v := range values {
		if math.IsNaN(v) {
			continue
		}
		if low < 0 || v < values[low] {
			low = i
		}
		if high < 0 || v > values[high] {
			high = i
		}
	}
	return low, high, low >= 0
}

// summary says in words what the lines do.
func (c *Chart) summary() string {
	var parts []string
	for _, l := range c.Lines {
		lows := l.Lows
		if lows == nil {
			lows = l.Values
		}
		low, _, ok := extremes(lows)
		_, high, _ := extremes(l.Values)
		if !ok {
			parts = append(parts, l.Name+" was not measured")
			continue
		}
		parts = append(parts, fmt.Sprintf("%s from %s at %s to %s at %s", l.Name,
			c.Y.Unit.Show(lows[low]), c.where(low), c.Y.Unit.Show(l.Values[high]), c.where(high)))
	}
	for _, m := range c.named() {
		parts = append(parts, fmt.Sprintf("event %s at %s: %s", m.Label, c.X.Unit.Show(m.At), m.Text))
	}
	return strings.Join(parts, "; ")
}

// where shows the place of a point on X.
func (c *Chart) where(i int) string { return c.X.Unit.Show(c.At[i]) }

// maxRows is how many rows the table of a chart has at most.
const maxRows = 16

// table returns the lines as a table, its head first: of each stretch the lowest and the highest value.
func (c *Chart) table() [][]string {
	head := []string{"at"}
	for _, l := range c.Lines {
		head = append(head, l.Name)
	}
	rows := [][]string{head}
	each := (len(c.At) + maxRows - 1) / maxRows
	for from := 0; from < len(c.At); from += each {
		to := min(from+each, len(c.At))
		row := []string{c.where(from)}
		if each > 1 && to < len(c.At) {
			row[0] += " to " + c.where(to)
		}
		for _, l := range c.Lines {
			text := "–"
			if low, high, ok := extremes(l.Values[from:to]); ok {
				text = c.Y.Unit.Show(l.Values[from+low])
				if most := c.Y.Unit.Show(l.Values[from+high]); most != text {
					text += " to " + most
				}
			}
			row = append(row, text)
		}
		rows = append(rows, row)
	}
	return rows
}
