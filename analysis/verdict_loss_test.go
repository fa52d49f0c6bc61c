// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/results"
)

// TestLostBeforeTheStart: what was asked for stays the target, and neither client nor database is blamed for what nobody
// was asked to do.
func TestLostBeforeTheStart(t *testing.T) {
	t.Parallel()
	f := &fixture{workers: 3, window: 4 * time.Second, target: 900, lost: map[int]time.Duration{1: 0}}
	p := report(t, f.write(t))
	if p.TargetOps != 900 || p.OpsPerS != 600 || p.Limit.By != ByUnknown || !strings.Contains(p.Limit.Why, "1 of 3 workers were lost before anything was measured") {
		t.Errorf("%g of %g/s, limited by %+v", p.OpsPerS, p.TargetOps, p.Limit)
	}
	if strings.Contains(p.Verdict.Text, "target met") || strings.Contains(p.Verdict.Text, "limited") {
		t.Errorf("%+v", p.Verdict)
	}
}

// TestStoppedOnLoss: a run that stopped since a worker was lost is degraded; its user did not interrupt it.
func TestStoppedOnLoss(t *testing.T) {
	t.Parallel()
	f := &fixture{workers: 2, window: 4 * time.Second, target: 1000, lost: map[int]time.Duration{1: 2 * time.Second}, change: func(r *results.Run) {
		at := 4.0
		r.WindowS, r.StoppedS, r.StopWhy = 60, &at, "w1 lost, and --on-loss=stop"
	}}
	p := report(t, f.write(t))
	if p.Verdict.Code != exitcode.Degraded || !strings.HasPrefix(p.Verdict.Text, "stopped: w1 lost, and --on-loss=stop; 1 of 2 workers lost") || p.Ended.By != EndStopped {
		t.Errorf("%+v, ended %+v", p.Verdict, p.Ended)
	}
}
