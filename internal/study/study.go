// SPDX-License-Identifier: Apache-2.0

package study

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kvbench/kvbench/internal/atomicfile"
	"github.com/kvbench/kvbench/internal/dirlock"
	"github.com/kvbench/kvbench/internal/plainfile"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/spec"
)

// RecordFile is the record of a study, in its folder, in which the folders of its runs are as well.
const RecordFile = "study.json"

// recordVersion is that of the record.
const recordVersion = 1

// maxRecord bounds a record, in bytes: 10,000 steps, each of which has been tried some times.
const maxRecord = 64 << 20

// Study is a study that is carried out, or was.
type Study struct {
	Version  int               `json:"version"`
	ID       string            `json:"id"` // the name of its folder
	Name     string            `json:"name"`
	Made     time.Time         `json:"made"`
	Command  string            `json:"command"`
	Versions map[string]string `json:"versions"`
	Limits   results.Limits    `json:"limits"` // of each run
	Rules    Rules             `json:"rules"`
	Cells    []Cell            `json:"cells"`
	Steps    []Step            `json:"steps"` // in their order
	Ended    string            `json:"ended,omitempty"`
	// Prices are the paths of files with prices, which are read for each report, by variant; "": of all.
	Prices map[string]string `json:"prices,omitempty"`

	dir  string
	lock *os.File
}

// Attempt is one try at a step.
type Attempt struct {
	RunID string `json:"run_id"` // chosen before the run, whether or not it came to be
	State State  `json:"state"`
	Code  int    `json:"code"` // of its verdict, see package exitcode
	Why   string `json:"why,omitempty"`
	// Broken is the first objective that a run which is done did not keep, and how; "": it kept all, or had none.
	Broken string    `json:"broken,omitempty"`
	Start  time.Time `json:"start"`
	End    time.Time `json:"end,omitzero"`
}

// State is what became of an attempt.
type State string

// The states.
const (
	Running     State = "running"     // or broken off, if nobody carries the study out
	Done        State = "done"        // it measured what it was to measure, whatever that was
	Failed      State = "failed"      // it did not
	Interrupted State = "interrupted" // by the user, or with the process
)

// Done tells whether a step needs no other attempt: it was carried out, or is skipped.
func (s *Step) Done() bool { return s.Skipped != "" || s.Last() != nil && s.Last().State == Done }

// Last is the latest attempt; nil if there is none.
func (s *Step) Last() *Attempt {
	if len(s.Attempts) == 0 {
		return nil
	}
	return &s.Attempts[len(s.Attempts)-1]
}

// Make makes the folder of a new study under root, and takes it for itself until Close.
func Make(root string, s Study, now time.Time) (*Study, error) {
	if err := CheckName(s.Name); err != nil {
		return nil, err
	}
	s.Version, s.Made = recordVersion, now
	s.ID = s.Name + "-" + results.NewRunID(now)
	s.dir = filepath.Join(root, s.ID)
	if err := os.MkdirAll(s.dir, 0o777); err != nil {
		return nil, err
	}
	if err := s.take(); err != nil {
		return nil, err
	}
	return &s, s.save()
}

// Open reads the record of a study.
func Open(dir string) (*Study, error) {
	text, err := plainfile.ReadIn(dir, RecordFile, maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is no folder of a study: there is no %s in it", dir, RecordFile)
	}
	if err != nil {
		return nil, err
	}
	s, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, RecordFile), err)
	}
	s.dir = dir
	return s, nil
}

// Continue reads the record of a study, and takes its folder until Close.
func Continue(dir string) (*Study, error) {
	s, err := Open(dir)
	if err != nil {
		return nil, err
	}
	if err := s.take(); err != nil {
		return nil, err
	}
	// It may have been carried on in the meantime.
	again, err := Open(dir)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	again.lock = s.lock
	return again, nil
}

func (s *Study) take() (err error) {
	if s.lock, err = dirlock.Take(s.dir); err != nil {
		return fmt.Errorf("study %s: %w", s.dir, err)
	}
	return nil
}

// decode reads a record, and checks what others rely on.
func decode(text []byte) (*Study, error) {
	var s Study
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, err
	}
	if s.Version != recordVersion {
		return nil, fmt.Errorf("is of version %d, this kvbench knows %d", s.Version, recordVersion)
	}
	for i := range s.Cells {
		if _, err := s.Cells[i].Spec(); err != nil {
			return nil, fmt.Errorf("cell %d: %w", i, err)
		}
		if len(s.Cells[i].Settings) != len(s.Cells[0].Settings) {
			return nil, fmt.Errorf("cell %d has %d settings, the first one has %d", i, len(s.Cells[i].Settings), len(s.Cells[0].Settings))
		}
	}
	for i, step := range s.Steps {
		if step.Cell < 0 || step.Cell >= len(s.Cells) {
			return nil, fmt.Errorf("step %d is of cell %d, of %d", i, step.Cell, len(s.Cells))
		}
		if err := results.CheckName(step.Skipped); step.Skipped != "" && err != nil {
			return nil, fmt.Errorf("step %d: skipped since %w", i, err)
		}
		for _, a := range step.Attempts {
			if err := results.CheckName(a.RunID); err != nil {
				return nil, fmt.Errorf("step %d: %w", i, err)
			}
		}
	}
	return &s, nil
}

