// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math"

	"github.com/kvbench/kvbench/internal/measure"
)

// Heat is a distribution over time: how many answered operations of a stretch took how long.
type Heat struct {
	Time    string            // "service" or "response"
	Width   float64           // of a column, in seconds; the first begins with the run's clock
	Columns [][HeatRows]int64 // operations
}

// Rows of a heat map are of equal height on a logarithmic axis, up to the end of the histograms' range.
const (
	HeatRows      = 80
	rowsPerDecade = 8
)

// HeatFrom returns where a row begins, in microseconds. The first holds what is shorter, too.
func HeatFrom(row int) float64 { return math.Pow(10, float64(row)/rowsPerDecade) }

// maxColumns is how many columns a heat map has at most: they are a few pixels wide.
const maxColumns = 200

// heatMap grows by what the bins of a series hold.
type heatMap struct {
	bins    int // in a column
	columns [][HeatRows]int64
}

func (h *heatMap) add(bin int, sum *measure.Sum) {
	for len(h.columns) <= bin/h.bins {
		h.columns = append(h.columns, [HeatRows]int64{})
	}
	column := &h.columns[bin/h.bins]
	sum.Each(func(us, count int64) { column[heatRow(us)] += count })
}

func heatRow(us int64) int {
	return min(HeatRows-1, int(rowsPerDecade*math.Log10(float64(max(us, 1)))))
}

// heat returns the map; ok tells whether anything was counted.
func (h *heatMap) heat(time string, width float64) (Heat, bool) {
	for i := range h.columns {
		for _, n := range h.columns[i] {
			if n > 0 {
				return Heat{Time: time, Width: width * float64(h.bins), Columns: h.columns}, true
			}
		}
	}
	return Heat{}, false
}
