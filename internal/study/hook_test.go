// SPDX-License-Identifier: Apache-2.0

//go:build unix

package study

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/exitcode"
)

// Commands run around each run, know which it is, and what they say is kept.
func TestHooks(t *testing.T) {
	t.Parallel()
	s := made(t, `
vary: {threadcount: [1, 2]}
properties: {tikv.pd: "pd:1"}
hooks:
  before: echo $KVBENCH_RUN $KVBENCH_CELL $KVBENCH_REPEAT $KVBENCH_PD >>$KVBENCH_STUDY/order; echo said
  during: {at: 1s, command: "echo $KVBENCH_RUN during >>$KVBENCH_STUDY/order"}
  after: echo $KVBENCH_RUN after >>$KVBENCH_STUDY/order; exit 3
`)
	f := &fake{t: t}
	f.run = func(ctx context.Context, r *Run) (Verdict, error) {
		if r.At != time.Second || !strings.HasPrefix(r.Text, "hook: echo $KVBENCH_RUN during") {
			t.Errorf("at %v: %q", r.At, r.Text)
		}
		return Verdict{}, r.During(ctx)
	}
	if err := s.Conduct(t.Context(), f); err != nil {
		t.Fatal(err) // what fails after a run does not undo it
	}
	a, b := f.runs[0].ID, f.runs[1].ID
	want := a + " threadcount=1 1 pd:1\n" + a + " during\n" + a + " after\n" + b + " threadcount=2 1 pd:1\n" + b + " during\n" + b + " after\n"
	if order, err := os.ReadFile(filepath.Join(s.Dir(), "order")); err != nil || string(order) != want {
		t.Errorf("%s (%v), want %s", order, err, want)
	}
	if said, err := os.ReadFile(filepath.Join(s.Dir(), "hooks", a+"-before.txt")); err != nil || string(said) != "said\n" {
		t.Errorf("kept: %q, %v", said, err)
	}
}

// A run is not made when what prepares it fails.
func TestFailedHook(t *testing.T) {
	t.Parallel()
	s := made(t, "vary: {threadcount: [1, 2]}\nhooks: {before: '[ \"$KVBENCH_CELL\" != threadcount=1 ]'}")
	f := &fake{t: t}
	err := s.Conduct(t.Context(), f)
	if exitcode.Of(err) != exitcode.Degraded || len(f.runs) != 1 || f.runs[0].Cell.Title() != "threadcount=2" {
		t.Errorf("%v, %d runs", err, len(f.runs))
	}
	if why := s.Steps[0].Last().Why; !strings.Contains(why, "the command before the run: ") || !strings.Contains(why, "exit status 1") {
		t.Errorf("why: %s", why)
	}
}

// A command that is late is killed with all that it has started, even if it does not heed.
func TestLateHookIsKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pids := filepath.Join(dir, "pids")
	h := &Hook{Command: "trap '' TERM; (trap '' TERM; echo $$ >>" + pids + "; while :; do sleep 0.05; done) & echo $! >>" + pids + "; while :; do sleep 0.05; done", Timeout: Duration(200 * time.Millisecond)}
	err := h.run(t.Context(), filepath.Join(dir, "out"), nil)
	if err == nil || !strings.Contains(err.Error(), "not done within 200ms") {
		t.Fatal(err)
	}
	text, err := os.ReadFile(pids)
	if err != nil || len(strings.Fields(string(text))) != 2 {
		t.Fatalf("%q, %v", text, err)
	}
	for _, word := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(20 * time.Second); !gone(pid); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("process %d is alive", pid)
			}
		}
	}
}

// gone tells whether a process has ended, if perhaps nobody has asked how.
func gone(pid int) bool {
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

// What a command leaves running in the background does not hold the study up, and lives on.
func TestBackground(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := &Hook{Command: "sleep 60 & echo $! >" + filepath.Join(dir, "pid"), Timeout: Duration(time.Minute)}
	if err := h.run(t.Context(), filepath.Join(dir, "out"), nil); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || gone(pid) {
		t.Fatalf("process %q: %v", text, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}
