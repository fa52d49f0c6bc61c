// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/units"
	"github.com/kvbench/kvbench/internal/workload"
)

// workloadOf says in a line what a run did to the database: which operations, on how many records of which size, chosen how. What
// its properties do not tell is left out.
func workloadOf(rec *results.Run) string {
	var parts []string
	if rec.Phase == "run" {
		if text := mix(rec.Spec); text != "" {
			parts = append(parts, text)
		}
	}
	if n := cmp.Or(rec.Plan.Records, numberOf(rec.Spec["recordcount"])); n > 0 {
		parts = append(parts, units.Count(n)+" "+units.Plural(n, "record", "records"))
	}
	if fields, length := numberOf(rec.Spec["fieldcount"]), numberOf(rec.Spec["fieldlength"]); fields > 0 && length > 0 {
		text := fmt.Sprintf("%d × %s B", fields, units.Count(length))
		if d := rec.Spec["fieldlengthdistribution"]; d != "" && d != "constant" {
			text += " at most (" + d + ")"
		}
		parts = append(parts, text)
	}
	if d := rec.Spec["requestdistribution"]; d != "" && rec.Phase == "run" {
		parts = append(parts, d)
	}
	return strings.Join(parts, " · ")
}

// mix names the kinds of operations with their shares, the most frequent first; "" if the properties do not tell of all.
func mix(properties map[string]string) string {
	type kind struct {
		name   string
		weight float64
	}
	var kinds []kind
	sum := 0.0
	for k := range workload.Kind(workload.Kinds) {
		key := strings.ToLower(strings.ReplaceAll(k.String(), "_", "")) + "proportion"
		weight, err := strconv.ParseFloat(properties[key], 64)
		if err != nil || math.IsInf(weight, 0) {
			return ""
		}
		if weight > 0 {
			kinds = append(kinds, kind{k.String(), weight})
			sum += weight
		}
	}
	slices.SortStableFunc(kinds, func(a, b kind) int { return cmp.Compare(b.weight, a.weight) })
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.name
		if len(kinds) > 1 {
			names[i] += " " + units.Percent(k.weight/sum)
		}
	}
	return strings.Join(names, ", ")
}

func numberOf(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
