// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"maps"
	"slices"
)

// differences lists what was not the same in two runs.
func differences(a, b *Report) []string {
	diffs := []string{}
	note := func(what, va, vb string) {
		if va != vb {
			diffs = append(diffs, fmt.Sprintf("%s: %s → %s", what, orNone(va), orNone(vb)))
		}
	}
	note("workers", fmt.Sprint(a.WorkersExpected), fmt.Sprint(b.WorkersExpected))
	noteMaps(note, "", a.Spec, b.Spec)
	noteMaps(note, "version of ", a.Versions, b.Versions)
	return diffs
}

func noteMaps(note func(what, a, b string), prefix string, a, b map[string]string) {
	keys := make(map[string]bool)
	for _, m := range []map[string]string{a, b} {
		for k := range m {
			keys[k] = true
		}
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		note(prefix+k, a[k], b[k])
	}
}

func orNone(s string) string {
	if s == "" {
		return "(none)"
	}
	return s
}
