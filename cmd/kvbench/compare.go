// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/analysis/foreign"
	"github.com/kvbench/kvbench/analysis/render"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/prices"
)

func (a *app) compareCommand() *cobra.Command {
	var (
		report      reportFlags
		spread      = percent(analysis.DefaultSpread)
		failOnWorse bool
		pricesB     prices.Flag
	)
	cmd := &cobra.Command{
		Use:     "compare A B | compare A… --with B…",
		GroupID: "results",
		Short:   "Compare runs: what changed, and whether it is more than noise",
		Long: `Compare the runs A with the runs B: what changed, and whether it is more than noise. A and B are folders of runs,
or folders that hold such. The rate and p50, p99 and p99.9 are judged, together, so that a comparison of equals claims
anything in at most 5 % of the cases; everything else is shown and not judged.

Results of other tools (see kvbench analyze --help) can stand on either side. They are judged where there are several of a side.

With several runs of a side, noise is how much those differ from each other. With one run of each it is how much
each varied within itself, and by how much runs of the same thing are taken to differ (--spread), since one run cannot show it.`,
		Example: `  kvbench compare results/20260102-150405-abcdef results/20260102-160708-fedcba
  kvbench compare before/* --with after/*
  kvbench compare before --with after --fail-on-worse --format json
  kvbench compare before --with after --prices old.yaml --prices-b new.yaml
  kvbench compare tikvbench-1 tikvbench-2 tikvbench-3 --with results/2026010*`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeRunDirs,
	}
	report.add(cmd, render.Comparisons)
	addUnit(cmd, &report.unit)
	with := &laterArgs{flags: cmd.Flags()}
	f := cmd.Flags()
	f.Var(with, "with", "the first of the runs B; the arguments after it are the others")
	f.Var(&spread, "spread", "by how much runs of the same thing differ, where there is one of each: standard deviation, 0% to 100%")
	f.BoolVar(&failOnWorse, "fail-on-worse", false, "exit with 8 if something judged is worse in B, with 4 if nothing can be judged")
	f.Var(&pricesB, "prices-b", "a `file` as for --prices, of what B costs where that is not what A does")
	_ = cmd.RegisterFlagCompletionFunc("with", completeRunDirs) // fails only for a flag that is not there
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		format, err := report.format()
		if err != nil {
			return err
		}
		if pricesB.Prices != nil && report.prices.Prices == nil {
			return usage(errors.New("--prices-b: say what A costs as well, with --prices"))
		}
		pathsA, pathsB, err := with.split(args)
		if err != nil {
			return usage(err)
		}
		sideA, sideB, err := loadSides(report.unit, pathsA, pathsB)
		if err != nil {
			return usage(err)
		}
		if err := cmp.Or(sideA.Price(report.prices.Prices), sideB.Price(cmp.Or(pricesB.Prices, report.prices.Prices))); err != nil {
			return usage(err)
		}
		c := analysis.CompareSets(sideA, sideB, float64(spread))
		if err := report.show(a, func(w io.Writer, style render.Style) error { return render.Comparison(w, c, format, style) }); err != nil {
			return err
		}
		switch {
		case failOnWorse && c.Worse():
			return &exitcode.Error{Code: exitcode.Worse}
		case failOnWorse && c.Unknown():
			return &exitcode.Error{Code: exitcode.Degraded}
		}
		return nil
	}
	return cmd
}

// loadSides loads the results of both sides, each of which must be there once: a run twice would make noise look small.
func loadSides(unit foreign.Unit, pathsA, pathsB []string) (a, b *analysis.Set, err error) {
	if a, err = analysis.LoadAny(foreign.Options{Unit: unit}, pathsA...); err != nil {
		return nil, nil, err
	}
	if b, err = analysis.LoadAny(foreign.Options{Unit: unit}, pathsB...); err != nil {
		return nil, nil, err
	}
	seen := make(map[string]bool)
	for _, r := range slices.Concat(a.Runs, b.Runs) {
		if seen[r.ID()] {
			return nil, nil, fmt.Errorf("run %s is there twice: want runs that differ", r.ID())
		}
		seen[r.ID()] = true
	}
	for _, r := range slices.Concat(a.Foreign, b.Foreign) {
		path, err := filepath.Abs(r.Path)
		if err != nil {
			return nil, nil, err
		}
		if seen[path] {
			return nil, nil, fmt.Errorf("%s is there twice: want results that differ", r.Path)
		}
		seen[path] = true
	}
	return a, b, nil
}

// laterArgs is a flag that parts the arguments into those before and those after it.
type laterArgs struct {
	flags *pflag.FlagSet
	first []string
	at    int // so many arguments stood before it
}

func (l *laterArgs) String() string { return strings.Join(l.first, " ") }
func (l *laterArgs) Type() string   { return "run" }

func (l *laterArgs) Set(path string) error {
	if len(l.first) == 0 {
		l.at = l.flags.NArg()
	}
	l.first = append(l.first, path)
	return nil
}

func (l *laterArgs) split(args []string) (before, after []string, err error) {
	switch {
	case len(l.first) > 0 && l.at == 0:
		return nil, nil, errors.New("there is no run before --with: want kvbench compare A… --with B…")
	case len(l.first) > 0:
		return args[:l.at], append(l.first, args[l.at:]...), nil
	case len(args) == 2:
		return args[:1], args[1:], nil
	}
	return nil, nil, fmt.Errorf("%d runs, and no --with that says where B begins: want kvbench compare A B, or kvbench compare A… --with B…", len(args))
}

// percent is a share that is written as a percentage, within 0 and 1.
type percent float64

func (p *percent) String() string { return strconv.FormatFloat(100*float64(*p), 'g', -1, 64) + "%" }
func (p *percent) Type() string   { return "percentage" }

func (p *percent) Set(text string) error {
	v, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(text, "%")), 64)
	if err != nil || !(v >= 0 && v <= 100) {
		return fmt.Errorf("%q is no percentage from 0%% to 100%%", text)
	}
	*p = percent(v / 100)
	return nil
}
