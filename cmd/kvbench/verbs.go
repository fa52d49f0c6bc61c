// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/analysis/render"
	"github.com/kvbench/kvbench/internal/coordinator"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/printable"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/units"
)

// fleetVerb makes a verb that speaks to workers about a run that they have.
func (a *app) fleetVerb(cmd *cobra.Command, do func(ctx context.Context, f *coordinator.Fleet, args []string) error) *cobra.Command {
	fleet := addFleetFlags(cmd.Flags(), false)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		ctx, _, release := a.interruptible()
		defer release()
		log := slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
		f, err := fleet.reach(ctx, log)
		if err != nil {
			return err
		}
		defer f.Close()
		return do(ctx, f, args)
	}
	return cmd
}

func (a *app) statusCommand() *cobra.Command {
	asJSON := false
	cmd := a.fleetVerb(&cobra.Command{
		Use: "status", GroupID: "run", Short: "What the workers are doing", Args: cobra.NoArgs,
		Example: "  kvbench status --workers 127.0.0.1:7070,127.0.0.1:7071\n  kvbench status --kube --json",
	}, func(ctx context.Context, f *coordinator.Fleet, _ []string) error {
		var rows []statusRow
		all, partly := f.Status(ctx)
		for _, s := range all {
			rows = append(rows, newStatusRow(s))
		}
		if asJSON {
			return errors.Join(partly, writeJSON(a.stdout, rows))
		}
		w := tabwriter.NewWriter(printable.Writer(a.stdout), 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "WORKER\tADDRESS\tSTATE\tRUN\tELAPSED\tOPERATIONS\tERRORS\tRUNS KEPT")
		for _, r := range rows {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.0f s\t%d\t%d\t%d\n", r.Name, r.Address, r.State, r.Run, r.ElapsedS, r.Operations, r.Errors, len(r.Kept))
		}
		return errors.Join(partly, w.Flush())
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}

// statusRow is what is shown of one worker.
type statusRow struct {
	Name       string   `json:"name"`
	Address    string   `json:"address"`
	Version    string   `json:"version"`
	State      string   `json:"state"` // of the active or last run; idle; or unreachable
	Run        string   `json:"run_id,omitempty"`
	ElapsedS   float64  `json:"elapsed_s"`
	Operations int64    `json:"operations"`
	Errors     int64    `json:"errors"`
	Kept       []string `json:"runs_kept"`
	Error      string   `json:"error,omitempty"`
}

func newStatusRow(s coordinator.WorkerStatus) statusRow {
	r := statusRow{Name: s.Name, Address: s.Address, Version: s.Version, State: "idle"}
	switch {
	case s.Err != nil:
		r.State, r.Error = "unreachable", s.Err.Error()
	case s.Run != nil:
		r.State = strings.ToLower(strings.TrimPrefix(s.Run.GetState().String(), "STATE_"))
		r.Run, r.Error = s.Run.GetRunId(), s.Run.GetError()
		r.ElapsedS = time.Duration(s.Run.GetElapsedNanos()).Seconds()
		r.Errors = s.Totals.GetFailed()
		r.Operations = s.Totals.GetOk() + s.Totals.GetNotFound() + s.Totals.GetWrong() + r.Errors
	}
	for _, k := range s.Kept {
		r.Kept = append(r.Kept, k.GetRunId())
	}
	return r
}

func (a *app) stopCommand() *cobra.Command {
	var grace time.Duration
	cmd := a.fleetVerb(&cobra.Command{
		Use: "stop RUN", GroupID: "run", Short: "Stop a run on every worker; what was measured is kept", Args: cobra.ExactArgs(1), ValidArgsFunction: completeRuns,
		Example: "  kvbench stop 20260102-150405-abcdef --workers 127.0.0.1:7070",
	}, func(ctx context.Context, f *coordinator.Fleet, args []string) error {
		n, err := f.Stop(ctx, args[0], grace)
		if n > 0 {
			fmt.Fprintf(a.stderr, "stopped on %d workers\n", n)
		}
		return err
	})
	cmd.Flags().DurationVar(&grace, "grace", time.Second, "how long calls in flight may still take")
	return cmd
}

func (a *app) targetCommand() *cobra.Command {
	var run string
	cmd := a.fleetVerb(&cobra.Command{
		Use: "target OPS", GroupID: "run", Short: "Change the target of a run that goes on, in operations a second", Args: cobra.MatchAll(cobra.ExactArgs(1), isRate),
		Example: "  kvbench target 50000 --workers 127.0.0.1:7070,127.0.0.1:7071",
	}, func(ctx context.Context, f *coordinator.Fleet, args []string) error {
		target, err := spec.ParseRate(args[0])
		if err != nil {
			return usage(err)
		}
		at, err := f.SetTarget(ctx, run, target)
		if err == nil || exitcode.Of(err) == exitcode.Degraded {
			fmt.Fprintf(a.stderr, "%s operations a second from %v of the run on\n", units.Grouped(target), at.Round(time.Millisecond))
		}
		return err
	})
	cmd.Flags().StringVar(&run, "run", "", "`id` of the run (default: the one that the workers have)")
	return cmd
}

// isRate looks at a target before any worker is asked.
func isRate(_ *cobra.Command, args []string) error {
	if _, err := spec.ParseRate(args[0]); err != nil {
		return fmt.Errorf("target %s %w, in operations a second over the fleet", args[0], err)
	}
	return nil
}

func (a *app) collectCommand() *cobra.Command {
	var out string
	var fresh bool
	var report reportFlags
	cmd := a.fleetVerb(&cobra.Command{
		Use: "collect RUN", GroupID: "results", Short: "Fetch a run's results from the workers, and report them", Args: cobra.ExactArgs(1), ValidArgsFunction: completeRuns,
		Long: `Fetch what the workers keep of a run: one that was started with --detach or by a Job, or whose
coordinator was lost. It need not be the machine that started the run. What is there already is completed,
or with --fresh copied anew. It keeps out of a folder that a run or another collect writes into.`,
		Example: "  kvbench collect 20260102-150405-abcdef --kube",
	}, func(ctx context.Context, f *coordinator.Fleet, args []string) error {
		dir, partly := f.Collect(ctx, args[0], out, fresh)
		if dir == "" {
			return partly
		}
		fmt.Fprintln(a.stderr, "results:", dir)
		if err := report.write(a, dir); partly == nil {
			return err
		}
		return partly // of which the report cannot know
	})
	cmd.Flags().StringVar(&out, "out", "results", "`folder` that has or gets the run's folder")
	cmd.Flags().BoolVar(&fresh, "fresh", false, "copy all anew into a folder that has been damaged")
	report.add(cmd, render.Reports)
	return cmd
}
