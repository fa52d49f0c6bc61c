// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"math"
	"strconv"

	"github.com/kvbench/kvbench/internal/units"
)

// Axis maps values to places and chooses where its labels are.
type Axis struct {
	Unit      Unit
	Low, High float64 // of a vertical axis with none: fitted to what is drawn
	Log       bool

	// Labels at chosen places; nil: round values. Names and More are by the place, More a second line.
	Marks []float64
	Names map[float64]string
	More  map[float64]string
}

// Unit is how values are shown, here and, by its name, in the script.
type Unit struct {
	Name string
	Show func(float64) string
}

// The units.
var (
	Micros  = Unit{"micros", units.Micros}
	Rate    = Unit{"rate", units.Rate}
	Number  = Unit{"number", units.Number}
	Share   = Unit{"share", units.Percent}
	Bytes   = Unit{"bytes", units.Bytes}
	Seconds = Unit{"seconds", func(v float64) string { return units.Number(v) + " s" }}
	Percent = Unit{"percentile", func(v float64) string { return "p" + strconv.FormatFloat(100-100/v, 'g', 5, 64) }} // of 1/(1 − quantile)
)

func (a *Axis) show(v float64) string {
	if name, ok := a.Names[v]; ok {
		return name
	}
	return a.Unit.Show(v)
}

// place returns where v lies between the ends of the axis: from 0 to 1.
func (a *Axis) place(v float64) float64 {
	low, high := a.Low, a.High
	if a.Log {
		low, high, v = math.Log10(low), math.Log10(high), math.Log10(max(v, a.Low))
	}
	if high <= low {
		return 0
	}
	return min(1, max(0, (v-low)/(high-low)))
}

// ticks chooses about n round values; on a logarithmic axis every power of ten, and what is between where there are few.
func (a *Axis) ticks(n int) []float64 {
	if a.Marks != nil {
		return a.Marks
	}
	var marks []float64
	if a.Log {
		decades := math.Log10(a.High / a.Low)
		every, between := 1.0, []float64{1}
		switch {
		case decades < 1.2:
			between = []float64{1, 2, 5}
		case decades < 2.5:
			between = []float64{1, 3}
		case decades > float64(n)+1:
			every = math.Ceil(decades / float64(n))
		}
		for e := math.Floor(math.Log10(a.Low)); e <= math.Log10(a.High); e += every {
			for _, m := range between {
				if v := m * math.Pow(10, e); v >= a.Low && v <= a.High {
					marks = append(marks, v)
				}
			}
		}
		return marks
	}
	if !(a.High > a.Low) {
		return nil
	}
	step := math.Pow(10, math.Floor(math.Log10((a.High-a.Low)/float64(n))))
	for _, m := range []float64{1, 2, 5, 10} {
		if (a.High-a.Low)/(m*step) <= float64(n) {
			step *= m
			break
		}
	}
	for v := math.Ceil(a.Low/step) * step; v <= a.High*1.0001; v += step {
		marks = append(marks, v)
	}
	return marks
}

// fit sets the range of Y, if it has none, by the lines.
func (c *Chart) fit() {
	if c.Y.High > c.Y.Low {
		return
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, l := range c.Lines {
		for _, values := range [][]float64{l.Values, l.Lows} {
			for _, v := range values {
				if !math.IsNaN(v) && (!c.Y.Log || v > 0) {
					low, high = min(low, v), max(high, v)
				}
			}
		}
	}
	switch {
	case math.IsInf(high, -1):
		c.Y.Low, c.Y.High = 1, 10
	case c.Y.Log:
		c.Y.Low, c.Y.High = low/1.2, high*1.2
	case high <= 0:
		c.Y.Low, c.Y.High = 0, 1
	default:
		c.Y.Low, c.Y.High = 0, high*1.08
	}
}
