// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// residentBytes reads the second field of /proc/self/statm (see proc(5)): resident pages.
func residentBytes() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// machineTime returns how much time, in ticks, all processors of the machine have
// spent, and how much of it working.
func machineTime() (busy, total int64) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	return parseMachineTime(text)
}

// parseMachineTime reads the first line of /proc/stat (see proc(5)): user, nice,
// system, idle, iowait, irq, softirq, steal. Guest time, which follows, is part of user.
func parseMachineTime(text []byte) (busy, total int64) {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	fields := bytes.Fields(line)
	const first, idle, iowait, steal = 1, 4, 5, 8
	if len(fields) <= steal || string(fields[0]) != "cpu" {
		return 0, 0
	}
	for i := first; i <= steal; i++ {
		ticks, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			return 0, 0
		}
		total += ticks
		if i != idle && i != iowait {
			busy += ticks
		}
	}
	return busy, total
}

// threadWaits adds up how long the threads of the process have waited for a
// processor. It remembers each thread's sum, since threads come and go.
type threadWaits struct {
	dir   string
	known map[string]int64 // by thread, in ns
}

func newThreadWaits() *threadWaits {
	return &threadWaits{dir: "/proc/self/task", known: make(map[string]int64)}
}

// since returns the time waited since the last call.
func (w *threadWaits) since() (sum time.Duration) {
	threads, err := os.ReadDir(w.dir)
	if err != nil {
		return 0
	}
	now := make(map[string]int64, len(threads))
	for _, t := range threads {
		text, err := os.ReadFile(filepath.Join(w.dir, t.Name(), "schedstat"))
		if err != nil {
			continue // it has just ended
		}
		waited, ok := parseSchedStat(text)
		if !ok {
			continue
		}
		now[t.Name()] = waited
		sum += time.Duration(max(0, waited-w.known[t.Name()]))
	}
	w.known = now
	return sum
}

// parseSchedStat reads the second field of a thread's schedstat (see the kernel's
// Documentation/scheduler/sched-stats.rst): nanoseconds spent waiting on a run-queue.
func parseSchedStat(text []byte) (waited int64, ok bool) {
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(fields[1]), 10, 64)
	return n, err == nil && n >= 0
}
