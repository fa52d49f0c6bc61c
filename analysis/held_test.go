// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/objective"
)

func TestHeld(t *testing.T) {
	t.Parallel()
	const s = time.Second
	held := slo("READ response p99 < 50ms", "errors < 0.1%", "rate >= 99%")
	tooFast := slo("READ response p99 < 1us", "errors < 0.1%", "rate >= 99%")
	for _, c := range []struct {
		name   string
		f      *fixture
		state  objective.State
		client bool
		why    string
	}{
		{"kept", &fixture{window: 5 * s, target: 1000, cpu: 0.2, change: held}, objective.Kept, false, ""},
		{"kept by a busy client", &fixture{window: 5 * s, target: 1000, cpu: 0.95, change: held}, objective.Kept, false, ""},
		{"too slow", &fixture{window: 5 * s, target: 1000, cpu: 0.2, change: tooFast}, objective.Broken, false, "READ response p99 is "},
		{"too slow, of a busy client", &fixture{window: 5 * s, target: 1000, cpu: 0.95, change: tooFast}, objective.Unknown, true, "95 %"},
		{"errors", &fixture{window: 5 * s, target: 1000, cpu: 0.2, result: mixed(0, 100, 0), change: held}, objective.Broken, false, "errors are 1 %"},
		{"all threads wait", &fixture{window: 5 * s, target: 2000, achieved: 1000, threads: 4, cpu: 0.2, hang: 4 * s, change: held}, objective.Broken, false, "below 99 % of the target"},
		{"the client is late", &fixture{window: 5 * s, target: 2000, achieved: 1000, threads: 50, cpu: 0.3, change: held}, objective.Unknown, true, "operations started"},
		{"the client was throttled", &fixture{window: 5 * s, target: 1000, cpu: 0.1, throttled: 0.06, change: held}, objective.Unknown, true, "throttled"},
		{"a worker lost", &fixture{workers: 2, window: 10 * s, target: 1000, lost: map[int]time.Duration{1: 4500 * time.Millisecond}, change: slo("errors < 0.1%", "rate >= 1%")}, objective.Unknown, false, "1 of 2 workers lost"},
		{"too few operations", &fixture{window: 5 * s, target: 1000, cpu: 0.2, change: slo("SCAN response p99 < 1s")}, objective.Unknown, false, "SCAN"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := report(t, c.f.write(t))
			if state, client, why := p.Held(); state != c.state || client != c.client || !strings.Contains(why, c.why) || (why == "") != (c.why == "") {
				t.Errorf("%v, %v, %q; want %v, %v, %q (%+v, %+v)", state, client, why, c.state, c.client, c.why, p.Verdict, p.Limit)
			}
		})
	}
}
