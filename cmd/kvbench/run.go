// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvbench/kvbench/analysis/render"
	"github.com/kvbench/kvbench/internal/coordinator"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/liveview"
	"github.com/kvbench/kvbench/internal/objective"
	"github.com/kvbench/kvbench/internal/printable"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/spec"
)

const fleetHelp = `
The workers are those named by --workers, or the pods found by --kube, or else
--local ones inside this process. Properties are YCSB's and go-ycsb's: -w names a
workload or a file, -p and flags win over it, and tikvbench's variables (NUM_THREADS,
TARGET_IOPS, BENCH_TYPE, …) stand between the two.

Ctrl-C stops the load on every worker and reports what was measured; a second one
gives up at once. On a terminal the run is shown while it goes on: q stops it, + and - change
the target of a paced run by a tenth, ? says more. Standard output carries the report alone.`

func (a *app) loadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "load",
		GroupID: "load",
		Short:   "Insert the records of a workload, every one exactly once",
		Long: `Insert the records of a workload, every one exactly once, however many workers and threads there
are. A load that was broken off goes on where it stood when it is started again; one that is
complete is left alone, unless -p reload=true. When neither is said, a worker has 32 calls in
flight, of 100 records each.
` + fleetHelp,
		Example: `  kvbench load -w read -p recordcount=100000 --workers 127.0.0.1:7070,127.0.0.1:7071
  kvbench load -w a -p recordcount=10m --threads 200 --batch 20 --kube
  kvbench load tikv -P workloads/workloada -p tikv.pd=127.0.0.1:2379     as with go-ycsb`,
		Args: tikvAlone,
	}
	b := a.benchFlags(cmd, spec.Pair{Key: "dotransactions", Value: "false", Where: "kvbench load"})
	addOnLoss(cmd.Flags(), &b.limits)
	b.split.add(cmd.Flags())
	cmd.Flags().BoolVar(&b.verify, "verify", false, "afterwards scan the table: every record must be there and right, and nothing else (kvbench verify)")
	return cmd
}

func (a *app) verifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "verify",
		GroupID: "load",
		Short:   "Scan a table: every record of a load must be there and right, and nothing else",
		Long: `Scan a table with all workers, count its rows and check every one: its shape, and with
dataintegrity=true its content. If that does not account for every record, each one is looked up,
to tell which are missing. Properties must be those of the load. It exits with 6 if anything is wrong.
` + fleetHelp,
		Example: `  kvbench verify -w read -p recordcount=100000 --threads 16 --workers 127.0.0.1:7070,127.0.0.1:7071`,
		Args:    tikvAlone,
	}
	a.benchFlags(cmd, spec.Pair{Key: "verify", Value: spec.ByScan, Where: "kvbench verify"})
	return cmd
}

func (a *app) runCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "run",
		GroupID: "load",
		Short:   "Run a workload on a fleet and report what the cluster did",
		Long:    "Run a workload on a fleet of workers, and report what the cluster did with it.\n" + fleetHelp,
		Example: `  kvbench run -w mixed --threads 50 --target 20000 --duration 60s --workers 127.0.0.1:7070,127.0.0.1:7071
  kvbench run -w read --local 3 --pd 127.0.0.1:2379
  BENCH_TYPE=read TARGET_IOPS=1000000 NUM_THREADS=800 RUNTIME=20m kvbench run -w tikvbench --kube
  kvbench run -w a --target 20000 --slo 'READ response p99 < 5ms' --slo 'errors < 0.1%' --slo 'rate >= 99%'
  kvbench run -w a --target 20000 --slo-file objectives --abort-on-slo 30s
  kvbench run -w mixed --target 20000 --duration 20m --kube --probe          and kill a store meanwhile
  kvbench run -w a --json >report.json`,
		Args: tikvAlone,
	}
	b := a.benchFlags(cmd, spec.Pair{Key: "dotransactions", Value: "true", Where: "kvbench run"})
	cmd.Flags().DurationVar(&b.settle, "settle", 0, "wait up to so long until the cluster has come to rest (kvbench settle), then begin in any case")
	addLimits(cmd.Flags(), &b.limits)
	addOnLoss(cmd.Flags(), &b.limits)
	addObjectives(cmd.Flags(), &b.limits.SLO)
	cmd.Flags().DurationVar(&b.abort, "abort-on-slo", 0, "end the run when an objective has been broken for so long without a break, by the last 10 s at each moment; 0: never")
	cmd.Flags().BoolVar(&b.verifyWrites, "verify-writes", false, "afterwards read back every write that was acknowledged")
	b.besides.add(cmd.Flags())
	return cmd
}

