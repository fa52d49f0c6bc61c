// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime/debug"
	"testing"

	"github.com/kvbench/kvbench/internal/spec"
)

// The collector's target is that of the flag, else that of the environment, else the driver's.
func TestCollectorTarget(t *testing.T) {
	before := debug.SetGCPercent(77)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	for _, test := range []struct {
		flag        int
		environment string
		driver      string
		said        string
		want        int
	}{
		{0, "77", spec.RawKV, "77", 77},
		{0, "off", spec.Stream, "off", 77},
		{50, "77", spec.RawKV, "50", 50},
		{0, "", spec.RawKV, "400", 400},
		{0, "", spec.Stream, "100", 100},
	} {
		debug.SetGCPercent(77)
		t.Setenv("GOGC", test.environment)
		tune := tuning{gcPercent: test.flag}
		said := tune.apply(test.driver)["gc_percent"]
		if got := debug.SetGCPercent(77); got != test.want || said != test.said {
			t.Errorf("%+v: %d, said to be %s", test, got, said)
		}
	}
}
