// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/results"
)

// part is what was measured of the window's operations, by a worker or, merged,
// by the fleet.
type part struct {
	rows      [measure.Rows]row
	lag, lane *hdrhistogram.Histogram
	lapses    measure.Lapses
	texts     map[errorKey][]string
	traffic   map[string]*traffic // by store

	// The process, and what it was asked for, during the window.
	due      float64       // operations: the integral of the target
	cpu      time.Duration // used
	capacity time.Duration // cores × time
	cpuWait  time.Duration // threads were ready to run and had no core
	machine  float64       // seconds of the window × share of the machine in use by anyone
	cores    int
	busiest  float64 // share of the cores in the busiest second
	oneCore  float64 // seconds in which it used one of several cores at a time
	gcPause  time.Duration
	schedP99 time.Duration // of the worst second
	rss      int64
}

// row is what was measured of one kind and outcome.
type row struct {
	results.Count             // all of the window's operations
	rate              counted // those that count for rates
	service, response *hdrhistogram.Histogram
}

// counted is a count of which some intervals lie in the window only in part.
type counted struct{ operations, batches, rpcs float64 }

func (c *counted) add(n results.Count, share float64) {
	c.operations += share * float64(n.Operations)
	c.batches += share * float64(n.Batches)
	c.rpcs += share * float64(n.RPCs)
}

func (c *counted) merge(o counted) {
	c.operations += o.operations
	c.batches += o.batches
	c.rpcs += o.rpcs
}

type errorKey struct{ kind, class string }

// add counts an interval.
func (p *part) add(iv *results.Interval, w *window) {
	share := 1.0
	if !w.whole {
		// Nothing of the window completes before it begins.
		share = w.share(max(iv.Start, min(w.from, iv.End)), iv.End)
	}
	for i, n := range iv.Window.Rows {
		row := &p.rows[i]
		row.Operations += n.Operations
		row.Batches += n.Batches
		row.RPCs += n.RPCs
		row.rate.add(n, share)
	}
	p.lapses.Add(iv.Window.Lapses)
	for _, h := range iv.Histograms {
		if h.Warmup {
			continue
		}
		switch row := &p.rows[h.Row]; h.Quantity {
		case results.Service:
			mergePacked(&row.service, h.PackedHistogram)
		case results.Response:
			mergePacked(&row.response, h.PackedHistogram)
		case results.Lag:
			mergePacked(&p.lag, h.PackedHistogram)
		case results.Lane:
			mergePacked(&p.lane, h.PackedHistogram)
		}
	}
	for _, e := range iv.Errors {
		if !e.Warmup {
			p.addTexts(errorKey{e.Kind, e.Class}, e.Texts)
		}
	}
	within := w.share(iv.Start, iv.End)
	p.addHost(&iv.Second, within)
	for i := range iv.Traffic {
		p.addTraffic(&iv.Traffic[i], within)
	}
}

// addHost counts the part of a second that lies in the window.
func (p *part) addHost(s *results.Second, share float64) {
	if share == 0 {
		return
	}
	took := (s.End - s.Start).Seconds()
	p.due += s.Target * took * share
	p.cpu += time.Duration(share * float64(s.Host.CPU))
	p.capacity += time.Duration(share * took * float64(s.Host.Cores) * float64(time.Second))
	p.cpuWait += time.Duration(share * float64(s.Host.CPUWait))
	p.machine += took * share * s.Host.Machine
	p.cores = max(p.cores, s.Host.Cores)
	if took >= 0.5 && s.Host.Cores > 0 { // shorter ones are too coarse for the system's accounting
		p.busiest = max(p.busiest, s.Host.CPU.Seconds()/(took*float64(s.Host.Cores)))
	}
	if s.Host.Procs == 1 && s.Host.Cores > 1 {
		p.oneCore += share * took
	}
	p.gcPause += time.Duration(share * float64(s.Host.GCPause))
	p.schedP99 = max(p.schedP99, s.Host.SchedP99)
	p.rss = max(p.rss, s.Host.RSSBytes)
}

// merge adds what another part holds.
func (p *part) merge(o *part) {
	for i := range o.rows {
		row, from := &p.rows[i], &o.rows[i]
		row.Operations += from.Operations
		row.Batches += from.Batches
		row.RPCs += from.RPCs
		row.rate.merge(from.rate)
		mergeHDR(&row.service, from.service)
		mergeHDR(&row.response, from.response)
	}
	mergeHDR(&p.lag, o.lag)
	mergeHDR(&p.lane, o.lane)
	p.lapses.Add(o.lapses)
	for key, texts := range o.texts {
		p.addTexts(key, texts)
	}
	for store, t := range o.traffic {
		p.trafficTo(store).merge(t)
	}
	p.due += o.due
	p.cpu += o.cpu
	p.capacity += o.capacity
	p.cpuWait += o.cpuWait
	p.cores += o.cores
	p.busiest = max(p.busiest, o.busiest)
	p.oneCore += o.oneCore
	p.gcPause += o.gcPause
	p.schedP99 = max(p.schedP99, o.schedP99)
	p.rss += o.rss
}

// addTexts keeps the first few distinct texts of a class of errors.
func (p *part) addTexts(key errorKey, texts []string) {
	if p.texts == nil {
		p.texts = make(map[errorKey][]string)
	}
	for _, text := range texts {
		if kept := p.texts[key]; len(kept) < measure.MaxTexts && !slices.Contains(kept, text) {
			p.texts[key] = append(kept, text)
		}
	}
}

// cpuShare returns which part of its cores' time the process used.
func (p *part) cpuShare() float64 {
	if p.capacity == 0 {
		return 0
	}
	return float64(p.cpu) / float64(p.capacity)
}

// sum adds up the rows that match.
func (p *part) sum(match func(measure.Row) bool) row {
	var total row
	for i := range p.rows {
		if from := &p.rows[i]; match(measure.Row(i)) {
			total.Operations += from.Operations
			total.Batches += from.Batches
			total.RPCs += from.RPCs
			total.rate.merge(from.rate)
			mergeHDR(&total.service, from.service)
			mergeHDR(&total.response, from.response)
		}
	}
	return total
}

// mergeHDR adds a histogram to another, which is made when it is needed first.
func mergeHDR(to **hdrhistogram.Histogram, from *hdrhistogram.Histogram) {
	if from == nil {
		return
	}
	if *to == nil {
		*to = measure.NewHDR()
	}
	(*to).Merge(from)
}

func mergePacked(to **hdrhistogram.Histogram, from *hdrhistogram.PackedHistogram) {
	if *to == nil {
		*to = measure.NewHDR()
	}
	from.MergeInto(*to)
}
