// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/results"
)

// Study is what the runs of a study came to, together.
type Study struct {
	Version int      `json:"version"`
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	Varied  []string `json:"varied"` // properties
	Steps   int      `json:"runs_planned"`
	Left    int      `json:"runs_left"`    // not done, or failed
	Skipped int      `json:"runs_skipped"` // since an objective was broken at a lower value
	Ended   string   `json:"ended,omitempty"`
	Cells   []*Cell  `json:"cells"`
	// Sweep is nil if nothing is varied over three numbers or more.
	Sweep *Sweep `json:"sweep,omitempty"`
	// Versus compares each variant with the first, for each combination of what is varied besides.
	Versus []*Versus `json:"versus,omitempty"`
}

// Cell is one combination of what is varied, over all its repeats.
type Cell struct {
	Variant string     `json:"variant,omitempty"`
	Values  []string   `json:"values"` // of what is varied, in its order
	Runs    []CellRun  `json:"runs"`
	Failed  []CellRun  `json:"failed"`            // of which no number is in here
	Skipped []CellSkip `json:"skipped,omitempty"` // of which there is none

	Paced     bool    `json:"paced"`
	OpsPerS   *Spread `json:"ops_per_s,omitempty"`
	TargetOps *Spread `json:"target_ops,omitempty"` // of paced ones
	InFlight  *Spread `json:"in_flight,omitempty"`
	ClientCPU *Spread `json:"client_cpu_share,omitempty"` // of the cores of the worker that used most
	// Of all answered operations.
	ServiceUS  *CellLatency `json:"service_us,omitempty"`
	ResponseUS *CellLatency `json:"response_us,omitempty"`
	// Cost is nil if no prices are known.
	Cost *CellCost `json:"cost,omitempty"`
	// ClientLimit is how many of the runs the client was the limit of.
	ClientLimit int `json:"client_limit"`

	service, response *hdrhistogram.Histogram // of all runs
}

// CellRun is one run of a cell.
type CellRun struct {
	RunID   string  `json:"run_id"`
	Repeat  int     `json:"repeat"`
	Code    int     `json:"code"` // of its verdict, or of what kept it from having one
	Text    string  `json:"text"`
	OpsPerS float64 `json:"ops_per_s,omitempty"`
	LimitBy string  `json:"limit_by,omitempty"`
	Page    string  `json:"-"` // address of its own page, if there is one

	report *Report
}

// CellSkip is a run that was not made, since one at a lower value had broken an objective.
type CellSkip struct {
	Repeat int    `json:"repeat"`
	RunID  string `json:"broken_by_run_id"` // of the one that broke it
	Text   string `json:"text"`             // which that is, and what it broke
}

// Spread is a number over several runs.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// CellLatency are percentiles over several runs, in microseconds.
type CellLatency struct {
	P50  Pooled `json:"p50"`
	P99  Pooled `json:"p99"`
	P999 Pooled `json:"p99_9"`
}

// Pooled is a percentile of the merged histograms of all runs, and the least and the most that it is in one of them.
type Pooled struct {
	Value   float64 `json:"value"`
	Min     float64 `json:"min"`
	Max     float64 `json:"max"`
	TooFew  bool    `json:"too_few,omitempty"`  // so many samples do not carry it
	AtLeast bool    `json:"at_least,omitempty"` // it lies beyond the histograms' range
}

// Pooled are the percentiles, in their order; of nil there are too few samples for all of them.
func (l *CellLatency) Pooled() [3]Pooled {
	if l == nil {
		unknown := Pooled{TooFew: true}
		return [3]Pooled{unknown, unknown, unknown}
	}
	return [3]Pooled{l.P50, l.P99, l.P999}
}

// Spread is its value, with the least and the most; nil if it is not known.
func (p Pooled) Spread() *Spread {
	if p.TooFew {
		return nil
	}
	return &Spread{Median: p.Value, Min: p.Min, Max: p.Max}
}

// NewStudy returns one without cells.
func NewStudy(id, name string) *Study {
	return &Study{Version: DocumentVersion, ID: id, Name: name, Varied: []string{}, Cells: []*Cell{}}
}

// NewCell returns one without runs.
func NewCell(variant string) *Cell {
	return &Cell{Variant: variant, Values: []string{}, Runs: []CellRun{}, Failed: []CellRun{}}
}

