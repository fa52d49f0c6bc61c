// SPDX-License-Identifier: Apache-2.0

// Package metrics shows Prometheus what a worker does, and the cluster whether it
// is well. Nothing is counted here: once a second each run adds the interval that
// the worker has measured anyhow, so a scrape costs an operation nothing, and
// what is shown is at most a second old.
//
// Every series of a run carries the run's id. A worker shows its current run and
// the one before, whose last second would otherwise be lost when runs follow each
// other faster than scrapes; all older ones are forgotten. What Prometheus must
// keep is therefore bounded by the runs made, not by the time that workers live.
package metrics

import (
	"maps"
	"runtime"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/workload"
)

// kept is how many runs a worker shows.
const kept = 2

// Metrics is everything that a worker shows. It is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry

	mu   sync.Mutex
	runs []*Run // oldest first, at most kept
}

// New returns the metrics of a worker of this version that has not run anything.
func New(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "kvbench_build_info",
		Help:        "The version of kvbench and of Go that it was built with; always 1.",
		ConstLabels: prometheus.Labels{"version": version, "go_version": runtime.Version()},
	})
	build.Set(1)
	m.registry.MustRegister(m, build,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Info says what run a worker takes part in.
type Info struct {
	RunID  string
	Phase  string // "load" or "run"
	Driver string // "rawkv" or "stream"
}

// Begin shows a new run, in place of the oldest one, or of what is there under its id.
func (m *Metrics) Begin(info Info) *Run {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &Run{mu: &m.mu, info: info, active: true}
	m.runs = slices.DeleteFunc(m.runs, func(old *Run) bool { return old.info.RunID == info.RunID })
	m.runs = append(m.runs, r)
	if n := len(m.runs) - kept; n > 0 {
		m.runs = slices.Delete(m.runs, 0, n)
	}
	return r
}

// Run is what a worker shows of one run: the sums over its intervals.
type Run struct {
	mu     *sync.Mutex
	info   Info
	active bool
	target float64 // operations per second
	due    float64 // operations: the target, integrated over the time that was measured

	kinds      [workload.Kinds]kind
	deviations measure.Deviations
	lag        latency
	lane       latency
	traffic    map[string]*store.Traffic // by store
}

// kind is what is counted of one kind of operation.
type kind struct {
	started    int64
	operations [workload.Outcomes]int64
	batches    [workload.Outcomes]int64
	service    [workload.Outcomes]latency
	response   [workload.Outcomes]latency
	errors     [store.Classes]int64
	rpcs       int64
	retries    int64
	cost       measure.CostCounts
	phases     [store.Phases]latency
}

// Add adds an interval of the run, and sets the worker's share of the target (0:
// as fast as it goes).
func (r *Run) Add(iv *measure.Interval, target float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target = target
	r.due += target * (iv.End - iv.Start).Seconds()
	for _, set := range []*measure.Set{&iv.Window, &iv.Warmup} {
		for k, n := range set.Started {
			r.kinds[k].started += n
			r.kinds[k].cost.Add(&set.Costs[k].CostCounts)
			for phase, h := range set.Costs[k].Phases {
				r.kinds[k].phases[phase].add(h)
			}
		}
		for row := range measure.Row(measure.Rows) {
			if cell := &set.Cells[row]; cell.Operations > 0 || cell.Batches > 0 {
				r.kinds[row.Kind()].add(row, cell)
			}
		}
		r.deviations.Add(set.Deviations)
		r.lag.add(set.Lag)
		r.lane.add(set.Lane)
	}
}

// AddTraffic adds what the driver has sent.
func (r *Run) AddTraffic(sent []store.Traffic) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range sent {
		if sent[i].Empty() {
			continue
		}
		t := r.traffic[sent[i].Store]
		if t == nil {
			if r.traffic == nil {
				r.traffic = make(map[string]*store.Traffic)
			}
			t = new(store.Traffic)
			r.traffic[sent[i].Store] = t
		}
		t.Add(&sent[i])
	}
}

func (k *kind) add(row measure.Row, cell *measure.Cell) {
	o := row.Outcome()
	k.operations[o] += cell.Operations
	k.batches[o] += cell.Batches
	k.service[o].add(cell.Service)
	k.response[o].add(cell.Response)
	k.rpcs += cell.RPCs
	k.retries += cell.Retries
	if o == workload.Failed {
		k.errors[row.Class()] += cell.Operations
	}
}

// End says that the worker's part of the run is over. Its numbers stay.
func (r *Run) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active = false
	r.target = 0
}

// inFlight is the number of operations under way when the last interval ended.
func (r *Run) inFlight() int64 {
	if !r.active {
		return 0
	}
	n := -r.deviations.CutOff
	for i := range r.kinds {
		n += r.kinds[i].started
		for _, done := range r.kinds[i].operations {
			n -= done
		}
	}
	return max(0, n)
}

// desc describes a metric of a run; every one carries the run's id first.
func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("kvbench_"+name, help, append([]string{"run_id"}, labels...), nil)
}

