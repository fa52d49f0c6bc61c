// SPDX-License-Identifier: Apache-2.0

// Package results knows the layout of a results directory, and nothing of what
// is written there: workers and the coordinator write it as a run goes, analysis
// reads it.
//
//	<run-id>/run.json                what was run, where, by whom, and how it ended
//	<run-id>/events.jsonl            what happened when
//	<run-id>/probe.json              what a probe of the stores has seen, if there was one
//	<run-id>/<worker>/worker.json    who measured
//	<run-id>/<worker>/hist.hlog      a HdrHistogram interval log: per interval and tag, latencies in microseconds
//	<run-id>/<worker>/counts.csv     per interval and tag: operations, batches, requests
//	<run-id>/<worker>/errors.jsonl   per interval, kind and class: how many, and the first few texts
//	<run-id>/<worker>/traffic.jsonl  per interval and store: messages, commands in them, fallbacks
//	<run-id>/<worker>/servers.jsonl  what the stores said of themselves, with the worker that asked them
//	<run-id>/<worker>/events.jsonl   what the worker was told: annotations, other targets; if there was any
//	<run-id>/<worker>/seconds.csv    per interval: the worker and its process at a glance
//
// The line in seconds.csv is written last and makes an interval count: what the
// other files hold beyond it is the torn end of a worker that was killed. Whoever
// copies a journal while it grows copies seconds.csv first, see [JournalFiles].
package results

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kvbench/kvbench/internal/atomicfile"
	"github.com/kvbench/kvbench/internal/plainfile"
)

// The files of a run's directory, and of a worker's within it.
const (
	RunFile    = "run.json"
	EventsFile = "events.jsonl" // a worker's, too, if it has been told of any
	ProbeFile  = "probe.json"

	WorkerFile     = "worker.json"
	HistogramsFile = "hist.hlog"
	CountsFile     = "counts.csv"
	ErrorsFile     = "errors.jsonl"
	TrafficFile    = "traffic.jsonl"
	SecondsFile    = "seconds.csv"
	ServersFile    = "servers.jsonl" // of one worker at a time; the others have none
)

// JournalFiles are the files of a worker's journal in the order in which they
// must be copied from a worker that still writes: all that the copy of the
// first speaks of is then in the copies of the others.
var JournalFiles = []string{SecondsFile, HistogramsFile, CountsFile, ErrorsFile, TrafficFile, ServersFile, EventsFile, WorkerFile}

// NewRunID returns a name for a run that begins at t: its time in UTC, so that
// names sort by age, and a random end, so that two never meet.
func NewRunID(t time.Time) string {
	var random [3]byte
	rand.Read(random[:])
	return t.UTC().Format("20060102-150405-") + hex.EncodeToString(random[:])
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// CheckName refuses a name, of a run or a worker, that is not safe to be the name
// of a directory, or is that of a file of the layout.
func CheckName(name string) error {
	if !nameForm.MatchString(name) || strings.HasSuffix(name, ".") {
		return fmt.Errorf("name %q: want up to 128 letters, digits, '.', '_' and '-', first a letter or digit, last no '.'", name)
	}
	if slices.Contains([]string{RunFile, EventsFile, ProbeFile}, strings.ToLower(name)) {
		return fmt.Errorf("name %q is reserved for a file of the results directory", name)
	}
	return nil
}

// CreateRun makes the directory of a new run under root and returns its path.
func CreateRun(root, id string) (string, error) {
	if err := CheckName(id); err != nil {
		return "", err
	}
	dir := filepath.Join(root, id)
	if err := os.MkdirAll(root, 0o777); err != nil {
		return "", fmt.Errorf("make the results directory: %w", err)
	}
	if err := os.Mkdir(dir, 0o777); err != nil {
		return "", fmt.Errorf("make the run's directory: %w", err)
	}
	return dir, nil
}

// WorkerDir returns the path of a worker's directory in that of a run, whether
// it is there or not.
func WorkerDir(run, worker string) (string, error) {
	if err := CheckName(worker); err != nil {
		return "", err
	}
	return filepath.Join(run, worker), nil
}

// ErrNoRun is of a directory that neither is that of a run nor holds any.
var ErrNoRun = errors.New("no run in it")

// Find returns the directories of runs that path stands for: itself, or those
// in it, oldest first. Symbolic links are followed for path itself, and nowhere below it.
func Find(path string) ([]string, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return nil, err
		}
	}
	isRun := func(dir string) (bool, error) {
		_, err := os.Lstat(filepath.Join(dir, RunFile))
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return err == nil, err
	}
	if ok, err := isRun(path); err != nil {
		return nil, err
	} else if ok {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var runs []string
	for _, e := range entries { // sorted by name
		if dir := filepath.Join(path, e.Name()); e.IsDir() {
			ok, err := isRun(dir)
			if err != nil {
				return nil, err
			}
			if ok {
				runs = append(runs, dir)
			}
		}
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("%s: %w: want the directory of a run, with %s in it, or one that holds such directories", path, ErrNoRun, RunFile)
	}
	return runs, nil
}

// writeJSON replaces a file in one step, so that a reader, or a kill, finds the
// old document or the new one.
func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(path, append(text, '\n'), 0o644)
}

func readJSON(path string, v any) error {
	text, err := plainfile.ReadIn(filepath.Dir(path), filepath.Base(path), plainfile.MaxSmall)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// seconds converts a time on a run's clock to how it stands in files.
func seconds(d time.Duration) float64 { return d.Round(time.Microsecond).Seconds() }

// Duration converts seconds, as they stand in files, to the run's clock.
func Duration(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Microsecond)
}
