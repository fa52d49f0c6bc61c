// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/analysis/render"
	"github.com/kvbench/kvbench/internal/atomicfile"
	"github.com/kvbench/kvbench/internal/coordinator"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/plainfile"
	"github.com/kvbench/kvbench/internal/prices"
	"github.com/kvbench/kvbench/internal/printable"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/study"
	"github.com/kvbench/kvbench/internal/units"
)

// shipped are the studies that kvbench study init writes.
//
//go:embed studies/*.yaml studies/*.csv
var shipped embed.FS

// shippedNames are their names, that of the one with all comments first.
var shippedNames = []string{"threads", "node-killed", "two-clusters", "day", "day.csv"}

func (a *app) studyCommand() *cobra.Command {
	st := &studying{app: a}
	cmd := &cobra.Command{
		Use:     "study [FILE]",
		GroupID: "load",
		Short:   "Runs that answer a question together: a sweep of threads or targets, A against B",
		Long: `Do the runs of a study, one after the other on the same workers, and report on them together: what each combination
of what is varied came to, over all its repeats. The study is a file (kvbench study init writes one, with comments), or flags.
--threads, --target, --batch, --clients and --driver take several values, as does --vary KEY=VALUES of any property:

  1,2,8             these
  1,2,4,…,1024      goes on as it began, times or plus the same; … may be written ...
  10000..200000/10  so many values, evenly spaced, both ends among them

Flags win over the file. A run that fails is kept as failed, and the study goes on; one that was broken off is carried on
by kvbench study continue. It exits with 4 if a run failed, whatever others found.
` + fleetHelp,
		Example: `  kvbench study --threads 1,2,4,...,64 -w read --duration 20s --repeats 3
  kvbench study --target 10000..200000/10 -w mixed --kube
  kvbench study --target 1000,2000,4000,...,64000 -w mixed --slo 'TOTAL response p99 < 20ms' --skip-higher target
  kvbench study --vary fieldlength=100,1000 --driver rawkv,stream --load once -p recordcount=100000
  kvbench study init >study.yaml
  kvbench study study.yaml --dry-run
  kvbench study study.yaml --workers 127.0.0.1:7070,127.0.0.1:7071
  kvbench study continue results/threads-20260102-150405-abcdef --workers 127.0.0.1:7070,127.0.0.1:7071
  kvbench study report results/threads-20260102-150405-abcdef --format html -o study.html`,
		Args: cobra.MaximumNArgs(1),
	}
	f := cmd.Flags()
	f.SortFlags = false
	st.what = addSpecFlags(f)
	f.StringArrayVar(&st.vary, "vary", nil, "`key=values` of a property that is varied, or of workload (repeatable)")
	f.StringVar(&st.rules.name, "name", "", "of the study, and the beginning of its folder's (default: the file's)")
	f.IntVar(&st.rules.repeats, "repeats", 1, "how often each combination is run")
	f.StringVar(&st.rules.order, "order", study.Interleaved, "of the runs of each repeat: interleaved, or random")
	f.DurationVar(&st.rules.pause, "pause", 0, "before every run but the first")
	f.StringVar(&st.rules.load, "load", study.Never, "load the records before the runs: never, once for each cluster and shape of data, or before each run")
	f.StringVar(&st.rules.skip, "skip-higher", "", "varied `property`: once a run breaks an objective, no higher value is run in the same repeat, of what is equal otherwise")
	f.BoolVar(&st.dry, "dry-run", false, "show what would be done, and for how long, and do nothing")
	st.addFleet(cmd)
	f.StringVar(&st.bench.out, "out", "results", "`folder` that gets a folder for the study, with one for each run in it")
	addLimits(f, &st.bench.limits)
	addObjectives(f, &st.bench.limits.SLO)
	cmd.RunE = func(_ *cobra.Command, args []string) error { return st.begin(args) }
	cmd.AddCommand(a.studyInitCommand(), a.studyContinueCommand(), a.studyReportCommand())
	return cmd
}

