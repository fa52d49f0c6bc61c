// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/playground"
	"github.com/kvbench/kvbench/internal/results"
)

// The tests here are of docs/failure-model.md: each makes a fault with real processes.
// `make test-faults` runs them.
func fault(t *testing.T) {
	t.Helper()
	if os.Getenv("KVBENCH_FAULTS") == "" {
		t.Skip("make test-faults runs it")
	}
	t.Parallel()
}

// freeze stops a process as a paused machine does, until the test is over.
func (p *process) freeze() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	p.t.Cleanup(func() { _ = p.cmd.Process.Signal(syscall.SIGCONT) })
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// kill ends a process as kill -9 does, and waits for its end.
func (p *process) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	<-p.done
}

// mentions checks what a process has said.
func (p *process) mentions(texts ...string) {
	p.t.Helper()
	stdout, stderr := p.said()
	for _, text := range texts {
		if !strings.Contains(stdout+stderr, text) {
			p.t.Errorf("%v does not say %q:\n%s%s", p.cmd.Args[1:], text, stdout, stderr)
		}
	}
}

// exits checks the code that a process ends with, within so long.
func (p *process) exits(code int, within time.Duration) {
	p.t.Helper()
	if got := p.code(within); got != code {
		_, stderr := p.said()
		p.t.Errorf("%v: exit code %d, want %d\n%s", p.cmd.Args[1:], got, code, stderr)
	}
}

// address is where a worker listens.
func (f *fleet) address(worker int) string { return strings.Split(f.args[1], ",")[worker] }

// detached starts a run that goes on by itself.
func (f *fleet) detached(args ...string) (id string) {
	t := f.workers[0].t
	t.Helper()
	run := start(t, f.verb(append([]string{"run", "-w", "read", "--detach"}, args...)...)...)
	run.exits(0, time.Minute)
	id, _, _ = strings.Cut(run.until("kvbench collect "), " ")
	return strings.TrimSpace(id)
}

// TestFaultVerbsActOnThoseThatAnswer: of three workers one is dead and one is frozen.
// The third can be looked at, steered, stopped and collected within seconds.
func TestFaultVerbsActOnThoseThatAnswer(t *testing.T) {
	fault(t)
	f := newFleet(t, 3)
	id := f.detached("--target", "300", "--duration", "10m")
	f.workers[1].kill()
	f.workers[2].freeze()
	for _, verb := range [][]string{
		{"status", "--json"},
		{"target", "600"},
		{"annotate", "two workers went"},
		{"stop", id},
		{"collect", id, "--json", "--out", f.out},
	} {
		began := time.Now()
		p := start(t, append(verb, f.args[:2]...)...)
		p.exits(exitcode.Degraded, 20*time.Second)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s took %v", verb[0], took)
		}
		p.mentions("2 of 3 workers", f.address(1), f.address(2))
		switch stdout, _ := p.said(); verb[0] {
		case "status":
			var rows []statusRow
			if err := json.Unmarshal([]byte(stdout), &rows); err != nil || len(rows) != 3 ||
				rows[0].State != "running" || rows[1].State != "unreachable" || rows[2].State != "unreachable" {
				t.Errorf("status: %v\n%s", err, stdout)
			}
		case "stop":
			p.mentions("stopped on 1 worker")
		case "collect":
			r := p.report()
			if r.Operations == 0 {
				t.Error("nothing of the worker that answers is collected")
			}
			if !strings.Contains(stdout, `"two workers went"`) {
				t.Error("what was noted on the worker that answers is not in the report")
			}
		}
	}
}