// The bounds of a lease. A coordinator that is busy copying must not lose it.
const (
	minLease = 15 * time.Second
	maxLease = 24 * time.Hour
)

// addLimits adds what a run that is still valid may lack. They are of runs alone: a load of which a worker is lost is not complete, and a
// verification has not seen everything.
func addLimits(f *pflag.FlagSet, l *results.Limits) {
	f.IntVar(&l.TolerateLost, "tolerate-lost", 0, "so many workers may be lost in a run that is still valid")
	f.Var(&share{&l.ErrorShare}, "max-errors", "so many operations may fail in a run that is still valid: `share`, as in 1% or 0.01 (default 0.1%, or what --slo says of errors)")
	f.Var(&share{&l.MissShare}, "max-misses", "so many may find no value: `share` (default 0.1%; no limit if the workload deletes, or rows have a ttl)")
}

// addOnLoss adds --on-loss, of what can go on without a worker.
func addOnLoss(f *pflag.FlagSet, l *results.Limits) {
	f.Var(&onLoss{&l.StopOnLoss}, "on-loss", "what the other workers do when one is lost, beyond --tolerate-lost: `continue|stop`")
}

// onLoss is the value of --on-loss.
type onLoss struct{ stop *bool }

func (o *onLoss) Type() string { return "continue|stop" }

func (o *onLoss) String() string {
	if o.stop != nil && *o.stop {
		return "stop"
	}
	return "continue"
}

func (o *onLoss) Set(text string) error {
	if text != "continue" && text != "stop" {
		return errors.New("want continue or stop")
	}
	*o.stop = text == "stop"
	return nil
}

// bench is a run that is asked for.
type bench struct {
	app    *app
	what   *specFlags
	fleet  *fleetFlags
	phase  spec.Pair
	out    string
	report reportFlags
	label  string
	note   string
	quiet  bool
	detach bool
	lease  time.Duration
	limits results.Limits

	abort        time.Duration // an objective that is broken for so long ends a run; 0: none does
	split        splitting     // the table, before a load
	settle       time.Duration // the cluster is waited for so long before a run
	verify       bool          // the table, after a load
	verifyWrites bool          // after a run
	besides      besides       // a run

	runID string // empty: a new one
	aside *aside // nil: nothing is done beside a run
}

// again is the command that does a run of these properties on the same fleet.
func (b *bench) again(verb string, properties map[string]string) string {
	args := []string{verb}
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		if key != "dotransactions" { // the verb says it
			args = append(args, "-p", key+"="+properties[key])
		}
	}
	return strings.TrimSpace(commandLine(nil, args) + " " + b.fleet.given())
}

func (a *app) benchFlags(cmd *cobra.Command, phase spec.Pair) *bench {
	f := cmd.Flags()
	f.SortFlags = false
	b := &bench{app: a, phase: phase}
	b.what = addSpecFlags(f)
	addYCSBFlags(f)
	b.fleet = addFleetFlags(f, true)
	f.StringVar(&b.out, "out", "results", "`folder` that gets a folder for the results of each run")
	f.BoolVar(&b.quiet, "quiet", false, "show no progress")
	f.StringVar(&b.label, "label", "", "`name` for the run in lists and reports, the same for runs that belong together")
	f.StringVar(&b.note, "note", "", "`text` to keep with the results")
	b.report.add(cmd, render.Reports)
	f.BoolVar(&b.detach, "detach", false, "start the load and leave; kvbench collect fetches the results, kvbench attach leads it")
	f.DurationVar(&b.lease, "lease", minLease, "after so long a silence of this coordinator workers stop; until then kvbench attach can lead the run")
	cmd.RunE = func(*cobra.Command, []string) error { return b.run() }
	return b
}

