// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/playground"
	"github.com/kvbench/kvbench/internal/results"
)

// truth in the environment runs TestTruth: all of it with each driver, or, if it is "short", each
// situation with one of them.
const (
	truth = "KVBENCH_TRUTH"
	short = "short"
)

// situation is something that happens to a run, and what has to be said of it.
type situation struct {
	name    string
	workers int      // processes; default 1; none has one within the coordinator's
	regions int      // of the playground; default its own
	args    []string // of kvbench run
	phase   string   // the verb; default run
	before  func(*scene)
	during  func(*scene) // once the first second with operations is shown
	driver  string       // the only one; default both
	after   func(*scene) // when the run has ended; the results are analysed anew
	long    bool         // left out of the short form

	code    int      // the one right exit code
	crowded int      // what else is right on a machine that others crowd, beside what [situation.lesser] allows
	by      []string // what may be called the limit; empty if that is not the point
	says    []string // each is in the verdict or its reason
	never   []string // none is
	expects []bounds
}

const none = -1

// bounds are between which a number of the report must be.
type bounds struct {
	what        string
	of          func(*analysis.Report) float64
	least, most float64
}

// scene is a situation that takes place.
type scene struct {
	*fleet
	t   *testing.T
	run *process
	dir string // of the results, once the run has ended

	loops []int // processes that do nothing but use processors
}

