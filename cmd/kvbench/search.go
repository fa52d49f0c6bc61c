// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/objective"
	"github.com/kvbench/kvbench/internal/printable"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/search"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/units"
)

func (a *app) searchCommand() *cobra.Command {
	s := &searching{app: a}
	var first, least, most perSecond = 1000, 1, search.MaxRate
	precision := percent(0.03)
	var as bool
	cmd := &cobra.Command{
		Use:     "search",
		GroupID: "load",
		Short:   "Find the highest rate that the cluster holds within objectives",
		Long: `Find the highest rate that the cluster holds within objectives: paced runs, one after the other on the same workers, each at
the rate that the ones before make the most telling one. The rate doubles until an objective is broken, and is bisected from then
on; runs that contradict each other are repeated. The answer is an interval, and a rate that was held for a longer run.

Besides those given, two objectives are part of "holds", unless you give others on the same: errors < 0.1%, rate >= 99% of
the target. Where the client is the limit, there is no answer, but what to do.

Exit codes: 0 found; 7 the lowest rate is not held; 4 no answer, or a vaguer one than was asked for; 130 interrupted.
` + fleetHelp,
		Example: `  kvbench search --slo 'READ response p99 < 5ms' -w a
  kvbench search --slo 'TOTAL response p99.9 < 20ms' -w mixed --arrival poisson --threads 256 --kube
  kvbench search --slo 'READ response p99 < 5ms' -w read --start 20k --max 200k --cell 30s --verify 5m --budget 1h
  kvbench search --slo-file objectives -w a --json | jq '.low_per_s, .high_per_s'`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.SortFlags = false
	b := &s.bench
	b.app, b.lease, b.quiet = a, minLease, true
	addObjectives(f, &b.limits.SLO)
	f.Var(&first, "start", "the first `rate`, in operations a second over the whole fleet")
	f.Var(&least, "min", "no run has a lower `rate`")
	f.Var(&most, "max", "no run has a higher `rate`")
	f.Var(&precision, "precision", "how narrow the interval is to be: 0.5% to 50%")
	f.DurationVar(&s.Cell, "cell", 20*time.Second, "how long each run measures: longer is less noise")
	f.DurationVar(&s.Verify, "verify", time.Minute, "how long the run measures that verifies the answer")
	f.DurationVar(&s.Budget, "budget", 30*time.Minute, "of time, for the whole search")
	s.what = addSpecFlags(f)
	b.fleet = addFleetFlags(f, true)
	f.StringVar(&b.out, "out", "results", "`folder` that gets a folder for the search, with one for each run in it")
	f.BoolVar(&s.quiet, "quiet", false, "show no progress")
	f.StringVar(&b.label, "label", "", "`name` for the search and its runs")
	f.StringVar(&b.note, "note", "", "`text` to keep with the results")
	f.BoolVar(&as, "json", false, "print the answer with all cells as JSON, as in search.json")
	f.IntVar(&b.limits.TolerateLost, "tolerate-lost", 0, "so many workers may be lost in a run that counts")
	f.Var(&share{&b.limits.MissShare}, "max-misses", "so many reads may find no value in a run that counts: `share` (default 0.1%; no limit if the workload deletes, or rows have a ttl)")
	cmd.RunE = func(*cobra.Command, []string) error {
		s.Start, s.Min, s.Max, s.Precision = float64(first), float64(least), float64(most), float64(precision)
		if !f.Changed("start") {
			s.Start = min(max(s.Start, s.Min), s.Max)
		}
		return s.run(as)
	}
	return cmd
}

// perSecond is a rate as a flag has it: --target's form, without a profile.
type perSecond float64

func (r *perSecond) String() string { return strconv.FormatFloat(float64(*r), 'f', -1, 64) }
func (r *perSecond) Type() string   { return "rate" }

func (r *perSecond) Set(text string) error {
	v, err := spec.ParseRate(text)
	*r = perSecond(v)
	return err
}

// searching is a search that is asked for. It does its cells as kvbench run does, implementing [search.Runner].
type searching struct {
	search.Config
	app    *app
	what   *specFlags
	bench  bench // what all cells have in common
	quiet  bool
	env    environment
	second context.Context // gives up at once
	record *search.Record
	advice string // what to do about the last cell, if it showed nothing
}

// startPause is about what a run takes beside its window and its warm-up, until it has been seen.
const startPause = 5 * time.Second

// defaultWarmup is that of each cell, so that it shows little of the one before.
const defaultWarmup = "3s"

// check finds what is wrong before anything is started.
func (s *searching) check() error {
	for flag, why := range map[string]string{"target": "the search sets it: use --start, --min and --max", "duration": "use --cell and --verify", "operations": "use --cell"} {
		if s.what.flags.Changed(flag) {
			return fmt.Errorf("--%s: %s", flag, why)
		}
	}
	slo := &s.bench.limits.SLO
	if len(*slo) == 0 {
		return errors.New("within which objectives? give one with --slo, as in --slo 'READ response p99 < 5ms', or --slo-file")
	}
	s.env = environment{lookup: s.app.env}
	cell, err := s.cell(s.Start, s.Cell)
	if err != nil {
		return err
	}
	if err := objective.Check(*slo, true); err != nil {
		return fmt.Errorf("--slo %w", err)
	}
	for _, o := range []objective.Objective{{Kind: objective.AllKinds, Metric: objective.Errors, Limit: 0.001}, {Kind: objective.AllKinds, Metric: objective.Share, Limit: 0.99}} {
		if !has(*slo, o) {
			*slo = append(*slo, o)
		}
	}
	for _, w := range cell.Warnings {
		fmt.Fprintln(s.app.stderr, "kvbench: "+printable.Text(w))
	}
	s.Clock, s.Overhead = clock.Since(time.Now()), cell.Warmup+startPause
	return errors.Join(s.Config.Check(), printableText("--label", s.bench.label), printableText("--note", s.bench.note))
}

// has tells whether one of the objectives is on the same as this one.
func has(all []objective.Objective, o objective.Objective) bool {
	for _, other := range all {
		if other.Kind == o.Kind && other.Metric == o.Metric {
			return true
		}
	}
	return false
}

// cell is what a run at a rate does.
func (s *searching) cell(rate float64, length time.Duration) (*spec.Spec, error) {
	const where = "kvbench search"
	pairs := []spec.Pair{
		{Key: "dotransactions", Value: "true", Where: where},
		{Key: "target", Value: strconv.FormatFloat(rate, 'f', -1, 64), Where: where},
		{Key: "maxexecutiontime", Value: length.String(), Where: where},
		{Key: "operationcount", Value: "0", Where: where},
	}
	parsed, err := s.what.parse(s.env.get, pairs...)
	if err == nil && parsed.IsDefault("warmuptime") {
		parsed, err = s.what.parse(s.env.get, append(pairs, spec.Pair{Key: "warmuptime", Value: defaultWarmup, Where: where})...)
	}
	return parsed, err
}

func (s *searching) run(asJSON bool) error {
	a := s.app
	if err := s.check(); err != nil {
		return usage(err)
	}
	s.record = search.NewRecord(&s.Config)
	r := s.record
	r.Start = time.Now()
	r.ID, r.Label, r.Note = "search-"+results.NewRunID(r.Start), s.bench.label, s.bench.note
	r.Command, r.Versions = commandLine(s.env.found, a.args), map[string]string{"kvbench": version, "go": runtime.Version()}
	for _, o := range s.bench.limits.SLO {
		r.Objectives = append(r.Objectives, o.String())
	}
	s.bench.out = filepath.Join(s.bench.out, r.ID)
	s.Seen = s.seen
	first, second, release := a.interruptible()
	defer release()
	s.second = second
	s.say("search %s: %s; runs of %v, the answer verified for %v, within %v", s.bench.out, strings.Join(r.Objectives, ", "), s.Cell, s.Verify, s.Budget)
	found, err := search.Run(first, s.Config, s)
	if len(found.Cells) == 0 {
		if found.Reason == search.Interrupted {
			err = exitcode.With(exitcode.Interrupted, errors.New("interrupted before anything was measured"))
		}
		return err
	}
	if written := s.keep(found); written != nil {
		err = errors.Join(err, written)
	}
	if err != nil {
		fmt.Fprintln(a.stderr, "kvbench: "+printable.Text(err.Error()))
	}
	s.say("results: %s (%v)", s.bench.out, time.Duration(r.TookS*1e9).Round(time.Second))
	var shown error
	if asJSON {
		shown = writeJSON(a.stdout, r)
	} else {
		_, shown = fmt.Fprintln(a.stdout, printable.Text(r.Text))
	}
	if shown != nil {
		return shown
	}
	if code := searchCode(found.Reason, err); code != exitcode.Valid {
		return &exitcode.Error{Code: code}
	}
	return nil
}

// searchCode is what a search exits with.
func searchCode(reason search.Reason, err error) int {
	switch {
	case reason == search.Interrupted:
		return exitcode.Interrupted
	case err != nil:
		return exitcode.Of(err)
	case reason == search.Found || reason == search.AtMax:
		return exitcode.Valid
	case reason == search.BelowMin:
		return exitcode.SLO
	}
	return exitcode.Degraded
}

// keep writes the record.
func (s *searching) keep(found *search.Result) error {
	s.record.Take(found)
	s.record.TookS = time.Since(s.record.Start).Round(time.Millisecond).Seconds()
	s.record.Text = answer(found, &s.Config, s.advice)
	if err := os.MkdirAll(s.bench.out, 0o777); err != nil {
		return err
	}
	return s.record.Write(s.bench.out)
}

// seen keeps and shows what is known after a cell.
func (s *searching) seen(found *search.Result) error {
	cell := found.Cells[len(found.Cells)-1]
	line := fmt.Sprintf("%3d  %10s for %-4v %-7s", len(found.Cells), units.Rate(cell.Rate), cell.Length, cell.State)
	if cell.Why != "" {
		line += "  " + cell.Why
	}
	if found.Low > 0 && found.High > 0 {
		line += fmt.Sprintf("  → %s", between(found))
	}
	s.say("%s", line)
	return s.keep(found)
}

func (s *searching) say(format string, args ...any) {
	if !s.quiet {
		fmt.Fprintln(s.app.stderr, printable.Text(fmt.Sprintf(format, args...)))
	}
}

// Run does a cell.
func (s *searching) Run(ctx context.Context, rate float64, length time.Duration) (outcome search.Outcome, err error) {
	cell, err := s.cell(rate, length)
	if err != nil {
		return outcome, usage(err)
	}
	if length == s.Verify && length > s.Cell {
		s.say("     %10s for %v, to verify it", units.Rate(rate), length)
	}
	summaries, err := s.bench.perform(ctx, s.second, cell, s.bench.again("run", cell.Written()))
	if len(summaries) == 0 {
		if err == nil {
			err = errors.New("nothing was measured")
		}
		return outcome, err
	}
	outcome.Run = summaries[0].RunID
	if exitcode.Of(err) == exitcode.Interrupted {
		return outcome, err
	}
	measured, unread := analysis.Load(summaries[0].Dir)
	if unread != nil {
		return outcome, errors.Join(err, unread)
	}
	report := measured.Report()
	if v := report.Verdict; v.Code == exitcode.Wrong {
		return outcome, exitcode.With(v.Code, errors.New(v.Text))
	}
	held, client, why := report.Held()
	outcome.Why, s.advice = why, report.Advice()
	switch {
	case client:
		outcome.State = search.Client
	case held == objective.Kept && err != nil: // the coordinator saw more than the results show
		outcome.State, outcome.Why = search.Unknown, err.Error()
	default:
		outcome.State = search.State(held.String())
	}
	return outcome, nil
}

// between is the interval of what is known, in words.
func between(r *search.Result) string {
	return fmt.Sprintf("between %s and %s", units.Rate(r.Low), units.Rate(r.High))
}

// answer is what a search found, or why it did not, in words. advice is what to do if its last runs showed nothing.
func answer(r *search.Result, c *search.Config, advice string) string {
	verified := "; no rate is verified"
	if r.Verified > 0 {
		verified = fmt.Sprintf("; %s were held for %v", units.Rate(r.Verified), c.Verify)
	}
	known := "nothing is known of what is held" + verified
	switch {
	case r.Low > 0 && r.High > 0:
		known = "the highest rate that is held lies " + between(r) + verified
	case r.Low > 0:
		known = fmt.Sprintf("%s or more are held%s", units.Rate(r.Low), verified)
	case r.High > 0:
		known = fmt.Sprintf("less than %s are held", units.Rate(r.High))
	}
	why := ""
	if r.Why != "" {
		why = ": " + r.Why
	}
	switch r.Reason {
	case search.Found, "":
		return known
	case search.AtMax:
		return known + "; that is the highest rate that was to be tried (--max)"
	case search.BelowMin:
		return fmt.Sprintf("%s, the lowest rate that was to be tried (--min), are not held: %s", units.Rate(c.Min), lowestBroken(r))
	case search.ByClient:
		return known + "; no answer, the client is the limit" + why + "\nuse more workers, on machines that nothing else needs, more --threads, or --driver stream, and search again"
	case search.ByBudget:
		return known + fmt.Sprintf("; the budget of %v was used up before more was found%s", c.Budget, why)
	case search.ByUnknown:
		if advice != "" {
			advice = "\n" + advice
		}
		return known + "; no answer, one run after another showed nothing" + why + advice
	case search.Interrupted:
		return "interrupted; so far, " + known
	}
	return known + "; the search ended" + why
}

// lowestBroken says why the lowest rate was not held.
func lowestBroken(r *search.Result) (why string) {
	lowest := 0.0
	for _, c := range r.Cells {
		if c.State == search.Broken && (lowest == 0 || c.Rate <= lowest) {
			lowest, why = c.Rate, c.Why
		}
	}
	return why
}
