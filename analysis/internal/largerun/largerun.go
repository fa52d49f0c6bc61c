// SPDX-License-Identifier: Apache-2.0

// Package largerun writes results directories of large runs, for tests and benchmarks of what reads them.
package largerun

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/workload"
)

// Run is a paced run of all kinds of operations. Every worker has the same journal, in the same files, so that it is written quickly
// and takes little of the disk.
type Run struct {
	ID         string
	Workers    int
	Seconds    int
	PerSecond  int  // operations of a worker
	Disturbed  bool // the database answers nothing for two seconds in the midst of it, and some operations fail
	Event      string
	Servers    int // stores that tell their own figures, one of which is silent for a fifth of the time if the run is disturbed
	Properties map[string]string
}

// Write makes the run's directory in out, and returns it.
func (r Run) Write(out string) (string, error) {
	window := time.Duration(r.Seconds) * time.Second
	start := time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)
	run := results.Run{RunID: r.ID, Phase: "run", State: results.Finished, Start: start, WindowS: window.Seconds(), Paced: true,
		Target: float64(r.Workers * r.PerSecond), Plan: results.Plan{Workers: r.Workers, Threads: 50}, Spec: r.Properties,
		Command: "kvbench run -w mixed --target " + fmt.Sprint(r.Workers*r.PerSecond)}
	for w := range r.Workers {
		run.Fleet = append(run.Fleet, results.Member{Name: fmt.Sprintf("w%d", w), State: results.Finished})
	}
	dir, err := results.CreateRun(out, r.ID)
	if err != nil {
		return "", err
	}
	if err := errors.Join(results.WriteRun(dir, &run), r.events(dir, start), r.journal(filepath.Join(dir, "w0"), start, window)); err != nil {
		return "", err
	}
	for _, m := range run.Fleet[1:] {
		if err := link(filepath.Join(dir, "w0"), filepath.Join(dir, m.Name)); err != nil {
			return "", err
		}
	}
	return dir, r.servers(filepath.Join(dir, "w0", results.ServersFile))
}

// link makes a directory of the same files.
func link(from, to string) error {
	files, err := os.ReadDir(from)
	err = errors.Join(err, os.Mkdir(to, 0o777))
	for _, f := range files {
		err = errors.Join(err, os.Link(filepath.Join(from, f.Name()), filepath.Join(to, f.Name())))
	}
	return err
}

