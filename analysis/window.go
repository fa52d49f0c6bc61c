// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"time"

	"github.com/kvbench/kvbench/internal/results"
)

// worker is what one worker's journal holds, as a quick look at it shows.
type worker struct {
	member  results.Member
	info    results.Worker
	dir     string
	journal bool // there is one
	lost    bool
	begin   time.Duration // of its first interval
	end     time.Duration // of its last
	worked  bool          // it completed at least one operation

	complete  bool  // it closed its journal, and said so
	intervals int   // that can be read
	gaps      []gap // between them, before the first, and after the last of a journal that was closed
}

// cut tells whether a journal that was closed ends before its time: its end is not there, or
// the worker ended for a reason of its own.
func (w *worker) cut() bool {
	switch w.info.Ended {
	case results.ByLease, results.ByShutdown, results.ByError:
		return w.complete
	}
	return w.complete && w.end < results.Duration(w.info.EndS)
}

// gap is a stretch of which a journal holds nothing.
type gap struct{ from, to time.Duration }

// window is the time over which rates are taken.
type window struct {
	from, to time.Duration
	// whole is set when the window's operations are all that have a slot in it,
	// wherever they completed; else they are those that completed within it.
	whole bool
	// The measured window of the run, of which from and to may be a part.
	begin, finish time.Duration

	notes []string
}

func (w *window) seconds() float64 { return (w.to - w.from).Seconds() }

// share returns which part of an interval lies in the window.
func (w *window) share(from, to time.Duration) float64 {
	if to <= from { // an instant
		if from >= w.from && from <= w.to {
			return 1
		}
		return 0
	}
	overlap := min(to, w.to) - max(from, w.from)
	return max(0, float64(overlap)/float64(to-from))
}

// findWindow returns the time over which a run's rates are taken: its measured
// window if all went as planned, else the part of it in which all workers ran.
func findWindow(run *results.Run, workers []*worker) window {
	w := window{from: results.Duration(run.WarmupS), whole: run.WindowS > 0}
	latest := time.Duration(0)
	for _, k := range workers {
		latest = max(latest, k.end)
	}
	w.to = w.from + results.Duration(run.WindowS)
	byCount := run.Plan.Operations > 0 || run.Phase != "run"
	if run.WindowS == 0 || byCount && latest < w.to {
		w.whole, w.to = false, latest
	}
	if run.StoppedS != nil {
		if stopped := results.Duration(*run.StoppedS); stopped < w.to {
			w.to = stopped
			w.notes = append(w.notes, fmt.Sprintf("The run was stopped after %.1f s; rates are over what was measured until then.", *run.StoppedS))
		}
	}
	w.begin, w.finish = w.from, w.to
	if w.to <= w.from { // it ended in its warm-up
		return w
	}
	timed := w.whole
	for _, k := range workers {
		switch {
		case k.lost && k.end <= w.from:
			w.notes = append(w.notes, fmt.Sprintf("Worker %s measured nothing; rates are those of the other workers.", k.member.Name))
		case k.lost && k.end < w.to:
			w.to, w.whole = k.end, false
			w.notes = append(w.notes, fmt.Sprintf("Worker %s was lost at %.1f s; rates are over the %.1f s in which all workers ran.", k.member.Name, k.end.Seconds(), (w.to-w.from).Seconds()))
		case k.cut() && w.from < k.end && k.end < w.to:
			w.to, w.whole = k.end, false
			w.notes = append(w.notes, fmt.Sprintf("The journal of %s ends at %.1f s; rates are over the %.1f s of which all journals tell.", k.member.Name, k.end.Seconds(), (w.to-w.from).Seconds()))
		case !timed && k.worked:
			w.from = max(w.from, k.begin)
			w.to = min(w.to, k.end)
		}
	}
	return w
}

// phase names the part of the run in which a moment lies.
func (w *window) phase(t time.Duration) string {
	switch {
	case t < w.begin:
		return "warmup"
	case t >= w.finish:
		return "grace"
	}
	return "window"
}
