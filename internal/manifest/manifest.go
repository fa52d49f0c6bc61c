// SPDX-License-Identifier: Apache-2.0

// Package manifest is what a store remembers of the load of a table: with which
// keys and rows, which records are there, and, while a load is under way, how far
// each of its lanes has come. A load that was broken off goes on from there, with
// any number of workers; a run sees whether it would meet the data it expects.
//
// It is kept under reserved keys, see [Prefix], as JSON. A manifest is written
// when a load begins and again when its last lane is through; progress is written
// every few seconds by the workers, each about its own lanes. All of it only ever
// says less than is true, so that whoever acts on it inserts some records twice and
// never one too few.
package manifest

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/workload"
)

// Version is that of the documents.
const Version = 1

// Manifest says what was loaded into a table.
type Manifest struct {
	Version int               `json:"version"`
	LoadID  string            `json:"load_id"` // of the run that began the last load
	Shape   map[string]string `json:"shape"`   // properties that decide keys and rows, see [Shape]
	Loaded  workload.Done     `json:"loaded"`  // records that are there, by number
	Pending *Range            `json:"pending,omitempty"`
}

// Range is the part of the key space that a load has begun to fill: the records
// [Start, Start+Count).
type Range struct {
	Start int64 `json:"start"`
	Count int64 `json:"count"`
}

// Records returns the records that are there, an empty range if none is known. It is
// an error if they are several ranges: somebody must choose then.
func (m *Manifest) Records() (Range, error) {
	if m == nil {
		return Range{}, nil
	}
	from, to := m.Loaded.Bounds()
	if m.Loaded.Len() != to-from {
		return Range{}, fmt.Errorf("recordcount is not set, and table %q holds the records %s: say which to use (-p recordcount=… -p insertstart=… -p insertcount=…)",
			m.Shape["table"], describe(&m.Loaded))
	}
	return Range{from, to - from}, nil
}

// Properties are those that ask for the range.
func (r Range) Properties() map[string]string {
	return map[string]string{
		"recordcount": strconv.FormatInt(r.Start+r.Count, 10),
		"insertstart": strconv.FormatInt(r.Start, 10),
		"insertcount": strconv.FormatInt(r.Count, 10),
	}
}

// Lane is how far one lane of a load has come. Its batches are counted from the
// start of the pending range.
type Lane struct {
	workload.LaneProgress
	Count    int64  `json:"count"`    // records of the range that it worked on; its last batch may be a short one
	Run      string `json:"run"`      // the id of the run that the lane belonged to
	Finished bool   `json:"finished"` // all of its share is in the store
}

// Prefix is what the reserved keys of a table begin with. It has no colon and
// therefore lies in no table's part of the key space, which begins with its name
// and a colon.
func Prefix(table string) string { return "kvbench.load/" + url.QueryEscape(table) }

// Shape returns the properties that decide what the keys and rows of a table look
// like, and leaves out those that the others make meaningless.
func Shape(s *spec.Spec) map[string]string {
	names := []string{
		"table", "keyprefix", "insertorder", "keyformat", "zeropadding", "keylength",
		"fieldcount", "valueformat", "fieldlengthdistribution", "dataintegrity",
	}
	if s.Key.Order == spec.Hashed {
		names = append(names, "keyhash")
	}
	if s.Row.Format == spec.YCSB {
		names = append(names, "fieldnameprefix")
	}
	switch s.Row.LengthDistribution {
	case spec.Constant:
		names = append(names, "fieldlength")
	case spec.Histogram:
		names = append(names, "fieldlengthhistogram")
	default:
		names = append(names, "fieldlength", "minfieldlength")
	}
	all := s.Properties()
	shape := make(map[string]string, len(names))
	for _, name := range names {
		shape[name] = all[name]
	}
	return shape
}

// differences names the properties in which two shapes differ, as "fieldcount is 10
// there and 5 here".
func differences(there, here map[string]string) []string {
	var all []string
	for name, value := range here {
		if old, ok := there[name]; ok && old != value {
			all = append(all, fmt.Sprintf("%s is %q there and %q here", name, old, value))
		}
	}
	slices.Sort(all)
	return all
}

// parse reads a manifest.
func parse(text []byte) (*Manifest, error) {
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	if m.Version != Version {
		return nil, fmt.Errorf("manifest: version %d, and this kvbench reads %d", m.Version, Version)
	}
	if p := m.Pending; p != nil && (p.Start < 0 || p.Count < 1 || p.Start > 1<<61 || p.Count > 1<<61) {
		return nil, fmt.Errorf("manifest: records from %d on, %d of them, are no range", p.Start, p.Count)
	}
	return &m, nil
}

// describe says in words which records there are.
func describe(d *workload.Done) string {
	text, _ := d.MarshalText() // never fails
	if len(text) == 0 {
		return "none"
	}
	const most = 100
	if len(text) > most {
		return string(text[:most]) + ",…"
	}
	return strings.ReplaceAll(string(text), ",", ", ")
}
