// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/analysis/plan"
	"github.com/kvbench/kvbench/analysis/render"
)

// maxReplicas is how many copies of a region are worth planning for.
const maxReplicas = 99

func (a *app) planCommand() *cobra.Command {
	in := plan.Input{Replicas: 3}
	var (
		storeSize, rate plan.Range
		fill            = percent(0.8)
		measured        []string
		asJSON          bool
	)
	cmd := &cobra.Command{
		Use:     "plan",
		GroupID: "results",
		Short:   "Plan a cluster: space, regions, stores, the time to load",
		Long: `Say how large a cluster has to be for some data, and for a rate: bytes raw, replicated and on disk, regions, stores for
space, stores for a rate as measured, and how long it takes to load. Quantities may be ranges, as in --compression 3..6; what
follows from them is one. Bytes are in powers of 1000 (KB, MB, GB, TB) or of 1024 (KiB, MiB, …); k, m, g and t are thousands.

--measured names folders of runs on a cluster of the same machines: of the operations that are to be done, and of a load
for the time to load. docs/plan.md has every formula.`,
		Example: `  kvbench plan --records 10G --key 26 --value 1KB --replicas 3 --compression 3..6
  kvbench plan --records 10G --key 26 --value 1KB --rate 300k --measured results/load results/read-1 results/read-2
  kvbench plan --records 1G..2G --key 26 --value 100..400 --store-size 2TB --fill 70% --json`,
		ValidArgsFunction: completeRunDirs,
	}
	f := cmd.Flags()
	f.SortFlags = false
	quantity := func(to *plan.Range, kind plan.Kind, exact bool, name, initial, help string) {
		f.Var(plan.NewFlag(to, kind, exact, initial), name, help)
	}
	quantity(&in.Records, plan.Count, false, "records", "", "how `many`, as in 10G")
	quantity(&in.Key, plan.Bytes, false, "key", "", "`bytes` of a key, as clients write it")
	quantity(&in.Value, plan.Bytes, false, "value", "", "`bytes` of a value, as in 1KB")
	f.IntVar(&in.Replicas, "replicas", in.Replicas, "copies of each region (PD's max-replicas)")
	quantity(&in.Compression, plan.Factor, false, "compression", "1", "bytes before compression by those behind it, as in 3..6: a `factor`")
	quantity(&in.Amplification, plan.Factor, false, "amplification", "1..1.11", "bytes of files by those of the data in them, in the steady state: a `factor`")
	quantity(&in.RegionSize, plan.Bytes, false, "region-size", "96MiB..256MiB", "`bytes` that regions are split into (coprocessor.region-split-size)")
	quantity(&storeSize, plan.Bytes, true, "store-size", "4TB", "`bytes` of a store's disk")
	f.Var(&fill, "fill", "share of it that may be used")
	quantity(&rate, plan.Count, false, "rate", "", "`operations` a second that are to be answered, of the kind measured")
	f.StringArrayVar(&measured, "measured", nil, "`folder` of a run, or of several, on a cluster of such stores (repeatable; so are the arguments)")
	f.BoolVar(&asJSON, "json", false, "print one JSON document")
	for _, name := range []string{"records", "key", "value"} {
		_ = cmd.MarkFlagRequired(name) // fails only for a flag that is not there, as does the next
	}
	_ = cmd.RegisterFlagCompletionFunc("measured", completeRunDirs)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		in.StoreSize, in.Fill = storeSize.Low, float64(fill)
		if rate.Low > 0 {
			in.Rate = &rate
		}
		switch {
		case in.Replicas < 1 || in.Replicas > maxReplicas:
			return usage(fmt.Errorf("--replicas %d: want 1 to %d", in.Replicas, maxReplicas))
		case len(args) > 0 && len(measured) == 0:
			return usage(fmt.Errorf("%s: want folders of runs behind --measured", args[0]))
		}
		p, err := makePlan(in, append(measured, args...))
		if err != nil {
			return usage(err)
		}
		format := render.Text
		if asJSON {
			format = render.JSON
		}
		return render.Plan(a.stdout, p, format, render.Style{Colour: a.colour(a.stdout), Width: columns(a.stdout)})
	}
	return cmd
}

// makePlan makes a plan from an input and folders of runs.
func makePlan(in plan.Input, folders []string) (*plan.Plan, error) {
	if len(folders) == 0 {
		return plan.Make(in, nil)
	}
	runs, err := analysis.LoadAll(folders...)
	if err != nil {
		return nil, err
	}
	told, not := analysis.Measured(runs)
	if len(told) == 0 {
		return nil, errors.New("--measured: no run tells how much a store does: " + not[0])
	}
	p, err := plan.Make(in, told)
	if err == nil {
		p.Notes = append(p.Notes, not...)
	}
	return p, err
}
