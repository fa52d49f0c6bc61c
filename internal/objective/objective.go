// SPDX-License-Identifier: Apache-2.0

// Package objective reads service level objectives and judges them: text and numbers in, kept, broken or unknown out.
// The numbers may be those of a whole run, or of its last seconds; the rules are the same.
package objective

import (
	"strconv"
	"strings"

	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/units"
)

// AllKinds is the name of all kinds of operations together.
const AllKinds = "TOTAL"

// What an objective may be on beside the metrics of a latency ([measure.Metrics]).
const (
	Errors = "errors" // failed operations, as a share of those that came back: less than the limit
	Rate   = "rate"   // answered operations per second: the limit or more
	Share  = "share"  // the same, as a share of the target: the limit or more
)

// The times that a latency may be.
const (
	Service  = "service"
	Response = "response"
)

// Objective is what a run must keep.
type Objective struct {
	Kind    string  `json:"kind"`               // of operation, or "TOTAL"
	Time    string  `json:"time,omitempty"`     // of a latency: "service" or "response"
	Metric  string  `json:"metric"`             // "mean", "p50", …, "max" of a latency; "errors", "rate" or "share"
	LimitUS int64   `json:"limit_us,omitempty"` // of a latency: at most so many microseconds
	Limit   float64 `json:"limit,omitempty"`    // of others: a share of 1, or operations per second
}

// Latency tells whether the objective is on a latency.
func (o Objective) Latency() bool { return o.Time != "" }

// Name says what the objective is on, as in "READ response p99" or "errors".
func (o Objective) Name() string {
	words := []string{o.Kind}
	switch {
	case o.Latency():
		words = append(words, o.Time, strings.ReplaceAll(o.Metric, "_", "."))
	case o.Metric == Share:
		words = append(words, "rate")
	default:
		words = append(words, o.Metric)
	}
	if o.Kind == AllKinds && !o.Latency() {
		words = words[1:]
	}
	return strings.Join(words, " ")
}

// String is the objective as reports show it, as in "READ response p99 < 5.00 ms".
func (o Objective) String() string {
	if o.Metric == Errors || o.Latency() {
		return o.Name() + " < " + o.limit()
	}
	return o.Name() + " >= " + o.limit()
}

func (o Objective) limit() string {
	switch {
	case o.Latency():
		return units.Micros(float64(o.LimitUS))
	case o.Metric == Rate:
		return perSecond(o.Limit)
	case o.Metric == Share:
		return percent(o.Limit) + " of the target"
	}
	return percent(o.Limit)
}

// Unit is that of [Finding.Value]: "us", "share" or "per_s".
func (o Objective) Unit() string {
	switch {
	case o.Latency():
		return "us"
	case o.Metric == Rate:
		return "per_s"
	}
	return "share"
}

// metric is the number of a latency that the objective is on; false if there is none such.
func (o Objective) metric() (measure.Metric, bool) { return measure.MetricNamed(o.Metric) }

// percent shows a share to four significant digits: a limit of 99.99 % is none of 100 %, and what is close to it is not it.
func percent(share float64) string { return significant(share*100) + " %" }

// perSecond shows a rate to four significant digits at least.
func perSecond(rate float64) string {
	if rate >= 1000 {
		return units.Rate(rate)
	}
	return significant(rate) + "/s"
}

func significant(v float64) string {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64) // of what was just formatted
	return strconv.FormatFloat(v, 'f', -1, 64)
}
