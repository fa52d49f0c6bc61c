// SPDX-License-Identifier: Apache-2.0

// Package analysis turns results directories into reports: it merges the
// histograms of all workers, judges the run, and writes what came out as text,
// JSON, CSV or HTML. All percentiles are taken from merged histograms. It knows
// neither gRPC nor the TiKV client, so that a report can be made anywhere.
//
// The way is [Load], which reads and merges, [Run.Report], which computes and judges, and
// a [Document] of reports, which is what the JSON shows and the other forms are made of.
package analysis

import (
	"slices"
	"time"

	"github.com/kvbench/kvbench/analysis/availability"
	"github.com/kvbench/kvbench/analysis/foreign"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/results"
)

// DocumentVersion is that of the JSON document. Fields are added, never renamed.
const DocumentVersion = 1

// Document is what `--format json` prints; docs/json.md describes every field.
type Document struct {
	Version int               `json:"version"`
	Runs    []*Report         `json:"runs"`
	Foreign []*foreign.Result `json:"foreign,omitempty"` // what other tools have measured
}

// Code is the exit code of the gravest verdict among the runs, in the order in
// which verdicts weigh their findings.
func (d *Document) Code() int {
	gravity := []int{exitcode.Valid, exitcode.SLO, exitcode.Target, exitcode.Degraded, exitcode.Interrupted, exitcode.Wrong}
	worst := exitcode.Valid
	for _, r := range d.Runs {
		if slices.Index(gravity, r.Verdict.Code) > slices.Index(gravity, worst) {
			worst = r.Verdict.Code
		}
	}
	for _, r := range d.Foreign {
		if slices.Index(gravity, r.Code()) > slices.Index(gravity, worst) {
			worst = r.Code()
		}
	}
	return worst
}

// Report is all that is known of one run. Times named _s are seconds, on the
// run's clock if they are moments; rates are per second over the window.
type Report struct {
	RunID    string        `json:"run_id"`
	Phase    string        `json:"phase"`
	State    results.State `json:"state"`
	Start    time.Time     `json:"start"`
	WarmupS  float64       `json:"warmup_s"`
	WindowS  float64       `json:"window_s"`
	WindowAt float64       `json:"window_start_s"`
	Paced    bool          `json:"paced"`

	Workload string            `json:"workload"` // in a line
	Spec     map[string]string `json:"spec"`
	Plan     results.Plan      `json:"plan"`
	Versions map[string]string `json:"versions"`
	Command  string            `json:"command,omitempty"` // that does the same again
	Label    string            `json:"label,omitempty"`
	Note     string            `json:"note,omitempty"`
	Cluster  results.Cluster   `json:"cluster"`

	WorkersExpected int          `json:"workers_expected"`
	WorkersFinished int          `json:"workers_finished"`
	WorkersLost     []LostWorker `json:"workers_lost"`
	MaxStartSkewUS  float64      `json:"max_start_skew_us"`

	TargetOps  float64 `json:"target_ops"`
	Operations int64   `json:"operations"`
	Rated      float64 `json:"rated_operations"` // of them, those over which rates are
	MeasuredS  float64 `json:"measured_s"`       // over which the operations are
	OpsPerS    float64 `json:"ops_per_s"`
	BatchesPS  float64 `json:"batches_per_s"`
	RPCsPerS   float64 `json:"rpcs_per_s"`
	Scanned    int64   `json:"scanned_rows,omitempty"` // rows that scans returned
	ErrorsPerS float64 `json:"errors_per_s"`

	// Cost is nil if no prices are known.
	Cost *Cost `json:"cost,omitempty"`

	Verdict results.Verdict `json:"verdict"`
	// Objectives are those of the run, each with what became of it.
	Objectives []ObjectiveRow `json:"objectives,omitempty"`
	Limit      Limit          `json:"limit"`
	Ended      Ended          `json:"ended"`
	// NoAnswer is nil if there was none that is more than noise.
	NoAnswer *NoAnswer `json:"no_answer,omitempty"`
	// Hang is nil if the database owed nothing at the end that is more than noise.
	Hang *Hang `json:"hang,omitempty"`
	// Unanswered is nil if nothing was in flight when the window ended, or that is not known.
	Unanswered *Unanswered `json:"unanswered,omitempty"`

	// Verification is what was found of the data; nil if nobody looked.
	Verification *results.Verification `json:"verification,omitempty"`

	// Probe is what small writes to each store saw; nil if there were none.
	Probe *availability.Probe `json:"probe,omitempty"`

	// Connections is how many the fleet has to each store; 0 if a driver does not tell.
	Connections int `json:"connections_per_store"`
	// Traffic is what the drivers sent; nil if they do not tell.
	Traffic *Traffic `json:"traffic,omitempty"`

	// Transactions is what the run's transactions cost; nil if it made none.
	Transactions *Transactions `json:"transactions,omitempty"`

	// Servers is what the stores said of themselves; nil if nobody asked them.
	Servers *Servers `json:"servers,omitempty"`

	Kinds       []KindRow  `json:"kinds"`
	Percentiles []float64  `json:"percentiles,omitempty"` // those that were asked for
	Errors      []ErrorRow `json:"errors"`

	Queued      int64    `json:"queued_operations"`
	Skipped     int64    `json:"skipped_slots"`
	Blocked     int64    `json:"blocked_slots"`
	CutOff      int64    `json:"cut_off_operations"`
	Clamped     int64    `json:"clamped_values"`
	LagUS       *Latency `json:"lag_us,omitempty"`
	LaneDelayUS *Latency `json:"lane_delay_us,omitempty"`
	InFlight    float64  `json:"in_flight_mean"`
	Threads     int      `json:"threads"`
	CPUS        float64  `json:"cpu_s"`
	CPUPerOpUS  float64  `json:"cpu_us_per_op"`

	Workers  []WorkerRow     `json:"workers"`
	Events   []results.Event `json:"events"`
	Notes    []string        `json:"notes"`
	Warnings []string        `json:"warnings"`
	Missing  []string        `json:"missing"`

	// Disturbances is nil if it is not known what there was.
	Disturbances []Disturbance `json:"disturbances"`

	Series []Point `json:"series"`
	Curves []Curve `json:"curves"`

	Detail *Detail `json:"-"` // nil in a document that was read from JSON
}