func (a *app) studyInitCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "init [" + strings.Join(shippedNames, "|") + "]",
		Short: "Write a study file with comments, to begin with, to standard output",
		Long: `Write a study file with comments to standard output:

  threads       from how many threads on more does not help; what each key of a study is
  node-killed   what a store that dies costs, at a steady rate
  two-clusters  which of two clusters is faster
  day           whether objectives are kept through a day's load, of which day.csv has the rates`,
		Example:   "  kvbench study init >study.yaml\n  kvbench study init two-clusters >study.yaml\n  kvbench study init day >day.yaml; kvbench study init day.csv >day.csv",
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		ValidArgs: shippedNames,
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := shipped.ReadFile("studies/" + shippedFile(append(args, shippedNames[0])[0]))
			if err != nil {
				return err
			}
			_, err = a.stdout.Write(text)
			return err
		},
	}
}

// shippedFile is the file of a name.
func shippedFile(name string) string {
	if filepath.Ext(name) != "" {
		return name
	}
	return name + ".yaml"
}

func (a *app) studyContinueCommand() *cobra.Command {
	st := &studying{app: a}
	cmd := &cobra.Command{
		Use:   "continue DIR",
		Short: "Carry on a study that was broken off; what failed is tried again",
		Long: `Carry on a study that was broken off, interrupted or ended early: all runs of its plan that are not done, and those that
failed. The plan is the one that was made at the beginning, whatever has become of the study file. A run that a worker still has, since
its coordinator was killed, is stopped first.`,
		Example:           "  kvbench study continue results/threads-20260102-150405-abcdef --kube",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeStudies,
	}
	cmd.Flags().SortFlags = false
	st.addFleet(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if _, err := st.report.format(); err != nil {
			return err
		}
		s, err := study.Continue(args[0])
		if err != nil {
			return usage(err)
		}
		return st.conduct(s, false)
	}
	return cmd
}

func (a *app) studyReportCommand() *cobra.Command {
	var report reportFlags
	cmd := &cobra.Command{
		Use:               "report DIR",
		Short:             "Report on a study, also while it goes on",
		Example:           "  kvbench study report results/threads-20260102-150405-abcdef --json | jq '.cells[].ops_per_s'",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeStudies,
		RunE: func(_ *cobra.Command, args []string) error {
			if _, err := report.format(); err != nil {
				return err
			}
			s, err := study.Open(args[0])
			if err != nil {
				return usage(err)
			}
			return reportStudy(a, &report, s)
		},
	}
	report.add(cmd, render.Studies)
	return cmd
}

// studying is a study that is asked for.
type studying struct {
	app    *app
	what   *specFlags
	vary   []string
	dry    bool
	bench  bench // what its runs have in common
	report reportFlags
	rules  struct { // flags that win over the file's
		name, order, load, skip string
		repeats                 int
		pause                   time.Duration
	}
	env environment
}

// addFleet adds the flags of every verb that does runs of a study.
func (st *studying) addFleet(cmd *cobra.Command) {
	f := cmd.Flags()
	st.bench.app, st.bench.lease = st.app, minLease
	st.bench.fleet = addFleetFlags(f, true)
	f.BoolVar(&st.bench.quiet, "quiet", false, "show no progress")
	st.report.add(cmd, render.Studies)
	st.env = environment{lookup: st.app.env}
}

// begin makes a new study, and carries it out.
func (st *studying) begin(args []string) error {
	if _, err := st.report.format(); err != nil {
		return err
	}
	file, err := st.file(args)
	if err != nil {
		return usage(err)
	}
	plan, err := file.Plan(st)
	if err != nil {
		return usage(err)
	}
	for _, w := range plan.Warnings {
		fmt.Fprintln(st.app.stderr, "kvbench: "+printable.Text(w))
	}
	limits := st.bench.limits
	limits.SLO = file.SLO
	s := study.Study{
		Name: file.Name, Command: commandLine(st.env.found, st.app.args), Versions: map[string]string{"kvbench": version, "go": runtime.Version()},
		Limits: limits, Rules: file.Rules, Cells: plan.Cells, Steps: plan.Steps,
	}
	if s.Prices, err = st.prices(file); err != nil {
		return usage(err)
	}
	if st.dry {
		return st.show(&s)
	}
	if err := st.report.check(); err != nil {
		return err
	}
	made, err := study.Make(st.bench.out, s, time.Now())
	if err != nil {
		return usage(err)
	}
	return st.conduct(made, true)
}

