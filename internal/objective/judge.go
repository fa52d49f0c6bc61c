// SPDX-License-Identifier: Apache-2.0

package objective

import (
	"fmt"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/units"
)

// State is what is known of an objective.
type State int

// The states.
const (
	Unknown State = iota
	Kept
	Broken
)

// String is the state in a word.
func (s State) String() string { return [...]string{"unknown", "kept", "broken"}[s] }

// Seen is what was seen of the operations that an objective is about.
type Seen struct {
	Operations int64 // that came back, failed ones among them
	Failed     int64
	Never      int64 // that never came back, or never began: nobody knows how they would have ended

	Rate   float64 // of those that were answered, per second
	Target float64 // asked for, per second; 0: nothing
	Slack  float64 // so much of a rate, per second, may be missing for where the time was cut out of the schedule
	More   bool    // others, of whom nothing is known, may have been answered besides

	// Of successful calls; nil: there is none. Least is what their latency is at least with the calls that have waited in
	// vain; nil: there are none. NeverCalls is how many of those never came back.
	Answered   *hdrhistogram.Histogram
	Least      *hdrhistogram.Histogram
	NeverCalls int64

	// Unseen says what of all this is known to be missing, as in "1 of 3 workers lost"; empty: nothing.
	Unseen string
}

// Finding is what became of an objective.
type Finding struct {
	State State
	Value *float64 // what was seen, in the objective's unit; nil if that is no number
	Text  string   // that value, with its unit; empty if it is none
	Why   string   // it is broken or unknown; empty if it is kept
}

// Judge tells whether what was seen keeps the objective. What was not seen counts for neither side: where it could turn the
// judgement, that is unknown.
func (o Objective) Judge(s *Seen) Finding {
	f := o.judge(s)
	enough := s.More && (o.Metric == Rate || o.Metric == Share) // with more it is all the more kept
	if f.State == Kept && s.Unseen != "" && !enough {
		f.State, f.Why = Unknown, unknown(fmt.Sprintf("%s of what was seen, and %s", o.is(f.Text), s.Unseen))
	}
	return f
}

func (o Objective) judge(s *Seen) Finding {
	switch {
	case o.Latency():
		return o.judgeLatency(s)
	case o.Metric == Errors:
		return o.judgeErrors(s)
	case o.Metric == Rate:
		return o.judgeRate(s, s.Rate, o.Limit, perSecond(s.Rate))
	case o.Metric == Share && s.Target > 0:
		share := s.Rate / s.Target
		return o.judgeRate(s, share, o.Limit*s.Target, fmt.Sprintf("%s of the target (%s of %s)", percent(share), perSecond(s.Rate), perSecond(s.Target)))
	}
	return o.notMeasured()
}

// judgeErrors: operations that never came back may have been errors or not.
func (o Objective) judgeErrors(s *Seen) Finding {
	if s.Operations+s.Never == 0 {
		return o.notMeasured()
	}
	all := float64(s.Operations + s.Never)
	least, most := float64(s.Failed)/all, float64(s.Failed+s.Never)/all
	value := float64(s.Failed) / float64(max(s.Operations, 1))
	f := Finding{Kept, &value, fmt.Sprintf("%s (%s of %s operations)", percent(value), units.Count(s.Failed), units.Count(s.Operations)), ""}
	switch {
	case least >= o.Limit:
		f.State, f.Why = Broken, fmt.Sprintf("%s, not below %s", o.is(f.Text), o.limit())
	case most >= o.Limit:
		f.State, f.Why = Unknown, unknown(fmt.Sprintf("%s without %s that were never answered", o.is(f.Text), units.Count(s.Never)))
	}
	return f
}

// judgeRate judges a rate by a limit of operations per second.
func (o Objective) judgeRate(s *Seen, value, limit float64, text string) Finding {
	f := Finding{Kept, &value, text, ""}
	const rounding = 1e-6 // targets are sums of shares, exact to a millionth
	switch short := s.Rate < limit*(1-rounding)-s.Slack; {
	case short && s.More:
		f.State, f.Why = Unknown, unknown(fmt.Sprintf("%s of what was seen, and %s", o.is(text), s.Unseen))
	case short:
		f.State, f.Why = Broken, fmt.Sprintf("%s, below %s", o.is(text), o.limit())
	}
	return f
}

func (o Objective) judgeLatency(s *Seen) Finding {
	m, ok := o.metric()
	answered, least := measure.LatencyOf(s.Answered), measure.LatencyOf(s.Least)
	if !ok || answered == nil && least == nil {
		return o.notMeasured()
	}
	var f Finding
	limit := float64(o.LimitUS)
	if answered != nil && m.Carried(answered) {
		f.Text = m.Show(answered)
		if m.Known(answered) {
			value := m.Of(answered)
			f.Value = &value
		}
	}
	switch {
	case answered != nil && m.Floor(answered) > limit:
		value := f.Text
		if value == "" {
			value = "at least " + units.Micros(m.Floor(answered))
		}
		f.State, f.Why = Broken, fmt.Sprintf("%s, above %s", o.is(value), o.limit())
	case least != nil && m.Floor(least) > limit:
		waiting, how := least.Samples, "not answered yet"
		if answered != nil {
			waiting -= answered.Samples
		}
		if s.NeverCalls > 0 {
			how = "never answered"
		}
		f.State, f.Why = Broken, fmt.Sprintf("%s, above %s, with %s that were %s", o.is("at least "+units.Micros(m.Floor(least))), o.limit(), units.Count(waiting), how)
	case answered == nil:
		return o.notMeasured()
	case f.Text == "":
		f.Why = unknown(fmt.Sprintf("%s %s too few for %s", units.Count(answered.Samples), units.Plural(answered.Samples, "call is", "calls are"), o.Name()))
	case slices.Contains(answered.AtLeast, m.Name):
		f.Why = unknown(o.is(f.Text))
	case s.NeverCalls > 0 && !m.Within(s.Answered, s.NeverCalls, o.LimitUS):
		f.Why = unknown(fmt.Sprintf("%s without %s that were never answered", o.is(f.Text), units.Count(s.NeverCalls)))
	default:
		f.State = Kept
	}
	return f
}

func (o Objective) notMeasured() Finding {
	return Finding{Why: fmt.Sprintf("objective %s was not measured", o.Name())}
}

// is says what something is, as in "READ response p99 is 7.20 ms".
func (o Objective) is(value string) string {
	if strings.HasSuffix(o.Name(), Errors) {
		return o.Name() + " are " + value
	}
	return o.Name() + " is " + value
}

func unknown(why string) string { return "it is unknown whether the objective was met: " + why }