// LostWorker is one that did not do its whole part.
type LostWorker struct {
	Name   string  `json:"name"`
	AtS    float64 `json:"at_s"`
	Reason string  `json:"reason,omitempty"`
}

// ObjectiveRow is one objective of a run.
type ObjectiveRow struct {
	Text  string   `json:"text"`            // as in "READ response p99 < 5.00 ms"
	Kept  *bool    `json:"kept"`            // null: unknown
	Seen  string   `json:"seen,omitempty"`  // what it was, as in "4.10 ms"
	Value *float64 `json:"value,omitempty"` // the same as a number; nil if it is none
	Unit  string   `json:"unit"`            // of the value: "us", "share" or "per_s"
	Found string   `json:"found,omitempty"` // why it was not kept, or is unknown
}

// Limit says what kept the run from being faster.
type Limit struct {
	By  string `json:"by"` // one of the values below
	Why string `json:"why"`
}

// Values of Limit.By.
const (
	ByTarget  = "target"
	ByServer  = "server"
	ByClient  = "client"
	ByOthers  = "other processes" // on the client's machine
	ByErrors  = "errors"
	ByUnknown = "unknown"
)

// KindRow is one kind and outcome of operations, or all kinds.
type KindRow struct {
	Kind       string   `json:"kind"`
	Outcome    string   `json:"outcome"`
	Operations int64    `json:"operations"`
	OpsPerS    float64  `json:"ops_per_s"`
	Batches    int64    `json:"batches"`
	RPCs       int64    `json:"rpcs"`
	Retries    int64    `json:"retries"`
	ServiceUS  *Latency `json:"service_us,omitempty"`
	ResponseUS *Latency `json:"response_us,omitempty"`

	// NeverAnswered is of rows of outcome ok; nil if that is nothing.
	NeverAnswered *NeverAnswered `json:"never_answered,omitempty"`
}

// ErrorRow is one class of errors of one kind of operation.
type ErrorRow struct {
	Kind      string   `json:"kind"`
	Class     string   `json:"class"`
	Count     int64    `json:"count"`
	FirstText string   `json:"first_text"`
	Texts     []string `json:"texts"`
}

