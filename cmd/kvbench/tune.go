// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/pflag"
)

// tuning is how the Go runtime of a process that makes load is set up.
type tuning struct {
	gcPercent int
	memory    int64
}

func (t *tuning) add(f *pflag.FlagSet) {
	f.IntVar(&t.gcPercent, "gc-percent", 400, "garbage collector target (GOGC) of workers: fewer collections for more memory")
	f.Int64Var(&t.memory, "memory-limit", 0, "soft memory limit of workers, in `MiB` (GOMEMLIMIT); 0 is none")
}

// apply sets the runtime up, and returns what it did, for the results.
func (t *tuning) apply() map[string]string {
	debug.SetGCPercent(t.gcPercent)
	said := map[string]string{"gc_percent": fmt.Sprint(t.gcPercent)}
	if t.memory > 0 {
		debug.SetMemoryLimit(t.memory << 20)
		said["memory_limit_mib"] = fmt.Sprint(t.memory)
	}
	return said
}
