// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/analysis/render/chart"
	"github.com/kvbench/kvbench/internal/units"
)

//go:embed study.html
var studyPage string

var studyTemplate = template.Must(template.Must(pageTemplate.Clone()).New("study").Parse(studyPage))

// studyView is what the template of a study is given.
type studyView struct {
	frame
	State, Ended, Note       string
	Knees, Against           []string // in sentences
	Failed, Skipped          []string
	Charts                   []template.HTML
	Rates, Latencies, Versus *grid
	Costs                    *grid // nil: no prices are known
	Runs                     []studyRun
}

// studyRun is a run in the list of all.
type studyRun struct {
	RunID, Page, Cell, Rate, Text, Class string
	Repeat                               int
}

// writeStudyHTML writes one page, as [writeHTML] does.
func writeStudyHTML(w io.Writer, s *analysis.Study) error {
	v := studyView{frame: newFrame("study " + printable(s.ID)), State: studyState(s), Ended: printable(s.Ended), Note: studyNote(s), Knees: kneeTexts(s), Skipped: skippedTexts(s)}
	rates, latencies, left := studyRows(s)
	v.Rates = &grid{Caption: "Rates", Head: rates[0], Rows: rates[1:], Left: left}
	v.Latencies = &grid{Caption: "Latencies", Head: latencies[0], Rows: latencies[1:], Left: left}
	if rows := costRows(s); rows != nil {
		v.Costs = &grid{Caption: "Costs", Head: rows[0], Rows: rows[1:], Left: left}
	}
	if rows := versusRows(s); rows != nil {
		v.Versus = &grid{Caption: "Relative change", Head: rows[0], Rows: rows[1:], Left: left}
		for _, c := range s.Versus {
			v.Against = append(v.Against, versusText(s, c))
		}
	}
	for _, c := range s.Cells {
		title := printable(s.Title(c))
		for _, r := range c.Runs {
			v.Runs = append(v.Runs, studyRun{RunID: printable(r.RunID), Page: r.Page, Cell: title, Rate: units.Rate(r.OpsPerS), Text: printable(r.Text), Class: verdictClass(r.Code), Repeat: r.Repeat})
		}
		for _, r := range c.Failed {
			v.Failed = append(v.Failed, fmt.Sprintf("%s, repeat %d: %s", title, r.Repeat, printable(r.Text)))
		}
	}
	d := drawing{prefix: "study"}
	if s.Sweep != nil {
		v.Charts = d.sweep(s)
	}
	if d.err != nil {
		return d.err
	}
	return studyTemplate.Execute(w, &v)
}

// sweep returns the charts along what is swept: rate, latencies, in flight and CPU.
func (d *drawing) sweep(s *analysis.Study) (charts []template.HTML) {
	var at []float64
	for _, v := range s.Sweep.Curves {
		at = append(at, v.At...)
	}
	slices.Sort(at)
	at = slices.Compact(at)
	x := chart.Axis{Unit: chart.Number, Low: at[0], High: at[len(at)-1], Marks: at, Names: make(map[float64]string), Log: geometric(at)}
	for _, v := range at {
		x.Names[v] = units.Number(v)
	}
	curves := s.Sweep.Curves[:min(len(s.Sweep.Curves), maxOverlaid)]
	var marks []chart.Mark
	for i := range curves {
		k := curves[i].Knee
		if k == nil || k.At == nil {
			continue
		}
		if n := slices.IndexFunc(marks, func(m chart.Mark) bool { return m.At == *k.At }); n >= 0 {
			marks[n].Text += "; " + kneeText(&curves[i])
			continue
		}
		marks = append(marks, chart.Mark{At: *k.At, Label: "knee", Text: kneeText(&curves[i])})
	}
	slices.SortFunc(marks, func(a, b chart.Mark) int { return cmp.Compare(a.At, b.At) })
	add := func(title, note string, unit chart.Unit, of func(c *analysis.Cell) *analysis.Spread) {
		var lines []chart.Line
		seen := false
		for i := range curves {
			v := &curves[i]
			name := printable(v.Title)
			if name == "" {
				name = "median"
			}
			class := fmt.Sprintf("c%d", i)
			line := chart.Line{Name: name, Class: class}
			band := chart.Line{Name: name + ", least to most", Class: class}
			for _, a := range at {
				mid, low, high := math.NaN(), math.NaN(), math.NaN()
				if n := slices.Index(v.At, a); n >= 0 {
					if p := of(s.Cells[v.Cells[n]]); p != nil {
						mid, low, high, seen = p.Median, p.Min, p.Max, true
					}
				}
				line.Values, band.Lows, band.Values = append(line.Values, mid), append(band.Lows, low), append(band.Values, high)
			}
			lines = append(lines, band, line)
		}
		if seen {
			charts = append(charts, d.draw(&chart.Chart{Title: title, Note: note, X: x, Y: chart.Axis{Unit: unit}, Over: "study", At: at, Lines: lines, Marks: marks, Named: len(charts) > 0}))
		}
	}
	by := " by " + printable(s.Sweep.Key)
	add("Operations answered per second"+by, "medians of the repeats, with the least and the most", chart.Rate, func(c *analysis.Cell) *analysis.Spread { return c.OpsPerS })
	for _, time := range []struct {
		name string
		of   func(*analysis.Cell) *analysis.CellLatency
	}{{"Service time", func(c *analysis.Cell) *analysis.CellLatency { return c.ServiceUS }}, {"Response time", func(c *analysis.Cell) *analysis.CellLatency { return c.ResponseUS }}} {
		for i, name := range []string{"p50", "p99", "p99.9"} {
			add(time.name+" "+name+by, "of all repeats together, with the least and the most of one", chart.Micros, func(c *analysis.Cell) *analysis.Spread {
				return time.of(c).Pooled()[i].Spread()
			})
		}
	}
	add("In flight"+by, "medians of the repeats, with the least and the most", chart.Number, func(c *analysis.Cell) *analysis.Spread { return c.InFlight })
	add("CPU of the busiest worker"+by, "of its cores; medians of the repeats, with the least and the most", chart.Share, func(c *analysis.Cell) *analysis.Spread { return c.ClientCPU })
	add("What a million operations cost"+by, "of the cluster, in the currency of the prices; no more than that where the cluster may do more for the same", chart.Number, func(c *analysis.Cell) *analysis.Spread {
		if c.Cost == nil {
			return nil
		}
		return c.Cost.ClusterPerMillion
	})
	return charts
}

// geometric tells whether values are better shown on a logarithmic axis: where they are spread evenly there.
func geometric(at []float64) bool {
	return len(at) > 2 && at[0] > 0 && (at[len(at)-1]-at[len(at)-2]) > 1.5*(at[1]-at[0])
}