// Fail notes a run that measured nothing that counts.
func (c *Cell) Fail(r CellRun) { c.Failed = append(c.Failed, r) }

// Add counts a run in. Of the run itself only what [Cell] says is kept.
func (c *Cell) Add(r *Run, repeat int) {
	p := r.Report()
	c.Runs = append(c.Runs, CellRun{RunID: p.RunID, Repeat: repeat, Code: p.Verdict.Code, Text: p.Verdict.Text, OpsPerS: p.OpsPerS, LimitBy: p.Limit.By, report: p})
	mergeHDR(&c.service, r.latency(results.Service))
	mergeHDR(&c.response, r.latency(results.Response))
	// What is long and not needed.
	p.Series, p.Curves, p.Detail, p.Events, p.Servers = nil, nil, nil, nil, nil
}

// Title names a cell, as in "B threadcount=4".
func (s *Study) Title(c *Cell) string { return s.titleWithout(c, -1) }

// titleWithout names a cell by all but one of what is varied; -1: by all.
func (s *Study) titleWithout(c *Cell, k int) string {
	var parts []string
	if c.Variant != "" {
		parts = append(parts, c.Variant)
	}
	for i, key := range s.Varied {
		if i != k {
			parts = append(parts, key+"="+c.Values[i])
		}
	}
	return strings.Join(parts, " ")
}

// Finish computes what its cells' runs came to.
func (s *Study) Finish() {
	for _, c := range s.Cells {
		c.finish()
	}
	s.Sweep = s.sweep()
}

func (c *Cell) finish() {
	if len(c.Runs) == 0 {
		return
	}
	c.Paced = c.Runs[0].report.Paced
	c.OpsPerS = c.spread(func(p *Report) float64 { return p.OpsPerS })
	if c.Paced {
		c.TargetOps = c.spread(func(p *Report) float64 { return p.TargetOps })
	}
	c.InFlight = c.spread(func(p *Report) float64 { return p.InFlight })
	c.ClientCPU = c.spread(func(p *Report) float64 {
		most := 0.0
		for _, w := range p.Workers {
			most = max(most, w.CPUShare)
		}
		return most
	})
	c.Cost = c.cost()
	for _, r := range c.Runs {
		if r.LimitBy == ByClient {
			c.ClientLimit++
		}
	}
	c.ServiceUS = c.pooled(c.service, func(k *KindRow) *Latency { return k.ServiceUS })
	c.ResponseUS = c.pooled(c.response, func(k *KindRow) *Latency { return k.ResponseUS })
}

// Latency is what users felt: response time if there is one, else service time; nil if nothing was answered.
func (c *Cell) Latency() *CellLatency {
	if c.ResponseUS != nil {
		return c.ResponseUS
	}
	return c.ServiceUS
}

// spread is that of a number of the runs, of which there is one at least.
func (c *Cell) spread(of func(*Report) float64) *Spread {
	var v []float64
	for _, r := range c.Runs {
		v = append(v, of(r.report))
	}
	slices.Sort(v)
	return &Spread{Median: median(v), Min: v[0], Max: v[len(v)-1]}
}

// median is that of sorted values.
func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// pooled are the percentiles of a merged histogram, with those of each run.
func (c *Cell) pooled(all *hdrhistogram.Histogram, of func(*KindRow) *Latency) *CellLatency {
	whole := measure.LatencyOf(all)
	if whole == nil {
		return nil
	}
	var each []*Latency
	for _, r := range c.Runs {
		for i := range r.report.Kinds {
			if k := &r.report.Kinds[i]; k.Kind == AllKinds && of(k) != nil {
				each = append(each, of(k))
			}
		}
	}
	one := func(name string) Pooled {
		m := MetricNamed(name)
		p := Pooled{Value: m.Of(whole), TooFew: slices.Contains(whole.TooFew, name), AtLeast: slices.Contains(whole.AtLeast, name)}
		p.Min, p.Max = p.Value, p.Value
		for _, l := range each {
			p.Min, p.Max = min(p.Min, m.Of(l)), max(p.Max, m.Of(l))
		}
		return p
	}
	return &CellLatency{P50: one("p50"), P99: one("p99"), P999: one("p99_9")}
}
