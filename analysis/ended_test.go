// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/results"
)

// A report says what ended the run.
func TestEnded(t *testing.T) {
	t.Parallel()
	const s = time.Second
	longer := func(operations int64) func(*results.Run) {
		return func(r *results.Run) { r.WindowS, r.Plan.Operations = 60, operations }
	}
	stopped := func(r *results.Run) {
		at := 2.0
		r.WindowS, r.StoppedS, r.State = 60, &at, results.Interrupted
	}
	for _, c := range []struct {
		name string
		f    *fixture
		by   string
		text string
		code int
	}{
		{"by time", &fixture{window: 2 * s, target: 300, ended: results.ByDuration}, EndDuration, "the duration of 2 s was over", exitcode.Valid},
		{"by count", &fixture{window: 2 * s, achieved: 300, ended: results.ByOperations, change: longer(600)}, EndCount, "the operation count of 600 was reached, before the duration of 60 s was over", exitcode.Valid},
		{"by count, with the time", &fixture{window: 2 * s, achieved: 300, ended: results.ByOperations, change: func(r *results.Run) { r.Plan.Operations = 600 }}, EndCount, "operation count of 600", exitcode.Valid},
		{"a load", &fixture{count: []int64{600}, achieved: 300, ended: results.ByOperations}, EndCount, "loaded its records", exitcode.Valid},
		{"stopped", &fixture{window: 2 * s, achieved: 300, ended: results.ByStop, reason: "stopped", change: stopped}, EndStopped, "kvbench stop", exitcode.Interrupted},
		{"lease", &fixture{window: 2 * s, achieved: 300, ended: results.ByLease, reason: "the coordinator was silent for 15s", change: longer(0)}, EndLease, "w0 ended by itself: the coordinator was silent for 15s", exitcode.Degraded},
		{"an error", &fixture{window: 2 * s, achieved: 300, ended: results.ByError, reason: "no space left on device", change: longer(0)}, EndFailed, "no space left on device", exitcode.Degraded},
		{"lost", &fixture{window: 4 * s, achieved: 300, lost: map[int]time.Duration{0: 2 * s}}, EndLost, "all workers were lost", exitcode.Degraded},
		{"nobody knows", &fixture{window: 2 * s, achieved: 300, change: longer(0)}, EndUnknown, "nothing says why", exitcode.Degraded},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := report(t, c.f.write(t))
			if p.Ended.By != c.by || !strings.Contains(p.Ended.Text, c.text) || p.Verdict.Code != c.code {
				t.Errorf("%+v, verdict %+v; want %s, %q, %d", p.Ended, p.Verdict, c.by, c.text, c.code)
			}
		})
	}
}