// TestFaultSilentWorkerIsUnknown: the live rate drops what a frozen worker did two
// intervals ago, and keeps what is asked of the fleet; that it is lost, and that it is back, is said.
func TestFaultSilentWorkerIsUnknown(t *testing.T) {
	fault(t)
	f := newFleet(t, 2)
	run := start(t, f.verb("run", "-w", "read", "--target", "1000", "--duration", "20s", "--json")...)
	run.until("12s measuring") // a dip can be found after ten seconds
	run.until(" of 1,000 ")
	f.workers[1].freeze()
	frozen := time.Now()
	run.until("has not reported for")
	if took := time.Since(frozen); took > 6*time.Second {
		t.Errorf("it took %v to say that a worker does not report", took)
	}
	run.until("is lost")
	run.until(" of 1,000 ")                                                   // is still what is asked for
	_, shown, _ := strings.Cut(strings.TrimSpace(run.until("is lost")), "\n") // the rest of that line is the reason
	for line := range strings.Lines(shown) {
		if !strings.Contains(line, " of 1,000") || !strings.Contains(line, "1/2 workers") {
			t.Errorf("while a worker is lost: %q", line)
		}
	}
	f.workers[1].signal(syscall.SIGCONT)
	thawed := time.Now()
	run.until("is back")
	run.code(time.Minute) // of its verdict, which is not of this
	r := run.report()
	from, to := frozen.Sub(r.Start).Seconds(), thawed.Sub(r.Start).Seconds()
	lost := slices.IndexFunc(r.Disturbances, func(d analysis.Disturbance) bool {
		return slices.ContainsFunc(d.Events, func(e results.Event) bool { return e.Kind == results.WorkerLost })
	})
	if lost < 0 {
		t.Fatalf("there is no account of the worker's loss: %+v", r.Disturbances)
	}
	// Of two workers one did nothing; the other's answers went on.
	if d := r.Disturbances[lost]; !d.Dip || d.Open || d.AtS < from-1 || d.AtS > from+1.5 || d.ToS < to-1 || d.ToS > to+2 || d.Depth < 0.25 || d.Depth > 0.6 || d.NoAnswer != nil {
		t.Errorf("a worker was frozen from %.1f to %.1f s, and the report tells %+v", from, to, d)
	}
	var kinds []string
	dirs, err := filepath.Glob(filepath.Join(f.out, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for e := range results.Events(dirs[len(dirs)-1]) {
		if e.Worker != "" {
			kinds = append(kinds, e.Kind)
		}
	}
	if got := strings.Join(kinds, " "); got != "worker-lost worker-back worker-finished worker-finished" {
		t.Errorf("events: %s", got)
	}
}

// TestFaultDatabaseHangs: all stores stop answering in a run, and do not come back. Calls that were never answered, and
// operations that were due and never started, are counted, and latencies say what they are at least with them.
func TestFaultDatabaseHangs(t *testing.T) {
	fault(t)
	for _, driver := range []string{"rawkv", "stream"} {
		for _, target := range []string{"", "200"} {
			args, code := []string{"run", "-w", "read", "--driver", driver, "--duration", "5s", "-p", "grace=2", "--json"}, exitcode.Degraded
			if target != "" {
				args, code = append(args, "--target", target), exitcode.Target
			}
			f := newFleet(t, 1)
			run := start(t, f.verb(args...)...)
			run.until("measuring ")
			run.until("p50") // the first second with operations
			for id := uint64(1); id <= 3; id++ {
				if err := f.cluster.StallStore(id, time.Hour); err != nil {
					t.Fatal(err)
				}
			}
			run.exits(code, time.Minute)
			r := run.report()
			for _, text := range analysis.Contradictions(r) {
				t.Errorf("%s %s: %s", driver, target, text)
			}
			never := r.Kinds[len(r.Kinds)-1].NeverAnswered
			if r.Hang == nil || r.Hang.Calls != 8 || r.Hang.OldestS < 2 || r.Unanswered == nil || r.Unanswered.Calls != 8 || never == nil || never.CutOffCalls != 8 {
				t.Fatalf("%s %s: %+v, %+v, %+v: want those of 8 threads that were never answered", driver, target, r.Hang, r.Unanswered, never)
			}
			if r.Limit.By != analysis.ByServer || !strings.Contains(r.Verdict.Text, "the stores never answered 8 calls") {
				t.Errorf("%s %s: limited by %s, %s", driver, target, r.Limit.By, r.Verdict.Text)
			}
			if all := r.Operations + never.Operations; target != "" && all != 1000 {
				t.Errorf("%s: %d operations were answered and %d never, want all 1,000", driver, r.Operations, never.Operations)
			}
			if least := never.ServiceUS.Max; float64(least) < 1e6*r.Hang.OldestS {
				t.Errorf("%s %s: service max is at least %d µs, after a call that had waited %g s", driver, target, least, r.Hang.OldestS)
			}
		}
	}
}

// TestFaultTwoSignalsAtOnce: timeout(1) signals the process and its group, and a hangup
// ends a run as an interrupt does. What was measured is reported.
func TestFaultTwoSignalsAtOnce(t *testing.T) {
	fault(t)
	f := newFleet(t, 1)
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		if signal.Ignored(s) { // as under nohup, which kvbench heeds
			continue
		}
		run := start(t, f.verb("run", "-w", "read", "--target", "500", "--duration", "10m", "--json")...)
		run.until("p50")
		run.signal(s)
		run.signal(s)
		run.exits(exitcode.Interrupted, 20*time.Second)
		run.mentions("interrupted; what was measured is kept")
		if r := run.report(); r.Operations == 0 || r.WorkersFinished != 1 {
			t.Errorf("%v: %d operations of %d workers are reported", s, r.Operations, r.WorkersFinished)
		}
	}
}

// runFolder is the folder of the only run of a phase in the fleet's results.
func (f *fleet) runFolder(phase string) string {
	t := f.workers[0].t
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(f.out, "*", results.RunFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		if r, err := results.ReadRun(filepath.Dir(d)); err == nil && r.Phase == phase {
			return filepath.Dir(d)
		}
	}
	t.Fatalf("no results of a %s in %v", phase, dirs)
	return ""
}

// onlyCopy is a file of the only worker whose results are in a run's folder.
func onlyCopy(t *testing.T, dir, name string) string {
	t.Helper()
	copies, err := filepath.Glob(filepath.Join(dir, "*", name))
	if err != nil || len(copies) != 1 {
		t.Fatalf("%v: %v", copies, err)
	}
	return copies[0]
}

// TestFaultTwoWriters: collect keeps out of a folder that a run writes into. A copy that
// is not one of the journal is refused, and copied anew when that is asked for.
func TestFaultTwoWriters(t *testing.T) {
	fault(t)
	f := newFleet(t, 1)
	run := start(t, f.verb("run", "-w", "read", "--target", "300", "--duration", "10m", "--json")...)
	run.until("p50")
	dir := f.runFolder("run")
	collect := append([]string{"collect", filepath.Base(dir), "--out", f.out, "--json"}, f.args[:2]...)
	beside := start(t, collect...)
	beside.exits(exitcode.Usage, 30*time.Second)
	beside.mentions("another kvbench writes into " + dir)
	run.interrupt()
	run.exits(exitcode.Interrupted, 30*time.Second)
	want := run.report().Operations

	damaged, err := os.OpenFile(onlyCopy(t, dir, results.HistogramsFile), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := damaged.WriteString("not of the journal\n"); err != nil {
		t.Fatal(err)
	}
	if err := damaged.Close(); err != nil {
		t.Fatal(err)
	}
	refused := start(t, collect...)
	refused.code(30 * time.Second)
	refused.mentions("it is not a copy of this one", "--fresh")
	fresh := start(t, append(collect, "--fresh")...)
	fresh.code(30 * time.Second)
	if got := fresh.report().Operations; got != want {
		t.Errorf("%d operations are collected anew, want %d", got, want)
	}
}

// TestFaultResultsCannotBeWritten: that the results folder takes no more is said at once, the
// run goes on to its end, and what it measured is fetched as the hint says.
func TestFaultResultsCannotBeWritten(t *testing.T) {
	fault(t)
	f := newFleet(t, 1)
	run := start(t, f.verb("run", "-w", "read", "--target", "300", "--duration", "6s", "--json")...)
	run.until("measuring ")
	dir := f.runFolder("run")
	blocked := filepath.Join(filepath.Dir(onlyCopy(t, dir, results.WorkerFile)), results.HistogramsFile)
	if err := os.RemoveAll(blocked); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(blocked, 0o777); err != nil {
		t.Fatal(err)
	}
	run.until("the run goes on, and the workers keep what they measure; kvbench collect " + filepath.Base(dir) + " --out " + f.out + " --workers " + f.address(0) + " fetches the rest")
	run.exits(exitcode.Degraded, 60*time.Second)
	if _, stderr := run.said(); strings.Contains(stderr, "is lost") {
		t.Errorf("a worker is said to be lost:\n%s", stderr)
	}
	fresh := start(t, "collect", filepath.Base(dir), "--out", f.out, "--workers", f.address(0), "--fresh", "--json")
	fresh.code(30 * time.Second)
	if got := fresh.report().Operations; got < 900 || got > 1800 {
		t.Errorf("%d operations are collected, want those of 6 s at 300/s", got)
	}
}

// TestFaultTwoCoordinatorsAtOnce: of two that begin at the same instant, one begins.
func TestFaultTwoCoordinatorsAtOnce(t *testing.T) {
	fault(t)
	f := newFleet(t, 3)
	for range 3 {
		a := prepared(t, nil, f.verb("run", "-w", "read", "--target", "100", "--duration", "3s", "--json")...)
		b := prepared(t, nil, f.verb("run", "-w", "read", "--target", "100", "--duration", "3s", "--json")...)
		a.start()
		b.start()
		codes := []int{a.code(time.Minute), b.code(time.Minute)}
		if codes[0] == exitcode.Unreachable && codes[1] == exitcode.Unreachable {
			_, first := a.said()
			_, second := b.said()
			t.Errorf("neither begins:\n%s\n%s", first, second)
		}
	}
}

// TestFaultWhatChecksFind: of each fault that no answer tells of, each check finds what the table of
// docs/verification.md says.
func TestFaultWhatChecksFind(t *testing.T) {
	fault(t)
	page, err := os.ReadFile("../../docs/verification.md")
	if err != nil {
		t.Fatal(err)
	}
	// Each returns the exit code of what checks, under a fault that strike brings about.
	verb := func(b *table, args ...string) []string {
		return append(args, "--pd", b.cluster.PDAddr(), "--out", b.out, "-p", "recordcount=1000", "-p", "fieldcount=1", "-p", "fieldlength=40", "--threads", "8")
	}
	code := func(b *table, args ...string) int { return start(t, verb(b, args...)...).code(time.Minute) }
	checks := []func(b *table, strike func()) int{
		func(b *table, strike func()) int {
			do(t, verb(b, "load", "-p", "dataintegrity=true")...)
			strike()
			return code(b, "run", "-w", "mixed", "-p", "dataintegrity=true", "--operations", "4000")
		},
		func(b *table, strike func()) int {
			do(t, verb(b, "load")...)
			strike()
			return code(b, "run", "-w", "update", "--verify-writes", "-p", "requestdistribution=uniform", "--operations", "4000")
		},
		func(b *table, strike func()) int {
			do(t, verb(b, "load")...)
			strike()
			return code(b, "run", "-p", "scanproportion=1", "-p", "readproportion=0", "-p", "updateproportion=0", "--operations", "500")
		},
		func(b *table, strike func()) int {
			strike()
			do(t, verb(b, "load", "-p", "manifest=none", "-p", "dataintegrity=true")...)
			return code(b, "verify", "-p", "manifest=none", "-p", "dataintegrity=true")
		},
	}
	for f := playground.Lose; f <= playground.Swallow; f++ {
		_, row, ok := strings.Cut(string(page), "(`"+f.String()+"`) |")
		row, _, _ = strings.Cut(row, "\n")
		cells := strings.Split(strings.Trim(row, " |"), " | ")
		if !ok || len(cells) != len(checks) {
			t.Fatalf("the table has %q for %v", row, f)
		}
		for i, check := range checks {
			b := newTable(t)
			code := check(b, func() { b.fault(t, f, 0.05, 0) })
			if found := code == exitcode.Wrong; found != (cells[i] == "found") {
				t.Errorf("%v, check %d: exit code %d, and the table says %q", f, i+1, code, cells[i])
			}
		}
	}
}
