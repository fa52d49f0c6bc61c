// SPDX-License-Identifier: Apache-2.0

package results

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/kvbench/kvbench/internal/objective"
	"github.com/kvbench/kvbench/internal/plainfile"
	"github.com/kvbench/kvbench/internal/workload"
)

// Version is that of the layout and of the documents in it.
const Version = 1

// Run is what the coordinator knows of a run. It is written before the load
// starts and again whenever it changes. Times named _s are seconds on the run's clock.
type Run struct {
	Version  int               `json:"version"`
	RunID    string            `json:"run_id"`
	Phase    string            `json:"phase"` // "load", "run", "verify" or [Probing]
	State    State             `json:"state"`
	Start    time.Time         `json:"start"`              // zero of the run's clock
	WarmupS  float64           `json:"warmup_s"`           // the measured window begins
	WindowS  float64           `json:"window_s"`           // its planned length; 0: the run ends by count
	GraceS   float64           `json:"grace_s"`            // how long calls in flight may take after it
	StoppedS *float64          `json:"stopped_s"`          // when the load was told to stop early
	StopWhy  string            `json:"stop_why,omitempty"` // it was not its user who told it
	StopSLO  bool              `json:"stop_slo,omitempty"` // it was a broken objective
	LeaseS   float64           `json:"lease_s,omitempty"`  // after so long a silence of their coordinator workers stop; 0: they do not
	Paced    bool              `json:"paced"`              // operations have slots, so there is a response time
	Target   float64           `json:"target_ops"`         // operations per second over the fleet; 0: as fast as it goes
	Spec     map[string]string `json:"spec"`               // effective properties
	Plan     Plan              `json:"plan"`
	Versions map[string]string `json:"versions"`          // of kvbench, Go, the client library
	Command  string            `json:"command,omitempty"` // that does the same again; absent in results of earlier versions
	Label    string            `json:"label,omitempty"`   // its user's name for it, and for those that belong together
	Note     string            `json:"note,omitempty"`    // its user's
	Cluster  Cluster           `json:"cluster"`
	Fleet    []Member          `json:"fleet"`
	Limits   Limits            `json:"limits"`
	Warnings []string          `json:"warnings,omitempty"` // of the properties and of the data, as the user was shown them

	Probed bool `json:"probed,omitempty"` // the stores were probed: there is a [ProbeFile] when the run is over

	// Verification is what a verification of the table, or of a run's writes, came to.
	Verification *Verification `json:"verification,omitempty"`
}

// Probing is the phase of what no worker takes part in: a probe alone.
const Probing = "probe"

// State is how far a run, or a worker's part of it, has come.
type State string

// The states. A run or a worker that ends in Running was not closed properly.
const (
	Preparing   State = "preparing"
	Running     State = "running"
	Finished    State = "finished"
	Interrupted State = "interrupted" // a run: stopped by its user
	Lost        State = "lost"        // a worker: no longer heard of
	Failed      State = "failed"
	Abandoned   State = "abandoned" // a worker: its user did not wait for it
)

// Plan is what the fleet was asked to do.
type Plan struct {
	Workers    int   `json:"workers"`
	Threads    int   `json:"threads"` // per worker
	Batch      int   `json:"batch"`
	Records    int64 `json:"records"`
	Operations int64 `json:"operations"` // 0: until the time is over
}

// Cluster is the database that was measured.
type Cluster struct {
	PD      []string          `json:"pd"`
	ID      uint64            `json:"id,omitempty"`
	Stores  []string          `json:"stores,omitempty"` // addresses
	Details map[string]string `json:"details,omitempty"`
}

// Member is one worker as the coordinator sees it.
type Member struct {
	Name          string   `json:"name"` // also of its directory
	Index         int      `json:"index"`
	Address       string   `json:"address"`
	State         State    `json:"state"`
	ClockOffsetUS float64  `json:"clock_offset_us"` // its wall clock minus the coordinator's
	ClockErrorUS  float64  `json:"clock_error_us"`  // half the round trip of that measurement
	StartSkewUS   float64  `json:"start_skew_us"`   // by how much it started after the agreed moment, on the coordinator's clock
	LostAtS       *float64 `json:"lost_at_s,omitempty"`
	Reason        string   `json:"reason,omitempty"` // why it was lost or failed
}

// Limits are what a run must keep to be called valid.
type Limits struct {
	ErrorShare   *float64              `json:"error_share,omitempty"` // failed operations of all; absent: analysis' default
	MissShare    *float64              `json:"miss_share,omitempty"`  // operations that find no value, of those that look for one; absent: analysis' default
	TolerateLost int                   `json:"tolerate_lost,omitempty"`
	StopOnLoss   bool                  `json:"stop_on_loss,omitempty"` // when more than TolerateLost are lost, the others stop
	SLO          []objective.Objective `json:"slo,omitempty"`
	AbortS       float64               `json:"abort_on_slo_s,omitempty"` // an objective that is broken for so long ends the run; 0: none does
}

