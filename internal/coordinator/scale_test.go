// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/control"
	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/store/memory"
	"github.com/kvbench/kvbench/internal/worker"
)

// asWorkers in the environment makes the test's binary be that many workers, with their journals in its
// first argument, until its standard input ends.
const asWorkers = "KVBENCH_TEST_AS_WORKERS"

func beWorkers(n int, data string) error {
	for i := range n {
		w, err := worker.New(worker.Config{
			Name: fmt.Sprintf("w%d", i), Version: "test", Data: filepath.Join(data, strconv.Itoa(i)), Lanes: 1,
			Open: (&memory.DB{Delay: time.Millisecond}).Open, Log: quiet,
		})
		if err != nil {
			return err
		}
		server, err := control.NewServer(w, control.Security{}, quiet)
		if err != nil {
			return err
		}
		l, err := control.Listen("127.0.0.1:0", control.Security{}, quiet)
		if err != nil {
			return err
		}
		go server.Serve(l)
		fmt.Println(l.Addr())
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// TestManyWorkers is of KVBENCH_TEST_WORKERS workers, which share another process: how long
// they take to be ready, how far apart they start, and what they cost the coordinator.
func TestManyWorkers(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("KVBENCH_TEST_WORKERS"))
	if err != nil {
		t.Skip("KVBENCH_TEST_WORKERS says how many")
	}
	workers := exec.Command(os.Args[0], t.TempDir())
	workers.Env = append(os.Environ(), fmt.Sprintf("%s=%d", asWorkers, n))
	workers.Stderr = os.Stderr
	stdin, err := workers.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := workers.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := workers.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close(); _ = workers.Wait() })
	var addresses []Address
	for line := bufio.NewScanner(stdout); len(addresses) < n; {
		if !line.Scan() {
			t.Fatalf("%d of %d workers", len(addresses), n)
		}
		addresses = append(addresses, Address{Name: line.Text()})
	}
	began := time.Now()
	f, err := Connect(t.Context(), addresses, Options{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	connected := time.Since(began)
	var prepared time.Duration
	began = time.Now()
	s, err := f.Run(t.Context(), Job{
		Spec: properties(t, map[string]string{"maxexecutiontime": "10", "target": strconv.Itoa(2 * n)}), Out: t.TempDir(),
		Progress: func(s *Snapshot) {
			if s.Stage == Starting && prepared == 0 {
				prepared = time.Since(began)
			}
		},
	})
	if err != nil {
		t.Error(err)
	}
	ended := time.Since(s.Run.Start.Add(10 * time.Second))
	var skews []float64
	for _, m := range s.Run.Fleet {
		if m.State != results.Finished {
			t.Errorf("%+v", m)
		}
		skews = append(skews, m.StartSkewUS/1000)
	}
	slices.Sort(skews)
	t.Logf("%d workers: connected in %v, prepared in %v, started within %.1f ms of their time (p99 %.1f ms), %v from the end of the window to the result; the coordinator used %s at most",
		n, connected, prepared, skews[n-1], skews[n*99/100], ended, peakMemory())
	if prepared+connected > 10*time.Second || skews[n-1] > 20 {
		t.Error("they should be ready in 10 s, and start within 20 ms")
	}
}

// TestRecordIsNotWrittenForEachWorker: of a fleet whose workers end together, run.json is written once for all.
func TestRecordIsNotWrittenForEachWorker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log, err := results.OpenEvents(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	r := &running{fleet: &Fleet{log: quiet}, dir: dir, events: log, zero: time.Now(), stopping: make(chan struct{})}
	for i := range 1000 {
		r.workers = append(r.workers, &workerRun{member: &member{index: i, name: fmt.Sprint("w", i)}, state: results.Running})
	}
	file := func() os.FileInfo {
		info, err := os.Stat(filepath.Join(dir, results.RunFile)) // a file that is written again is another one
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	if err := r.write(); err != nil {
		t.Fatal(err)
	}
	before := file()
	for _, p := range r.workers {
		r.ended(p, &workerpb.RunStatus{End: workerpb.End_END_COMPLETE}, nil)
	}
	if !os.SameFile(before, file()) {
		t.Error("it is written while workers end")
	}
	r.save()
	after := file()
	r.save()
	if os.SameFile(before, after) || !os.SameFile(after, file()) {
		t.Error("it is not written once")
	}
	record, err := results.ReadRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range record.Fleet {
		if m.State != results.Finished {
			t.Errorf("%+v", m)
		}
	}
}

// peakMemory is the most that this process had in memory, as Linux tells.
func peakMemory() string {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "an unknown amount on " + runtime.GOOS
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}