// do does what is asked for, and what is to follow it. An error may be none: that
// there is nothing to do.
func (b *bench) do(ctx context.Context, fleet *coordinator.Fleet, job coordinator.Job) ([]*coordinator.Summary, error) {
	if job.Spec.Phase == spec.Verify {
		return fleet.Verify(ctx, job)
	}
	var all []*coordinator.Summary
	if err := b.split.do(ctx, fleet, &job); err != nil {
		return nil, err
	}
	if b.settle > 0 {
		done, err := fleet.Settle(ctx, job.Spec, b.settle, job.Warn)
		if err != nil && exitcode.Of(err) != exitcode.Degraded {
			return nil, err
		}
		job.Warn(done) // a run on a cluster that is not settled is marked as one
	}
	endProbe, err := b.besides.begin(ctx, &job, b.fleet.given() == "")
	if err != nil {
		return nil, err
	}
	ended := b.aside.begin(ctx, fleet, &job)
	summary, err := fleet.Run(ctx, job)
	err = errors.Join(endProbe(summary), err) // a lost write is graver than what else there may be
	if beside := ended(); err == nil {
		err = beside
	}
	if summary != nil {
		all = append(all, summary)
	}
	if !b.verify || exitcode.Of(err) != exitcode.Valid {
		return all, err
	}
	if err != nil {
		job.Warn(err.Error())
	}
	verified, err := fleet.Verify(ctx, job)
	return append(all, verified...), err
}

func (b *bench) run() error {
	a := b.app
	extra := []spec.Pair{b.phase}
	if b.verifyWrites {
		extra = append(extra, spec.Pair{Key: "verifywrites", Value: "true", Where: "--verify-writes"})
	}
	env := environment{lookup: a.env}
	s, err := b.what.parse(env.get, extra...)
	if err != nil {
		return usage(err)
	}
	if b.lease < minLease || b.lease > maxLease {
		return usage(fmt.Errorf("--lease %v: want %v to %v", b.lease, minLease, maxLease))
	}
	if b.detach && (b.verify || s.VerifyWrites) {
		return usage(errors.New("--detach leaves nobody to verify: use kvbench verify when the load has ended"))
	}
	if b.verify && s.Row.Format == spec.Balance {
		return usage(errors.New("--verify: balances are verified by their sum, which runs read: kvbench run -w bank"))
	}
	if err := b.besides.check(s, b.detach); err != nil {
		return usage(err)
	}
	if b.abort != 0 {
		if err := b.checkAbort(); err != nil {
			return usage(err)
		}
		b.limits.AbortS = b.abort.Seconds()
	}
	if err := objective.Check(b.limits.SLO, s.Paced()); err != nil {
		return usage(fmt.Errorf("--slo %w", err))
	}
	if err := errors.Join(b.split.check(), printableText("--label", b.label), printableText("--note", b.note)); err != nil {
		return usage(err)
	}
	if err := b.report.check(); err != nil {
		return err
	}
	for _, w := range s.Warnings {
		fmt.Fprintln(a.stderr, "kvbench: "+printable.Text(w))
	}
	first, second, release := a.interruptible()
	defer release()
	began := time.Now()
	summaries, err := b.perform(first, second, s, commandLine(env.found, a.args))
	if b.detach && len(summaries) > 0 {
		a.goesOn(summaries[0].RunID, b.fleet.given())
		return err
	}
	return a.conclude(summaries, err, time.Since(began), b.quiet, &b.report)
}

// goesOn says what can be done with a run that nobody leads.
func (a *app) goesOn(run, fleet string) {
	fmt.Fprintf(a.stderr, "run %s goes on by itself; fetch it with: kvbench collect %[1]s %[2]s\nor lead it with: kvbench attach %[1]s %[2]s\n", run, fleet)
}