// servers writes what stores said of themselves to one of the workers, every five seconds.
func (r Run) servers(file string) error {
	if r.Servers == 0 {
		return nil
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	random, lines := rand.New(rand.NewPCG(3, 4)), json.NewEncoder(f)
	for store := range r.Servers {
		total := map[string]float64{"cores": 4, "pool_size.grpc_server": 5, "pool_size.unified_read_pool": 4, "pool_size.sched_pool": 4, "pool_size.raftstore": 2, "pool_size.apply": 2,
			"pool_threads.rocksdb_low": 3, "stored_bytes": 12e9, "leaders": 30, "regions": 90}
		for second := 0; second <= r.Seconds; second += 5 {
			for name, perSecond := range map[string]float64{"requests_total.raw_get": 9000, "requests_total.raw_put": 3000, "requests_total.raw_scan": 40, "request_seconds_total.raw_get": 4, "request_seconds_total.raw_put": 9,
				"cpu_seconds_total": 2.5, "pool_cpu_seconds_total.grpc_server": 1.2, "grpc_thread_cpu_seconds_total.1": 0.4, "pool_cpu_seconds_total.unified_read_pool": 2.4, "pool_cpu_seconds_total.sched_pool": 0.9,
				"pool_cpu_seconds_total.raftstore": 0.8, "pool_cpu_seconds_total.apply": 1.1, "pool_cpu_seconds_total.rocksdb_low": 1, "write_seconds_total": 8, "writes_total": 3000, "append_seconds_total": 2, "appends_total": 3000,
				"apply_seconds_total": 1, "applies_total": 3000, "cache_hits_total": 9000, "cache_misses_total": 700} {
				total[name] += 5 * perSecond * (0.7 + 0.3*random.Float64()) / float64(1+store)
			}
			total["memory_bytes"], total["pending_compaction_bytes"] = 4e9+1e8*random.Float64(), 1e8*random.Float64()*float64(second+1)
			total["stall_seconds_total"] += float64(second / 50 % 3 / 2)
			sample := results.ServerSample{S: float64(second) + 0.01*float64(store), Store: fmt.Sprintf("10.0.0.%d:20160", store+1), Figures: total}
			if r.Disturbed && store == 1 && second > r.Seconds/2 && second < r.Seconds*7/10 {
				sample.Figures, sample.Missing = nil, "status address 10.0.0.2:20180: no answer within 5s"
			}
			if err := lines.Encode(sample); err != nil {
				return errors.Join(err, f.Close())
			}
		}
	}
	return f.Close()
}

func (r Run) events(dir string, start time.Time) error {
	log, err := results.OpenEvents(dir)
	if err != nil {
		return err
	}
	err = log.Append(results.Event{At: start, Kind: "start"})
	if r.Event != "" {
		s := float64(r.Seconds) / 2
		err = errors.Join(err, log.Append(results.Event{At: start.Add(time.Duration(s * float64(time.Second))), S: s, Kind: "note", Text: r.Event}))
	}
	return errors.Join(err, log.Close())
}

// journal plays a worker, each second with a recorder of its own.
func (r Run) journal(dir string, start time.Time, window time.Duration) error {
	j, err := results.CreateJournal(dir, results.Worker{Name: "w0", Workers: r.Workers, Threads: 50, Driver: "stream", Lanes: 2, Start: start})
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(1, 2))
	okay, failed := workload.Result{RPCs: 1}, workload.Result{RPCs: 1, Class: store.Timeout, Err: errors.New("context deadline exceeded")}
	okay.Count[workload.OK], failed.Count[workload.Failed] = 1, 1
	for second := range r.Seconds {
		stalled := r.Disturbed && (second == r.Seconds/2 || second == r.Seconds/2+1)
		c := measure.NewCollector(measure.Config{Paced: true, Window: window}, 1)
		recorder := c.Recorder(0)
		for i := range r.PerSecond {
			if stalled && i >= 20 {
				break
			}
			slot := time.Duration(i) * time.Second / time.Duration(r.PerSecond)
			began := slot + time.Duration(random.IntN(200))*time.Microsecond
			end := began + time.Duration(300+random.ExpFloat64()*400)*time.Microsecond
			s := measure.Sample{Kind: workload.Kind(i % workload.Kinds), Result: &okay, Slot: slot, Start: began, End: end, Seen: end}
			if r.Disturbed && i%97 == 5 && second > r.Seconds*2/3 {
				s.Result = &failed
			}
			recorder.Started(s.Kind, slot, 1)
			recorder.Record(&s)
		}
		recorder.Finish(time.Second)
		c.Run(func(iv *measure.Interval) {
			iv.Start, iv.End = time.Duration(second)*time.Second, time.Duration(second+1)*time.Second
			if iv.Answers.Last > 0 { // each second's recorder begins at zero
				iv.Answers.First, iv.Answers.Last = iv.Answers.First+iv.Start, iv.Answers.Last+iv.Start
			}
			sent := store.Traffic{Store: "10.0.0.1:20160", Messages: 100, Commands: int64(r.PerSecond), Sizes: map[int]int64{30: 100}}
			other := store.Traffic{Store: "10.0.0.2:20160", Messages: 90, Commands: int64(r.PerSecond / 2), Sizes: map[int]int64{30: 90}}
			err = errors.Join(err, j.Write(iv, float64(r.PerSecond), measure.HostSample{Cores: 2, CPU: time.Duration(400+random.IntN(200)) * time.Millisecond}, sent, other))
		})
	}
	return errors.Join(err, j.Close(results.End{Cause: results.ByDuration}))
}
