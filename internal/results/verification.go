// SPDX-License-Identifier: Apache-2.0

package results

import (
	"fmt"
	"strings"
)

// What a Verification is of.
const (
	OfTable  = "table"  // every row
	OfWrites = "writes" // what a run wrote and was told OK for
)

// Verification says how what is in the database differs from what should be.
type Verification struct {
	Of         string    `json:"of"`
	Expected   int64     `json:"expected"`           // records, or keys with an acknowledged write
	Checked    int64     `json:"checked"`            // rows, or keys, that were read and compared
	Missing    int64     `json:"missing"`            // records, or acknowledged writes, that are gone
	Stale      int64     `json:"stale"`              // keys with a value older than the one acknowledged
	Wrong      int64     `json:"wrong"`              // rows that nobody can have written so
	Unexpected int64     `json:"unexpected"`         // rows that are no record's
	Unread     int64     `json:"unread"`             // could not be read: nothing is known of them
	Undecided  int64     `json:"undecided"`          // keys whose value a worker may have written that cannot be asked
	Fraction   float64   `json:"fraction"`           // of all keys, that were looked at
	AtLeast    bool      `json:"at_least,omitempty"` // missing and unexpected may be more: they are only known by their difference
	Partial    bool      `json:"partial"`            // a worker did not do its part, or not all that differs was looked into
	Problems   []Problem `json:"problems"`           // the first ones
	Notes      []string  `json:"notes,omitempty"`
}

// Problem is what is wrong with a key.
type Problem struct {
	Worker string   `json:"worker,omitempty"` // that found it
	Key    string   `json:"key"`              // as in Go source, without the quotes
	Text   string   `json:"text"`
	AtS    *float64 `json:"at_s,omitempty"` // when the write was acknowledged, in seconds on the run's clock
}

// Bad counts what is not as it should be.
func (v *Verification) Bad() int64 { return v.Missing + v.Stale + v.Wrong + v.Unexpected }

// Complete tells whether all was read that should be.
func (v *Verification) Complete() bool { return !v.Partial && v.Unread == 0 }

// Text says in one line what was found.
func (v *Verification) Text() string {
	what := "records"
	if v.Of == OfWrites {
		what = "keys with acknowledged writes"
	}
	least := ""
	if v.AtLeast {
		least = "at least "
	}
	var parts []string
	for _, p := range []struct {
		least string
		n     int64
		what  string
	}{
		{least, v.Missing, "missing"}, {"", v.Stale, "older than acknowledged"}, {"", v.Wrong, "wrong"}, {least, v.Unexpected, "unexpected"},
		{"", v.Unread, "could not be read"}, {"", v.Undecided, "undecided"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%s%d %s", p.least, p.n, p.what))
		}
	}
	if len(parts) == 0 {
		parts = []string{"all as they should be"}
	}
	return fmt.Sprintf("verified %d %s: %s", v.Expected, what, strings.Join(parts, ", "))
}
