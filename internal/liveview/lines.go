// SPDX-License-Identifier: Apache-2.0

package liveview

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kvbench/kvbench/internal/coordinator"
	"github.com/kvbench/kvbench/internal/objective"
	"github.com/kvbench/kvbench/internal/printable"
	"github.com/kvbench/kvbench/internal/units"
)

// lines is a view on what is no terminal: a line whenever something has changed.
type lines struct {
	out io.Writer

	mu    sync.Mutex
	queue chan string // nil: nothing is being written
	ended chan struct{}
	lost  int                                     // lines that found no room
	told  map[string]*coordinator.WorkerView      // as a line was last written of it
	found map[objective.Objective]objective.State // the same
	last  string
}

func newLines(out io.Writer) *lines {
	return &lines{out: out, told: make(map[string]*coordinator.WorkerView), found: make(map[objective.Objective]objective.State)}
}

func (v *lines) Show(s *coordinator.Snapshot) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.tellWorkers(s)
	v.tellObjectives(s)
	if l := headline(s); l != v.last {
		v.last = l
		v.write(l)
	}
}

// tellWorkers says which workers are lost or back. v.mu is held.
func (v *lines) tellWorkers(s *coordinator.Snapshot) {
	for i := range s.Workers {
		w := &s.Workers[i]
		before := v.told[w.Name]
		switch {
		case before != nil && before.State == w.State && before.Unknown == w.Unknown:
			continue
		case bad(w.State):
			v.write(fmt.Sprintf("worker %s is %s: %s", w.Name, w.State, w.Reason))
		case w.Unknown:
			v.write(fmt.Sprintf("worker %s has not reported for %.0f s: what it does is unknown", w.Name, w.Silent.Seconds()))
		case before != nil && away(before):
			v.write(fmt.Sprintf("worker %s is back", w.Name))
		}
		v.told[w.Name] = w
	}
}

// tellObjectives says which objectives are broken, or no more. v.mu is held.
func (v *lines) tellObjectives(s *coordinator.Snapshot) {
	for i := range s.Objectives {
		o := &s.Objectives[i]
		before := v.found[o.Objective]
		switch {
		case o.State == before:
			continue
		case o.State == objective.Broken:
			v.write(fmt.Sprintf("objective '%s' is broken: %s", o.Objective, o.Why))
		case before == objective.Broken:
			v.write(fmt.Sprintf("objective '%s' is broken no more, but %s: %s", o.Objective, o.State, cmp.Or(o.Text, o.Why)))
		}
		v.found[o.Objective] = o.State
	}
}

func (v *lines) Say(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.write(text)
}

// write queues a line. v.mu is held.
func (v *lines) write(text string) {
	if v.queue == nil {
		v.queue, v.ended = make(chan string, 64), make(chan struct{})
		go func(queue chan string, ended chan struct{}) {
			defer close(ended)
			for l := range queue {
				_, _ = io.WriteString(v.out, l+"\n") // where nobody reads, the load goes on
			}
		}(v.queue, v.ended)
	}
	if v.lost > 0 {
		text = fmt.Sprintf("(%d lines were not shown)\n%s", v.lost, text)
	}
	select {
	case v.queue <- printable.Text(text):
		v.lost = 0
	default:
		v.lost++
	}
}

func (v *lines) Close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.queue == nil {
		return
	}
	close(v.queue)
	select {
	case <-v.ended:
	case <-time.After(patience): // a write to a pipe that nobody reads cannot be called off
	}
	v.queue = nil
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
	if c := shortfalls(&t.View); len(c) > 0 {
		b.WriteString("  " + strings.Join(c, "  "))
	}
	for i := range s.Objectives {
		if o := &s.Objectives[i]; o.State == objective.Broken {
			fmt.Fprintf(&b, "  %s %s", o.Objective.Name(), brokenSince(o))
		}
	}
	atWork := 0
	for _, w := range s.Workers {
		if !away(&w) {
			atWork++
		}
	}
	if len(s.Workers) > 1 || atWork < len(s.Workers) {
		fmt.Fprintf(&b, "  %d/%d workers", atWork, len(s.Workers))
	}
	if text := awaited(s); text != "" {
		b.WriteString("  " + text)
	}
	return b.String()
}

// awaited says what a run that starts nothing any more waits for; "" while it does.
func awaited(s *coordinator.Snapshot) string {
	left := s.Length + s.Grace - s.Elapsed
	switch {
	case s.Stage == coordinator.Stopping:
		return "waits for calls in flight and the workers' journals"
	case s.Stage != coordinator.Draining:
		return ""
	case left > 0:
		return fmt.Sprintf("waits for calls in flight, %s at most", clock(left))
	}
	return "waits for the workers' journals"
}

// shortfalls are the counts of what did not go as planned, where there are any.
func shortfalls(t *coordinator.View) []string {
	var all []string
	for _, c := range []struct {
		name string
		n    int64
	}{{"not found", t.NotFound}, {"WRONG", t.Wrong}, {"errors", t.Errors}, {"skipped", t.Skipped}} {
		if c.n > 0 {
			all = append(all, c.name+" "+units.Grouped(float64(c.n)))
		}
		if c.name == "errors" && len(t.ByClass) > 0 {
			all[len(all)-1] += " (" + strings.Join(classes(t.ByClass), ", ") + ")"
		}
	}
	return all
}

// classes are counts of errors, the most frequent first.
func classes(counts map[string]int64) []string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	for i, n := range names {
		names[i] = n + " " + units.Grouped(float64(counts[n]))
	}
	return names
}
