// SPDX-License-Identifier: Apache-2.0

package search

import (
	"encoding/json"
	"path/filepath"
	"time"

	"github.com/kvbench/kvbench/internal/atomicfile"
)

// RecordFile is the record of a search, in its folder, in which the folders of its runs are as well.
const RecordFile = "search.json"

// recordVersion is that of the record. Fields are added, never renamed.
const recordVersion = 1

// Record is a search and what is known so far, as its file and scripts have it. Times are seconds, rates are operations a second.
type Record struct {
	Version    int               `json:"version"`
	ID         string            `json:"id"` // the name of its folder
	Command    string            `json:"command"`
	Versions   map[string]string `json:"versions"`
	Label      string            `json:"label,omitempty"`
	Note       string            `json:"note,omitempty"`
	Start      time.Time         `json:"start"`
	TookS      float64           `json:"took_s"`
	Objectives []string          `json:"objectives"` // of each cell

	FirstPerS float64 `json:"first_per_s"`
	MinPerS   float64 `json:"min_per_s"`
	MaxPerS   float64 `json:"max_per_s"`
	Precision float64 `json:"precision"` // as a share of the rate
	CellS     float64 `json:"cell_s"`
	VerifyS   float64 `json:"verify_s"`
	BudgetS   float64 `json:"budget_s"`

	Cells []RecordedCell `json:"cells"`
	// The highest rate that is held lies between these; null: there is no such bound.
	LowPerS      *float64 `json:"low_per_s"`
	HighPerS     *float64 `json:"high_per_s"`
	VerifiedPerS *float64 `json:"verified_per_s"`   // was held for verify_s; null: none
	Reason       Reason   `json:"reason,omitempty"` // it ended; empty: it has not
	Text         string   `json:"text"`             // all that in words
}

// RecordedCell is a cell in a record.
type RecordedCell struct {
	PerS    float64 `json:"per_s"`
	LengthS float64 `json:"length_s"`
	TookS   float64 `json:"took_s"`
	State   State   `json:"state"`
	Why     string  `json:"why,omitempty"`
	RunID   string  `json:"run_id,omitempty"`
}

// NewRecord returns the record of a search that begins.
func NewRecord(c *Config) *Record {
	return &Record{
		Version: recordVersion, Cells: []RecordedCell{},
		FirstPerS: c.Start, MinPerS: c.Min, MaxPerS: c.Max, Precision: c.Precision,
		CellS: c.Cell.Seconds(), VerifyS: c.Verify.Seconds(), BudgetS: c.Budget.Seconds(),
	}
}

// Take takes what is known so far into the record.
func (r *Record) Take(found *Result) {
	r.Cells = r.Cells[:0]
	for _, c := range found.Cells {
		r.Cells = append(r.Cells, RecordedCell{c.Rate, c.Length.Seconds(), c.Took.Round(time.Millisecond).Seconds(), c.State, c.Why, c.Run})
	}
	known := func(rate float64) *float64 {
		if rate == 0 {
			return nil
		}
		return &rate
	}
	r.LowPerS, r.HighPerS, r.VerifiedPerS, r.Reason = known(floor4(found.Low)), known(round4(found.High)), known(found.Verified), found.Reason
}

// Write replaces the record in the search's folder.
func (r *Record) Write(dir string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, RecordFile), append(text, '\n'), 0o644)
}
