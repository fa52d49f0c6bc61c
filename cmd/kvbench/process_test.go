// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/playground"
	"github.com/kvbench/kvbench/internal/results"
)

// asKvbench in the environment makes the test's binary be kvbench.
const asKvbench = "KVBENCH_TEST_AS_KVBENCH"

// process is a kvbench in a process of its own.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{}

	mu             sync.Mutex
	stdout, stderr bytes.Buffer
}

// writer is one of a process's outputs.
type writer struct {
	p   *process
	buf *bytes.Buffer
}

func (w writer) Write(b []byte) (int, error) {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	return w.buf.Write(b)
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	return startIn(t, nil, args...)
}

// startIn starts a kvbench with more in its environment.
func startIn(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := prepared(t, env, args...)
	p.start()
	return p
}

// prepared returns a kvbench that has not been started.
func prepared(t *testing.T, env []string, args ...string) *process {
	p := &process{t: t, cmd: exec.Command(os.Args[0], args...), done: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), asKvbench+"=1"), env...)
	p.cmd.Stdout, p.cmd.Stderr = writer{p, &p.stdout}, writer{p, &p.stderr}
	return p
}

func (p *process) start() {
	t := p.t
	t.Helper()
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // its code is read from the state
	}()
	t.Cleanup(func() {
		select {
		case <-p.done:
			return
		default:
		}
		p.interrupt()
		select {
		case <-p.done:
		case <-time.After(10 * time.Second):
			_ = p.cmd.Process.Kill()
			<-p.done
		}
	})
}

func (p *process) interrupt() { _ = p.cmd.Process.Signal(os.Interrupt) }

func (p *process) said() (stdout, stderr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stdout.String(), p.stderr.String()
}

// until waits until stderr has the text, and returns what follows it.
func (p *process) until(text string) string {
	p.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		_, stderr := p.said()
		if _, after, ok := strings.Cut(stderr, text); ok && strings.Contains(after, "\n") {
			return after
		}
		select {
		case <-p.done:
			p.t.Fatalf("%v ended without saying %q:\n%s", p.cmd.Args[1:], text, stderr)
		case <-time.After(10 * time.Millisecond): // of looking again
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%v does not say %q:\n%s", p.cmd.Args[1:], text, stderr)
		}
	}
}

// code waits for the end.
func (p *process) code(within time.Duration) int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(within):
		_, stderr := p.said()
		p.t.Fatalf("%v still runs after %v:\n%s", p.cmd.Args[1:], within, stderr)
	}
	return p.cmd.ProcessState.ExitCode()
}

// report is the one run of a process's JSON report.
func (p *process) report() *analysis.Report {
	p.t.Helper()
	stdout, stderr := p.said()
	var doc analysis.Document
	if err := readDocument(p.t, stdout, &doc); err != nil || len(doc.Runs) != 1 {
		p.t.Fatalf("report: %v\n%s\n%s", err, stdout, stderr)
	}
	return doc.Runs[0]
}

// do runs a kvbench that must succeed.
func do(t *testing.T, args ...string) (stdout string) {
	t.Helper()
	p := start(t, args...)
	if code := p.code(time.Minute); code != 0 {
		_, stderr := p.said()
		t.Fatalf("%v: exit code %d\n%s", args, code, stderr)
	}
	stdout, _ = p.said()
	return stdout
}

// fleet is a playground with data and workers in processes of their own.
type fleet struct {
	cluster *playground.Cluster
	args    []string // of a verb, to use them
	out     string
	workers []*process
}

func newFleet(t *testing.T, workers int) *fleet {
	t.Helper()
	return newFleetOn(t, playground.Options{}, workers)
}

