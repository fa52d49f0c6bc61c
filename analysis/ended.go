// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"fmt"

	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/units"
)

// Ended says what ended a run.
type Ended struct {
	By   string  `json:"by"`
	AtS  float64 `json:"at_s"` // on the run's clock: the end of the last interval
	Text string  `json:"text"`
}

// Values of Ended.By.
const (
	EndDuration    = "duration"
	EndCount       = "count"       // operations or records
	EndStopped     = "stopped"     // kvbench stop
	EndInterrupted = "interrupted" // the user of the coordinator
	EndLease       = "lease"       // the coordinator was not heard of
	EndLost        = "lost"        // all workers
	EndFailed      = "failed"
	EndUnknown     = "unknown"
)

// ended finds out what ended the run, from its record and from those of its workers.
func (r *Run) ended() Ended {
	rec, e := r.record, Ended{}
	var first *worker // that ended for a reason of its own
	lost := len(r.workers) > 0
	inTime := rec.WindowS > 0 // to the end of the duration, so that no count ended it
	for _, w := range r.workers {
		inTime = inTime && w.info.Ended != results.ByOperations
		e.AtS = max(e.AtS, w.end.Seconds())
		lost = lost && w.lost
		if first == nil && w.info.Reason != "" {
			first = w
		}
	}
	say := func(by, format string, args ...any) Ended {
		e.By, e.Text = by, fmt.Sprintf(format, args...)
		return e
	}
	end := rec.WarmupS + rec.WindowS
	switch {
	case rec.StopWhy != "":
		return say(EndStopped, "stopped: %s", rec.StopWhy)
	case rec.State == results.Interrupted && r.byUser():
		return say(EndInterrupted, "interrupted by the user")
	case first != nil && first.info.Ended == results.ByLease:
		return say(EndLease, "%s ended by itself: %s", first.member.Name, first.info.Reason)
	case rec.State == results.Interrupted || first != nil && first.info.Ended == results.ByStop:
		return say(EndStopped, "stopped (kvbench stop)")
	case lost:
		return say(EndLost, "all workers were lost")
	case rec.State == results.Failed:
		return say(EndFailed, "the run failed: %s", cmp.Or(r.reason(), "no reason is recorded"))
	case first != nil:
		return say(EndFailed, "%s ended before its time: %s", first.member.Name, first.info.Reason)
	case inTime && e.AtS >= end-0.001:
		return say(EndDuration, "the duration of %s was over", units.Seconds(rec.WindowS))
	case rec.Phase == "load":
		return say(EndCount, "every worker had loaded its records")
	case rec.Phase == "verify":
		return say(EndCount, "every worker had read its records")
	case rec.Plan.Operations > 0 && rec.WindowS > 0:
		return say(EndCount, "the operation count of %s was reached, before the duration of %s was over", units.Count(rec.Plan.Operations), units.Seconds(rec.WindowS))
	case rec.Plan.Operations > 0:
		return say(EndCount, "the operation count of %s was reached", units.Count(rec.Plan.Operations))
	}
	return say(EndUnknown, "nothing says why it ended")
}

// byUser tells whether the user of the coordinator interrupted the run.
func (r *Run) byUser() bool {
	for _, e := range r.events {
		if e.Kind == "stop" {
			return true
		}
	}
	return false
}

// reason is the first that the coordinator has recorded of a worker.
func (r *Run) reason() string {
	for _, w := range r.workers {
		if w.member.Reason != "" {
			return w.member.Name + ": " + w.member.Reason
		}
	}
	return ""
}
