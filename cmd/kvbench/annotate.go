// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/dirlock"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/printable"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/units"
)

func (a *app) annotateCommand() *cobra.Command {
	var at moment
	var folder string
	cmd := &cobra.Command{
		Use: "annotate [RUN] TEXT", GroupID: "run", Short: "Add an event to a run's time line, while it goes on or afterwards", Args: cobra.RangeArgs(1, 2), ValidArgsFunction: completeAnnotated,
		Long: fmt.Sprintf(`Add an event to a run's time line: what was done to the cluster, as "killed tikv-2". Reports show it on all charts
over time, and what the rate, the latencies and the errors were before, during and after it.

With --workers or --kube, all workers of a run that goes on note it, from any machine that reaches them;
RUN is then its id, and may be left out. Otherwise RUN is a run that is over and whose results are here, by
its folder or its id, and --at says when it was. The text is one line of at most %d characters.`, results.MaxAnnotation),
		Example: `  kvbench annotate "killed tikv-2" --kube
  kvbench annotate 20260102-150405-abcdef "killed tikv-2" --workers 127.0.0.1:7070,127.0.0.1:7071
  kvbench annotate results/20260102-150405-abcdef "killed tikv-2" --at 95s
  kvbench annotate results/20260102-150405-abcdef "killed tikv-2" --at 2026-01-02T15:05:40Z`,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Var(&at, "at", "when it was: `time` from the run's start (95s, 1m35s), or of day (2026-01-02T15:05:40Z)")
	f.StringVar(&folder, "dir", "results", "`folder` of the runs that are over")
	fleet := addFleetFlags(f, false)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		text, run := printable.Line(args[len(args)-1]), ""
		if len(args) == 2 {
			run = args[0]
		}
		if err := results.CheckAnnotation(text); err != nil {
			return usage(err)
		}
		if fleet.kube || f.Changed("workers") {
			return a.annotateLive(fleet, run, text, at)
		}
		switch {
		case run == "":
			return usage(errors.New("which run? give --workers or --kube for the one that goes on, or the folder of one that is over"))
		case at.text == "":
			return usage(errors.New("when was it? give --at, or --workers or --kube if the run goes on"))
		}
		return a.annotateOver(runDir(folder, run), text, at)
	}
	return cmd
}

// annotateLive lets the workers of a run that goes on note what happened.
func (a *app) annotateLive(fleet *fleetFlags, run, text string, when moment) error {
	ctx, _, release := a.interruptible()
	defer release()
	f, err := fleet.reach(ctx, slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		return err
	}
	defer f.Close()
	run, now, err := f.Clock(ctx, run)
	if exitcode.Of(err) == exitcode.Usage {
		return fmt.Errorf("%w; one that is over is annotated in its folder: kvbench annotate --at TIME DIR TEXT", err)
	}
	if err != nil {
		return err
	}
	at := now
	if when.text != "" {
		if at = when.on(time.Now().Add(-now)); at < 0 || at > now {
			return usage(fmt.Errorf("--at %s is %s of the run, which is at %s now", when.text, units.Seconds(at.Seconds()), units.Seconds(now.Seconds())))
		}
	}
	n, err := f.Annotate(ctx, run, at, text)
	if n > 0 {
		a.annotated(at, text)
	}
	return err
}

// annotateOver adds to the events of a run that is over.
func (a *app) annotateOver(dir, text string, when moment) error {
	record, err := results.ReadRun(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s is no folder of a run: there is no %s in it; kvbench results lists the runs that there are", dir, results.RunFile)
	}
	if err != nil {
		return usage(err)
	}
	at := when.on(record.Start)
	switch err := results.Annotate(dir, at, text); {
	case errors.Is(err, dirlock.ErrInUse):
		return usage(fmt.Errorf("%s is being written: annotate a run that goes on through its workers, with --workers or --kube", dir))
	case err != nil:
		return usage(err)
	}
	a.annotated(at, text)
	return nil
}

func (a *app) annotated(at time.Duration, text string) {
	fmt.Fprintf(a.stderr, "noted at %s of the run: %s\n", units.Seconds(at.Seconds()), text)
}

// moment is a time that the user has given, on a run's clock or of the day.
type moment struct {
	text  string
	clock time.Duration
	day   time.Time
}

func (m *moment) String() string { return m.text }
func (m *moment) Type() string   { return "time" }

// Set reads seconds (95, 95.5), a duration (1m35s), or a date and time of RFC 3339.
func (m *moment) Set(text string) error {
	parsed := moment{text: text}
	if s, err := strconv.ParseFloat(text, 64); err == nil {
		text = strconv.FormatFloat(s, 'f', -1, 64) + "s"
	}
	var err error
	if parsed.clock, err = time.ParseDuration(text); err != nil {
		if parsed.day, err = time.Parse(time.RFC3339, text); err != nil {
			return errors.New("want a time from the run's start, as 95s or 1m35s, or a date and time with its zone, as 2026-01-02T15:05:40Z")
		}
	}
	*m = parsed
	return nil
}

// on is the moment on the clock of a run that began at zero.
func (m *moment) on(zero time.Time) time.Duration {
	if m.day.IsZero() {
		return m.clock
	}
	return m.day.Sub(zero)
}
