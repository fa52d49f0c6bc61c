// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/kube"
	"github.com/kvbench/kvbench/internal/objective"
	"github.com/kvbench/kvbench/internal/playground"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/study"
	"github.com/kvbench/kvbench/workloads"
)

// complete teaches the shell the values of flags and arguments. It comes after all verbs have their flags.
func complete(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		complete(sub)
	}
	for flag, values := range map[string]cobra.CompletionFunc{
		"workload":    completeWorkloads,
		"property":    completeProperties,
		"driver":      fixed(spec.Choices("driver")...),
		"arrival":     fixed(spec.Choices("arrival")...),
		"context":     completeContexts,
		"on-loss":     fixed("continue", "stop"),
		"slo":         completeObjectives,
		"run":         completeRuns,
		"api":         fixed(spec.Choices("tikv.type")...),
		"order":       fixed(study.Interleaved, study.Random),
		"load":        fixed(study.Never, study.Once, study.Each),
		"vary":        completeProperties,
		"api-version": fixed(spec.Choices("tikv.apiversion")...),

		"service-spread": fixed(string(playground.Constant), string(playground.Exponential)),
	} {
		if cmd.LocalFlags().Lookup(flag) != nil {
			_ = cmd.RegisterFlagCompletionFunc(flag, values) // fails only for a flag that is not there, or has one
		}
	}
}

func fixed(values ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}

// completeWorkloads offers the built-in ones; where none fits, the shell offers files.
func completeWorkloads(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, name := range workloads.List() {
		names = append(names, cobra.CompletionWithDesc(name, workloads.Title(name)))
	}
	return names, cobra.ShellCompDirectiveDefault
}

// completeProperties offers names, and behind a name what it may be set to.
func completeProperties(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	if name, _, ok := strings.Cut(typed, "="); ok {
		var values []string
		for _, value := range spec.Choices(name) {
			values = append(values, name+"="+value)
		}
		return values, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, d := range spec.Definitions() {
		names = append(names, cobra.CompletionWithDesc(d.Name+"=", d.Doc))
	}
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeObjectives offers an objective word by word.
func completeObjectives(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	return objective.Continue(typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveKeepOrder
}

func completeContexts(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	file := ""
	if f := cmd.Flag("kubeconfig"); f != nil {
		file = f.Value.String()
	}
	names, err := kube.Contexts(file)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// runsIn returns the directories of the runs in a results folder, the newest first.
func runsIn(folder string) []string {
	dirs, err := results.Find(folder)
	if err != nil {
		return nil
	}
	slices.Reverse(dirs)
	return dirs
}

// completeRuns offers the ids of the runs in the results folder.
func completeRuns(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	folder := "results"
	if f := cmd.Flag("out"); f != nil {
		folder = f.Value.String()
	}
	var ids []string
	for _, dir := range runsIn(folder) {
		ids = append(ids, filepath.Base(dir))
	}
	return ids, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// completeAnnotated offers runs, as ids where workers are named and as folders otherwise, and nothing for the text.
func completeAnnotated(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	switch {
	case len(args) > 0:
		return nil, cobra.ShellCompDirectiveNoFileComp
	case cmd.Flags().Changed("workers") || cmd.Flags().Changed("kube"):
		return completeRuns(cmd, args, typed)
	}
	return completeRunDirs(cmd, args, typed)
}

// completeRunDirs offers the folders of runs, where they are by default; beyond these, the shell offers folders.
func completeRunDirs(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	var dirs []string
	for _, dir := range runsIn("results") {
		if strings.HasPrefix(dir, typed) && !slices.Contains(args, dir) {
			dirs = append(dirs, dir)
		}
	}
	if dirs == nil {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return dirs, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}
