// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/analysis/foreign"
	"github.com/kvbench/kvbench/analysis/render"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/objective"
	"github.com/kvbench/kvbench/internal/prices"
	"github.com/kvbench/kvbench/internal/printable"
)

// reportFlags say how a report is shown, and where.
type reportFlags struct {
	formats []render.Format // from which to choose
	name    string
	file    string
	json    bool

	percentiles percentiles
	slo         []objective.Objective // beside those of the runs
	unit        foreign.Unit          // of interval logs that do not tell theirs
	prices      prices.Flag
}

// percentiles is the value of the flag that names those that a report shows.
type percentiles []float64

func (p *percentiles) String() string { return "" }
func (p *percentiles) Type() string   { return "list" }

func (p *percentiles) Set(text string) (err error) {
	*p, err = analysis.ParsePercentiles(text)
	return err
}

// add adds the flags for a report that has these formats.
func (r *reportFlags) add(cmd *cobra.Command, formats []render.Format) {
	r.formats = formats
	f := cmd.Flags()
	f.StringVar(&r.name, "format", string(render.Text), "of the report: "+render.List(formats))
	f.BoolVar(&r.json, "json", false, "short for --format json")
	if slices.Contains(formats, render.HGRM) { // one run's latencies, in all their detail
		f.Var(&r.percentiles, "percentiles", "of latencies to show, as in 50,75,99,99.9 (default 50,90,95,99,99.9,99.99)")
	}
	f.Var(&r.prices, "prices", "a YAML `file` of what the nodes of cluster and clients cost (kvbench help prices): adds what a million operations cost, and a month")
	f.StringVarP(&r.file, "output", "o", "", "write the report to a `file` instead of standard output; with hgrm a folder, which gets a file for each kind and time")
	_ = cmd.RegisterFlagCompletionFunc("format", fixed(strings.Split(render.List(formats), ", ")...)) // fails only for a flag that is not there
}

// format checks the flags.
func (r *reportFlags) format() (render.Format, error) {
	if r.json {
		r.name = string(render.JSON)
	}
	f, err := render.ParseFormat(r.name, r.formats)
	return f, usage(err)
}

// check finds, before anything is started, what would keep a report from being written at the end.
func (r *reportFlags) check() error {
	if _, err := r.format(); err != nil {
		return err
	}
	if r.file == "" || r.file == "-" || r.name == string(render.HGRM) {
		return nil
	}
	info, err := os.Stat(r.file)
	fresh := errors.Is(err, fs.ErrNotExist)
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return nil // a pipe would wait for its reader
	}
	file, err := os.OpenFile(r.file, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return usage(fmt.Errorf("--output: %w", err))
	}
	err = file.Close()
	if fresh {
		err = errors.Join(err, os.Remove(r.file))
	}
	return usage(err)
}

// write reports on runs, and ends with the code of their verdict.
func (r *reportFlags) write(a *app, paths ...string) error {
	format, err := r.format()
	if err != nil {
		return err
	}
	set, err := analysis.LoadAny(foreign.Options{Unit: r.unit, Percentiles: r.percentiles}, paths...)
	if err != nil {
		return usage(err)
	}
	if err := cmp.Or(set.Demand(r.slo...), set.Price(r.prices.Prices)); err != nil {
		return usage(err)
	}
	doc := set.Summarize(r.percentiles)
	if err := render.Check(doc, format); err != nil {
		return usage(err)
	}
	if format == render.HGRM {
		folder := r.file
		if folder == "-" {
			folder = ""
		}
		if err := render.Spectra(a.stdout, folder, set.Runs...); err != nil {
			return usage(err)
		}
	} else if err := r.show(a, func(w io.Writer, style render.Style) error { return render.Document(w, doc, format, style) }); err != nil {
		return err
	}
	if code := doc.Code(); code != exitcode.Valid {
		return &exitcode.Error{Code: code}
	}
	return nil
}

// addUnit adds the flag for the unit of what other tools have measured.
func addUnit(cmd *cobra.Command, unit *foreign.Unit) {
	cmd.Flags().Var(unit, "unit", "of the values in HdrHistogram interval logs that do not tell theirs: "+strings.Join(foreign.UnitNames(), ", "))
	_ = cmd.RegisterFlagCompletionFunc("unit", fixed(foreign.UnitNames()...)) // fails only for a flag that is not there
}

// show writes to where the flags say.
func (r *reportFlags) show(a *app, write func(w io.Writer, style render.Style) error) error {
	if r.file == "" || r.file == "-" {
		return write(a.stdout, render.Style{Colour: a.colour(a.stdout), Width: columns(a.stdout)})
	}
	file, err := os.Create(r.file)
	if err != nil {
		return usage(err)
	}
	return usage(errors.Join(write(file, render.Style{}), file.Close()))
}

// writeJSON writes one JSON document for scripts.
func writeJSON(w io.Writer, v any) error {
	document, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(printable.JSON(document), '\n'))
	return err
}

// withoutVerdict is no error where a report could be made, whatever its verdict.
func withoutVerdict(err error) error {
	var e *exitcode.Error
	if errors.As(err, &e) && e.Err == nil {
		return nil
	}
	return err
}

func (a *app) analyzeCommand() *cobra.Command {
	var report reportFlags
	var verdict bool
	cmd := &cobra.Command{
		Use:     "analyze DIR…",
		GroupID: "results",
		Short:   "Report on results (the same as go run ./cmd/analyzer)",
		Long: `Report on the results of runs. DIR is the folder of a run, or one that holds those of several; or the folder of a tikvbench run,
HdrHistogram interval logs (.hdr, .hlog, each alone or a folder of one run's), or what go-ycsb or YCSB printed.`,
		Example: `  kvbench analyze results/20260102-150405-abcdef
  kvbench analyze --format html -o report.html results
  kvbench analyze --json results | jq '.runs[].ops_per_s'
  kvbench analyze --verdict results && echo valid
  kvbench analyze tikvbench-results/kvbench-20260102-150405
  kvbench analyze --unit us READ.hdr UPDATE.hdr
  go-ycsb run tikv -P workloada | tee go-ycsb.txt; kvbench analyze go-ycsb.txt
  kvbench analyze --prices prices.yaml results
  kvbench analyze --verdict --slo 'READ service p99 < 5ms' --slo 'errors < 0.1%' results`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeRunDirs,
		RunE: func(_ *cobra.Command, args []string) error {
			err := report.write(a, args...)
			if !verdict {
				err = withoutVerdict(err)
			}
			return err
		},
	}
	report.add(cmd, render.Reports)
	addObjectives(cmd.Flags(), &report.slo)
	addUnit(cmd, &report.unit)
	cmd.Flags().BoolVar(&verdict, "verdict", false, "exit with the verdict's code (kvbench help exit-codes)")
	return cmd
}
