// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/workloads"
)

func (a *app) workloadsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "workloads",
		GroupID: "load",
		Short:   "List the built-in workloads",
		Example: `  kvbench workloads
  kvbench workloads show a
  kvbench workloads show my.properties -p recordcount=1000000
  kvbench workloads properties`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			for _, name := range workloads.List() {
				fmt.Fprintf(w, "%s\t%s\n", name, workloads.Title(name))
			}
			return w.Flush()
		},
	}
	cmd.AddCommand(a.workloadsShowCommand(), a.workloadsPropertiesCommand())
	return cmd
}

func (a *app) workloadsShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "show NAME|FILE",
		Short:             "Print a workload with every effective value and where it came from",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeWorkloads,
	}
	what := addSpecFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		what.workloads = append([]string{args[0]}, what.workloads...)
		s, err := what.parse(a.env)
		if err != nil {
			return usage(err)
		}
		for _, warning := range s.Warnings {
			fmt.Fprintln(a.stderr, "kvbench: "+warning)
		}
		if asJSON {
			return writeJSON(a.stdout, s.Properties())
		}
		w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
		group := ""
		for _, p := range s.Effective() {
			if p.Group != group {
				group = p.Group
				fmt.Fprintf(w, "\n# %s\n", group)
			}
			fmt.Fprintf(w, "%s\t= %s\t# %s\n", p.Name, p.Value, p.Where)
		}
		return w.Flush()
	}
	return cmd
}

func (a *app) workloadsPropertiesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "properties",
		Short: "List every property that a workload may have",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			group := ""
			for _, d := range spec.Definitions() {
				if d.Group != group {
					group = d.Group
					fmt.Fprintf(w, "\n# %s\n", group)
				}
				name := strings.Join(append([]string{d.Name}, d.Aliases...), ", ")
				fmt.Fprintf(w, "%s\t%s\t%s (%s)\n", name, d.Default, d.Doc, d.Kind)
			}
			fmt.Fprint(w, "\nCounts and rates may end in k, m or g (10m: ten million), times in us, ms, s, m, h or d (10m: ten minutes).\n")
			fmt.Fprintf(w, "As defaults of these, the environment: %s\n", strings.Join(spec.Variables(), ", "))
			return w.Flush()
		},
	}
}
