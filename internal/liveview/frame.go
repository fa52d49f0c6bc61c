// SPDX-License-Identifier: Apache-2.0

package liveview

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kvbench/kvbench/internal/coordinator"
	"github.com/kvbench/kvbench/internal/printable"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/units"
)

// keys are what a key does. They are said at the foot of a frame, and in whole by '?'.
const (
	keys      = "q stop   + - target by a tenth   ? help"
	keysAlone = "d leave   " + keys // of a run that goes on when it is left
)

var help = []string{
	"q, Ctrl-C  stop the load and report what was measured; once more: give up",
	"+ and -    change the target of a paced run by a tenth, on all workers at once",
	"?          show or hide this",
	"Rates and latencies are of the last second; the report is made from journals.",
}

const helpAlone = "d          leave: the run goes on by itself, to be attached to again or collected"

// frame draws a run in at most height lines of at most width characters. What matters less goes
// first when there is no room: the workers that do as all others do, then the lines of detail.
func frame(s *coordinator.Snapshot, width, height int, interactive, helping bool) []string {
	if width <= 0 || height <= 0 {
		return nil
	}
	var foot []string
	switch {
	case helping:
		foot = append([]string{""}, help...)
		if s.Alone {
			foot = slices.Insert(foot, 1, helpAlone)
		}
	case interactive && s.Alone:
		foot = []string{keysAlone}
	case interactive:
		foot = []string{keys}
	}
	lines := summary(s, width)
	if room := height - len(lines) - len(foot); room > 2 && len(s.Workers) > 1 {
		lines = append(lines, table(s, width, room)...)
	}
	if len(lines)+len(foot) > height {
		foot = foot[:max(0, min(len(foot), height-len(lines)))]
		lines = lines[:min(len(lines), height)]
	}
	lines = append(lines, foot...)
	for i, l := range lines {
		lines[i] = cut(printable.Text(l), width)
	}
	return lines
}

// cut shortens a line to width characters.
func cut(line string, width int) string {
	r := []rune(line)
	if len(r) <= width {
		return line
	}
	return string(r[:width-1]) + "…"
}

// summary is what is said of all workers together.
func summary(s *coordinator.Snapshot, width int) []string {
	t := &s.Total
	lines := []string{fmt.Sprintf("%s  %s  run %s", s.Stage, clock(s.Elapsed), s.RunID)}
	if b := bar(s, width); b != "" {
		lines = append(lines, b)
	}
	if s.Stage == coordinator.Preparing || s.Stage == coordinator.Starting {
		return lines
	}
	rate := units.Grouped(t.Rate) + " op/s"
	if t.Target > 0 {
		rate += fmt.Sprintf(" of %s (%s)", units.Grouped(t.Target), units.Percent(t.Rate/t.Target))
	}
	if t.RPCs > 0 {
		rate += fmt.Sprintf("   %s RPC/s", units.Grouped(t.RPCs))
	}
	lines = append(lines, rate+"   done "+units.Grouped(float64(t.Operations)))
	if s.Threads > 0 {
		lines = append(lines, fmt.Sprintf("in flight %s of %s threads", units.Number(t.InFlight), units.Grouped(float64(s.Threads)))+shares(t.Commands))
	}
	if t.Service != nil {
		lines = append(lines, latency("service ", t.Service))
	}
	if t.Response != nil {
		lines = append(lines, latency("response", t.Response)+"   lag p99 "+units.Micros(float64(t.LagP99.Microseconds())))
	}
	if c := shortfalls(&t.View); len(c) > 0 {
		lines = append(lines, strings.Join(c, "   "))
	}
	lines = append(lines, thresholds(s)...)
	if text := awaited(s); text != "" {
		lines = append(lines, string(s.Stage)+": it "+text)
	}
	return lines
}

func latency(name string, h *hdrhistogram.Histogram) string {
	return fmt.Sprintf("%s p50 %s   p99 %s   p99.9 %s   max %s", name, quantile(h, 50), quantile(h, 99), quantile(h, 99.9), quantile(h, 100))
}

// shares are what part of the commands each store was sent, in the order of the addresses; "" if that is not known.
func shares(commands map[string]float64) string {
	var total float64
	for _, n := range commands {
		total += n
	}
	if total == 0 {
		return ""
	}
	stores := slices.Sorted(maps.Keys(commands))
	for i, store := range stores {
		stores[i] = store + " " + units.Percent(commands[store]/total)
	}
	return "   to the stores " + strings.Join(stores, ", ")
}

