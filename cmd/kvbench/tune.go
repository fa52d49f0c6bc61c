// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/pflag"

	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/worker"
)

// tuning is how the Go runtime of a process that makes load is set up.
type tuning struct {
	cores     int
	gcPercent int
	memory    int64
}

func (t *tuning) add(f *pflag.FlagSet) {
	f.IntVar(&t.cores, "cores", 0, "cores that workers use at a time (GOMAXPROCS); 0: all that there are, but one while a paced run needs no more")
	f.IntVar(&t.gcPercent, "gc-percent", 0, "garbage collector target (GOGC) of workers, more is fewer collections for more memory; 0: GOGC of the environment, or else 400 with the rawkv driver, 100 with stream")
	f.Int64Var(&t.memory, "memory-limit", 0, "soft memory limit of workers, in `MiB` (GOMEMLIMIT); 0 is none")
}

// begin sets the process up before its workers are made, and returns the cores they share; nil: those that were asked for.
func (t *tuning) begin() (*worker.Cores, error) {
	switch {
	case t.cores < 0:
		return nil, usage(fmt.Errorf("--cores %d: want 1 or more, or 0 to leave it to the pace", t.cores))
	case t.cores > 0:
		runtime.GOMAXPROCS(t.cores)
		return nil, nil
	}
	return worker.NewCores(), nil
}

// apply sets the runtime up for a run with a driver, and returns what it did, for the results.
func (t *tuning) apply(driver string) map[string]string {
	said := map[string]string{}
	percent, fromEnvironment := t.gcPercent, os.Getenv("GOGC")
	switch {
	case percent != 0:
	case fromEnvironment != "": // the runtime has read it
		said["gc_percent"] = fromEnvironment
	case driver == spec.Stream:
		percent = 100 // it makes next to no garbage, which would only pile up
	default:
		percent = 400
	}
	if percent != 0 {
		debug.SetGCPercent(percent)
		said["gc_percent"] = fmt.Sprint(percent)
	}
	if t.cores > 0 {
		said["cores"] = fmt.Sprint(t.cores)
	}
	if t.memory > 0 {
		debug.SetMemoryLimit(t.memory << 20)
		said["memory_limit_mib"] = fmt.Sprint(t.memory)
	}
	return said
}
