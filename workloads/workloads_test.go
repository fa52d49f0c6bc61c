// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"slices"
	"testing"
)

func TestWorkloads(t *testing.T) {
	t.Parallel()
	names := List()
	for _, want := range []string{"a", "b", "bank", "c", "d", "e", "f", "go-ycsb-a", "go-ycsb-f", "load", "mixed", "read", "tikvbench", "update"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is missing", want)
		}
	}
	for _, name := range names {
		if data, err := Open(name); err != nil || len(data) == 0 {
			t.Errorf("%s: %d bytes, %v", name, len(data), err)
		}
		if len(Title(name)) < 20 {
			t.Errorf("%s has no title: %q", name, Title(name))
		}
	}
	if _, err := Open("nosuch"); err == nil || Title("nosuch") != "" {
		t.Error("there is a workload named nosuch")
	}
}
