// SPDX-License-Identifier: Apache-2.0

// Analyzer reports on the results of kvbench runs. It is `kvbench analyze` alone,
// without the TiKV client, so that it builds in seconds.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"

	flag "github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/analysis/foreign"
	"github.com/kvbench/kvbench/analysis/render"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/objective"
	"github.com/kvbench/kvbench/internal/prices"
	"github.com/kvbench/kvbench/internal/printable"
)

const usage = `Report on the results of kvbench runs.

usage: analyzer [flags] DIR...

DIR is the directory of a run, or one that holds those of several; or that of a
tikvbench run, HdrHistogram interval logs (.hdr, .hlog, each alone or a folder
of one run's), or what go-ycsb or YCSB printed.

examples:
  go run ./cmd/analyzer results/20260314-150926-c0ffee
  go run ./cmd/analyzer --format json results | jq '.runs[].ops_per_s'
  go run ./cmd/analyzer --format html -o report.html results
  go run ./cmd/analyzer --verdict results && echo valid
  go run ./cmd/analyzer --unit us READ.hdr UPDATE.hdr
  go run ./cmd/analyzer --verdict --slo 'READ service p99 < 5ms' results

flags:
  --format F   text (default), markdown, json, csv, html, junit, openmetrics,
               benchstat or hgrm
  -o, --output FILE
               write to FILE instead of standard output; with hgrm a folder,
               which gets a file for each kind and time
  --percentiles LIST
               of latencies to show, as in 50,75,99,99.9
  --slo OBJECTIVE
               beside those of the run, as in 'READ response p99 < 5ms',
               'errors < 0.1%', 'rate >= 99%' or 'rate >= 50000/s' (repeatable)
  --slo-file FILE
               with an objective on each line; what follows a # is a comment
  --unit U     of the values in interval logs that do not tell theirs: ns, us
               or ms
  --prices FILE
               what the nodes of cluster and clients cost, in YAML: adds what
               a million operations cost, and a month
  --verdict    exit with the verdict's code

exit codes:
  0    the report was made
  2    bad arguments, or results that cannot be read
  with --verdict also: 4 degraded, 5 target not reached, 6 wrong values,
  7 an objective was missed, 130 interrupted
`

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program; it returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	var (
		flags   = flag.NewFlagSet("analyzer", flag.ContinueOnError)
		format  = flags.String("format", string(render.Text), "")
		file    = flags.StringP("output", "o", "", "")
		verdict = flags.Bool("verdict", false, "")
		asked   = flags.String("percentiles", "", "")
		slo     []objective.Objective
		unit    foreign.Unit
		cost    prices.Flag
	)
	flags.Var(&unit, "unit", "")
	flags.Var(objective.One(&slo), "slo", "")
	flags.Var(objective.Lines(&slo), "slo-file", "")
	flags.Var(&cost, "prices", "")
	flags.Usage = func() {}
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage)
		return 0
	}
	if err == nil && flags.NArg() == 0 {
		err = errors.New("no directory given")
	}
	form, formErr := render.ParseFormat(*format, render.Reports)
	var percentiles []float64
	if *asked != "" {
		var askedErr error
		percentiles, askedErr = analysis.ParsePercentiles(*asked)
		err = errors.Join(err, askedErr)
	}
	if err = errors.Join(err, formErr); err != nil {
		fmt.Fprintf(stderr, "analyzer: %v; see analyzer --help\n", err)
		return exitcode.Usage
	}
	set, err := analysis.LoadAny(foreign.Options{Unit: unit, Percentiles: percentiles}, flags.Args()...)
	if err != nil {
		return refuse(stderr, err)
	}
	if err := cmp.Or(set.Demand(slo...), set.Price(cost.Prices)); err != nil {
		return refuse(stderr, err)
	}
	doc := set.Summarize(percentiles)
	if err := render.Check(doc, form); err != nil {
		return refuse(stderr, err)
	}
	if form == render.HGRM {
		err = render.Spectra(stdout, *file, set.Runs...)
	} else {
		err = write(doc, form, *file, stdout)
	}
	if err != nil {
		fmt.Fprintf(stderr, "analyzer: write the report: %v\n", err)
		return exitcode.Usage
	}
	if *verdict {
		return doc.Code()
	}
	return 0
}

// refuse says why there is no report; it returns the exit code.
func refuse(stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "analyzer: %s\n", printable.Text(err.Error()))
	return exitcode.Usage
}

// write writes the report to a file, or to standard output if there is none.
func write(doc *analysis.Document, form render.Format, file string, stdout io.Writer) error {
	if file == "" {
		return render.Document(stdout, doc, form, style(stdout))
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(render.Document(f, doc, form, render.Style{}), f.Close())
}

// style is that of a terminal, if w is one: as wide as it is, and in colours unless its user has asked for plain text (no-color.org).
func style(w io.Writer) (s render.Style) {
	f, ok := w.(*os.File)
	if !ok {
		return s
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return s
	}
	return render.Style{Colour: os.Getenv("NO_COLOR") == "", Width: width}
}