// Verdict is the judgement on a run; the codes are those that kvbench exits with.
type Verdict struct {
	Code int    `json:"code"`
	Text string `json:"text"`
}

// WriteRun writes run.json into a run's directory.
func WriteRun(dir string, r *Run) error {
	r.Version = Version
	if err := writeJSON(filepath.Join(dir, RunFile), r); err != nil {
		return fmt.Errorf("write %s: %w", RunFile, err)
	}
	return nil
}

// ReadRun reads and checks run.json of a run's directory.
func ReadRun(dir string) (*Run, error) {
	path := filepath.Join(dir, RunFile)
	text, err := plainfile.ReadIn(dir, RunFile, MaxRunBytes)
	if err != nil {
		return nil, err
	}
	r, err := ParseRun(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// The bounds of run.json. It travels in one message, see package control.
const (
	MaxRunBytes = 8 << 20
	MaxWorkers  = 10_000
)

// ParseRun reads and checks the text of run.json.
func ParseRun(text []byte) (*Run, error) {
	var r Run
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, err
	}
	if r.Version != Version {
		return nil, fmt.Errorf("version %d, and this program reads %d: use the kvbench that wrote it", r.Version, Version)
	}
	if len(r.Fleet) > MaxWorkers {
		return nil, fmt.Errorf("it names %d workers, and a run has %d at most", len(r.Fleet), MaxWorkers)
	}
	names := make(map[string]bool)
	for _, m := range r.Fleet {
		if err := CheckName(m.Name); err != nil {
			return nil, fmt.Errorf("worker %w", err)
		}
		if names[m.Name] {
			return nil, fmt.Errorf("worker %q is there twice", m.Name)
		}
		names[m.Name] = true
	}
	for _, s := range []float64{r.WarmupS, r.WindowS, r.GraceS} {
		if s < 0 || s > maxSeconds {
			return nil, fmt.Errorf("%g seconds of warm-up, window or grace cannot be", s)
		}
	}
	return &r, nil
}

// maxSeconds is more than any run takes, and far from overflowing a duration.
const maxSeconds = 1e9

// Worker is what a worker says of itself. It is written when the worker is
// prepared and again when its part is over.
type Worker struct {
	Version int               `json:"version"`
	RunID   string            `json:"run_id"`
	Name    string            `json:"name"`
	Index   int               `json:"index"`
	Workers int               `json:"workers"`
	Lanes   int               `json:"lanes"`
	Threads int               `json:"threads"`
	Driver  string            `json:"driver"`
	Start   time.Time         `json:"start"`            // zero of the run's clock, on this worker's wall clock
	State   State             `json:"state"`            // Finished once everything has been written
	EndS    float64           `json:"end_s"`            // when its last operation had completed
	Ended   Cause             `json:"ended,omitempty"`  // why, once it has
	Reason  string            `json:"reason,omitempty"` // in words, if that was before its time
	Host    map[string]string `json:"host"`             // name, system, CPUs, …
	Tuning  map[string]string `json:"tuning"`           // garbage collector, connections, …
	// Connections is how many this worker has to each store; 0: its driver does not tell.
	Connections int `json:"connections_per_store,omitempty"`
	// Bytes is how long each file of the journal was when it was closed: what is
	// shorter now has been cut.
	Bytes map[string]int64 `json:"bytes,omitempty"`
	// Findings is what a verification of the table found here.
	Findings *workload.Findings `json:"findings,omitempty"`
}

// Cause is why a worker's part of a run has ended.
type Cause string

// The causes.
const (
	ByDuration   Cause = "duration"   // its time was over
	ByOperations Cause = "operations" // all of its work was done
	ByStop       Cause = "stop"       // somebody has stopped it
	ByLease      Cause = "lease"      // its coordinator fell silent
	ByShutdown   Cause = "shutdown"   // the worker was told to terminate
	ByError      Cause = "error"      // see the reason
)

// WriteWorker writes worker.json into a worker's directory.
func WriteWorker(dir string, w *Worker) error {
	w.Version = Version
	if err := writeJSON(filepath.Join(dir, WorkerFile), w); err != nil {
		return fmt.Errorf("write %s: %w", WorkerFile, err)
	}
	return nil
}

// ReadWorker reads worker.json of a worker's directory.
func ReadWorker(dir string) (*Worker, error) {
	var w Worker
	if err := readJSON(filepath.Join(dir, WorkerFile), &w); err != nil {
		return nil, err
	}
	return &w, nil
}
