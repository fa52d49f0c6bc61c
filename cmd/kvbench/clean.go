// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/printable"
	"github.com/kvbench/kvbench/internal/spec"
)

func (a *app) cleanCommand() *cobra.Command {
	var (
		yes bool
		out string
	)
	cmd := &cobra.Command{
		Use:     "clean",
		GroupID: "load",
		Short:   "Remove a table's records and what is remembered of them",
		Long: `Remove all keys of a table, whoever wrote them, and what kvbench remembers of its load, so that a
cluster can be given back as it was. It shows what it would remove and asks; --yes says so beforehand.
Nothing outside of the table is touched; regions that were split stay until the cluster merges them.

One worker of those named by --workers or found by --kube does it, or else one inside this process.`,
		Example: `  kvbench clean --pd 127.0.0.1:2379
  kvbench clean -p table=mine --kube --yes`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.SortFlags = false
	what := addSpecFlags(f)
	fleet := addFleetFlags(f, true)
	f.BoolVar(&yes, "yes", false, "do not ask")
	f.StringVar(&out, "out", "results", "`folder` of results, where manifest=results keeps what is remembered")
	cmd.RunE = func(*cobra.Command, []string) error {
		s, err := what.parse(a.env, spec.Pair{Key: "dotransactions", Value: "false", Where: "kvbench clean"},
			spec.Pair{Key: "threadcount", Value: "1", Where: "kvbench clean"}, spec.Pair{Key: "batch.size", Value: "1", Where: "kvbench clean"})
		if err != nil {
			return usage(err)
		}
		if !yes && !terminal(a.stdin) {
			return usage(errors.New("standard input is no terminal, so nobody can be asked: --yes removes the table without"))
		}
		first, _, release := a.interruptible()
		defer release()
		members, disconnect, err := fleet.connect(first, 0, slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
		if err != nil {
			return err
		}
		say := func(text string) { fmt.Fprintln(a.stderr, "kvbench: "+printable.Text(text)) }
		done, err := members.Clean(first, s, out, false, say)
		if err == nil {
			say("to be removed: " + done)
			if err = a.agreed(yes); err == nil {
				done, err = members.Clean(first, s, out, true, say)
			}
		}
		if err == nil {
			say(done)
		}
		return errors.Join(err, disconnect())
	}
	return cmd
}

// agreed asks whether to go on, unless that has been said.
func (a *app) agreed(yes bool) error {
	if yes {
		return nil
	}
	fmt.Fprint(a.stderr, "Remove all of it? Type yes: ")
	line, _ := bufio.NewReader(a.stdin).ReadString('\n') // without a line the answer is no
	if strings.TrimSpace(line) != "yes" {
		return exitcode.With(exitcode.Interrupted, errors.New("nothing was removed"))
	}
	return nil
}
