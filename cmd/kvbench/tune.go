// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/pflag"

	"github.com/kvbench/kvbench/internal/spec"
)

// tuning is how the Go runtime of a process that makes load is set up.
type tuning struct {
	gcPercent int
	memory    int64
}

func (t *tuning) add(f *pflag.FlagSet) {
	f.IntVar(&t.gcPercent, "gc-percent", 0, "garbage collector target (GOGC) of workers, more is fewer collections for more memory; 0: 400 with the rawkv driver, 100 with stream")
	f.Int64Var(&t.memory, "memory-limit", 0, "soft memory limit of workers, in `MiB` (GOMEMLIMIT); 0 is none")
}

// apply sets the runtime up for a run with a driver, and returns what it did, for the results.
func (t *tuning) apply(driver string) map[string]string {
	percent := t.gcPercent
	switch {
	case percent != 0:
	case driver == spec.Stream:
		percent = 100 // it makes next to no garbage, which would only pile up
	default:
		percent = 400
	}
	debug.SetGCPercent(percent)
	said := map[string]string{"gc_percent": fmt.Sprint(percent)}
	if t.memory > 0 {
		debug.SetMemoryLimit(t.memory << 20)
		said["memory_limit_mib"] = fmt.Sprint(t.memory)
	}
	return said
}
