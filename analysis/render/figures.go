// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"math"
	"slices"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/analysis/render/chart"
	"github.com/kvbench/kvbench/internal/units"
)

// maxLines is how many lines a chart has at most: as many as there are colours.
const maxLines = 8

// maxPoolCharts is of how many stores the thread pools are shown at most.
const maxPoolCharts = 4

// storeFigure is a figure of which each store has a line.
type storeFigure struct {
	title, note string
	y           chart.Axis
	of          func(*analysis.ServerPoint) *float64
	state       bool // of the moment of a reading, and not of the time since the one before
	idle        bool // shown even if it is 0 everywhere
}

var storeFigures = []storeFigure{
	{title: "Requests answered per second", note: "of all clients", y: chart.Axis{Unit: chart.Rate}, idle: true, of: func(p *analysis.ServerPoint) *float64 { return p.Requests }},
	{title: "Mean time of a request", note: "within the store", y: chart.Axis{Unit: chart.Micros}, of: func(p *analysis.ServerPoint) *float64 { return p.ServiceUS }},
	{title: "Cores in use", y: chart.Axis{Unit: chart.Number}, idle: true, of: func(p *analysis.ServerPoint) *float64 { return p.CPU }},
	{title: "The busiest gRPC thread", note: "share of a core", y: chart.Axis{Unit: chart.Share, High: 1}, idle: true, of: func(p *analysis.ServerPoint) *float64 { return p.GRPC }},
	{title: "Write stalls", note: "share of the time, all writing threads together", y: chart.Axis{Unit: chart.Share}, of: func(p *analysis.ServerPoint) *float64 { return p.Stall }},
	{title: "Pending compaction", y: chart.Axis{Unit: chart.Bytes}, state: true, of: func(p *analysis.ServerPoint) *float64 { return p.Pending }},
	{title: "Block cache hits", note: "share of the look-ups", y: chart.Axis{Unit: chart.Share, High: 1}, idle: true, of: func(p *analysis.ServerPoint) *float64 { return p.CacheHits }},
	{title: "Leaders", y: chart.Axis{Unit: chart.Number}, state: true, idle: true, of: func(p *analysis.ServerPoint) *float64 { return p.Leaders }},
}

// ownFigures are the charts of what stores said of themselves, over the run's time. A figure that no store tells has none.
func (d *drawing) ownFigures(r *analysis.Report, t *timeline) (charts []template.HTML, width float64) {
	if r.Servers == nil || len(r.Series) == 0 {
		return nil, 0
	}
	stores := r.Servers.Stores
	if width = readingsApart(stores); width == 0 {
		return nil, 0
	}
	at := []float64{}
	for s := width / 2; s < t.x.High; s += width {
		at = append(at, s)
	}
	add := func(title, note string, y chart.Axis, idle bool, lines []chart.Line) {
		if lines = styled(slices.DeleteFunc(lines, func(l chart.Line) bool { return !told(&l, idle) })); len(lines) == 0 {
			return
		}
		if all := len(lines); all > maxLines {
			lines = lines[:maxLines]
			note = fmt.Sprintf("%s; %d of %d, those with the highest values", note, maxLines, all)
		}
		c := t.chart(title, note, y, lines...)
		c.At = at
		charts = append(charts, d.draw(c))
	}
	for _, f := range storeFigures {
		var lines []chart.Line
		for i := range stores {
			lines = append(lines, chart.Line{Name: printable(stores[i].Store), Values: valuesAt(stores[i].Series, at, width, f.of, f.state)})
		}
		if !slices.ContainsFunc(lines, func(l chart.Line) bool { return told(&l, f.idle) }) {
			continue
		}
		add(f.title, f.note, f.y, true, lines)
		if f.title == storeFigures[0].title {
			add("Requests by kind", "all stores together, kinds under TiKV's names", chart.Axis{Unit: chart.Rate}, false, byKind(stores, at, width))
		}
	}
	for _, s := range fullest(stores) {
		var lines []chart.Line
		for _, pool := range s.Pools {
			lines = append(lines, chart.Line{Name: fmt.Sprintf("%s (%s)", printable(pool.Pool), units.Number(pool.Threads)),
				Values: valuesAt(s.Series, at, width, func(p *analysis.ServerPoint) *float64 { return valueOf(p.Pools, pool.Pool) }, false)})
		}
		add("Thread pools of "+printable(s.Store), "share of their threads, whose number is in brackets, that worked", chart.Axis{Unit: chart.Share, High: 1}, false, lines)
	}
	return charts, width
}