// each does something to every store.
func (s *scene) each(do func(id uint64) error) {
	s.t.Helper()
	for _, store := range s.cluster.State().Stores {
		if err := do(store.ID); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *scene) slow(by time.Duration) {
	s.each(func(id uint64) error { return s.cluster.SlowStore(id, by, 1) })
}

func (s *scene) stall(d time.Duration) {
	s.each(func(id uint64) error { return s.cluster.StallStore(id, d) })
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// pinned binds a worker to one processor, of which n loops take their part as well.
func (s *scene) pinned(n int) {
	var one unix.CPUSet
	s.must(unix.SchedGetaffinity(0, &one))
	for cpu := 0; one.Count() > 1; cpu++ {
		one.Clear(cpu)
	}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", s.workers[0].cmd.Process.Pid))
	s.must(err)
	for _, task := range tasks {
		var id int
		if _, err := fmt.Sscan(filepath.Base(task), &id); err == nil {
			_ = unix.SchedSetaffinity(id, &one) // of a thread that has just ended
		}
	}
	for range n {
		loop := exec.Command("sh", "-c", "while :; do :; done")
		s.must(loop.Start())
		s.t.Cleanup(func() { _ = loop.Process.Kill(); _ = loop.Wait() })
		s.must(unix.SchedSetaffinity(loop.Process.Pid, &one))
		s.loops = append(s.loops, loop.Process.Pid)
	}
}

// throttled puts a worker into a control group with a share of a processor.
func (s *scene) throttled(share float64) {
	const root, period = "/sys/fs/cgroup", 100_000 // µs
	parent, limits := root, map[string]string{"cpu.max": fmt.Sprintf("%.0f %d", share*period, period)}
	if _, err := os.Stat(filepath.Join(root, "cpu", "cpu.cfs_quota_us")); err == nil { // version 1
		parent, limits = filepath.Join(root, "cpu"), map[string]string{"cpu.cfs_quota_us": fmt.Sprintf("%.0f", share*period)}
	} else if controllers, err := os.ReadFile(filepath.Join(root, "cgroup.subtree_control")); err != nil || !strings.Contains(string(controllers), "cpu") {
		s.t.Skip("there are no control groups here that limit processors")
	}
	w := s.workers[0]
	group := filepath.Join(parent, fmt.Sprintf("kvbench-truth-%d", w.cmd.Process.Pid))
	if err := os.Mkdir(group, 0o755); err != nil {
		s.t.Skipf("control groups cannot be made here: %v", err)
	}
	s.t.Cleanup(func() {
		w.interrupt()
		<-w.done
		s.must(os.Remove(group))
	})
	for name, value := range limits {
		if err := os.WriteFile(filepath.Join(group, name), []byte(value), 0); err != nil {
			s.t.Skipf("processors cannot be limited here: %v", err)
		}
	}
	s.must(os.WriteFile(filepath.Join(group, "cgroup.procs"), fmt.Append(nil, w.cmd.Process.Pid), 0))
}

// file is one of a worker's results.
func (s *scene) file(name string) string {
	s.t.Helper()
	found, err := filepath.Glob(filepath.Join(s.dir, "*", name))
	if err != nil || len(found) == 0 {
		s.t.Fatalf("no %s in %s: %v", name, s.dir, err)
	}
	return found[0]
}

// cut leaves a share of the lines of a file.
func (s *scene) cut(name string, share float64) {
	path := s.file(name)
	data, err := os.ReadFile(path)
	s.must(err)
	lines := strings.SplitAfter(string(data), "\n")
	s.must(os.WriteFile(path, []byte(strings.Join(lines[:int(share*float64(len(lines)))], "")), 0o644))
}

func operations(r *analysis.Report) float64 { return float64(r.Operations) }
func rate(r *analysis.Report) float64       { return r.OpsPerS }
func silence(r *analysis.Report) float64 {
	if r.NoAnswer == nil {
		return 0
	}
	return r.NoAnswer.S
}

// all is the row of all kinds that ended well.
func all(r *analysis.Report) analysis.KindRow { return r.Kinds[len(r.Kinds)-1] }

func serviceMS(p func(*analysis.Latency) float64) func(*analysis.Report) float64 {
	return func(r *analysis.Report) float64 { return p(all(r).ServiceUS) / 1000 }
}

func responseMS(p func(*analysis.Latency) float64) func(*analysis.Report) float64 {
	return func(r *analysis.Report) float64 { return p(all(r).ResponseUS) / 1000 }
}

func p50(l *analysis.Latency) float64  { return float64(l.P50) }
func p999(l *analysis.Latency) float64 { return float64(l.P999) }

var (
	infinite = math.Inf(1)
	// On a machine of few cores it may be anyone.
	anyone = []string{analysis.ByServer, analysis.ByClient, analysis.ByOthers, analysis.ByUnknown}
)

var situations = []situation{
	{
		name: "target met", args: []string{"--target", "500", "--duration", "4s"},
		code: exitcode.Valid, by: []string{analysis.ByTarget}, says: []string{"valid; target met"}, never: []string{"limited"},
		expects: []bounds{{"operations", operations, 1999, 2001}, {"rate", rate, 499, 501}},
	},
	{
		name: "target met by a slow server", args: []string{"--target", "100", "--duration", "4s"}, long: true,
		before: func(s *scene) { s.slow(30 * time.Millisecond) },
		code:   exitcode.Valid, by: []string{analysis.ByTarget}, says: []string{"valid; target met"},
		expects: []bounds{{"operations", operations, 399, 401}, {"service p50 ms", serviceMS(p50), 30, infinite}},
	},
	{
		name: "target missed by little", args: []string{"--target", "100", "--threads", "1", "--duration", "5s"},
		before: func(s *scene) { s.slow(10400 * time.Microsecond) },
		code:   exitcode.Target, by: []string{analysis.ByServer}, says: []string{"of the target of 100/s was reached", "limited by the server", "1 thread"},
		expects: []bounds{{"rate", rate, 50, 98.9}},
	},
	{
		name: "slow server", args: []string{"--target", "2000", "--duration", "4s"},
		before: func(s *scene) { s.slow(30 * time.Millisecond) },
		code:   exitcode.Target, by: []string{analysis.ByServer}, says: []string{"limited by the server", "8 threads"}, never: []string{"connection"},
		expects: []bounds{{"rate", rate, 100, 267}},
	},
	{
		name: "one slow store", args: []string{"--target", "2000", "--duration", "5s", "--server-metrics", "1s"},
		before: func(s *scene) { s.must(s.cluster.SlowStore(1, 50*time.Millisecond, 1)) },
		code:   exitcode.Target, by: []string{analysis.ByServer}, says: []string{"limited by the server", " for a raw_get in the mean, no other more than "},
		expects: []bounds{{"rate", rate, 100, 700}},
	},
	{
		name: "unpaced", args: []string{"--duration", "3s"},
		code: exitcode.Valid, by: anyone, says: []string{"valid"}, never: []string{"target"},
	},
	{
		name: "by count", args: []string{"--target", "500", "--operations", "1000", "--duration", "1m"}, long: true,
		code: exitcode.Valid, says: []string{"valid"},
		expects: []bounds{{"operations", operations, 1000, 1000}},
	},
	{
		name: "no cores", args: []string{"--threads", "256", "--cores", "1", "--gc-percent", "2", "--duration", "4s"}, workers: none,
		driver: "rawkv", // the playground costs more than the other one, whatever that one does
		code:   exitcode.Valid, by: []string{analysis.ByClient, analysis.ByOthers},
	},
	{
		name: "too few threads", args: []string{"--target", "1000", "--threads", "2", "--duration", "4s"},
		before: func(s *scene) { s.slow(5 * time.Millisecond) },
		code:   exitcode.Target, by: []string{analysis.ByServer}, says: []string{"2 threads"},
	},
	{
		name: "all stores hang, paced", args: []string{"--target", "500", "--duration", "6s", "-p", "grace=1"},
		during: func(s *scene) { s.stall(time.Minute) },
		code:   exitcode.Target, by: []string{analysis.ByServer}, says: []string{"no answer for"}, never: []string{"limited by the client", "the client's", "bursts"},
		expects: []bounds{{"time without an answer", silence, 2, 6}},
	},
	{
		name: "all stores hang, unpaced", args: []string{"--duration", "6s", "-p", "grace=1"}, long: true,
		during: func(s *scene) { s.stall(time.Minute) },
		code:   exitcode.Degraded, by: []string{analysis.ByServer}, says: []string{"no answer for"}, never: []string{"limited by the client", "the client's", "bursts"},
		expects: []bounds{{"time without an answer", silence, 2, 6}},
	},
	{
		name: "one store hangs", args: []string{"--target", "500", "--duration", "6s", "-p", "grace=1"}, long: true,
		during: func(s *scene) { s.must(s.cluster.StallStore(1, time.Minute)) },
		code:   exitcode.Target, by: []string{analysis.ByServer}, never: []string{"limited by the client", "the client's", "bursts"},
	},
	{
		name: "a stall that is caught up", args: []string{"--target", "500", "--duration", "8s"},
		during: func(s *scene) { s.stall(2 * time.Second) },
		code:   exitcode.Valid, by: []string{analysis.ByTarget}, says: []string{"valid; target met", "no answer for"},
		expects: []bounds{{"operations", operations, 3999, 4001}, {"time without an answer", silence, 1.9, 3}, {"response p99.9 ms", responseMS(p999), 1500, 3000}},
	},
	{
		name: "stopped by its user", args: []string{"--target", "500", "--duration", "10m"},
		during: func(s *scene) { s.run.interrupt() },
		code:   exitcode.Interrupted, says: []string{"interrupted"},
	},
	{
		name: "nothing but errors", args: []string{"--target", "500", "--warmup", "2s", "--duration", "4s"},
		during: func(s *scene) {
			s.each(func(id uint64) error { return s.cluster.SetRawError(id, 1, "region is unavailable") })
		},
		code: exitcode.Degraded, by: []string{analysis.ByErrors}, says: []string{"100 % of the operations failed"}, never: []string{"limited by the client"},
	},
	{
		name: "some errors", args: []string{"--target", "500", "--duration", "4s"},
		before: func(s *scene) {
			s.each(func(id uint64) error { return s.cluster.SetRawError(id, 0.05, "region is unavailable") })
		},
		code: exitcode.Degraded, says: []string{"of the operations failed"}, never: []string{"valid"},
	},
	{
		name: "busy stores", args: []string{"--target", "500", "--warmup", "2s", "--duration", "5s"}, long: true,
		during: func(s *scene) { s.each(func(id uint64) error { return s.cluster.SetBusy(id, 0.9) }) },
		code:   exitcode.Degraded, by: []string{analysis.ByServer}, says: []string{"no operation completed in the window"}, never: []string{"limited by the client"},
	},
	{
		name: "misses", args: []string{"--target", "500", "--duration", "4s", "-p", "table=never"}, long: true,
		code: exitcode.Degraded, says: []string{"found no value"}, never: []string{"valid"},
	},
	{
		name: "a frozen worker", args: []string{"--target", "500", "--duration", "8s"}, workers: 2,
		during: func(s *scene) {
			s.workers[1].signal(syscall.SIGSTOP)
			time.Sleep(3 * time.Second) // is what happens: a machine that is paused for so long
			s.workers[1].signal(syscall.SIGCONT)
		},
		code: exitcode.Degraded, by: []string{analysis.ByClient}, says: []string{"stood still for"}, never: []string{"valid"},
	},
	{
		name: "a throttled worker", args: []string{"--target", "20000", "--threads", "64", "--duration", "5s"},
		before: func(s *scene) { s.throttled(0.1) },
		code:   exitcode.Degraded, crowded: exitcode.Target /* it does not come to use its share */, by: []string{analysis.ByClient}, says: []string{"throttled by its CPU limit"}, never: []string{"valid"},
	},
	{
		name: "a starved worker", args: []string{"--threads", "64", "--duration", "5s"},
		before: func(s *scene) { s.pinned(4) },
		code:   exitcode.Valid, by: []string{analysis.ByOthers, analysis.ByUnknown}, says: []string{"other processes"}, never: []string{"limited by the server", "limited by the client"},
	},
	{
		name: "a killed worker", args: []string{"--target", "500", "--duration", "8s"}, workers: 2, long: true,
		during: func(s *scene) { s.workers[1].kill() },
		code:   exitcode.Degraded, says: []string{"1 of 2 workers lost"}, never: []string{"valid"},
	},
	{
		name: "a worker lost and found", args: []string{"--target", "200", "--duration", "40s"}, workers: 2, long: true,
		during: func(s *scene) {
			s.workers[1].signal(syscall.SIGSTOP)
			s.run.until("is lost")
			s.workers[1].signal(syscall.SIGCONT)
			s.run.until("is back")
		},
		code: exitcode.Degraded, by: []string{analysis.ByClient}, says: []string{"stood still for"}, never: []string{"valid"},
	},
	{
		name: "all load on one store", args: []string{"--target", "500", "--duration", "4s"}, regions: 1, long: true,
		code: exitcode.Valid, says: []string{"valid; target met"},
		expects: []bounds{{"warnings of skew", func(r *analysis.Report) float64 {
			return float64(strings.Count(strings.Join(append(r.Warnings, r.Notes...), "\n"), "one of 3 stores"))
		}, 1, infinite}},
	},
	{
		name: "another client", args: []string{"--target", "600", "--duration", "30s", "--server-metrics", "2s"}, long: true,
		before: func(s *scene) {
			start(s.t, "run", "-w", "read", "--pd", s.cluster.PDAddr(), "--out", s.t.TempDir(), "--quiet", "--no-server-metrics", "--local", "1", "-p", "fieldcount=1", "-p", "fieldlength=10", "--threads", "4", "--target", "60", "--duration", "1m")
		},
		code: exitcode.Valid, by: []string{analysis.ByTarget}, says: []string{" more raw_get (±", "something else uses this cluster"},
		expects: []bounds{{"what it adds", func(r *analysis.Report) float64 { return r.Servers.Counted.Change }, 0.08, 0.12}}, /* the stores hand their counts over late */
	},
	{
		name: "a load during a stall", phase: "load", args: []string{"-p", "recordcount=200000", "--target", "20000", "-p", "batch.size=20"}, long: true,
		during: func(s *scene) { s.stall(3 * time.Second) },
		code:   exitcode.Valid, says: []string{"valid", "no answer for"},
		expects: []bounds{{"operations", operations, 198_000, 198_000} /* 2,000 are there */, {"time without an answer", silence, 2.9, 5}},
	},
	{
		name: "a journal without its end", args: []string{"--target", "500", "--duration", "4s"},
		after: func(s *scene) { s.cut(results.SecondsFile, 0.7) },
		code:  exitcode.Degraded, says: []string{"the results are not complete"}, never: []string{"valid"},
	},
	{
		name: "histograms that are lost", args: []string{"--target", "500", "--duration", "4s"},
		after: func(s *scene) { s.cut(results.HistogramsFile, 0.5) },
		code:  exitcode.Degraded, says: []string{"the results are not complete"}, never: []string{"valid"},
	},
	{
		name: "a worker's results that are lost", args: []string{"--target", "500", "--duration", "4s"}, workers: 2,
		after: func(s *scene) { s.must(os.RemoveAll(filepath.Dir(s.file(results.WorkerFile)))) },
		code:  exitcode.Degraded, says: []string{"1 of 2 workers"}, never: []string{"valid"},
	},
}

// What is right on a machine that others crowd: to say less, and not to blame anyone but them.
const (
	mostTries  = 3 // of a situation
	mostRepeat = 5 // situations tried again, all together: a crowded machine is no reason to take long
)

// TestTruth: of each situation the one right thing is said, whatever the driver. Where something else is said, and the machine
// was crowded by processes that have no part in it, the situation is made again, a few times; then it is right, too, to say that these were the limit
// or that it is unknown, and nothing else is.
func TestTruth(t *testing.T) {
	form := os.Getenv(truth)
	if form == "" {
		t.Skip("make truth runs it")
	}
	var repeated atomic.Int32
	for i, s := range situations {
		for j, driver := range []string{"rawkv", "stream"} {
			if s.driver != "" && s.driver != driver || form == short && (s.long || s.driver == "" && i%2 != j) {
				continue
			}
			t.Run(s.name+"/"+driver, func(t *testing.T) {
				if s.after != nil { // it is about files: the rest of the machine is nothing to it
					t.Parallel()
				}
				for try := 1; ; try++ {
					var o *outcome
					if !t.Run(fmt.Sprintf("try %d", try), func(t *testing.T) { o = s.takePlace(t, driver) }) || o == nil {
						return // failed or skipped, which has been said
					}
					lacks := s.lacks(o)
					if len(lacks) == 0 {
						return
					}
					crowd := fmt.Sprintf("others took %.2f processors meanwhile", o.others)
					lesser := s.lesser(o)
					switch {
					case o.others < crowdedShare || len(lesser) > 0:
						t.Errorf("%s:\n%s\n%s", crowd, strings.Join(append(lacks, lesser...), "\n"), o.stderr)
						return
					case try == mostTries || repeated.Add(1) > mostRepeat:
						t.Logf("%s, so that it is right to say less: %s", crowd, strings.Join(lacks, "; "))
						return
					}
					t.Logf("%s: again, since %s", crowd, strings.Join(lacks, "; "))
				}
			})
		}
	}
}

// outcome is what was said of a situation.
type outcome struct {
	code   int
	said   string // the verdict and its reason
	stderr string
	report *analysis.Report
	others float64 // processors that those took who had no part in it
}

func (s *situation) takePlace(t *testing.T, driver string) *outcome {
	f := newFleetOn(t, playground.Options{Regions: s.regions}, max(0, cmp.Or(s.workers, 1)))
	here := &scene{fleet: f, t: t}
	if s.before != nil {
		s.before(here)
	}
	phase := []string{"run", "-w", "read"}
	if s.phase != "" {
		phase = []string{s.phase}
	}
	crowd := watchCrowd(t, f.workers, here.loops)
	here.run = start(t, append(f.verb(append(phase, "--driver", driver, "--json")...), s.args...)...)
	crowd.add(here.run)
	if s.during != nil {
		here.run.until("p50")
		s.during(here)
	}
	o := &outcome{code: here.run.code(2 * time.Minute), others: crowd.others()}
	_, o.stderr = here.run.said()
	o.report = here.run.report()
	here.dir = filepath.Join(f.out, o.report.RunID)
	if s.after != nil {
		s.after(here)
		again := start(t, "analyze", "--json", "--verdict", here.dir)
		o.code = again.code(time.Minute)
		_, o.stderr = again.said()
		o.report = again.report()
	}
	o.said = o.report.Verdict.Text + " because " + o.report.Limit.Why
	t.Logf("exit %d, limited by %s: %s", o.code, o.report.Limit.By, o.said)
	return o
}

// lacks says in what the outcome is not the right one.
func (s *situation) lacks(o *outcome) (lacks []string) {
	find := func(format string, args ...any) { lacks = append(lacks, fmt.Sprintf(format, args...)) }
	if o.code != s.code {
		find("exit code %d, want %d", o.code, s.code)
	}
	if by := o.report.Limit.By; len(s.by) > 0 && !slices.Contains(s.by, by) {
		find("limited by %s, want %s", by, strings.Join(s.by, " or "))
	}
	for _, text := range s.says {
		if !strings.Contains(o.said, text) {
			find("it does not say %q", text)
		}
	}
	for _, text := range s.never {
		if strings.Contains(o.said, text) {
			find("it says %q", text)
		}
	}
	for _, b := range s.expects {
		if got := b.of(o.report); !(got >= b.least && got <= b.most) {
			find("%s: %v, want %v to %v", b.what, got, b.least, b.most)
		}
	}
	return lacks
}

// lesser says in what the outcome is wrong even on a crowded machine, on which more may be amiss than the situation has made, but
// what it has made is so, and nobody is to blame but who was there.
func (s *situation) lesser(o *outcome) (lacks []string) {
	may := []int{s.code}
	switch s.code {
	case exitcode.Valid:
		may = append(may, exitcode.Target, exitcode.Degraded) // too slow; or it stood still
	case exitcode.Target:
		may = append(may, exitcode.Degraded)
	}
	if s.crowded != 0 {
		may = append(may, s.crowded)
	}
	if !slices.Contains(may, o.code) {
		lacks = append(lacks, fmt.Sprintf("exit code %d, on a crowded machine as well", o.code))
	}
	if by := o.report.Limit.By; len(s.by) > 0 && !slices.Contains(append([]string{analysis.ByOthers, analysis.ByUnknown}, s.by...), by) {
		lacks = append(lacks, fmt.Sprintf("limited by %s, on a crowded machine as well", by))
	}
	if made := s.code != exitcode.Valid && s.code != exitcode.Target; made && o.code == s.code {
		for _, text := range s.says {
			if !strings.Contains(o.said, text) {
				lacks = append(lacks, fmt.Sprintf("it does not say %q, on a crowded machine as well", text))
			}
		}
	}
	return lacks
}
