// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"math"
	"slices"
	"strings"
	"testing"
)

var nan = math.NaN()

// A path goes through every point, leaves out only those in the midst of a level stretch, and has a gap where nothing was measured.
func TestPath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []float64
		want   string
	}{
		{[]float64{0, 1, 0}, "M0 1000l0 0 300-1000 300 1000"},
		{[]float64{1, 1, 1, 1}, "M0 0l0 0 900 0"},
		{[]float64{1, 1, 1, 0}, "M0 0l0 0 600 0 300 1000"},
		{[]float64{1, nan, 0, 0, nan, nan, 1}, "M0 0l0 0M600 1000l0 0 300 0M1800 0l0 0"},
		{[]float64{nan, nan}, ""},
		{nil, ""},
	} {
		chart := &Chart{X: Axis{High: 10}, Y: Axis{High: 1}, At: []float64{0, 1, 2, 3, 4, 5, 6}}
		if got := chart.path(c.values); got != c.want {
			t.Errorf("%v: %s, want %s", c.values, got, c.want)
		}
	}
}

// A band encloses what lies between its lows and its highs.
func TestBand(t *testing.T) {
	t.Parallel()
	c := &Chart{X: Axis{High: 10}, Y: Axis{High: 1}, At: []float64{0, 1, 2}}
	if got, want := c.band(&Line{Values: []float64{1, 0.5, nan}, Lows: []float64{0, 0.5, nan}}), "M0 0l0 0 300 500-300 500"; strings.ReplaceAll(got, " -", "-") != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestTicks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		axis Axis
		want []float64
	}{
		{Axis{High: 10}, []float64{0, 2, 4, 6, 8, 10}},
		{Axis{High: 27}, []float64{0, 10, 20}},
		{Axis{}, nil},
		{Axis{Low: 80, High: 40_000, Log: true}, []float64{100, 1000, 10_000}},
		{Axis{Low: 150, High: 700, Log: true}, []float64{200, 500}},
		{Axis{Low: 1, High: 1e9, Log: true}, []float64{1, 100, 1e4, 1e6, 1e8}},
	} {
		got := c.axis.ticks(5)
		if !slices.EqualFunc(got, c.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-9*max(1, b) }) {
			t.Errorf("%+v: %v, want %v", c.axis, got, c.want)
		}
	}
}

// The keys of a heat map say from which count on a shade is used.
func TestHeatKeys(t *testing.T) {
	t.Parallel()
	for _, most := range []int64{1, 3, 20, 5000, 1e9} {
		h := &Heat{Columns: [][]int64{{most}}}
		var all [shades]int64 // the least count of each shade
		for n := most; n > 0 && most < 1e6; n-- {
			all[shade(n, most)] = n
		}
		for i, key := range h.keys() {
			want := ""
			if all[i] > 0 {
				want = Number.Show(float64(all[i]))
			}
			if most < 1e6 && key != want || key == "" && most >= 1e6 {
				t.Errorf("up to %d, shade %d: from %q, want %q", most, i, key, want)
			}
		}
	}
}

// The table beside a chart has the extremes of each stretch, and says where nothing was measured.
func TestTable(t *testing.T) {
	t.Parallel()
	c := &Chart{X: Axis{Unit: Seconds}, Y: Axis{Unit: Rate}, Lines: []Line{{Name: "rate"}}}
	for i := range 100 {
		v := float64(i)
		if i >= 90 {
			v = nan
		}
		c.At, c.Lines[0].Values = append(c.At, float64(i)), append(c.Lines[0].Values, v)
	}
	rows := c.table()
	if len(rows) != 16 || !slices.Equal(rows[1], []string{"0 s to 7 s", "0/s to 6/s"}) || !slices.Equal(rows[15], []string{"98 s", "–"}) {
		t.Errorf("%d rows: %q", len(rows), rows)
	}
}
