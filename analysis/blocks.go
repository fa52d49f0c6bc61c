// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"time"

	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/workload"
)

// maxBlocks is into how many parts a window is cut at most to see how much it varies: enough to
// see how long it remembers, and few enough to be held.
const maxBlocks = 300

// blocks are equal stretches of a window, to judge how much a run varies within
// itself. Intervals must be added in the order of their starts.
type blocks struct {
	window *window
	width  time.Duration
	all    []block

	// Merging is quick into sums, which take much memory: only one block has them, until the next begins.
	current int
	open    latencies[measure.Sum]
}

// block is what was answered in one stretch, by kind.
type block struct {
	operations [workload.Kinds]float64
	latencies  latencies[*measure.Packed]
}

// latencies are histograms by kind, of service and response time.
type latencies[H any] [workload.Kinds][2]H

// newBlocks cuts a window into blocks of at least a second.
func newBlocks(w *window) *blocks {
	n := min(maxBlocks, int((w.to-w.from)/time.Second))
	if n <= 0 {
		return &blocks{}
	}
	return &blocks{window: w, width: (w.to - w.from) / time.Duration(n), all: make([]block, n)}
}

// add counts an interval: its operations in the blocks that it spans, its
// histograms in the one in which its middle lies.
func (b *blocks) add(iv *results.Interval) {
	if len(b.all) == 0 {
		return
	}
	for i := range b.all {
		from := b.window.from + time.Duration(i)*b.width
		span := window{from: from, to: from + b.width}
		share := span.share(iv.Start, iv.End)
		if share == 0 {
			continue
		}
		for r, n := range iv.Window.Rows {
			if r := measure.Row(r); answered(r) {
				b.all[i].operations[r.Kind()] += share * float64(n.Operations)
			}
		}
	}
	middle := iv.Start + (iv.End-iv.Start)/2 - b.window.from
	if middle < 0 || middle >= time.Duration(len(b.all))*b.width {
		return
	}
	if i := int(middle / b.width); i > b.current {
		b.close()
		b.current = i
	}
	for _, h := range iv.Histograms {
		if !h.Warmup && answered(h.Row) && h.Quantity <= results.Response {
			b.open[h.Row.Kind()][h.Quantity].Add(h.Packed)
		}
	}
}

// close packs the histograms of the block at hand.
func (b *blocks) close() {
	for k := range b.open {
		for q := range b.open[k] {
			if sum := &b.open[k][q]; sum.Count() > 0 {
				b.all[b.current].latencies[k][q] = sum.Packed()
				sum.Reset()
			}
		}
	}
}
