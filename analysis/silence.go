// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"slices"
	"time"

	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/results"
)

// NoAnswer is the longest time in the window in which no worker was answered anything.
type NoAnswer struct {
	AtS float64 `json:"at_s"` // on the run's clock
	S   float64 `json:"s"`
}

// answers are when workers were answered: from the first to the last answer of each interval, as one where less than shortSilence
// lies between. A pause within an interval is not seen; one of a second or more spans the end of one.
type answers struct {
	spans   []measure.Answers
	unknown bool // the journal is of a version that did not record them
}

func (a *answers) add(iv *results.Interval) {
	switch {
	case iv.Answers.Last > 0:
		if n := len(a.spans); n > 0 {
			before := &a.spans[n-1]
			if iv.Answers.First-before.Last < shortSilence && before.First-iv.Answers.Last < shortSilence {
				before.First, before.Last = min(before.First, iv.Answers.First), max(before.Last, iv.Answers.Last)
				return
			}
		}
		a.spans = append(a.spans, iv.Answers)
	case iv.OK+iv.Missing+iv.Wrong > 0:
		a.unknown = true
	}
}

// What makes a time without an answer more than the noise of a few intervals.
const (
	silenceLeast = time.Second
	silenceCalls = 10 // so many calls are usually answered, or due, in that time
	silenceLong  = 3  // so many times the typical service time

	shortSilence = time.Second / 2 // of no shorter ones anything is said
)

// noAnswer finds the longest time without an answer; nil if it is not known, or nothing
// but noise. The typical call takes p50.
func (r *Run) noAnswer(batchesPS float64, p50 time.Duration) *NoAnswer {
	if r.answers.unknown || len(r.answers.spans) == 0 {
		return nil
	}
	longest := gap{r.window.from, r.window.from}
	for _, g := range r.silences(r.window.from, r.window.to) {
		if g.to-g.from > longest.to-longest.from {
			longest = g
		}
	}
	length := longest.to - longest.from
	if length < max(silenceLeast, silenceLong*p50) || batchesPS*length.Seconds() < silenceCalls {
		return nil
	}
	if profile := r.profile(); profile != nil && profile.Count(longest.to)-profile.Count(longest.from) < silenceCalls*float64(max(r.record.Plan.Batch, 1)) {
		return nil // hardly anything was due
	}
	return &NoAnswer{AtS: longest.from.Seconds(), S: length.Seconds()}
}

// silences are the times between two moments in which no worker was answered anything, in their order, without those shorter than shortSilence.
func (r *Run) silences(from, to time.Duration) (all []gap) {
	spans := slices.Clone(r.answers.spans)
	slices.SortFunc(spans, func(a, b measure.Answers) int { return int(a.First - b.First) })
	last := from
	until := func(t time.Duration) {
		if t = min(t, to); t-last >= shortSilence {
			all = append(all, gap{last, t})
		}
	}
	for _, s := range spans {
		until(s.First)
		last = max(last, s.Last)
	}
	if r.ended().AtS >= to.Seconds() { // else nobody listened to the end
		until(to)
	}
	return all
}
