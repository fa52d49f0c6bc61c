// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

// The recorded command does the same again: with the variables that mattered, each once, and with every word as it was.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	e := environment{lookup: func(name string) (string, bool) {
		v, ok := map[string]string{"RUNTIME": "20m", "BENCH_TYPE": "it's"}[name]
		return v, ok
	}}
	for _, name := range []string{"BENCH_TYPE", "RUNTIME", "NUM_THREADS", "BENCH_TYPE"} {
		e.get(name)
	}
	got := commandLine(e.found, []string{"run", "-w", "a", "--slo", "READ p99 < 5ms", "--pd=127.0.0.1:2379", ""})
	const want = `BENCH_TYPE='it'\''s' RUNTIME=20m kvbench run -w a --slo 'READ p99 < 5ms' --pd=127.0.0.1:2379 ''`
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