// file is the study that the arguments and flags describe.
func (st *studying) file(args []string) (*study.File, error) {
	f, err := &study.File{Name: "study", Rules: study.DefaultRules()}, error(nil)
	if len(args) > 0 {
		text, err := plainfile.Read(args[0], study.MaxSize)
		if err != nil {
			return nil, err
		}
		if f, err = study.Parse(filepath.Base(args[0]), text); err != nil {
			return nil, err
		}
		if f.Name == "" {
			f.Name = strings.TrimSuffix(filepath.Base(args[0]), filepath.Ext(args[0]))
		}
	}
	varied, err := st.varied()
	if err != nil {
		return nil, err
	}
	f.Vary = append(f.Vary, varied...)
	if len(st.what.workloads) > 0 {
		f.Workloads = nil
		for _, w := range st.what.workloads {
			f.Workloads = append(f.Workloads, spec.Pair{Key: "workload", Value: w, Where: "-w"})
		}
	}
	given, err := st.what.given()
	if err != nil {
		return nil, err
	}
	for _, d := range f.Vary {
		if i := slices.IndexFunc(given, func(p spec.Pair) bool { return p.Key == d.Key }); i >= 0 {
			return nil, fmt.Errorf("%s: %s is varied by the study (%s)", given[i].Where, d.Key, d.Values[0].Where)
		}
	}
	changed, r := st.what.flags.Changed, &f.Rules
	for flag, take := range map[string]func(){
		"name":        func() { f.Name = st.rules.name },
		"repeats":     func() { r.Repeats = st.rules.repeats },
		"order":       func() { r.Order = st.rules.order },
		"pause":       func() { r.Pause = study.Duration(st.rules.pause) },
		"load":        func() { r.Load = st.rules.load },
		"skip-higher": func() { r.Stop.SkipHigher, f.SkipWhere = st.rules.skip, "--skip-higher" },
	} {
		if changed(flag) {
			take()
		}
	}
	f.SLO = append(f.SLO, st.bench.limits.SLO...)
	return f, r.Check()
}

// prices are the paths of the files of prices, by variant, each of which has been read.
func (st *studying) prices(f *study.File) (map[string]string, error) {
	if given := st.report.prices; given.Prices != nil {
		f.Prices = []spec.Pair{{Value: given.Path, Where: "--prices"}}
	}
	paths := make(map[string]string)
	for _, p := range f.Prices {
		if _, err := prices.ReadFile(p.Value); err != nil {
			return nil, fmt.Errorf("%s: prices: %w", p.Where, err)
		}
		absolute, err := filepath.Abs(p.Value)
		if err != nil {
			return nil, err
		}
		paths[p.Key] = absolute
	}
	return paths, nil
}

