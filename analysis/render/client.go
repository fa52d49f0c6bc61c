// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/units"
)

// clients says how the workers were set up, since that decides what an operation
// costs them: one sentence for all, or one for each way in which they differ.
func clients(r *analysis.Report) []string {
	var all []string
	for i := range r.Workers {
		if text := client(r, &r.Workers[i]); text != "" && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// client says how one worker was set up; "" if it has left no journal.
func client(r *analysis.Report, w *analysis.WorkerRow) string {
	if w.Driver == "" {
		return ""
	}
	parts := []string{fmt.Sprintf("driver %s, %d %s", w.Driver, w.Lanes, units.Plural(int64(w.Lanes), "lane", "lanes"))}
	if n, instances := r.Spec["tikv.conncount"], r.Spec["tikv.clients"]; w.Driver == spec.RawKV && n != "" && instances != "" {
		parts = append(parts, fmt.Sprintf("tikv.clients %s, tikv.conncount %s", instances, n))
	}
	if w.OneCoreS > 0 {
		parts = append(parts, "one core at a time while that was enough")
	}
	for _, name := range slices.Sorted(maps.Keys(w.Tuning)) {
		parts = append(parts, fmt.Sprintf("%s %s", strings.ReplaceAll(name, "_", " "), w.Tuning[name]))
	}
	return printable(strings.Join(parts, " · "))
}