// readingsApart is how far the readings of a store are from each other, in seconds: the median. 0: there are too few.
func readingsApart(stores []analysis.ServerRow) float64 {
	var apart []float64
	for i := range stores {
		series := stores[i].Series
		for j := 1; j < len(series); j++ {
			apart = append(apart, series[j].S-series[j-1].S)
		}
	}
	if len(apart) == 0 {
		return 0
	}
	slices.Sort(apart)
	return max(0.1, math.Round(10*apart[len(apart)/2])/10)
}

// valuesAt is a figure of a store at some moments, which are so far apart. What was not told has a gap.
func valuesAt(series []analysis.ServerPoint, at []float64, width float64, of func(*analysis.ServerPoint) *float64, state bool) []float64 {
	values := make([]float64, len(at))
	next := 0 // the first reading at the moment or later
	for i, s := range at {
		values[i] = math.NaN()
		for next < len(series) && series[next].S < s {
			next++
		}
		reading := next
		if state && next > 0 && (next == len(series) || s-series[next-1].S < series[next].S-s) {
			reading = next - 1
		}
		switch {
		case reading == len(series), state && math.Abs(series[reading].S-s) > width:
		default:
			if v := of(&series[reading]); v != nil {
				values[i] = rounded(*v)
			}
		}
	}
	return values
}

// rounded has four digits, which is as much as a chart can say.
func rounded(v float64) float64 {
	if v == 0 {
		return 0
	}
	unit := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*unit) / unit
}

// told tells whether a line has anything to show.
func told(l *chart.Line, idle bool) bool {
	return slices.ContainsFunc(l.Values, func(v float64) bool { return v > 0 || idle && v == 0 })
}

// styled puts the lines with the highest values first, if there are more than fit into a chart, and gives each its look.
func styled(lines []chart.Line) []chart.Line {
	if len(lines) > maxLines {
		most := func(l *chart.Line) float64 { // NaN counts as least
			return slices.MaxFunc(append([]float64{0}, l.Values...), cmp.Compare[float64])
		}
		slices.SortStableFunc(lines, func(a, b chart.Line) int { return cmp.Compare(most(&b), most(&a)) })
	}
	for i := range lines {
		lines[i].Class = fmt.Sprintf("c%d%s", i%maxLines, []string{"", " dash", " dot"}[i%3])
	}
	return lines
}

// byKind is what all stores together answered, by kind. While one of them does not tell, the sum is unknown.
func byKind(stores []analysis.ServerRow, at []float64, width float64) (lines []chart.Line) {
	kinds := make(map[string][]float64)
	for i := range stores {
		answers := make(map[string]bool)
		for j := range stores[i].Series {
			for kind := range stores[i].Series[j].Kinds {
				answers[kind] = true
			}
		}
		for kind := range answers {
			values := valuesAt(stores[i].Series, at, width, func(p *analysis.ServerPoint) *float64 {
				if p.Kinds == nil {
					return nil
				}
				v := p.Kinds[kind] // 0: none yet
				return &v
			}, false)
			for j, before := range kinds[kind] {
				values[j] += before
			}
			kinds[kind] = values
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		lines = append(lines, chart.Line{Name: printable(kind), Values: kinds[kind]})
	}
	return lines
}

func valueOf(m map[string]float64, name string) *float64 {
	if v, there := m[name]; there {
		return &v
	}
	return nil
}

// fullest are the stores that tell of their thread pools: of many, those with the fullest.
func fullest(stores []analysis.ServerRow) []analysis.ServerRow {
	most := func(s *analysis.ServerRow) (share float64) {
		for _, p := range s.Pools {
			share = max(share, p.Share)
		}
		return share
	}
	with := slices.DeleteFunc(slices.Clone(stores), func(s analysis.ServerRow) bool { return len(s.Pools) == 0 })
	if len(with) > maxPoolCharts {
		slices.SortStableFunc(with, func(a, b analysis.ServerRow) int { return cmp.Compare(most(&b), most(&a)) })
		with = with[:maxPoolCharts]
	}
	return with
}