// varied is what flags say is varied.
func (st *studying) varied() (all []study.Dimension, err error) {
	add := func(where, key, text string) error {
		values, err := study.Values(text)
		if err != nil {
			return fmt.Errorf("%s %s: %w", where, text, err)
		}
		d := study.Dimension{Key: key}
		for _, v := range values {
			d.Values = append(d.Values, spec.Pair{Key: key, Value: v, Where: where})
		}
		all = append(all, d)
		return nil
	}
	st.what.varied = make(map[string]bool)
	for _, p := range propertyFlags {
		text := *st.what.values[p.flag]
		several := strings.ContainsAny(text, ",…") || strings.Contains(text, "..")
		if !slices.Contains(sweptFlags, p.flag) || !several || strings.Contains(text, "@") {
			continue
		}
		st.what.varied[p.flag] = true
		if err := add("--"+p.flag, p.property, text); err != nil {
			return nil, err
		}
	}
	for _, v := range st.vary {
		key, text, ok := strings.Cut(v, "=")
		if !ok {
			return nil, fmt.Errorf("--vary %s: write --vary key=values", v)
		}
		if err := add("--vary", key, text); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// sweptFlags are those that may have several values.
var sweptFlags = []string{"threads", "target", "batch", "clients", "driver", "arrival"}

// Run makes the spec of a run of what the study says, implementing [study.Resolver].
func (st *studying) Run(workloads []string, pairs []spec.Pair) (*spec.Spec, error) {
	return st.what.parseWith(st.env.get, workloads, pairs, spec.Pair{Key: "dotransactions", Value: "true", Where: "kvbench study"})
}

// Load makes the spec of a load, implementing [study.Resolver].
func (st *studying) Load(pairs []spec.Pair) (*spec.Spec, error) {
	return parseSources(spec.Source{Name: "study", Pairs: append(pairs, spec.Pair{Key: "dotransactions", Value: "false", Where: "kvbench study"})})
}

// show writes what a study is to do.
func (st *studying) show(s *study.Study) error {
	w := tabwriter.NewWriter(printable.Writer(st.app.stdout), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RUN\tREPEAT\tCELL\tWARM-UP AND WINDOW")
	for i, step := range s.Steps {
		length := "ends by count"
		if l := s.Cells[step.Cell].Length(); l > 0 {
			length = l.String()
		}
		fmt.Fprintf(w, "%d\t%d\t%s\t%s\n", i+1, step.Repeat, s.Cells[step.Cell].Title(), length)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(st.app.stdout, "\n"+lengthOf(s))
	return err
}

// lengthOf says how long what is left of a study takes.
func lengthOf(s *study.Study) string {
	least, open := s.Length()
	n := s.Left()
	text := fmt.Sprintf("%d %s, %v at least", n, units.Plural(int64(n), "run", "runs"), least)
	if open > 0 {
		text += fmt.Sprintf(" beside %d that %s by count", open, units.Plural(int64(open), "ends", "end"))
	}
	if key := s.Rules.Stop.SkipHigher; key != "" && n > 0 {
		text += ", less what is skipped above a " + key + " that breaks an objective"
	}
	text += "; to that come some seconds for the start and the end of each"
	if s.Rules.Load != study.Never {
		text += ", and the loads"
	}
	return text
}

// conduct does what is left of a study, and reports on all of it. Of a fresh one that could not begin nothing is kept.
func (st *studying) conduct(s *study.Study, fresh bool) error {
	a := st.app
	say := func(text string) {
		if !st.bench.quiet {
			fmt.Fprintln(a.stderr, printable.Text(text))
		}
	}
	first, second, release := a.interruptible()
	defer release()
	say("study " + s.Dir() + ": " + lengthOf(s))
	err := s.Conduct(first, &studyRunner{studying: st, first: first, second: second, say: say})
	if fresh && !s.Begun() {
		return errors.Join(err, s.Discard())
	}
	err = errors.Join(err, s.Close())
	if err != nil {
		fmt.Fprintln(a.stderr, "kvbench: "+printable.Text(err.Error()))
	}
	if s.Left() > 0 {
		fmt.Fprintf(a.stderr, "%s; carry on with: kvbench study continue %s\n", lengthOf(s), strings.TrimSpace(quoted(s.Dir())+" "+st.bench.fleet.given()))
	}
	reported := reportStudy(a, &st.report, s)
	if code := exitcode.Of(err); code != exitcode.Valid {
		return errors.Join(reported, &exitcode.Error{Code: code})
	}
	return reported
}

// studyRunner does the runs of a study as kvbench load and kvbench run do, implementing [study.Runner]. It connects to
// the fleet anew for each, so that workers may have been replaced.
type studyRunner struct {
	*studying
	first, second context.Context // the latter gives up at once
	say           func(string)
}

func (r *studyRunner) Say(text string) { r.say(text) }

func (r *studyRunner) Load(ctx context.Context, out string, c *study.Cell, again bool) error {
	properties := maps.Clone(c.LoadProperties)
	if again {
		properties["reload"] = "true"
	}
	s, err := spec.ParseMap(properties)
	if err != nil {
		return err
	}
	b := r.bench
	b.out, b.label = out, "load"
	_, err = b.perform(ctx, r.second, s, b.again("load", properties))
	if exitcode.Of(err) == exitcode.Valid {
		return nil // that there is nothing to do may be said as an error
	}
	return err
}

func (r *studyRunner) Run(ctx context.Context, run *study.Run) (v study.Verdict, err error) {
	s, err := run.Cell.Spec()
	if err != nil {
		return v, err
	}
	b := r.bench
	b.out, b.runID, b.limits = run.Out, run.ID, run.Limits
	b.label, b.note = run.Title, fmt.Sprintf("repeat %d", run.Repeat)
	if run.During != nil {
		b.aside = &aside{at: run.At, text: run.Text, do: run.During}
	}
	summaries, err := b.perform(ctx, r.second, s, b.again("run", run.Cell.Properties))
	if len(summaries) == 0 || exitcode.Of(err) == exitcode.Interrupted {
		if err == nil {
			err = errors.New("nothing was measured")
		}
		return v, err
	}
	measured, unread := analysis.Load(summaries[0].Dir)
	if unread != nil {
		return v, errors.Join(err, unread)
	}
	report := measured.Report()
	v.Code, v.Text, v.Broken = report.Verdict.Code, report.Verdict.Text, report.Broken()
	if code := exitcode.Of(err); code != exitcode.Valid { // what the coordinator saw beats what the analysis found
		v.Code, v.Text = code, err.Error()
	}
	return v, nil
}

// Stop ends a run that was broken off, so that the workers are free.
func (r *studyRunner) Stop(ctx context.Context, runID string) error {
	if r.bench.fleet.workers == "" && !r.bench.fleet.kube {
		return nil // local workers ended with their process
	}
	log := slog.New(slog.NewTextHandler(r.app.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	fleet, err := r.bench.fleet.reach(ctx, log)
	if err != nil {
		return err
	}
	defer fleet.Close()
	all, err := fleet.Status(ctx)
	has := func(s coordinator.WorkerStatus) bool {
		return s.Run.GetRunId() == runID && newStatusRow(s).State != "finished"
	}
	if err != nil || !slices.ContainsFunc(all, has) {
		return err
	}
	r.say("run " + runID + " was broken off and goes on: it is stopped")
	_, err = fleet.Stop(ctx, runID, time.Second)
	return err
}

// reportStudy writes the report of a study.
func reportStudy(a *app, report *reportFlags, s *study.Study) error {
	format, err := report.format()
	if err != nil {
		return err
	}
	d := studied(s, pricesOf(a, report, s))
	if format == render.HTML {
		if err := pages(d, s, report.file); err != nil {
			return err
		}
	}
	return report.show(a, func(w io.Writer, style render.Style) error { return render.Study(w, d, format, style) })
}

// pricesOf are the prices of a study's variants: those that the flag names, of all, or those of the study's own files. What a file that
// cannot be read is of costs nobody knows what.
func pricesOf(a *app, report *reportFlags, s *study.Study) map[string]*prices.Prices {
	if p := report.prices.Prices; p != nil {
		return map[string]*prices.Prices{"": p}
	}
	all := make(map[string]*prices.Prices)
	for _, variant := range slices.Sorted(maps.Keys(s.Prices)) {
		p, err := prices.ReadFile(s.Prices[variant])
		if err != nil {
			fmt.Fprintln(a.stderr, "kvbench: "+printable.Text("what the runs cost is not known: "+err.Error()+"; name another file with --prices"))
			continue
		}
		all[variant] = p
	}
	return all
}

// runPage is the page of a run in its folder, to which that of the study leads.
const runPage = "report.html"

// pages writes a page for each run that has none, and the way to it from where the study's page is written.
func pages(d *analysis.Study, s *study.Study, output string) error {
	from, err := filepath.Abs(filepath.Dir(output))
	if err != nil {
		return err
	}
	for _, c := range d.Cells {
		for i := range c.Runs {
			page := filepath.Join(s.RunDir(c.Runs[i].RunID), runPage)
			if _, err := os.Lstat(page); errors.Is(err, fs.ErrNotExist) {
				if err := writePage(page, s.RunDir(c.Runs[i].RunID)); err != nil {
					return err
				}
			}
			absolute, err := filepath.Abs(page)
			if err != nil {
				return err
			}
			way, err := filepath.Rel(from, absolute)
			if err != nil {
				return err
			}
			c.Runs[i].Page = filepath.ToSlash(way)
		}
	}
	return nil
}

func writePage(path, dir string) error {
	run, err := analysis.Load(dir)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := render.Document(&b, analysis.Summarize(run), render.HTML, render.Style{}); err != nil {
		return err
	}
	return atomicfile.Write(path, b.Bytes(), 0o644)
}

// studied summarizes the runs of a study, and compares its variants, which follow each other in its cells.
func studied(s *study.Study, prices map[string]*prices.Prices) *analysis.Study {
	d := analysis.NewStudy(s.ID, s.Name)
	d.Steps, d.Left, d.Skipped, d.Ended = len(s.Steps), s.Left(), s.Skipped(), s.Ended
	var first *analysis.Cell // of those that differ in their variant alone
	var firstRuns []*analysis.Run
	for i := range s.Cells {
		c := &s.Cells[i]
		cell := analysis.NewCell(c.Variant)
		for _, v := range c.Settings {
			if i == 0 {
				d.Varied = append(d.Varied, v.Key)
			}
			cell.Values = append(cell.Values, v.Value)
		}
		runs := measuredRuns(s, i, cell, cmp.Or(prices[c.Variant], prices[""]))
		d.Cells = append(d.Cells, cell)
		switch {
		case first == nil || !slices.Equal(first.Values, cell.Values):
			first, firstRuns = cell, runs
		case len(firstRuns) > 0 && len(runs) > 0:
			d.Versus = append(d.Versus, analysis.NewVersus(first, cell, firstRuns, runs))
		}
	}
	d.Finish()
	return d
}

// measuredRuns adds to a cell what became of its runs, and returns those that count.
func measuredRuns(s *study.Study, number int, cell *analysis.Cell, prices *prices.Prices) (runs []*analysis.Run) {
	for i := range s.Steps {
		step := &s.Steps[i]
		try := step.Last()
		if step.Cell == number && step.Skipped != "" {
			cell.Skipped = append(cell.Skipped, analysis.CellSkip{Repeat: step.Repeat, RunID: step.Skipped, Text: s.SkippedBy(i)})
			continue
		}
		if step.Cell != number || try == nil {
			continue
		}
		switch try.State {
		case study.Failed:
			cell.Fail(analysis.CellRun{RunID: try.RunID, Repeat: step.Repeat, Code: try.Code, Text: try.Why})
		case study.Done:
			run, err := analysis.Load(s.RunDir(try.RunID))
			if err != nil {
				cell.Fail(analysis.CellRun{RunID: try.RunID, Repeat: step.Repeat, Code: exitcode.Degraded, Text: "its results cannot be read: " + err.Error()})
				continue
			}
			run.Price(prices)
			cell.Add(run, step.Repeat)
			runs = append(runs, run)
		}
	}
	return runs
}

// completeStudies offers the folders of studies, where they are by default.
func completeStudies(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	entries, err := os.ReadDir("results")
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	var dirs []string
	for _, e := range entries {
		dir := filepath.Join("results", e.Name())
		if _, err := os.Stat(filepath.Join(dir, study.RecordFile)); err == nil && strings.HasPrefix(dir, typed) {
			dirs = append(dirs, dir)
		}
	}
	if dirs == nil {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return dirs, cobra.ShellCompDirectiveNoFileComp
}