var (
	infoDesc      = desc("run_info", "What the worker runs, or ran last; always 1.", "phase", "driver")
	activeDesc    = desc("run_active", "1 while the worker puts load on the database, 0 afterwards.")
	targetDesc    = desc("target_operations_per_second", "This worker's share of the target rate; 0 when it goes as fast as it can.")
	dueDesc       = desc("due_operations_total", "Operations (keys) that were due by this worker's share of the target; 0 when it goes as fast as it can.")
	inFlightDesc  = desc("in_flight_operations", "Operations (keys) started and not completed.")
	startedDesc   = desc("started_operations_total", "Operations (keys) started, by kind.", "kind")
	opsDesc       = desc("operations_total", "Operations (keys) completed, by kind and outcome.", "kind", "outcome")
	batchesDesc   = desc("batches_total", "Client calls of one or more operations completed, by kind and worst outcome.", "kind", "outcome")
	rpcsDesc      = desc("rpcs_total", "Requests sent to the database for completed batches, by kind.", "kind")
	retriesDesc   = desc("retries_total", "Calls that were made again for operations that completed, by kind: transactions and swaps that others had won, failed inserts of a load.", "kind")
	txnsDesc      = desc("transactions_total", "Transactions of completed batches, those that were made again included, by kind.", "kind")
	stampsDesc    = desc("transaction_timestamps_total", "Timestamps that the transactions of completed batches have asked PD for, by kind.", "kind")
	txnSentDesc   = desc("transaction_commands_total", "Commands sent for the transactions of completed batches while they were waited for, by kind of operation and of command.", "kind", "command")
	phaseDesc     = desc("transaction_phase_seconds", "Time that the transactions of a batch have spent in a phase, by kind; batches without the phase are not counted.", "kind", "phase")
	errorsDesc    = desc("errors_total", "Operations (keys) that failed, by kind and class of the error.", "kind", "class")
	queuedDesc    = desc("queued_operations_total", "Operations (keys) that were due while all threads of their lane had one.")
	skippedDesc   = desc("skipped_slots_total", "Slots of the schedule given up because the worker was too far behind.")
	cutOffDesc    = desc("cut_off_operations_total", "Operations (keys) still in flight when the grace period ended.")
	clampedDesc   = desc("clamped_values_total", "Calls of which a time lies outside of what the histograms hold (1 µs to 1 h).")
	messagesDesc  = desc("messages_total", "Messages that the driver has sent, by store.", "store")
	commandsDesc  = desc("commands_total", "Commands in the messages that the driver has sent, by store.", "store")
	fallbacksDesc = desc("fallbacks_total", "Commands that the stream driver made through client-go, by store and cause.", "store", "cause")
	breaksDesc    = desc("stream_breaks_total", "Streams that broke while in use, by store.", "store")
	serviceDesc   = desc("service_seconds", "Time from the start of a call to its end, by kind and worst outcome of the batch.", "kind", "outcome")
	responseDesc  = desc("response_seconds", "Time from the slot of the schedule to the end of the call, by kind and worst outcome of the batch.", "kind", "outcome")
	lagDesc       = desc("lag_seconds", "Time from the slot of the schedule to the start of the call.")
	laneDesc      = desc("lane_delay_seconds", "Time from the arrival of an answer to when the worker took it: the worker's own delay.")
)

// Describe implements [prometheus.Collector]. What there is depends on the runs.
func (m *Metrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.runs {
		r.collect(out)
	}
}

func (r *Run) collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{r.info.RunID}, labels...)...)
	}
	total := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, append([]string{r.info.RunID}, labels...)...)
	}
	counter := func(d *prometheus.Desc, v int64, labels ...string) { total(d, float64(v), labels...) }
	histogram := func(d *prometheus.Desc, l *latency, labels ...string) {
		if l.count > 0 {
			out <- newHistogram(d, l, append([]string{r.info.RunID}, labels...)...)
		}
	}
	active := 0.0
	if r.active {
		active = 1
	}
	gauge(infoDesc, 1, r.info.Phase, r.info.Driver)
	gauge(activeDesc, active)
	gauge(targetDesc, r.target)
	total(dueDesc, r.due)
	gauge(inFlightDesc, float64(r.inFlight()))
	counter(queuedDesc, r.deviations.Queued)
	counter(skippedDesc, r.deviations.Skipped)
	counter(cutOffDesc, r.deviations.CutOff)
	counter(clampedDesc, r.deviations.Clamped)
	for _, address := range slices.Sorted(maps.Keys(r.traffic)) {
		t := r.traffic[address]
		counter(messagesDesc, t.Messages, address)
		counter(commandsDesc, t.Commands, address)
		counter(breaksDesc, t.Breaks, address)
		for _, cause := range slices.Sorted(maps.Keys(t.Fallbacks)) {
			counter(fallbacksDesc, t.Fallbacks[cause], address, cause)
		}
	}
	histogram(lagDesc, &r.lag)
	histogram(laneDesc, &r.lane)
	for i := range r.kinds {
		k, name := &r.kinds[i], workload.Kind(i).String()
		if k.started == 0 {
			continue
		}
		// Counters are shown from the start, at 0, so that the first increase is seen.
		counter(startedDesc, k.started, name)
		counter(rpcsDesc, k.rpcs, name)
		counter(retriesDesc, k.retries, name)
		if k.cost.Batches > 0 {
			counter(txnsDesc, k.cost.Transactions, name)
			counter(stampsDesc, k.cost.Timestamps, name)
		}
		for command, n := range k.cost.Commands {
			if n > 0 {
				counter(txnSentDesc, n, name, store.Command(command).String())
			}
		}
		for phase := range k.phases {
			histogram(phaseDesc, &k.phases[phase], name, store.Phase(phase).String())
		}
		for o := range workload.Outcome(workload.Outcomes) {
			counter(opsDesc, k.operations[o], name, o.String())
			counter(batchesDesc, k.batches[o], name, o.String())
			histogram(serviceDesc, &k.service[o], name, o.String())
			histogram(responseDesc, &k.response[o], name, o.String())
		}
		for c := store.OK + 1; int(c) < store.Classes; c++ {
			counter(errorsDesc, k.errors[c], name, c.String())
		}
	}
}
