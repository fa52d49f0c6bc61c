// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kvbench/kvbench/internal/spec"
)

// clients says how the workers were set up, since that decides what an operation
// costs them: one sentence for all, or one for each way in which they differ.
func (r *Report) clients() []string {
	var all []string
	for i := range r.Workers {
		if text := r.client(&r.Workers[i]); text != "" && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// client says how one worker was set up; "" if it has left no journal.
func (r *Report) client(w *WorkerRow) string {
	if w.Driver == "" {
		return ""
	}
	parts := []string{fmt.Sprintf("driver %s, %d %s", w.Driver, w.Lanes, plural(int64(w.Lanes), "lane", "lanes"))}
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
