// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kvbench/kvbench/internal/coordinator"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/units"
)

// progress draws a run while it goes on: a table that is drawn over on a
// terminal, and a line a second elsewhere.
type progress struct {
	w        io.Writer
	terminal bool
	lines    int // of the last drawing, above the cursor
	told     map[string]results.State
	last     string // line
}

func newProgress(w io.Writer, terminal bool) *progress {
	return &progress{w: w, terminal: terminal, told: map[string]results.State{}}
}

func (p *progress) show(s *coordinator.Snapshot) {
	if p.terminal {
		p.draw(s)
		return
	}
	for _, w := range s.Workers {
		if p.told[w.Name] != w.State && bad(w.State) {
			fmt.Fprintf(p.w, "worker %s is %s: %s\n", w.Name, w.State, w.Reason)
		}
		p.told[w.Name] = w.State
	}
	if line := headline(s); line != p.last {
		p.last = line
		fmt.Fprintln(p.w, line)
	}
}

// end leaves the last drawing where it is.
func (p *progress) end() { p.lines = 0 }

const (
	up        = "\x1b[%dA"
	clearLine = "\x1b[2K"
)

func (p *progress) draw(s *coordinator.Snapshot) {
	lines := []string{headline(s)}
	if s.Length > 0 {
		lines = append(lines, bar(s.Elapsed, s.Length, 60))
	}
	if len(s.Workers) > 1 {
		lines = append(lines, fmt.Sprintf("  %-24s %-11s %12s %10s %10s %9s %9s", "worker", "state", "op/s", "p50", "p99", "lag p99", "errors"))
		for _, w := range s.Workers {
			state := string(w.State)
			if w.Silent > 2*time.Second && w.State == results.Running {
				state = fmt.Sprintf("silent %.0fs", w.Silent.Seconds())
			}
			line := fmt.Sprintf("  %-24.24s %-11s %12s %10s %10s %9s %9s", w.Name, state, units.Grouped(w.Rate),
				quantile(w.Service, 50), quantile(w.Service, 99), units.Micros(float64(w.LagP99.Microseconds())), units.Grouped(float64(w.Errors)))
			if w.Reason != "" {
				line += "  " + w.Reason
			}
			lines = append(lines, line)
		}
	}
	var b strings.Builder
	if p.lines > 0 {
		fmt.Fprintf(&b, up, p.lines)
	}
	for _, l := range lines {
		b.WriteString(clearLine + l + "\n")
	}
	for range p.lines - len(lines) {
		b.WriteString(clearLine + "\n")
	}
	p.lines = max(p.lines, len(lines))
	io.WriteString(p.w, b.String())
}

// headline is a run in one line.
func headline(s *coordinator.Snapshot) string {
	t := &s.Total
	var b strings.Builder
	fmt.Fprintf(&b, "%6.0fs %-9s", max(0, s.Elapsed.Seconds()), s.Stage)
	if s.Stage == coordinator.Preparing || s.Stage == coordinator.Starting {
		fmt.Fprintf(&b, " %d workers, run %s", len(s.Workers), s.RunID)
		return b.String()
	}
	fmt.Fprintf(&b, " %s op/s", units.Grouped(t.Rate))
	if t.Target > 0 {
		fmt.Fprintf(&b, " of %s", units.Grouped(t.Target))
	}
	if t.Service != nil {
		fmt.Fprintf(&b, "  service p50 %s p99 %s", quantile(t.Service, 50), quantile(t.Service, 99))
	}
	if t.Response != nil {
		fmt.Fprintf(&b, "  response p99 %s", quantile(t.Response, 99))
	}
	fmt.Fprintf(&b, "  done %s", units.Grouped(float64(t.Operations)))
	for _, c := range []struct {
		name string
		n    int64
	}{{"not found", t.NotFound}, {"WRONG", t.Wrong}, {"errors", t.Errors}, {"skipped", t.Skipped}} {
		if c.n > 0 {
			fmt.Fprintf(&b, "  %s %s", c.name, units.Grouped(float64(c.n)))
		}
	}
	atWork := 0
	for _, w := range s.Workers {
		if !bad(w.State) {
			atWork++
		}
	}
	if len(s.Workers) > 1 || atWork < len(s.Workers) {
		fmt.Fprintf(&b, "  %d/%d workers", atWork, len(s.Workers))
	}
	return b.String()
}

func bad(s results.State) bool { return s == results.Lost || s == results.Failed }

func bar(at, of time.Duration, width int) string {
	done := min(width, max(0, int(float64(width)*float64(at)/float64(of))))
	return fmt.Sprintf("  [%s%s] %s left", strings.Repeat("=", done), strings.Repeat(" ", width-done), max(0, of-at).Round(time.Second))
}

// quantile is a percentile of a histogram of microseconds.
func quantile(h *hdrhistogram.Histogram, percentile float64) string {
	if h == nil || h.TotalCount() == 0 {
		return "-"
	}
	return units.Micros(float64(h.ValueAtPercentile(percentile)))
}
