// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"testing"

	"github.com/kvbench/kvbench/internal/results"
)

// One worker at a time reads the stores' own figures; another does when it is lost, and then goes on.
func TestWhoReadsServers(t *testing.T) {
	t.Parallel()
	first, second := &workerRun{state: results.Running}, &workerRun{state: results.Running}
	r := &running{reader: second}
	reads := func(when string, p *workerRun, want bool) {
		t.Helper()
		if got := r.readsServers(p); got != want {
			t.Errorf("%s: %v", when, got)
		}
	}
	reads("the one that began", second, true)
	reads("the other", first, false)
	second.state = results.Lost
	reads("one that is lost itself, and asked", second, true) // it may still hear that, and has read until now
	reads("when it is lost", first, true)
	second.state = results.Running
	reads("when it is back", second, false)
	reads("and the one in its place", first, true)
}