// bar shows how much of the run is over, by time or, if it ends by count, by operations; "" if that is not known.
func bar(s *coordinator.Snapshot, width int) string {
	var done float64
	var left string
	switch {
	case s.Elapsed <= 0:
		return ""
	case s.Length > 0:
		done = float64(s.Elapsed) / float64(s.Length)
		left = clock(max(0, s.Length-s.Elapsed)) + " left"
	case s.Operations > 0:
		done = float64(s.Total.Operations) / float64(s.Operations)
		left = fmt.Sprintf("%s of %s", units.Grouped(float64(s.Total.Operations)), units.Grouped(float64(s.Operations)))
		if s.Total.Rate > 0 {
			wait := float64(max(0, s.Operations-s.Total.Operations)) / s.Total.Rate
			left = clock(time.Duration(min(wait, 1e8)*float64(time.Second))) + " left, " + left
		}
	default:
		return ""
	}
	cells := min(60, width-len(left)-4)
	if cells < 5 {
		return left
	}
	full := int(math.Round(float64(cells) * min(1, max(0, done))))
	return "[" + strings.Repeat("=", full) + strings.Repeat(" ", cells-full) + "] " + left
}

// clock shows seconds, and minutes where there are some.
func clock(d time.Duration) string { return d.Round(time.Second).String() }

// table shows the workers in at most room lines, of which there are three or more. If they do not all
// fit, those that differ from the others are shown, and one line for the rest.
func table(s *coordinator.Snapshot, width, room int) []string {
	name := 6
	for _, w := range s.Workers {
		name = max(name, min(24, len([]rune(w.Name))))
	}
	columns := []column{
		{"state", -11, func(w *coordinator.WorkerView) string { return state(w) }},
		{"op/s", 11, func(w *coordinator.WorkerView) string { return units.Grouped(w.Rate) }},
		{"p50", 9, func(w *coordinator.WorkerView) string { return latencyOf(w.P50) }},
		{"p99", 9, func(w *coordinator.WorkerView) string { return latencyOf(w.P99) }},
		{"lag p99", 9, func(w *coordinator.WorkerView) string { return units.Micros(float64(w.LagP99.Microseconds())) }},
		{"errors", 9, func(w *coordinator.WorkerView) string { return units.Grouped(float64(w.Errors)) }},
	}
	row := func(first string, cell func(c column) string) string {
		var b strings.Builder
		fmt.Fprintf(&b, "%-*s", name, cut(first, name))
		used := name
		for _, c := range columns {
			if used += 1 + abs(c.width); used > width {
				break
			}
			fmt.Fprintf(&b, " %*s", c.width, cell(c))
		}
		return b.String()
	}
	lines := []string{row("worker", func(c column) string { return c.name })}
	shown := s.Workers
	if len(shown) > room-1 {
		shown = differing(s.Workers, room-2)
	}
	for i := range shown {
		w := &shown[i]
		if bad(w.State) { // it has no numbers now
			lines = append(lines, fmt.Sprintf("%-*s %-11s %s", name, cut(w.Name, name), w.State, w.Reason))
			continue
		}
		lines = append(lines, row(w.Name, func(c column) string { return c.text(w) }))
	}
	if rest := len(s.Workers) - len(shown); rest > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", rest))
	}
	return lines
}

type column struct {
	name  string
	width int // negative: to the left
	text  func(*coordinator.WorkerView) string
}

func abs(n int) int { return max(n, -n) }

// state is a worker's state in at most 11 characters.
func state(w *coordinator.WorkerView) string {
	if w.Unknown {
		return fmt.Sprintf("silent %.0fs", min(w.Silent.Seconds(), 999))
	}
	return string(w.State)
}

// differing returns the n workers that differ most from the others, in the order of the fleet: those that
// are lost or failed, then those with errors, then those whose rate is furthest from the median.
func differing(all []coordinator.WorkerView, n int) []coordinator.WorkerView {
	rates := make([]float64, len(all))
	order := make([]int, len(all))
	for i, w := range all {
		rates[i], order[i] = w.Rate, i
	}
	slices.Sort(rates)
	median := rates[len(rates)/2]
	strange := func(i int) float64 {
		w := &all[i]
		d := math.Abs(w.Rate-median) / max(1, median)
		if away(w) {
			d += 1e6
		}
		if w.Wrong > 0 || w.Errors > 0 {
			d += 1e3
		}
		return d
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(strange(b), strange(a)) })
	order = order[:max(0, min(n, len(order)))]
	slices.Sort(order)
	shown := make([]coordinator.WorkerView, len(order))
	for i, at := range order {
		shown[i] = all[at]
	}
	return shown
}

func bad(s results.State) bool { return s == results.Lost || s == results.Failed }

// away tells whether nothing is known of what a worker does now.
func away(w *coordinator.WorkerView) bool { return bad(w.State) || w.Unknown }

// latencyOf is that of a worker, of which there is none if nothing ended.
func latencyOf(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return units.Micros(float64(d.Microseconds()))
}

// quantile is a percentile of a histogram of microseconds.
func quantile(h *hdrhistogram.Histogram, percentile float64) string {
	if h == nil || h.TotalCount() == 0 {
		return "-"
	}
	return units.Micros(float64(h.ValueAtPercentile(percentile)))
}
