// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"

	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/spec"
)

// Runs one after the other in one process, each read when it has ended; one that cannot begin leaves nothing behind.
func TestCells(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 0) // with a load
	console, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer console.Close()
	a := &app{stdin: console, stdout: console, console: console, stderr: console, env: func(string) (string, bool) { return "", false }}
	flags := pflag.NewFlagSet("cells", pflag.ContinueOnError)
	b := a.loadFlags(flags, spec.Pair{Key: "dotransactions", Value: "true"})
	out := t.TempDir()
	if err := flags.Parse(append(f.args, "-w", "read", "--out", out, "--operations", "500")); err != nil {
		t.Fatal(err)
	}
	measure := func(pairs ...spec.Pair) (*cell, error) {
		s, err := b.what.parse(a.env, append(pairs, b.phase)...)
		if err != nil {
			t.Fatal(err)
		}
		return b.cell(t.Context(), context.Background(), s, "kvbench cells")
	}
	seen := map[string]bool{}
	for _, threads := range []int{1, 3} {
		c, err := measure(spec.Pair{Key: "threadcount", Value: fmt.Sprint(threads)})
		if err != nil {
			t.Fatal(err)
		}
		r := c.report()
		if r.Threads != threads || r.Operations != 500 || r.RunID != c.run.ID() || filepath.Dir(c.dir) != out || r.Command != "kvbench cells" {
			t.Errorf("%d threads: %d threads, %d operations, %s in %s", threads, r.Threads, r.Operations, r.RunID, c.dir)
		}
		seen[r.RunID] = true
	}
	if len(seen) != 2 {
		t.Errorf("the runs are %v", seen)
	}
	if c, err := measure(spec.Pair{Key: "clients", Value: "9"}); c != nil || exitcode.Of(err) != exitcode.Unreachable {
		t.Errorf("with fewer workers than asked for: %v, %v", c, err)
	}
	left, err := os.ReadDir(out)
	if err != nil || len(left) != 2 {
		t.Errorf("%d folders, want those of 2 runs: %v", len(left), err)
	}
}