// Dir is the folder of the study.
func (s *Study) Dir() string { return s.dir }

// RunDir is the folder of a run's results, whether it is there or not.
func (s *Study) RunDir(runID string) string { return filepath.Join(s.dir, runID) }

// save writes the record.
func (s *Study) save() error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(s.dir, RecordFile), append(text, '\n'), 0o644)
}

// Close lets others carry the study on.
func (s *Study) Close() error {
	if s.lock == nil {
		return nil
	}
	return s.lock.Close()
}

// Left returns how many steps are not done.
func (s *Study) Left() (n int) {
	for i := range s.Steps {
		if !s.Steps[i].Done() {
			n++
		}
	}
	return n
}

// Lower returns the run, and its cell, because of which a step is skipped by [Stop.SkipHigher]: one of the same repeat, at the lowest
// value that broke an objective, of a cell that differs in that value alone. Nil if there is none.
func (s *Study) Lower(i int) (*Attempt, *Cell) {
	var (
		run  *Attempt
		cell *Cell
		of   = s.Cells[s.Steps[i].Cell]
		key  = s.Rules.Stop.SkipHigher
		most = of.number(key)
	)
	if key == "" {
		return nil, nil
	}
	for k := range s.Steps {
		step := &s.Steps[k]
		a, c := step.Last(), &s.Cells[step.Cell]
		if a == nil || a.State != Done || a.Broken == "" || step.Repeat != s.Steps[i].Repeat || !c.sameBut(&of, key) {
			continue
		}
		if v := c.number(key); v < most {
			run, cell, most = a, c, v
		}
	}
	return run, cell
}

// SkippedBy says why a step was skipped.
func (s *Study) SkippedBy(i int) string {
	for k := range s.Steps {
		if a := s.Steps[k].Last(); a != nil && a.RunID == s.Steps[i].Skipped {
			return "at " + s.Cells[s.Steps[k].Cell].Title() + " " + a.Broken
		}
	}
	return "run " + s.Steps[i].Skipped + " broke an objective"
}

// Skipped returns how many steps are not made, since an objective was broken at a lower value.
func (s *Study) Skipped() (n int) {
	for i := range s.Steps {
		if s.Steps[i].Skipped != "" {
			n++
		}
	}
	return n
}

// number is the value of a property that is varied over numbers; NaN, which is neither lower nor higher than another, if it is not.
func (c *Cell) number(key string) float64 {
	for _, s := range c.Settings {
		if s.Key == key {
			if v, err := spec.ParseRate(s.Value); err == nil {
				return v
			}
		}
	}
	return math.NaN()
}

// sameBut tells whether cells differ in one property at most.
func (c *Cell) sameBut(other *Cell, key string) bool {
	return c.Variant == other.Variant && slices.EqualFunc(c.Settings, other.Settings, func(a, b Setting) bool {
		return a.Key == b.Key && (a.Key == key || a.Value == b.Value)
	})
}

// Length is how long the steps that are left take at least, and how many of them end by count, so that nobody knows.
func (s *Study) Length() (least time.Duration, open int) {
	lengths := make([]time.Duration, len(s.Cells))
	for i := range s.Cells {
		lengths[i] = s.Cells[i].Length()
	}
	for i := range s.Steps {
		if s.Steps[i].Done() {
			continue
		}
		if lengths[s.Steps[i].Cell] == 0 {
			open++
		}
		least += lengths[s.Steps[i].Cell]
	}
	if n := s.Left(); n > 1 {
		least += time.Duration(n-1) * time.Duration(s.Rules.Pause)
	}
	return least, open
}

// Begun tells whether a run of the study has been recorded, whatever became of it.
func (s *Study) Begun() bool {
	for i := range s.Steps {
		for _, a := range s.Steps[i].Attempts {
			if _, err := os.Stat(s.RunDir(a.RunID)); err == nil || a.State == Done {
				return true
			}
		}
	}
	return false
}

// Discard closes a study of which nothing has begun, and leaves no trace of it.
func (s *Study) Discard() error {
	return errors.Join(s.Close(), os.RemoveAll(s.dir))
}