func newFleetOn(t *testing.T, options playground.Options, workers int) *fleet {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, err := playground.Start(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	f := &fleet{cluster: c, out: t.TempDir()}
	var addresses []string
	for range workers {
		w := start(t, "worker", "--listen", "127.0.0.1:0", "--data", t.TempDir())
		addresses = append(addresses, strings.Fields(w.until(`"worker ready" address=`))[0])
		f.workers = append(f.workers, w)
	}
	if workers > 0 {
		f.args = []string{"--workers", strings.Join(addresses, ",")}
	}
	f.args = append(f.args, "--pd", c.PDAddr(), "--out", f.out,
		"-p", "recordcount=2000", "-p", "fieldcount=1", "-p", "fieldlength=10", "--threads", "8")
	do(t, f.verb("load")...)
	return f
}

func (f *fleet) verb(args ...string) []string { return append(args, f.args...) }

// TestInterruptKeepsWhatWasMeasured: Ctrl-C stops the load on every worker (within
// two seconds where cores are to be had), and what was measured is reported.
func TestInterruptKeepsWhatWasMeasured(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	run := start(t, f.verb("run", "-w", "read", "--duration", "10m", "--json")...)
	run.until("measuring ")
	run.until("p50") // the first second with operations
	target := start(t, append([]string{"target", "500"}, f.args[:2]...)...)
	if code := target.code(20 * time.Second); code != exitcode.Usage {
		t.Errorf("a target for an unpaced run: exit code %d, want %d", code, exitcode.Usage)
	}
	target.until("was started without --target")
	run.interrupt()
	if code := run.code(20 * time.Second); code != exitcode.Interrupted {
		t.Errorf("exit code %d, want %d", code, exitcode.Interrupted)
	}
	r := run.report()
	if r.Operations == 0 || r.Verdict.Code != exitcode.Interrupted {
		t.Errorf("%d operations are reported, verdict %+v", r.Operations, r.Verdict)
	}
	dirs, err := filepath.Glob(filepath.Join(f.out, r.RunID, "*", results.WorkerFile))
	if err != nil || len(dirs) != 2 {
		t.Fatalf("the results are of %d workers: %v", len(dirs), err)
	}
	var stopped float64
	for e := range results.Events(filepath.Join(f.out, r.RunID)) {
		if e.Kind == "stop" {
			stopped = e.S
		}
	}
	for _, path := range dirs {
		w, err := results.ReadWorker(filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		if w.State != results.Finished || stopped == 0 || w.EndS-stopped > 5 {
			t.Errorf("%s is %s; it ended %.2f s after the stop", w.Name, w.State, w.EndS-stopped)
		}
	}
}

// TestSecondInterruptGivesUp: while the stores answer nothing, the first one
// waits for what is in flight, the second one does not.
func TestSecondInterruptGivesUp(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	run := start(t, f.verb("run", "-w", "read", "--duration", "10m", "--json")...)
	run.until("p50")
	for _, s := range f.cluster.State().Stores {
		if err := f.cluster.StallStore(s.ID, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	run.interrupt()
	run.until("stopping")
	time.Sleep(secondInterrupt) // before which it is not a second one
	run.interrupt()
	began := time.Now()
	if code := run.code(20 * time.Second); code != exitcode.Interrupted {
		t.Errorf("exit code %d, want %d", code, exitcode.Interrupted)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v to give up", took)
	}
	if err := f.cluster.Restore(); err != nil {
		t.Fatal(err)
	}
}

// TestKilledWorkerIsLost: the run goes on without it, what it had measured is in the
// results, and the exit code says so.
func TestKilledWorkerIsLost(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for a worker to be declared lost")
	}
	f := newFleet(t, 2)
	run := start(t, f.verb("run", "-w", "read", "--target", "200", "--duration", "8s", "--json")...)
	run.until("p50")
	run.until("p50")
	if err := f.workers[1].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if code := run.code(time.Minute); code != exitcode.Degraded {
		t.Errorf("exit code %d, want %d", code, exitcode.Degraded)
	}
	r := run.report()
	if len(r.WorkersLost) != 1 || r.WorkersExpected != 2 || r.WorkersFinished != 1 {
		t.Errorf("expected %d, finished %d, lost %+v", r.WorkersExpected, r.WorkersFinished, r.WorkersLost)
	}
	for _, w := range r.Workers {
		if w.Operations == 0 {
			t.Errorf("nothing is known of what %s did", w.Name)
		}
	}
	// Its loss comes before a dip could be found; half of the target is what the other one answers.
	lost := slices.IndexFunc(r.Disturbances, func(d analysis.Disturbance) bool { return len(d.Events) > 0 && d.Events[0].Kind == results.WorkerLost })
	if lost < 0 || r.Disturbances[lost].Judged || r.Disturbances[lost].Unseen != 1 || r.Disturbances[lost].During == nil || r.Disturbances[lost].During.OpsPerS > 120 {
		t.Errorf("the account of the loss: %+v", r.Disturbances)
	}
}

// TestDetachedRunIsSteeredFromOutside: started and left alone, looked at, given another
// target, stopped and collected.
func TestDetachedRunIsSteeredFromOutside(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	run := start(t, f.verb("run", "-w", "read", "--target", "100", "--duration", "10m", "--detach")...)
	if code := run.code(time.Minute); code != 0 {
		_, stderr := run.said()
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	id := strings.Fields(run.until("kvbench collect "))[0]
	workers := f.args[:2]
	verb := func(args ...string) []string { return append(args, workers...) }

	operations := func() int64 {
		var rows []statusRow
		if err := json.Unmarshal([]byte(do(t, verb("status", "--json")...)), &rows); err != nil || len(rows) != 1 {
			t.Fatalf("status: %v, %+v", err, rows)
		}
		if rows[0].Run != id {
			t.Fatalf("status is of run %q, want %q", rows[0].Run, id)
		}
		return rows[0].Operations
	}
	deadline := time.Now().Add(30 * time.Second)
	reach := func(n int64) {
		for operations() < n {
			if time.Now().After(deadline) {
				t.Fatalf("%d operations are not reached", n)
			}
			time.Sleep(100 * time.Millisecond) // of looking again
		}
	}
	reach(100)
	do(t, verb("target", "2000")...)
	reach(3000) // at 100/s that would be half a minute
	busy := start(t, f.verb("run", "-w", "read", "--duration", "1s")...)
	if code := busy.code(time.Minute); code != exitcode.Unreachable {
		t.Errorf("a second coordinator: exit code %d, want %d", code, exitcode.Unreachable)
	}
	busy.until("kvbench stop " + id)
	do(t, verb("stop", id)...)
	p := start(t, append(verb("collect", id, "--json"), "--out", f.out)...)
	if code := p.code(time.Minute); code != exitcode.Interrupted {
		t.Errorf("collect: exit code %d, want the verdict's %d", code, exitcode.Interrupted)
	}
	stdout, stderr := p.said()
	var doc analysis.Document
	if err := readDocument(t, stdout, &doc); err != nil || len(doc.Runs) != 1 || doc.Runs[0].Operations < 3000 {
		t.Fatalf("collected: %v\n%s\n%s", err, stdout, stderr)
	}
	// The account of the change: what was answered before it, and after.
	all := doc.Runs[0].Disturbances
	if len(all) != 1 || len(all[0].Events) != 1 || all[0].Events[0].Text != "2,000/s, 100/s before" || all[0].Dip || all[0].Before == nil || all[0].During == nil ||
		all[0].Before.OpsPerS > 110 || all[0].During.OpsPerS < 500 {
		t.Errorf("the account of the target's change: %+v", all)
	}
}

// TestDemo is the README's first command, shortened.
func TestDemo(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes 15 s")
	}
	out := t.TempDir()
	stdout := do(t, "demo", "--out", out, "--records", "3000", "--target", "500", "--duration", "2s")
	if n := strings.Count(stdout, "\nverdict"); n != 3 {
		t.Errorf("%d reports, want 3:\n%s", n, stdout)
	}
	if !strings.Contains(stdout, "3,000") {
		t.Error("the load is not of 3,000 records")
	}
	if runs, err := results.Find(out); err != nil || len(runs) != 3 {
		t.Errorf("%d runs in the results, want 3: %v", len(runs), err)
	}
}
