// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// HostSample is what the worker's own process cost since the sample before: the
// means to tell whether the client was the limit.
type HostSample struct {
	CPU        time.Duration // user and system time of the process
	Cores      int           // how many the process may use
	Procs      int           // how many it used at a time, at the end (GOMAXPROCS)
	GCs        int64         // garbage collections
	GCPause    time.Duration // total time stopped by them
	Goroutines int
	HeapBytes  int64         // live and not yet swept objects
	RSSBytes   int64         // resident memory; 0 where the system does not tell
	SchedP50   time.Duration // how long a runnable goroutine waited for a core
	SchedP99   time.Duration
	Machine    float64 // share of all the machine's processors in use, by anyone; 0 where the system does not tell

	// CPUWait is how long the process's threads, together, were ready to run and
	// had no processor, because others used them or a limit of the container was
	// reached; 0 where the system does not tell. Runnable is the run-queue: how many goroutines were
	// ready to run when the sample was taken, and did not.
	CPUWait  time.Duration
	Runnable int

	// Throttled is for how long, over all processors, a limit of the process's control group or of
	// one above it kept its threads from running, and ThrottledPeriods in how many of the limit's
	// periods; 0 where there is no limit.
	Throttled        time.Duration
	ThrottledPeriods int64
}

// Host samples the process. It is for one goroutine.
type Host struct {
	cores   int
	cpu     time.Duration
	gcs     int64
	gcPause time.Duration
	sched   []uint64 // counts of the scheduler's latencies at the last sample
	metrics []metrics.Sample
	gcStats debug.GCStats

	busy, ticks int64 // of the machine
	waits       *threadWaits
	limits      *throttling
}

// NewHost returns a sampler whose first sample begins now, while the process uses all the
// cores that it may.
func NewHost() *Host {
	h := &Host{cores: runtime.GOMAXPROCS(0), waits: newThreadWaits(), limits: newThrottling("/proc/self/cgroup", "/sys/fs/cgroup"), metrics: []metrics.Sample{
		{Name: "/sched/latencies:seconds"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/sched/goroutines/runnable:goroutines"},
	}}
	h.Sample()
	return h
}

// Sample returns what was spent since the last sample.
func (h *Host) Sample() HostSample {
	cpu := cpuTime()
	debug.ReadGCStats(&h.gcStats)
	metrics.Read(h.metrics)
	s := HostSample{
		CPU:        cpu - h.cpu,
		Cores:      h.cores,
		Procs:      runtime.GOMAXPROCS(0),
		GCs:        h.gcStats.NumGC - h.gcs,
		GCPause:    h.gcStats.PauseTotal - h.gcPause,
		Goroutines: runtime.NumGoroutine(),
		RSSBytes:   residentBytes(),
		CPUWait:    h.waits.since(),
	}
	denied := h.limits.since()
	s.Throttled, s.ThrottledPeriods = denied.time, denied.periods
	h.cpu, h.gcs, h.gcPause = cpu, h.gcStats.NumGC, h.gcStats.PauseTotal
	busy, ticks := machineTime()
	if ticks > h.ticks {
		s.Machine = float64(busy-h.busy) / float64(ticks-h.ticks)
	}
	h.busy, h.ticks = busy, ticks
	if v := h.metrics[1].Value; v.Kind() == metrics.KindUint64 {
		s.HeapBytes = int64(v.Uint64())
	}
	if v := h.metrics[2].Value; v.Kind() == metrics.KindUint64 {
		s.Runnable = int(v.Uint64())
	}
	if v := h.metrics[0].Value; v.Kind() == metrics.KindFloat64Histogram {
		s.SchedP50, s.SchedP99 = h.schedLatency(v.Float64Histogram())
	}
	return s
}

// schedLatency returns the median and the 99th percentile of what was added to
// the runtime's histogram since the last call, as upper ends of its buckets.
func (h *Host) schedLatency(now *metrics.Float64Histogram) (p50, p99 time.Duration) {
	if h.sched == nil {
		h.sched = make([]uint64, len(now.Counts))
	}
	var total uint64
	for i, n := range now.Counts {
		h.sched[i], total = n-h.sched[i], total+n-h.sched[i]
	}
	quantile := func(q float64) time.Duration {
		var sum uint64
		for i, n := range h.sched {
			if sum += n; n > 0 && float64(sum) >= q*float64(total) {
				upper := now.Buckets[i+1]
				if math.IsInf(upper, 1) {
					upper = now.Buckets[i]
				}
				return time.Duration(upper * float64(time.Second))
			}
		}
		return 0
	}
	p50, p99 = quantile(0.50), quantile(0.99)
	copy(h.sched, now.Counts)
	return p50, p99
}
