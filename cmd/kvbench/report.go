// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/internal/exitcode"
)

// reportFlags say how a report is shown.
type reportFlags struct {
	name string
	file string
	json bool
}

func (r *reportFlags) add(f *pflag.FlagSet) {
	f.StringVar(&r.name, "format", string(analysis.FormatText), "of the report: text, json, csv or html")
	f.BoolVar(&r.json, "json", false, "short for --format json")
	f.StringVarP(&r.file, "output", "o", "", "write the report to a `file` instead of standard output")
}

// format checks the flags.
func (r *reportFlags) format() (analysis.Format, error) {
	if r.json {
		r.name = string(analysis.FormatJSON)
	}
	f, err := analysis.ParseFormat(r.name)
	return f, usage(err)
}

// write reports on runs, and ends with the code of their verdict.
func (r *reportFlags) write(a *app, paths ...string) error {
	format, err := r.format()
	if err != nil {
		return err
	}
	runs, err := analysis.LoadAll(paths...)
	if err != nil {
		return usage(err)
	}
	doc := analysis.Summarize(runs...)
	if r.file != "" && r.file != "-" {
		err = usage(doc.WriteFile(r.file, format))
	} else {
		err = doc.Write(a.stdout, format, a.colour(a.stdout))
	}
	if err != nil {
		return err
	}
	if code := doc.Code(); code != exitcode.Valid {
		return &exitcode.Error{Code: code}
	}
	return nil
}

// writeJSON writes one JSON document for scripts.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func (a *app) analyzeCommand() *cobra.Command {
	var report reportFlags
	var verdict bool
	cmd := &cobra.Command{
		Use:     "analyze DIR…",
		GroupID: "results",
		Short:   "Report on results (the same as go run ./cmd/analyzer)",
		Long:    "Report on the results of runs. DIR is the folder of a run, or one that holds those of several.",
		Example: `  kvbench analyze results/20260102-150405-abcdef
  kvbench analyze --format html -o report.html results
  kvbench analyze --json results | jq '.runs[].ops_per_s'
  kvbench analyze --verdict results && echo valid`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeRunDirs,
		RunE: func(_ *cobra.Command, args []string) error {
			err := report.write(a, args...)
			var e *exitcode.Error
			if !verdict && errors.As(err, &e) && e.Err == nil {
				return nil // the report could be made
			}
			return err
		},
	}
	report.add(cmd.Flags())
	cmd.Flags().BoolVar(&verdict, "verdict", false, "exit with the verdict's code (kvbench help exit-codes)")
	return cmd
}

func (a *app) compareCommand() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:               "compare A B",
		GroupID:           "results",
		Short:             "Compare two runs: what changed, and whether it is more than noise",
		Example:           "  kvbench compare results/20260102-150405-abcdef results/20260102-160708-fedcba",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeRunDirs,
		RunE: func(_ *cobra.Command, args []string) error {
			var runs [2]*analysis.Run
			for i, dir := range args {
				r, err := analysis.Load(dir)
				if err != nil {
					return usage(err)
				}
				runs[i] = r
			}
			c := analysis.Compare(runs[0], runs[1])
			if asJSON {
				return writeJSON(a.stdout, c)
			}
			return c.Text(a.stdout, a.colour(a.stdout))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}
