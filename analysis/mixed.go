// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kvbench/kvbench/analysis/foreign"
	"github.com/kvbench/kvbench/analysis/stats"
	"github.com/kvbench/kvbench/internal/objective"
	"github.com/kvbench/kvbench/internal/prices"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/units"
	"github.com/kvbench/kvbench/internal/workload"
)

// Set is results of any tools.
type Set struct {
	Runs    []*Run
	Foreign []*foreign.Result
}

// Demand gives runs further objectives. Of what other tools have measured none is judged: it does not tell what was asked for, nor
// what was never answered.
func (s *Set) Demand(further ...objective.Objective) error {
	if len(further) > 0 && len(s.Foreign) > 0 {
		return fmt.Errorf("%s: objectives are judged of runs of kvbench alone; leave out --slo, or these results", s.Foreign[0].Path)
	}
	for _, r := range s.Runs {
		r.Demand(further...)
	}
	return nil
}

// Price says what the runs' clusters and clients cost; nil: not known. Results of other tools do not tell what they ran on.
func (s *Set) Price(p *prices.Prices) error {
	if p != nil && len(s.Foreign) > 0 {
		return fmt.Errorf("%s: costs are known of runs of kvbench alone; leave out --prices, or these results", s.Foreign[0].Path)
	}
	for _, r := range s.Runs {
		r.Price(p)
	}
	return nil
}

// Summarize reports on all, with percentiles that were asked for.
func (s *Set) Summarize(percentiles []float64) *Document {
	d := SummarizeAt(percentiles, s.Runs...)
	d.Foreign = s.Foreign
	return d
}

// CompareSets says what changed from one side to the other, see [Compare] and [CompareMixed].
func CompareSets(a, b *Set, spread float64) *Comparison {
	if len(a.Foreign)+len(b.Foreign) == 0 {
		return Compare(a.Runs, b.Runs, spread)
	}
	return CompareMixed(a, b)
}

// NotKnown is the basis of a comparison of one result of each, of which one at least is of another tool: how much that varied
// within itself is not known, and nothing is judged.
const NotKnown Basis = "not known"

// subject is a result of a comparison, whichever tool it is of.
type subject struct {
	name, tool string
	clients    int
	settings   map[string]string // only those of one tool are to be compared
	start      time.Time         // zero: not known
	invalid    string            // why it is no valid result

	run     *Run               // nil: of another tool
	numbers map[string]numbers // by kind
	samples map[string]int64   // by kind: at most so many carry each latency
}

// kvbench is the tool of our own runs.
const kvbench = "kvbench"

func subjectOfRun(r *Run) subject {
	p := r.Report()
	s := subject{name: p.RunID, tool: kvbench, clients: p.WorkersExpected, settings: p.Spec, start: p.Start, run: r,
		numbers: map[string]numbers{AllKinds: r.numbers(anyKind)}, samples: make(map[string]int64)}
	if invalid(p) {
		s.invalid = p.Verdict.Text
	}
	for k := range workload.Kind(workload.Kinds) {
		if n := r.numbers(func(o workload.Kind) bool { return o == k }); len(n) > 0 {
			s.numbers[k.String()] = n
		}
	}
	for _, k := range p.Kinds {
		if k.Outcome == workload.OK.String() {
			s.samples[k.Kind] += k.Operations
		}
	}
	return s
}

func subjectOfForeign(r *foreign.Result) subject {
	s := subject{name: r.Name, tool: r.Maker, clients: len(r.Sources), settings: r.Settings, numbers: make(map[string]numbers), samples: make(map[string]int64)}
	if r.Start != nil {
		s.start = *r.Start
	}
	if !r.Whole() {
		s.invalid = r.Verdict()
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Outcome != foreign.OK {
			continue
		}
		n := s.numbers[row.Kind]
		if n == nil {
			n = make(numbers)
			s.numbers[row.Kind] = n
		}
		if row.PerS > 0 {
			n[rateMetric] = row.PerS
		}
		prefix := map[string]string{foreign.Service: latencyMetric(results.Service, ""), foreign.Response: latencyMetric(results.Response, ""), foreign.Either: unknownTime}[row.Time]
		for _, m := range Metrics {
			if us, ok := row.Number(m.Name); ok {
				n[prefix+m.Name] = us
			}
		}
		if least, ok := s.samples[row.Kind]; !ok || row.Samples < least {
			s.samples[row.Kind] = row.Samples
		}
	}
	return s
}

