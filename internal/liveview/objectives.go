// SPDX-License-Identifier: Apache-2.0

package liveview

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kvbench/kvbench/internal/coordinator"
	"github.com/kvbench/kvbench/internal/objective"
	"github.com/kvbench/kvbench/internal/units"
)

// maxThresholds is for how many objectives a frame has a line each.
const maxThresholds = 4

// thresholds are how the objectives stand, those that are broken first, then those of which nothing is known.
func thresholds(s *coordinator.Snapshot) (lines []string) {
	urgency := map[objective.State]int{objective.Broken: 0, objective.Unknown: 1, objective.Kept: 2}
	all := slices.Clone(s.Objectives)
	slices.SortStableFunc(all, func(a, b coordinator.ObjectiveView) int { return cmp.Compare(urgency[a.State], urgency[b.State]) })
	for i := range all {
		if i == maxThresholds-1 && len(all) > maxThresholds {
			return append(lines, fmt.Sprintf("and %d more objectives", len(all)-i))
		}
		lines = append(lines, threshold(&all[i]))
	}
	return lines
}

// threshold is how an objective stands.
func threshold(o *coordinator.ObjectiveView) string {
	switch {
	case o.State == objective.Broken:
		return brokenSince(o) + ": " + o.Why
	case o.Text == "":
		return fmt.Sprintf("%s  %s", o.State, o.Objective)
	}
	return fmt.Sprintf("%s  %s: %s", o.State, o.Objective, o.Text)
}

// brokenSince says for how long an objective has been broken.
func brokenSince(o *coordinator.ObjectiveView) string {
	return "BROKEN since " + units.Seconds(o.Since.Seconds())
}
