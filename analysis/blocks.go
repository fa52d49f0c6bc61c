// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/workload"
)

// maxBlocks is into how many parts a window is cut to see how much it varies.
// Long blocks are nearly independent of each other, single seconds are not.
const maxBlocks = 30

// allKinds stands for every kind of operation together.
const allKinds = workload.Kinds

// blocks are equal stretches of a window, to judge how much a run varies within itself.
type blocks struct {
	window *window
	width  time.Duration
	all    []block
}

// block is what was answered in one stretch, by kind.
type block struct {
	operations [workload.Kinds + 1]float64
	service    [workload.Kinds + 1]*hdrhistogram.PackedHistogram
	response   [workload.Kinds + 1]*hdrhistogram.PackedHistogram
}

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
	for i := range b.all {
		from := b.window.from + time.Duration(i)*b.width
		span := window{from: from, to: from + b.width}
		block := &b.all[i]
		if share := span.share(iv.Start, iv.End); share > 0 {
			for r, n := range iv.Window.Rows {
				if r := measure.Row(r); answered(r) {
					block.operations[r.Kind()] += share * float64(n.Operations)
					block.operations[allKinds] += share * float64(n.Operations)
				}
			}
		}
		if middle := iv.Start + (iv.End-iv.Start)/2; middle >= span.from && middle < span.to {
			for _, h := range iv.Histograms {
				if h.Warmup || !answered(h.Row) || h.Quantity > results.Response {
					continue
				}
				to := &block.service
				if h.Quantity == results.Response {
					to = &block.response
				}
				for _, k := range [...]int{int(h.Row.Kind()), allKinds} {
					if to[k] == nil {
						to[k] = hdrhistogram.NewPacked(measure.Lowest, measure.Highest, measure.Digits)
					}
					to[k].Merge(h.PackedHistogram)
				}
			}
		}
	}
}
