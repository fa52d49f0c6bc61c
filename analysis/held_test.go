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

// If all that is missing of a target waited for the database until the end, that is the limit, even where operations started late and threads
// were free; if it did not, the client is.
func TestLimitOfWhatWaitedInVain(t *testing.T) {
	t.Parallel()
	r, err := Load((&fixture{window: 5 * time.Second, target: 2000, achieved: 1900, threads: 50, cpu: 0.3}).write(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cutOff, blocked int64
		by              string
	}{{0, 0, ByClient}, {200, 200, ByClient}, {500, 0, ByServer}, {0, 500, ByServer}, {100, 400, ByServer}} {
		p := r.Report()
		p.CutOff, p.Blocked = c.cutOff, c.blocked
		if l := foundLimit(p, r); l.By != c.by || c.by == ByServer && !strings.HasPrefix(l.Why, "500 operations waited for the database in vain") {
			t.Errorf("%d cut off and %d that found no thread, of 500 that are missing: %+v, want %s", c.cutOff, c.blocked, l, c.by)
		}
	}
}

// What keeps a run from showing anything has a word on what to do about it.
func TestAdvice(t *testing.T) {
	t.Parallel()
	kept := true
	for want, p := range map[string]*Report{
		"kvbench status":     {WorkersExpected: 2, Workers: []WorkerRow{{}}},
		"crowded":            {WindowS: 10, WorkersExpected: 1, Workers: []WorkerRow{{CPUShare: 0.01, Cores: 2, CPUWaitS: 3}}},
		"more time (--cell)": {WindowS: 10, WorkersExpected: 1, Workers: []WorkerRow{{CPUShare: 0.1, Cores: 2}}, Objectives: []ObjectiveRow{{Kept: &kept}, {}}},
	} {
		if text := p.Advice(); !strings.Contains(text, want) {
			t.Errorf("%q, want %q", text, want)
		}
	}
	if text := (&Report{Objectives: []ObjectiveRow{{Kept: &kept}}}).Advice(); text != "" {
		t.Errorf("advice of a run that lacks nothing: %s", text)
	}
}
