// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/exitcode"
)

// TestFaultCoordinatorIsKilled: the run goes on for its lease. Another coordinator leads it to its
// end, into a folder of its own, and reports all of it.
func TestFaultCoordinatorIsKilled(t *testing.T) {
	fault(t)
	f := newFleet(t, 2)
	run := start(t, f.verb("run", "-w", "read", "--target", "200", "--duration", "5s", "--lease", "1m")...)
	id := strings.Fields(run.until(" 2 workers, run "))[0]
	run.until("p50")
	run.kill()
	led := start(t, append([]string{"attach", id, "--json", "--out", t.TempDir()}, f.args[:2]...)...)
	led.until("measuring ")
	if code := led.code(time.Minute); code != exitcode.Valid && code != exitcode.Target { // which is the machine's
		_, stderr := led.said()
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	if r := led.report(); r.WorkersFinished != 2 || r.Operations+r.Skipped < 990 || r.TargetOps != 200 {
		t.Errorf("%d workers finished, %d operations of %v/s", r.WorkersFinished, r.Operations, r.TargetOps)
	}
}

// TestFaultStoresHangWhileAttached: a coordinator that leads another's run judges its objectives. Stores that answer nothing break
// one on latencies, and end the run when its user has waited long enough; no worker is lost for it.
func TestFaultStoresHangWhileAttached(t *testing.T) {
	fault(t)
	f := newFleet(t, 2)
	run := start(t, f.verb("run", "-w", "read", "--target", "200", "--duration", "10m", "--lease", "1m",
		"--slo", "READ response p99 < 500ms", "--slo", "errors < 50%", "--abort-on-slo", "1s")...)
	id := strings.Fields(run.until(" 2 workers, run "))[0]
	run.until("p50")
	run.kill()
	led := start(t, append([]string{"attach", id, "--json", "--out", t.TempDir()}, f.args[:2]...)...)
	led.until("measuring ")
	for _, s := range f.cluster.State().Stores {
		if err := f.cluster.StallStore(s.ID, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	led.until("objective 'READ response p99 < 500 ms' is broken: READ response p99 is at least ")
	led.exits(exitcode.SLO, time.Minute)
	r := led.report()
	if !strings.HasPrefix(r.Verdict.Text, "stopped: READ response p99 is at least ") || !strings.Contains(r.Verdict.Text, "and --abort-on-slo=1s") {
		t.Errorf("%+v", r.Verdict)
	}
	if r.WorkersFinished != 2 || len(r.WorkersLost) > 0 || r.NoAnswer == nil || r.NoAnswer.S < 1 {
		t.Errorf("%d workers finished, lost %+v, no answer %+v", r.WorkersFinished, r.WorkersLost, r.NoAnswer)
	}
}

// TestFaultCoordinatorSleeps: a coordinator that stood still for some seconds goes on, and loses nothing.
func TestFaultCoordinatorSleeps(t *testing.T) {
	fault(t)
	f := newFleet(t, 2)
	run := start(t, f.verb("run", "-w", "read", "--target", "200", "--duration", "6s", "--json")...)
	run.until("p50")
	run.freeze()
	time.Sleep(4 * time.Second) // longer than a worker may be silent for
	run.signal(syscall.SIGCONT)
	if code := run.code(time.Minute); code != exitcode.Valid && code != exitcode.Target {
		_, stderr := run.said()
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	if r := run.report(); r.WorkersFinished != 2 || len(r.WorkersLost) != 0 || r.Operations+r.Skipped < 1190 {
		t.Errorf("%d workers finished, lost: %v, %d operations", r.WorkersFinished, r.WorkersLost, r.Operations)
	}
}

// TestFaultWorkerLostBeforeTheStart: what was asked for stays the target, which is missed.
func TestFaultWorkerLostBeforeTheStart(t *testing.T) {
	fault(t)
	f := newFleet(t, 2)
	run := start(t, f.verb("run", "-w", "read", "--target", "200", "--duration", "3s", "--json")...)
	run.until("starting ")
	f.workers[1].kill()
	code := run.code(time.Minute)
	if code == exitcode.Unreachable { // it was in time, and nothing was started
		return
	}
	stdout, stderr := run.said()
	if code != exitcode.Degraded {
		t.Errorf("exit code %d, want %d", code, exitcode.Degraded)
	}
	if r := run.report(); r.TargetOps != 200 || strings.Contains(r.Verdict.Text, "target met") || len(r.WorkersLost) != 1 {
		t.Errorf("%+v, target %v\n%s%s", r.Verdict, r.TargetOps, stdout, stderr)
	}
}
