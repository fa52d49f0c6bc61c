// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/analysis/render"
	"github.com/kvbench/kvbench/internal/coordinator"
)

func (a *app) attachCommand() *cobra.Command {
	var out string
	var quiet bool
	var report reportFlags
	cmd := &cobra.Command{
		Use: "attach RUN", GroupID: "run", Short: "Lead a run that goes on without its coordinator, and report it", Args: cobra.ExactArgs(1), ValidArgsFunction: completeRuns,
		Long: `Lead a run that workers have: one that was started with --detach, or one whose coordinator was killed or
cut off and whose lease (--lease of kvbench run) is not over. It is shown while it goes on, Ctrl-C stops it
on every worker, and it ends with the report and exit code that its own coordinator would have ended with.
The key d leaves a run that was started with --detach, and lets it go on; one with a lease would end.
It need not be the machine that started the run. Workers that do not answer count as lost until they do. A run
that has ended meanwhile is collected, and so judged as it ended.

It keeps out of a folder that a run writes into: a coordinator that still lives keeps the lead.`,
		Example: "  kvbench attach 20260102-150405-abcdef --workers 127.0.0.1:7070,127.0.0.1:7071\n  kvbench attach 20260102-150405-abcdef --kube",
	}
	f := cmd.Flags()
	f.SortFlags = false
	fleet := addFleetFlags(f, false)
	f.StringVar(&out, "out", "results", "`folder` that has or gets the run's folder")
	f.BoolVar(&quiet, "quiet", false, "show no progress")
	report.add(cmd, render.Reports)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if err := report.check(); err != nil {
			return err
		}
		first, second, release := a.interruptible()
		defer release()
		log := slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
		there, err := fleet.reach(first, log)
		if err != nil {
			return err
		}
		defer there.Close()
		began := time.Now()
		job := coordinator.Job{RunID: args[0], Out: out, FleetFlags: fleet.given(), Abandon: second.Done()}
		summaries, err := a.lead(there, job, quiet, func(job coordinator.Job) ([]*coordinator.Summary, error) {
			summary, err := there.Attach(first, job)
			if summary == nil {
				return nil, err
			}
			return []*coordinator.Summary{summary}, err
		})
		if errors.Is(err, coordinator.ErrLeft) {
			a.goesOn(args[0], fleet.given())
			return nil
		}
		return a.conclude(summaries, err, time.Since(began), quiet, &report)
	}
	return cmd
}