// WorkerRow is one worker's part.
type WorkerRow struct {
	Name          string            `json:"name"`
	State         results.State     `json:"state"`
	Operations    int64             `json:"operations"`
	OpsPerS       float64           `json:"ops_per_s"`
	Errors        int64             `json:"errors"`
	ServiceUS     *Latency          `json:"service_us,omitempty"`
	ResponseUS    *Latency          `json:"response_us,omitempty"`
	LagUS         *Latency          `json:"lag_us,omitempty"`
	LaneDelayUS   *Latency          `json:"lane_delay_us,omitempty"`
	Skipped       int64             `json:"skipped_slots"`
	CPUS          float64           `json:"cpu_s"`
	CPUShare      float64           `json:"cpu_share"` // of its cores, over the window
	CPUShareMax   float64           `json:"cpu_share_max"`
	StalledS      float64           `json:"stalled_s"`      // its loop did not come round, beside its planned waits
	StallMaxS     float64           `json:"stall_max_s"`    // for so long at a time, at most
	StallAtS      float64           `json:"stall_at_s"`     // from then on
	ThrottledS    float64           `json:"throttled_s"`    // a limit of its control group kept it from running
	ThrottledAtS  float64           `json:"throttled_at_s"` // the first second in which it did begins then
	ThrottledToS  float64           `json:"throttled_to_s"` // and the last ends
	CPUWaitS      float64           `json:"cpu_wait_s"`     // its threads were ready to run and had no core
	MachineShare  float64           `json:"machine_share"`  // of its machine's processors, in use by anyone
	OthersShare   float64           `json:"others_share"`   // of its machine's processors, used by others than this fleet, at least
	Cores         int               `json:"cores"`
	OneCoreS      float64           `json:"one_core_s"` // it used one of its cores at a time
	Driver        string            `json:"driver"`
	Lanes         int               `json:"lanes"`
	Tuning        map[string]string `json:"tuning"` // how its process was set up
	GCPauseS      float64           `json:"gc_pause_s"`
	SchedP99US    int64             `json:"sched_p99_us"` // of its worst second
	RSSBytes      int64             `json:"rss_bytes"`
	ClockOffsetUS float64           `json:"clock_offset_us"`
	ClockErrorUS  float64           `json:"clock_error_us"`
	StartSkewUS   float64           `json:"start_skew_us"`
	EndS          float64           `json:"end_s"`
	Reason        string            `json:"reason,omitempty"`
}

// Point is the fleet in one bin of the run's time, all kinds together.
type Point struct {
	S            float64 `json:"s"`       // when the bin begins
	Phase        string  `json:"phase"`   // "warmup", "window" or "grace"
	Workers      float64 `json:"workers"` // whose journals tell of it, on average over the bin; if there are none, nothing is known of it
	Target       float64 `json:"target_ops"`
	OpsPerS      float64 `json:"ops_per_s"`
	ErrorsPerS   float64 `json:"errors_per_s"`
	CPUShare     float64 `json:"cpu_share"`
	CPUMax       float64 `json:"cpu_share_max"` // of the worker that used most
	Skipped      int64   `json:"skipped_slots"`
	InFlight     float64 `json:"in_flight,omitempty"` // calls, on average; 0 in results of earlier versions
	LagP50       int64   `json:"lag_p50_us,omitempty"`
	LagP99       int64   `json:"lag_p99_us,omitempty"`
	LagMax       int64   `json:"lag_max_us,omitempty"`
	ServiceP50   int64   `json:"service_p50_us"`
	ServiceP99   int64   `json:"service_p99_us"`
	ServiceP999  int64   `json:"service_p99_9_us"`
	ServiceMax   int64   `json:"service_max_us"`
	ResponseP50  int64   `json:"response_p50_us,omitempty"`
	ResponseP99  int64   `json:"response_p99_us,omitempty"`
	ResponseP999 int64   `json:"response_p99_9_us,omitempty"`
	ResponseMax  int64   `json:"response_max_us,omitempty"`

	Errors map[string]float64 `json:"errors,omitempty"` // per second, by class

	AtLeast []string `json:"at_least,omitempty"` // those of these latencies that lie beyond the histograms' range
}

// Curve is the distribution of one kind's answered operations: pairs of a
// percentile and its latency in microseconds.
type Curve struct {
	Kind   string       `json:"kind"`
	Time   string       `json:"time"` // "service" or "response"
	Points [][2]float64 `json:"points"`
	Range  int64        `json:"range,omitempty"` // where the histograms end, if latencies lie beyond: as many as there are points with it
}