// perform connects to the fleet and does with a spec what is asked for. first stops it, second gives it up;
// command is what does the same again. There are no summaries of what did not begin.
func (b *bench) perform(first, second context.Context, s *spec.Spec, command string) ([]*coordinator.Summary, error) {
	log := slog.New(slog.NewTextHandler(b.app.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	fleet, disconnect, err := b.fleet.connect(first, s.Clients, log)
	if err != nil {
		return nil, err
	}
	job := coordinator.Job{
		Spec:       s,
		RunID:      b.runID,
		Out:        b.out,
		Versions:   map[string]string{"kvbench": version, "go": runtime.Version()},
		Command:    command,
		Label:      b.label,
		Note:       b.note,
		Limits:     b.limits,
		FleetFlags: b.fleet.given(),
		Detach:     b.detach,
		Lease:      b.lease,
		Abandon:    second.Done(),
	}
	summaries, err := b.app.lead(fleet, job, b.quiet, func(job coordinator.Job) ([]*coordinator.Summary, error) { return b.do(first, fleet, job) })
	return summaries, errors.Join(err, disconnect())
}

// checkAbort tells whether a broken objective can end the run.
func (b *bench) checkAbort() error {
	switch {
	case b.abort < time.Second || b.abort > maxLease:
		return fmt.Errorf("--abort-on-slo %v: want 1s to %v", b.abort, maxLease)
	case len(b.limits.SLO) == 0:
		return errors.New("--abort-on-slo: there is no objective: give one with --slo or --slo-file")
	case b.detach:
		return errors.New("--abort-on-slo: --detach leaves nobody to judge the run while it goes on")
	}
	return nil
}

// lead shows a run while it is led, and lets the keyboard steer it.
func (a *app) lead(fleet *coordinator.Fleet, job coordinator.Job, quiet bool, do func(coordinator.Job) ([]*coordinator.Summary, error)) ([]*coordinator.Summary, error) {
	steer := newSteering(a, fleet)
	view := liveview.New(a.stdin, a.console, liveview.Control{Stop: steer.stop, Leave: steer.leave, Scale: steer.scale})
	if !quiet {
		job.Progress = func(s *coordinator.Snapshot) {
			steer.see(s)
			view.Show(s)
		}
	}
	job.Leave = steer.left
	job.Warn = func(text string) { view.Say("kvbench: " + text) }
	steer.say = job.Warn
	summaries, err := do(job)
	view.Close()
	steer.close()
	return summaries, err
}

// conclude reports what was led to its end, and with which error.
func (a *app) conclude(summaries []*coordinator.Summary, err error, took time.Duration, quiet bool, report *reportFlags) error {
	if len(summaries) == 0 {
		return err
	}
	if err != nil {
		fmt.Fprintln(a.stderr, "kvbench: "+printable.Text(err.Error()))
	}
	var dirs []string
	for _, summary := range summaries {
		dirs = append(dirs, summary.Dir)
		if v := summary.Run.Verification; v != nil && v.Bad() == 0 && !quiet {
			fmt.Fprintln(a.stderr, printable.Text(v.Text()))
		}
	}
	if !quiet {
		fmt.Fprintf(a.stderr, "results: %s (%v)\n", strings.Join(dirs, " "), took.Round(100*time.Millisecond))
	}
	// What the coordinator saw beats what the analysis found: an interrupted run is not judged.
	reported := report.write(a, dirs...)
	if code := exitcode.Of(err); code != 0 {
		return &exitcode.Error{Code: code}
	}
	return reported
}

// maxRemark bounds what a user keeps with a run, in bytes.
const maxRemark = 1000

// printableText checks what is shown in lists.
func printableText(flag, text string) error {
	if len(text) > maxRemark || text != printable.Line(text) {
		return fmt.Errorf("%s: want one line of up to %d bytes, without control characters", flag, maxRemark)
	}
	return nil
}
