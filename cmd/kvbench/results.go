// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/analysis/render"
	"github.com/kvbench/kvbench/internal/dirlock"
	"github.com/kvbench/kvbench/internal/printable"
	"github.com/kvbench/kvbench/internal/results"
)

func (a *app) resultsCommand() *cobra.Command {
	var asJSON, asCSV bool
	cmd := &cobra.Command{
		Use:     "results [DIR]",
		GroupID: "results",
		Short:   "List the runs of a folder; show or remove some",
		Long: `List the runs of a folder (default: results), the oldest first: when, what, with how many workers and threads, the
rate, p99 of all answered operations (response time, if paced), the verdict's exit code and the label. A summary of each run is
kept in its folder, so that a list of hundreds is quick from the second time on.`,
		Example: `  kvbench results
  kvbench results --csv results >runs.csv              a row for each run and kind
  kvbench results --json | jq -r '.runs[] | select(.label == "v8.5") | .dir'
  kvbench results show 20260102-150405-abcdef
  kvbench results rm 20260102-150405-abcdef`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "results"
			if len(args) == 1 {
				dir = args[0]
			}
			return a.listRuns(dir, asJSON, asCSV)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	cmd.Flags().BoolVar(&asCSV, "csv", false, "as CSV: a row for each run and kind, latencies in microseconds")
	cmd.MarkFlagsMutuallyExclusive("json", "csv")
	cmd.AddCommand(a.resultsShowCommand(), a.resultsRemoveCommand())
	return cmd
}

// listRuns lists the runs of a folder; those that cannot be read are named, and the code says so.
func (a *app) listRuns(dir string, asJSON, asCSV bool) error {
	dirs, err := results.Find(dir)
	if err != nil {
		return usage(err)
	}
	all := []*analysis.Summary{}
	var unread []error
	for _, d := range dirs {
		s, err := analysis.SummaryOf(d)
		if err != nil {
			unread = append(unread, fmt.Errorf("%s: %w", d, err))
			continue
		}
		all = append(all, s)
	}
	slices.SortStableFunc(all, func(x, y *analysis.Summary) int { return x.Start.Compare(y.Start) })
	switch {
	case asJSON:
		err = writeJSON(a.stdout, struct {
			Version int                 `json:"version"`
			Runs    []*analysis.Summary `json:"runs"`
		}{analysis.DocumentVersion, all})
	case asCSV:
		err = writeSummaries(a.stdout, all)
	default:
		err = render.Summaries(a.stdout, all, render.Style{Colour: a.colour(a.stdout), Width: columns(a.stdout)})
	}
	return errors.Join(err, usage(errors.Join(unread...)))
}

// writeSummaries writes a row for each run and kind, and one for a run that has none.
func writeSummaries(w io.Writer, all []*analysis.Summary) error {
	out := csv.NewWriter(w)
	rows := [][]string{{"run_id", "start", "phase", "state", "label", "workload", "workers", "threads", "target_ops", "run_ops_per_s", "verdict", "kind", "outcome", "operations", "ops_per_s",
		"service_us_p50", "service_us_p99", "response_us_p50", "response_us_p99"}}
	float := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	for _, s := range all {
		run := []string{s.RunID, s.Start.Format(time.RFC3339), s.Phase, string(s.State), s.Label, s.Workload, strconv.Itoa(s.Workers), strconv.Itoa(s.Threads), float(s.Target), float(s.OpsPerS), strconv.Itoa(s.Verdict.Code)}
		if len(s.Kinds) == 0 {
			rows = append(rows, append(run, make([]string, len(rows[0])-len(run))...))
		}
		for _, k := range s.Kinds {
			row := append(run[:len(run):len(run)], k.Kind, k.Outcome, strconv.FormatInt(k.Operations, 10), float(k.OpsPerS))
			for _, l := range []*analysis.Latency{k.ServiceUS, k.ResponseUS} {
				for _, name := range []string{"p50", "p99"} {
					value := ""
					if m := analysis.MetricNamed(name); l != nil && m.Known(l) {
						value = float(m.Of(l))
					}
					row = append(row, value)
				}
			}
			rows = append(rows, row)
		}
	}
	return out.WriteAll(rows)
}

func (a *app) resultsShowCommand() *cobra.Command {
	var report reportFlags
	var dir string
	cmd := &cobra.Command{
		Use: "show RUN", Short: "Report on a run, named by its id or its folder", Args: cobra.ExactArgs(1), ValidArgsFunction: completeRunDirs,
		RunE: func(_ *cobra.Command, args []string) error {
			return withoutVerdict(report.write(a, runDir(dir, args[0])))
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "results", "`folder` of the runs")
	report.add(cmd, render.Reports)
	return cmd
}

func (a *app) resultsRemoveCommand() *cobra.Command {
	var dir string
	var yes bool
	cmd := &cobra.Command{
		Use: "rm RUN…", Short: "Remove runs, named by their ids or folders, for good", Args: cobra.MinimumNArgs(1), ValidArgsFunction: completeRunDirs,
		Long: `Remove the folders of runs with everything in them. Nothing is removed if one of them is no folder of a run, or is being written.`,
		RunE: func(_ *cobra.Command, args []string) error {
			var dirs []string
			for _, run := range args {
				if d := filepath.Clean(runDir(dir, run)); !slices.Contains(dirs, d) {
					dirs = append(dirs, d)
				}
			}
			return a.removeRuns(dirs, yes)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "results", "`folder` of the runs")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// removeRuns removes all of some folders, or none.
func (a *app) removeRuns(dirs []string, yes bool) (err error) {
	var locks []*os.File
	defer func() {
		for _, l := range locks {
			err = errors.Join(err, l.Close())
		}
	}()
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is no folder", dir)
		}
		if err != nil {
			return usage(fmt.Errorf("nothing is removed: %w; kvbench results lists the runs that there are", err))
		}
		rec, err := results.ReadRun(dir)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s is no folder of a run: there is no %s in it", dir, results.RunFile)
		}
		if err != nil {
			return usage(fmt.Errorf("nothing is removed: %w", err))
		}
		lock, err := dirlock.Take(dir)
		if err != nil {
			return usage(fmt.Errorf("nothing is removed: %s: %w", dir, err))
		}
		locks = append(locks, lock)
		fmt.Fprintln(a.stderr, printable.Line(fmt.Sprintf("%s  %s, %s, %s", dir, rec.Phase, rec.State, rec.Start.Local().Format("2006-01-02 15:04"))))
	}
	if !yes {
		if !terminal(a.stdin) {
			return usage(errors.New("nothing is removed: there is no terminal to ask on; --yes removes without asking"))
		}
		fmt.Fprintf(a.stderr, "remove %d for good? [y/N] ", len(dirs))
		answer, _ := bufio.NewReader(a.stdin).ReadString('\n') // without an answer nothing is removed
		if !slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer))) {
			return usage(errors.New("nothing is removed"))
		}
	}
	for _, dir := range dirs {
		if err := os.RemoveAll(dir); err != nil {
			return usage(err)
		}
	}
	return nil
}

// runDir is the folder of a run that is named by its id in dir, or by its folder.
func runDir(dir, run string) string {
	if results.CheckName(run) == nil {
		if _, err := os.Lstat(filepath.Join(dir, run)); err == nil {
			return filepath.Join(dir, run)
		}
	}
	return run
}
