// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/exitcode"
)

// limited starts a kvbench none of whose files may have more than 7 KiB, as on a disk that has no room for more.
func limited(t *testing.T, args ...string) *process {
	t.Helper()
	p := prepared(t, nil, args...)
	p.cmd.Path = "/bin/sh"
	p.cmd.Args = append([]string{"sh", "-c", `ulimit -f 14; exec "$@"`, "sh"}, p.cmd.Args...)
	p.start()
	return p
}

// TestFaultResultsDiskIsFull: that a file of the results takes no more is said at once, the run goes on to its end, and what
// it measured is fetched as the hint says.
func TestFaultResultsDiskIsFull(t *testing.T) {
	fault(t)
	f := newFleet(t, 1)
	run := limited(t, f.verb("run", "-w", "mixed", "--duration", "3s", "--json")...)
	run.until("the run goes on, and the workers keep what they measure; kvbench collect ")
	run.exits(exitcode.Degraded, time.Minute)
	run.mentions("file too large")
	if _, stderr := run.said(); strings.Contains(stderr, "is lost") {
		t.Errorf("a worker is said to be lost:\n%s", stderr)
	}
	rest := start(t, "collect", filepath.Base(f.runFolder("run")), "--out", f.out, "--workers", f.address(0), "--json")
	rest.code(time.Minute)
	if r := rest.report(); r.WorkersFinished != 1 || r.Operations == 0 || len(r.Missing) != 0 {
		t.Errorf("%d workers finished, %d operations are collected; missing: %v", r.WorkersFinished, r.Operations, r.Missing)
	}
}

// TestFaultWorkerDiskIsFull: a worker that cannot write what it measures ends its part, says why, and lives.
func TestFaultWorkerDiskIsFull(t *testing.T) {
	fault(t)
	f := newFleet(t, 1)
	full := limited(t, "worker", "--listen", "127.0.0.1:0", "--data", t.TempDir())
	address := strings.Fields(full.until(`"worker ready" address=`))[0]
	f.args[1] += "," + address
	run := start(t, f.verb("run", "-w", "mixed", "--duration", "4s", "--json")...)
	run.exits(exitcode.Degraded, time.Minute)
	run.mentions("file too large")
	if r := run.report(); r.WorkersFinished != 1 || len(r.WorkersLost) != 1 {
		t.Errorf("%d workers finished, lost: %v", r.WorkersFinished, r.WorkersLost)
	}
	do(t, "status", "--workers", address)
	again := start(t, f.verb("run", "-w", "read", "--target", "100", "--duration", "1s")...)
	if code := again.code(time.Minute); code == exitcode.Unreachable {
		t.Errorf("the worker takes no run: exit code %d", code)
	}
}

// TestFaultNobodyReadsMessages: standard error is a pipe that is full from the beginning.
func TestFaultNobodyReadsMessages(t *testing.T) {
	fault(t)
	f := newFleet(t, 1)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if err := w.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = w.Write(make([]byte, 512))
	}
	run := prepared(t, nil, f.verb("run", "-w", "read", "--target", "300", "--duration", "1s", "--json")...)
	run.cmd.Stderr = w
	run.start()
	if code := run.code(time.Minute); code != exitcode.Valid && code != exitcode.Target { // which is the machine's
		t.Errorf("exit code %d", code)
	}
	if r := run.report(); r.WorkersFinished != 1 || r.Operations+r.Skipped != 300 {
		t.Errorf("%d workers finished, %d operations", r.WorkersFinished, r.Operations)
	}
}
