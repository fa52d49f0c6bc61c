// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"strings"

	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/units"
)

// What kept a worker from coming round, beside its own work.
const (
	// longStall is from when on, in seconds, a worker that stood still makes a result one of the client.
	longStall = 1.0
	// throttledShare is from which share of the window on a worker that its CPU limit kept from running does. A limit
	// stops a process for the rest of a period, of 100 ms usually, so that as many calls wait for so long.
	throttledShare = 0.05
	// stalledShare is from which share of the window on many short standstills stand in the verdict.
	stalledShare = 0.1
	// noteShare is from which share on either is worth a note.
	noteShare = 0.01
)

// most is the worker with the most of something; an empty row if none has any.
func most(workers []WorkerRow, of func(*WorkerRow) float64) *WorkerRow {
	found := &WorkerRow{}
	for i := range workers {
		if w := &workers[i]; of(w) > of(found) {
			found = w
		}
	}
	return found
}

// stillest is the worker that stood still for the longest time.
func stillest(workers []WorkerRow) *WorkerRow {
	return most(workers, func(w *WorkerRow) float64 { return w.StallMaxS })
}

// stoodStill says which worker stood still for the longest time; "" if none did for long.
func stoodStill(p *Report) string {
	longest := stillest(p.Workers)
	if longest.StallMaxS < longStall {
		return ""
	}
	return fmt.Sprintf("worker %s stood still for %s at %s", longest.Name, units.Seconds(longest.StallMaxS), units.Seconds(longest.StallAtS))
}

// throttled says which worker its CPU limit kept from running for the longest time; "" if none was for so much of the window.
func throttled(p *Report, share float64) string {
	longest := most(p.Workers, func(w *WorkerRow) float64 { return w.ThrottledS })
	if longest.ThrottledS == 0 || longest.ThrottledS < share*p.WindowS {
		return ""
	}
	return fmt.Sprintf("worker %s was throttled by its CPU limit from %s to %s, for %s of processor time",
		longest.Name, units.Seconds(longest.ThrottledAtS), units.Seconds(longest.ThrottledToS), units.Seconds(longest.ThrottledS))
}

// oftenStill says which worker stood still for the largest part of the window, in standstills each of which is short; "" if none did for so much of it.
func oftenStill(p *Report, share float64) string {
	of := func(w *WorkerRow) float64 {
		if w.StallMaxS >= longStall {
			return 0
		}
		return w.StalledS
	}
	longest := most(p.Workers, of)
	if s := of(longest); s == 0 || s < share*p.WindowS {
		return ""
	}
	return fmt.Sprintf("worker %s stood still for %s in all, %s at a time at most", longest.Name, units.Micros(longest.StalledS*1e6), units.Micros(longest.StallMaxS*1e6))
}

// noteStandstills says what latencies contain that is the client's.
func (p *Report) noteStandstills() {
	for _, text := range []string{throttled(p, noteShare), oftenStill(p, noteShare)} {
		if text != "" {
			p.Notes = append(p.Notes, fmt.Sprintf("W%s, of a window of %s: latencies contain that.", strings.TrimPrefix(text, "w"), units.Seconds(p.WindowS)))
		}
	}
}

// noteFoundAgain says which workers were lost for a time.
func (p *Report) noteFoundAgain() {
	for _, e := range p.Events {
		if e.Kind == results.WorkerBack {
			p.Notes = append(p.Notes, fmt.Sprintf("Worker %s was lost and found again at %s: %s.", e.Worker, units.Seconds(e.S), e.Text))
		}
	}
}
