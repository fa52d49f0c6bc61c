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

// multiples are small charts of the same thing, one for each worker or store, all with the same axes.
type multiples struct {
	Title, Note string
	Charts      []template.HTML
}

// maxMultiples is of how many workers, or stores, charts are shown at most.
const maxMultiples = 30

// aspect is one thing that small charts show.
type aspect struct {
	title string
	note  string
	y     chart.Axis
	class string
	spans func(*analysis.Track) []analysis.Span
	idle  bool // shown even if it is 0 everywhere
}

// byWorker returns the small charts of the workers. Of many, they are those with the highest latencies.
func (d *drawing) byWorker(r *analysis.Report, t *timeline) []multiples {
	if r.Detail == nil || len(r.Detail.Workers) < 2 {
		return nil
	}
	clock := "service"
	if r.Paced {
		clock = "response"
	}
	tracks := slices.Clone(r.Detail.Workers)
	if len(tracks) > maxMultiples {
		worst := func(t *analysis.Track) float64 { // NaN counts as least
			most := 0.0
			for _, v := range t.P99 {
				if v > most {
					most = v
				}
			}
			return most
		}
		slices.SortStableFunc(tracks, func(a, b analysis.Track) int { return cmp.Compare(worst(&b), worst(&a)) })
	}
	return d.multiples(t, r.Detail.Width, tracks, "worker", []aspect{
		{"Operations answered per second", "", chart.Axis{Unit: chart.Rate}, "c0", func(t *analysis.Track) []analysis.Span { return t.Rate }, true},
		{"Errors per second", "", chart.Axis{Unit: chart.Rate}, "c3", func(t *analysis.Track) []analysis.Span { return t.Sick }, false},
		{"p99 of the " + clock + " time", "", chart.Axis{Unit: chart.Micros, Log: true}, "c1", func(t *analysis.Track) (spans []analysis.Span) {
			for _, v := range t.P99 {
				spans = append(spans, analysis.Span{Low: v, High: v})
			}
			return spans
		}, true},
		{"Share of its cores", "", chart.Axis{Unit: chart.Share, High: 1}, "c2", func(t *analysis.Track) []analysis.Span { return t.CPU }, true},
	})
}

// byStore returns the small charts of the stores, as far as the drivers tell of them.
func (d *drawing) byStore(r *analysis.Report, t *timeline) []multiples {
	if r.Detail == nil {
		return nil
	}
	return d.multiples(t, r.Detail.Width, r.Detail.Stores, "store", []aspect{
		{"Commands sent per second", "", chart.Axis{Unit: chart.Rate}, "c0", func(t *analysis.Track) []analysis.Span { return t.Rate }, true},
		{"Fallbacks and broken streams per second", "", chart.Axis{Unit: chart.Rate}, "c3", func(t *analysis.Track) []analysis.Span { return t.Sick }, false},
	})
}

func (d *drawing) multiples(t *timeline, width float64, tracks []analysis.Track, what string, aspects []aspect) (all []multiples) {
	for _, a := range aspects {
		m := multiples{Title: a.title + ", by " + what}
		low, high := math.Inf(1), 0.0
		for i := range tracks {
			for _, s := range a.spans(&tracks[i]) {
				if s.High > high {
					high = s.High
				}
				if s.Low > 0 && s.Low < low {
					low = s.Low
				}
			}
		}
		if high == 0 && !a.idle || len(tracks) == 0 {
			continue
		}
		if a.y.High == 0 && high > 0 {
			a.y.Low, a.y.High = 0, high*1.08
			if a.y.Log {
				a.y.Low, a.y.High = low/1.2, high*1.2
			}
		}
		m.Note = fmt.Sprintf("each point is %s", units.Seconds(width))
		if width > 1 && a.y.Log {
			m.Note += ", merged"
		} else if width > 1 {
			m.Note += ": from the lowest to the highest of its seconds"
		}
		if n := len(tracks); n > maxMultiples {
			m.Note += fmt.Sprintf("; %d of %d %ss, those with the highest p99", maxMultiples, n, what)
			if what == "store" {
				m.Note = fmt.Sprintf("the first %d of %d stores", maxMultiples, n)
			}
		}
		for i := range tracks[:min(len(tracks), maxMultiples)] {
			m.Charts = append(m.Charts, d.draw(t.small(printable(tracks[i].Name), width, &a, a.spans(&tracks[i]))))
		}
		all = append(all, m)
	}
	return all
}

// small is one chart of many.
func (t *timeline) small(name string, width float64, a *aspect, spans []analysis.Span) *chart.Chart {
	line := chart.Line{Name: a.title, Class: a.class}
	c := &chart.Chart{Title: name, X: t.x, Y: a.y, Over: t.over, Marks: t.marks, Areas: t.areas, Named: t.named, Small: true}
	banded := false
	for i, s := range spans {
		c.At = append(c.At, (float64(i)+0.5)*width)
		line.Values, line.Lows = append(line.Values, s.High), append(line.Lows, s.Low)
		banded = banded || s.Low < s.High
	}
	if !banded {
		line.Lows = nil
	}
	c.Lines = []chart.Line{line}
	return c
}
