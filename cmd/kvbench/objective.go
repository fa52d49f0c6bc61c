// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/pflag"

	"github.com/kvbench/kvbench/internal/objective"
)

// addObjectives adds the flags that name objectives.
func addObjectives(f *pflag.FlagSet, all *[]objective.Objective) {
	f.Var(objective.One(all), "slo", "an `objective` that must be kept (repeatable): 'READ response p99 < 5ms' (a kind or TOTAL; service or response; mean, p50 to p99.99 or max), 'errors < 0.1%', 'READ errors < 1%', 'rate >= 99%' of the target, 'rate >= 50000/s'")
	f.Var(objective.Lines(all), "slo-file", "a `file` with an objective on each line; what follows a # is a comment (repeatable)")
}
