// SPDX-License-Identifier: Apache-2.0

package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/workload"
)

// Journal writes what a worker measures into its directory, interval by
// interval, each file in one write, so that a kill loses the current interval
// and nothing before it. It is for one goroutine, but for [Journal.WriteServer] and [Journal.WriteEvent].
type Journal struct {
	dir    string
	worker Worker

	hist, counts, errs, traffic, secs *os.File

	servers late // ServersFile
	events  late // EventsFile

	buf     []byte
	encoder *measure.Encoder
	last    time.Duration
}

// CreateJournal makes a worker's directory, whose parent must be there, and
// starts the files in it.
func CreateJournal(dir string, w Worker) (_ *Journal, err error) {
	if err := os.Mkdir(dir, 0o777); err != nil {
		return nil, fmt.Errorf("make the journal: %w", err)
	}
	w.State = Running
	if err := WriteWorker(dir, &w); err != nil {
		return nil, err
	}
	j := &Journal{
		dir:     dir,
		worker:  w,
		encoder: measure.NewEncoder(),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, j.closeFiles())
		}
	}()
	for _, f := range []struct {
		file   **os.File
		name   string
		header []byte
	}{
		{&j.hist, HistogramsFile, logHeader(w.Start)},
		{&j.counts, CountsFile, []byte(countsHeader)},
		{&j.errs, ErrorsFile, nil},
		{&j.traffic, TrafficFile, nil},
		{&j.secs, SecondsFile, secondsHeader()},
	} {
		*f.file, err = os.OpenFile(filepath.Join(dir, f.name), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o666)
		if err != nil {
			return nil, fmt.Errorf("start the journal: %w", err)
		}
		if _, err = (*f.file).Write(f.header); err != nil {
			return nil, fmt.Errorf("start the journal: %w", err)
		}
	}
	return j, nil
}

// logHeader begins an interval log, format 1.3 of HdrHistogram's log writers,
// whose times count from start.
func logHeader(start time.Time) []byte {
	epoch := float64(start.UnixMilli()) / 1000
	return fmt.Appendf(nil, "#[Latencies in microseconds; Interval_Max in microseconds as well; times count from BaseTime]\n"+
		"#[Histogram log format version 1.3]\n"+
		"#[BaseTime: %.3f (seconds since epoch)]\n"+
		"#[StartTime: %.3f (seconds since epoch), %s]\n"+
		"\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n",
		epoch, epoch, start.UTC().Format(time.RFC3339Nano))
}

const countsHeader = "start_s,end_s,tag,operations,batches,rpcs,retries\n"

// Write appends an interval, with the worker's share of the target, what its
// process cost meanwhile and what its driver sent, if it can tell.
func (j *Journal) Write(iv *measure.Interval, target float64, host measure.HostSample, traffic ...store.Traffic) error {
	parts := []struct {
		set    *measure.Set
		warmup bool
	}{{&iv.Warmup, true}, {&iv.Window, false}}

	j.buf = j.buf[:0]
	for _, p := range parts {
		j.appendHistograms(iv, p.set, p.warmup)
	}
	if err := j.flush(j.hist); err != nil {
		return err
	}
	for _, p := range parts {
		j.appendCounts(iv, p.set, p.warmup)
	}
	if err := j.flush(j.counts); err != nil {
		return err
	}
	for _, p := range parts {
		if err := j.appendErrors(iv, p.set, p.warmup); err != nil {
			return err
		}
	}
	if err := j.flush(j.errs); err != nil {
		return err
	}
	if err := j.appendTraffic(iv, traffic); err != nil {
		return err
	}
	if err := j.flush(j.traffic); err != nil {
		return err
	}
	j.buf = appendSecond(j.buf, newSecond(iv, target, host))
	j.last = iv.End
	return j.flush(j.secs)
}

// flush writes the buffer to a file and empties it.
func (j *Journal) flush(f *os.File) error {
	if len(j.buf) == 0 {
		return nil
	}
	_, err := f.Write(j.buf)
	j.buf = j.buf[:0]
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return nil
}

func (j *Journal) appendHistograms(iv *measure.Interval, set *measure.Set, warmup bool) {
	for row := range measure.Row(measure.Rows) {
		cell := &set.Cells[row]
		j.appendHistogram(iv, cell.Service, Tag{warmup, row, Service})
		j.appendHistogram(iv, cell.Response, Tag{warmup, row, Response})
	}
	j.appendHistogram(iv, set.Lag, Tag{warmup, 0, Lag})
	j.appendHistogram(iv, set.Lane, Tag{warmup, 0, Lane})
	for k, w := range set.Waited {
		row := measure.RowOf(workload.Kind(k), workload.OK, store.OK)
		j.appendHistogram(iv, w.Service, Tag{warmup, row, WaitedService})
		j.appendHistogram(iv, w.Response, Tag{warmup, row, WaitedResponse})
	}
	for k := range set.Costs {
		row := measure.RowOf(workload.Kind(k), workload.OK, store.OK)
		for phase, h := range set.Costs[k].Phases {
			j.appendHistogram(iv, h, Tag{warmup, row, PhaseTime(store.Phase(phase))})
		}
	}
	j.appendHistogram(iv, set.WaitedSlots, Tag{warmup, 0, WaitedSlot})
}