// unknownTime begins the names of latencies of which it is not known whether they are service or response times.
const unknownTime = "latency_us_"

func (s *Set) subjects() (all []subject) {
	for _, r := range s.Runs {
		all = append(all, subjectOfRun(r))
	}
	for _, r := range s.Foreign {
		all = append(all, subjectOfForeign(r))
	}
	return all
}

// CompareMixed says what changed from one side to the other, of which each has a result at least and one has one of another tool. Only
// what differs more than the results of a side among themselves is judged: nothing tells how much one of another tool varied within itself.
func CompareMixed(a, b *Set) *Comparison {
	c := &Comparison{Version: DocumentVersion, Basis: BetweenRuns, Deltas: []Delta{}, Differences: []string{}, Notes: []string{}}
	as, bs := a.subjects(), b.subjects()
	if len(as) == 1 && len(bs) == 1 {
		c.Basis = NotKnown
	}
	c.A, c.B = namesOf(as), namesOf(bs)
	c.Differences = append(c.Differences, differencesBetween(as[0], bs[0])...)
	all := slices.Concat(as, bs)
	why := c.noteSubjects(as, bs)

	kind, latency := judgedOf(all)
	if kind == "" {
		kind, why = AllKinds, cmp.Or(why, "there is no kind of operation that alone, or with all others, stands in every result")
	} else if kind != AllKinds {
		c.Notes = append(c.Notes, fmt.Sprintf("What is judged is of %s alone.", kind))
	}
	if c.Basis == NotKnown {
		why = cmp.Or(why, "one result of each, and one of another tool does not tell how much it varied: repeat them")
	}
	var judged []stats.Difference
	q := results.Service
	if latency == latencyMetric(results.Response, "") {
		q = results.Response
	}
	for _, h := range headlinesAt(q, latency) {
		va, vb := metricOfKind(as, kind, h.name), metricOfKind(bs, kind, h.name)
		d := newDelta(kind, h.name, va, vb)
		for i := range all {
			d.Why = cmp.Or(d.Why, why, h.tooFewOf(&all[i], kind))
		}
		if d.Why != "" {
			d.Judged = Unknown
		} else {
			judged = append(judged, stats.Between(logs(vb), logs(va), finest(h.name, va[0])/va[0]))
		}
		c.Deltas = append(c.Deltas, d)
	}
	c.judge(judged)
	kinds := make(map[string]bool)
	for i := range all {
		for k := range all[i].numbers {
			kinds[k] = true
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(kinds), func(x, y string) int { return cmp.Or(totalFirst(x, y), cmp.Compare(x, y)) }) {
		of := make([]numbers, len(all))
		for i := range all {
			of[i] = all[i].numbers[k]
		}
		c.rest(of, len(as), k)
	}
	c.Summary = c.summarize()
	return c
}

func totalFirst(x, y string) int {
	switch {
	case x == AllKinds && y != AllKinds:
		return -1
	case y == AllKinds && x != AllKinds:
		return 1
	}
	return 0
}

func namesOf(all []subject) string {
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].name
	}
	return strings.Join(names, " ")
}

