// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/printable"
	"github.com/kvbench/kvbench/internal/spec"
)

func (a *app) settleCommand() *cobra.Command {
	var most time.Duration
	cmd := &cobra.Command{
		Use:     "settle",
		GroupID: "load",
		Short:   "Wait until the cluster has come to rest after a load",
		Long: `Wait until the leaders of the table's regions are balanced, PD is not at work on them, and little
waits for compaction on each store. A run on a freshly loaded cluster measures its compaction as well.
It exits with 4 if that has not come about in time, or cannot be seen, and says why.

One worker of those named by --workers or found by --kube looks, or else one inside this process.`,
		Example: `  kvbench settle --pd 127.0.0.1:2379
  kvbench settle --kube --for 30m && kvbench run -w a --kube`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.SortFlags = false
	what := addSpecFlags(f)
	fleet := addFleetFlags(f, true)
	f.DurationVar(&most, "for", 10*time.Minute, "give up after so long")
	cmd.RunE = func(*cobra.Command, []string) error {
		s, err := what.parse(a.env, spec.Pair{Key: "dotransactions", Value: "true", Where: "kvbench settle"})
		if err == nil && most <= 0 {
			err = fmt.Errorf("--for %v: want a time above 0", most)
		}
		if err != nil {
			return usage(err)
		}
		first, _, release := a.interruptible()
		defer release()
		members, disconnect, err := fleet.connect(first, 0, slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
		if err != nil {
			return err
		}
		say := func(text string) { fmt.Fprintln(a.stderr, "kvbench: "+printable.Text(text)) }
		done, err := members.Settle(first, s, most, say)
		if err == nil {
			say(done)
		}
		return errors.Join(err, disconnect())
	}
	return cmd
}