func (j *Journal) appendHistogram(iv *measure.Interval, h *measure.Histogram, tag Tag) {
	if h == nil || h.Count() == 0 {
		return
	}
	j.buf = fmt.Appendf(j.buf, "Tag=%s,%.6f,%.6f,%d.000,",
		tag, seconds(iv.Start), seconds(iv.End)-seconds(iv.Start), h.Highest())
	j.buf = append(j.encoder.Append(j.buf, h), '\n')
}

// Tags of counts.csv that are no rows. That of the operations started of a kind
// is its name with startedSuffix, those of what its transactions cost likewise: of transactions with the batches
// of which it is known.
const (
	startedSuffix      = ".started"
	transactionsSuffix = ".transactions"
	timestampsSuffix   = ".timestamps"
	commandInfix       = ".command."

	queuedTag  = "queued"
	skippedTag = "skipped"
	blockedTag = "blocked"
	cutOffTag  = "cut_off"
	clampedTag = "clamped"
	rowsTag    = "scanned_rows"
)

func (j *Journal) appendCounts(iv *measure.Interval, set *measure.Set, warmup bool) {
	prefix := ""
	if warmup {
		prefix = warmupPrefix
	}
	line := func(tag string, operations, batches, rpcs, retries int64) {
		if operations|batches|rpcs|retries == 0 {
			return
		}
		j.buf = fmt.Appendf(j.buf, "%.6f,%.6f,%s%s,%d,%d,%d,%d\n",
			seconds(iv.Start), seconds(iv.End), prefix, tag, operations, batches, rpcs, retries)
	}
	for row := range measure.Row(measure.Rows) {
		cell := &set.Cells[row]
		line(row.String(), cell.Operations, cell.Batches, cell.RPCs, cell.Retries)
	}
	for k, n := range set.Started {
		line(workload.Kind(k).String()+startedSuffix, n, 0, 0, 0)
	}
	for k := range set.Costs {
		kind, c := workload.Kind(k).String(), &set.Costs[k]
		line(kind+transactionsSuffix, c.Transactions, c.Batches, 0, 0)
		line(kind+timestampsSuffix, c.Timestamps, 0, 0, 0)
		for command, n := range c.Commands {
			line(kind+commandInfix+store.Command(command).String(), n, 0, 0, 0)
		}
	}
	line(queuedTag, set.Queued, 0, 0, 0)
	line(skippedTag, set.Skipped, 0, 0, 0)
	line(blockedTag, set.Blocked, 0, 0, 0)
	line(cutOffTag, set.CutOff, 0, 0, 0)
	line(clampedTag, set.Clamped, 0, 0, 0)
	line(rowsTag, set.ScannedRows, 0, 0, 0)
}

// Errors is a line of errors.jsonl: what failed, or was wrong, in one interval.
type Errors struct {
	StartS float64  `json:"start_s"`
	EndS   float64  `json:"end_s"`
	Warmup bool     `json:"warmup,omitempty"`
	Kind   string   `json:"kind"`
	Class  string   `json:"class"` // of the error; "wrong" for values that verification refused
	Count  int64    `json:"count"` // operations
	Texts  []string `json:"texts"` // the first few distinct ones
}

func (j *Journal) appendErrors(iv *measure.Interval, set *measure.Set, warmup bool) error {
	for row := range measure.Row(measure.Rows) {
		cell := &set.Cells[row]
		if row.Outcome() < workload.Wrong || cell.Operations == 0 {
			continue
		}
		line, err := json.Marshal(Errors{
			StartS: seconds(iv.Start), EndS: seconds(iv.End), Warmup: warmup,
			Kind: row.Kind().String(), Class: ClassOf(row), Count: cell.Operations, Texts: cell.Texts,
		})
		if err != nil {
			return fmt.Errorf("encode errors: %w", err)
		}
		j.buf = append(append(j.buf, line...), '\n')
	}
	return nil
}

// ClassOf names what was wrong with the operations of a row, as errors.jsonl does.
func ClassOf(row measure.Row) string {
	if row.Outcome() == workload.Failed {
		return row.Class().String()
	}
	return row.Outcome().String()
}

// End is how a worker's part of a run has ended.
type End struct {
	Cause    Cause
	Reason   string             // in words, if it was before its time
	Findings *workload.Findings // of a verification
}

// Close ends the journal of a worker whose part is over.
func (j *Journal) Close(end End) error {
	j.worker.Findings = end.Findings
	j.worker.State, j.worker.Ended, j.worker.Reason, j.worker.EndS = Finished, end.Cause, end.Reason, seconds(j.last)
	j.worker.Bytes = make(map[string]int64)
	for _, f := range j.files() {
		info, err := f.Stat()
		if err != nil {
			return errors.Join(fmt.Errorf("close the journal: %w", err), j.closeFiles())
		}
		j.worker.Bytes[filepath.Base(f.Name())] = info.Size()
	}
	if err := j.closeFiles(); err != nil {
		return err
	}
	return WriteWorker(j.dir, &j.worker)
}

func (j *Journal) files() []*os.File {
	files := []*os.File{j.hist, j.counts, j.errs, j.traffic, j.secs}
	for _, l := range []*late{&j.servers, &j.events} {
		if l.file != nil {
			files = append(files, l.file)
		}
	}
	return files
}

func (j *Journal) closeFiles() error {
	var errs []error
	for _, f := range j.files() {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