// judgedOf says of which operations, and of which latency, all have something to be judged: of all kinds together or, if not all
// have that, of the one kind that all have; "" if there is none, or there are several.
func judgedOf(all []subject) (kind, latency string) {
	var common []string
	for k := range all[0].numbers {
		if !slices.ContainsFunc(all, func(s subject) bool { return s.numbers[k] == nil }) {
			common = append(common, k)
		}
	}
	switch {
	case slices.Contains(common, AllKinds):
		kind = AllKinds
	case len(common) == 1:
		kind = common[0]
	}
	for _, latency = range []string{latencyMetric(results.Response, ""), latencyMetric(results.Service, ""), unknownTime} {
		if !slices.ContainsFunc(all, func(s subject) bool { return s.numbers[kind][latency+"p99"] == 0 }) {
			return kind, latency
		}
	}
	return kind, latencyMetric(results.Service, "")
}

// tooFewOf says that a result has no such metric, or one of too few operations.
func (h headline) tooFewOf(s *subject, kind string) string {
	switch n := s.samples[kind]; {
	case s.numbers[kind][h.name] == 0:
		return s.name + " does not tell it"
	case s.run != nil:
		if why := h.tooFew(s.run); why != "" {
			return why
		}
		fallthrough
	default:
		if beyond := math.Round(float64(n) * (1 - h.percent/100)); h.percent > 0 && beyond < minBeyond {
			return fmt.Sprintf("%s has %s operations, of which %s lie beyond it; it takes %d", s.name, units.Count(n), units.Count(int64(beyond)), minBeyond)
		}
	}
	return ""
}

func metricOfKind(all []subject, kind, name string) []float64 {
	v := make([]float64, len(all))
	for i := range all {
		v[i] = all[i].numbers[kind][name]
	}
	return v
}

// differencesBetween lists what was not the same, as far as it can be told.
func differencesBetween(a, b subject) []string {
	diffs := []string{}
	note := func(what, va, vb string) {
		if va != vb {
			diffs = append(diffs, fmt.Sprintf("%s: %s → %s", what, orNone(va), orNone(vb)))
		}
	}
	note("tool", a.tool, b.tool)
	note("clients", fmt.Sprint(a.clients), fmt.Sprint(b.clients))
	if a.tool == b.tool {
		noteMaps(note, "", a.settings, b.settings)
	}
	return diffs
}

// noteSubjects notes what the comparison cannot see, and says why nothing can be judged, if it cannot.
func (c *Comparison) noteSubjects(a, b []subject) (why string) {
	add := func(format string, args ...any) { c.Notes = append(c.Notes, fmt.Sprintf(format, args...)) }
	tools := make(map[string]bool)
	for _, s := range slices.Concat(a, b) {
		tools[s.tool] = true
		if s.invalid != "" {
			add("%s is not a valid result: %s.", s.name, s.invalid)
			if s.run == nil || !judgeable(s.run.Report()) {
				why = cmp.Or(why, s.name+" is not a valid result")
			}
		}
	}
	if len(tools) > 1 {
		add("The tools differ (%s): how each paces, batches and ends, and what it counts as an operation, is part of every difference.", strings.Join(slices.Sorted(maps.Keys(tools)), ", "))
	}
	add("Results of other tools do not tell what was never answered, nor whether the client was the limit.")
	if c.Basis == BetweenRuns && (len(a) == 1 || len(b) == 1) {
		add("One side is a single result: it is taken to vary as much as those of the other do.")
	}
	for _, side := range [][]subject{a, b} {
		for _, s := range side[1:] {
			for _, d := range differencesBetween(side[0], s) {
				add("The results of one side are not of the same thing: %s (%s and %s).", d, side[0].name, s.name)
			}
		}
	}
	if c.Basis == BetweenRuns && (allBefore(a, b) || allBefore(b, a)) {
		add("All results of one side were made before those of the other: what else changed in the meantime looks like a difference. Make them in turn.")
	}
	return why
}

// allBefore tells whether all of a are known to have begun before all of b.
func allBefore(a, b []subject) bool {
	for _, p := range a {
		for _, q := range b {
			if p.start.IsZero() || q.start.IsZero() || !p.start.Before(q.start) {
				return false
			}
		}
	}
	return true
}
