// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"fmt"
	"math"
	"strings"

	"github.com/kvbench/kvbench/internal/units"
)

// Heat is a heat map: columns of equal width over X from its low end, rows of equal height over the whole of a logarithmic Y.
// The darker a cell, the more it counts; an empty one is not drawn.
type Heat struct {
	Width   float64 // of a column, in units of X
	Columns [][]int64
	Edges   []float64 // where the rows begin, and the last ends: one more than rows
}

// shades is how many there are. Each stands for four times as much as the next lighter one.
const (
	shades  = 7
	perStep = 4
)

// most returns the largest count.
func (h *Heat) most() (most int64) {
	for _, column := range h.Columns {
		for _, n := range column {
			most = max(most, n)
		}
	}
	return most
}

// shade returns that of a count: 0 the lightest.
func shade(n, most int64) int {
	return max(0, shades-1-int(math.Log(float64(most)/float64(n))/math.Log(perStep)))
}

// keys say from which count on a shade is used, from the lightest; "" of one that no count has.
func (h *Heat) keys() []string {
	keys := make([]string, shades)
	most := h.most()
	for n := int64(1); n <= most; {
		s := shade(n, most)
		keys[s] = units.Count(n)
		if s == shades-1 {
			break
		}
		next := int64(float64(most) / math.Pow(perStep, float64(shades-1-s))) // near where the next shade begins
		for n = max(n+1, next-1); n < most && shade(n, most) == s; n++ {
		}
	}
	return keys
}

// shapes draws the cells of each shade as one path, in units of cells.
func (h *Heat) shapes(c *Chart) string {
	var paths [shades]strings.Builder
	most, rows := h.most(), len(h.Edges)-1
	for row := range rows {
		for x := 0; x < len(h.Columns); {
			n := h.Columns[x][row]
			if n == 0 {
				x++
				continue
			}
			s, from := shade(n, most), x
			for x++; x < len(h.Columns) && h.Columns[x][row] > 0 && shade(h.Columns[x][row], most) == s; x++ {
			}
			fmt.Fprintf(&paths[s], "M%d %dh%d", from, rows-1-row, x-from)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<g class="heat" transform="scale(%.4f %.4f) translate(0 .5)">`,
		h.Width/(c.X.High-c.X.Low)*width, float64(height)/float64(rows))
	for s := range paths {
		if paths[s].Len() > 0 {
			fmt.Fprintf(&b, `<path class="h%d" d="%s"/>`, s, paths[s].String())
		}
	}
	b.WriteString("</g>")
	return b.String()
}

// heatData is a heat map for the script: of each column the first row in use, and the counts from there.
type heatData struct {
	Width   float64   `json:"width"`
	Edges   numbers   `json:"edges"`
	Columns [][]int64 `json:"columns"`
}

func (h *Heat) data() *heatData {
	d := &heatData{Width: h.Width, Edges: h.Edges}
	for _, column := range h.Columns {
		from, to := 0, len(column)
		for from < to && column[from] == 0 {
			from++
		}
		for to > from && column[to-1] == 0 {
			to--
		}
		d.Columns = append(d.Columns, append([]int64{int64(from)}, column[from:to]...))
	}
	return d
}
