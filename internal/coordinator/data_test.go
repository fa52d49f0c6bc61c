// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/manifest"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/store/memory"
)

// TestDecide: only what is certain is claimed.
func TestDecide(t *testing.T) {
	t.Parallel()
	a := &workerRun{member: &member{name: "a"}, offset: offset{roundTrip: 2 * time.Millisecond}}
	b := &workerRun{member: &member{name: "b"}, offset: offset{roundTrip: 2 * time.Millisecond}}
	key := func(name string) *workerpb.Mismatch {
		return &workerpb.Mismatch{Key: []byte(name), Found: 1, StartNanos: int64(5 * time.Second), EndNanos: int64(5100 * time.Millisecond)}
	}
	gone := key("gone")
	gone.Gone = true
	wrong := key("wrong")
	wrong.Problem = "is cut off"
	found := []*mismatch{
		{Mismatch: key("old"), by: a},
		{Mismatch: gone, by: a},
		{Mismatch: wrong, by: a, undecided: true},
		{Mismatch: key("unknown"), by: a, undecided: true},
		{Mismatch: key("theirs, later"), by: a, other: b, otherEnd: 6 * time.Second},
		{Mismatch: key("theirs, never acknowledged"), by: a, other: b, otherEnd: 1<<63 - 1},
		{Mismatch: key("theirs, before, as far as clocks tell"), by: a, other: b, otherEnd: 5*time.Second - 5*time.Millisecond},
		{Mismatch: key("theirs, long before"), by: a, other: b, otherEnd: 3 * time.Second},
		{Mismatch: key("old"), by: b},                    // the same loss, seen twice
		{Mismatch: key("wrong"), by: b, undecided: true}, // as much as this one can say
	}
	r := &running{zero: time.Now().Add(-10 * time.Second)}
	v := &results.Verification{Of: results.OfWrites}
	r.decide(v, found)
	if v.Stale != 2 || v.Missing != 1 || v.Wrong != 1 || v.Undecided != 1 || len(v.Problems) != 4 {
		t.Errorf("%+v", v)
	}
	for _, p := range v.Problems {
		if p.Worker == "" || p.AtS == nil || *p.AtS != 5.1 {
			t.Errorf("problem %+v", p)
		}
	}
	if err := verdictOf(v); exitcode.Of(err) != exitcode.Wrong || !strings.Contains(err.Error(), "acknowledged at 5.100 s") {
		t.Errorf("verdict %v", err)
	}
	v = &results.Verification{Of: results.OfWrites, Unread: 1}
	if err := verdictOf(v); exitcode.Of(err) != exitcode.Degraded {
		t.Errorf("verdict %v", err)
	}
}

// TestVerifyWrites: three workers write the same few keys at the same time, and none
// is claimed to be lost; each key is counted once.
func TestVerifyWrites(t *testing.T) {
	t.Parallel()
	db := &memory.DB{Delay: time.Millisecond}
	f, _ := trio(t, db)
	job := func() Job {
		return Job{Out: t.TempDir(), Spec: properties(t, map[string]string{
			"recordcount": "50", "readproportion": "0.2", "updateproportion": "0.7", "deleteproportion": "0.1", "updatemissing": "true",
			"verifywrites": "true", "maxexecutiontime": "1", "target": "0",
		})}
	}
	s, err := f.Run(t.Context(), job())
	if err != nil {
		t.Fatal(err)
	}
	v := s.Run.Verification
	if v == nil || v.Bad() != 0 || v.Undecided != 0 || v.Expected < 1 || v.Expected > 50 || v.Checked != v.Expected || v.Fraction != 1 {
		t.Errorf("nothing was lost: %+v", v)
	}
	kept, err := results.ReadRun(s.Dir)
	if err != nil || kept.Verification == nil || kept.Verification.Checked != v.Checked {
		t.Errorf("run.json: %+v, %v", kept, err)
	}
	if e := events(t, s.Dir); len(e["verified"]) != 1 {
		t.Errorf("events %v", e)
	}
	nothingLeft(t, db)
}

// TestUntrackedIsUndecided: of a key that more writes at the same time go to than a worker keeps, nothing
// can be said, and that is said.
func TestUntrackedIsUndecided(t *testing.T) {
	t.Parallel()
	db := &memory.DB{Delay: 20 * time.Millisecond}
	f, _ := trio(t, db)
	s, err := f.Run(t.Context(), Job{Out: t.TempDir(), Spec: properties(t, map[string]string{
		"recordcount": "1", "readproportion": "0", "updateproportion": "1", "updatemode": "blind", "threadcount": "64",
		"verifywrites": "true", "maxexecutiontime": "1", "target": "0",
	})})
	if err != nil {
		t.Fatal(err)
	}
	if v := s.Run.Verification; v == nil || v.Undecided != 1 || v.Expected != 1 || v.Checked != 0 || v.Bad() != 0 {
		t.Errorf("%+v", v)
	}
	nothingLeft(t, db)
}

// TestManifestInResults: with manifest=results nothing but the data is written into the store,
// and a run is still refused that does not fit.
func TestManifestInResults(t *testing.T) {
	t.Parallel()
	db := &memory.DB{}
	f, _ := trio(t, db)
	out := t.TempDir()
	run := func(change map[string]string) (warnings []string, err error) {
		p := map[string]string{"manifest": "results", "target": "0", "maxexecutiontime": "0", "operationcount": "30"}
		for k, v := range change {
			p[k] = v
		}
		_, err = f.Run(t.Context(), Job{Spec: properties(t, p), Out: out, Warn: func(w string) { warnings = append(warnings, w) }})
		return warnings, err
	}
	load := map[string]string{"dotransactions": "false", "operationcount": "0"}
	if _, err := run(load); err != nil {
		t.Fatal(err)
	}
	db.Change(func(rows map[string][]byte) {
		if len(rows) != 100 {
			t.Errorf("%d keys, want the records alone", len(rows))
		}
	})
	if files, err := filepath.Glob(filepath.Join(out, "loads", "*-usertable.json")); err != nil || len(files) != 1 {
		t.Errorf("manifests %v, %v", files, err)
	}
	if _, err := run(load); err == nil || exitcode.Of(err) != exitcode.Valid || !strings.Contains(err.Error(), "nothing to do") {
		t.Errorf("the same load again: %v", err)
	}
	if warnings, err := run(nil); err != nil || len(warnings) != 0 {
		t.Errorf("a run that fits: %v, %v", warnings, err)
	}
	if _, err := run(map[string]string{"fieldcount": "3"}); exitcode.Of(err) != exitcode.Usage || !strings.Contains(err.Error(), "fieldcount") {
		t.Errorf("a run of other rows: %v", err)
	}
	if warnings, err := run(map[string]string{"table": "other"}); err != nil || !slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, "nothing is remembered") }) {
		t.Errorf("a run on another table: %v, %v", warnings, err)
	}
}

// TestLoadedRecordsAreUsed: a run whose user does not say which records uses those
// that were loaded, wherever that is remembered.
func TestLoadedRecordsAreUsed(t *testing.T) {
	t.Parallel()
	for _, where := range []string{spec.InStore, spec.InResults} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			testLoadedRecordsAreUsed(t, where)
		})
	}
}

func testLoadedRecordsAreUsed(t *testing.T, where string) {
	db := &memory.DB{}
	f, _ := trio(t, db)
	out := t.TempDir()
	var said []string // of the record count
	job := func(p map[string]string) Job {
		said = nil
		source := spec.Source{Pairs: []spec.Pair{{Key: "manifest", Value: where}, {Key: "readproportion", Value: "1"}, {Key: "updateproportion", Value: "0"}}}
		for key, value := range p {
			source.Pairs = append(source.Pairs, spec.Pair{Key: key, Value: value})
		}
		s, err := spec.Parse(source)
		if err != nil {
			t.Fatal(err)
		}
		return Job{Spec: s, RunID: results.NewRunID(time.Now()), Out: out, Lease: defaultLease, Warn: func(w string) {
			if strings.HasPrefix(w, "recordcount") {
				said = append(said, w)
			}
		}}
	}
	if _, err := f.Run(t.Context(), job(map[string]string{"dotransactions": "false", "recordcount": "3000"})); err != nil {
		t.Fatal(err)
	}
	const used = "recordcount is not set: the 3000 records that were loaded are used"

	s, err := f.Run(t.Context(), job(map[string]string{"operationcount": "600"}))
	if err != nil {
		t.Fatal(err)
	}
	run, err := results.ReadRun(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if run.Spec["recordcount"] != "3000" || run.Spec["insertcount"] != "3000" || run.Plan.Records != 3000 || !slices.Contains(run.Warnings, used) || !slices.Equal(said, []string{used}) {
		t.Errorf("said %q; run.json: warnings %q, plan %+v, %v", said, run.Warnings, run.Plan, run.Spec)
	}
	for _, m := range run.Fleet {
		for iv := range intervals(t, s.Dir, m.Name) {
			if iv.Missing > 0 {
				t.Errorf("%d reads missed", iv.Missing)
			}
		}
	}
	all, err := f.Verify(t.Context(), job(map[string]string{"verify": "scan"}))
	if err != nil || len(all) != 1 || all[0].Run.Verification.Checked != 3000 || !slices.Contains(all[0].Run.Warnings, used) {
		t.Errorf("verification: %d passes, %v", len(all), err)
	}
	if _, err := f.Run(t.Context(), job(map[string]string{"fieldcount": "3"})); exitcode.Of(err) != exitcode.Usage || !strings.Contains(err.Error(), "fieldcount") {
		t.Errorf("a run of other rows: %v", err)
	}

	// What is decided of other tables.
	for table, records := range map[string]string{"later": "200-699", "parts": "0-99,800-899", "begun": ""} {
		j := job(map[string]string{"table": table})
		m := &manifest.Manifest{Version: manifest.Version, Shape: manifest.Shape(j.Spec)}
		if err := m.Loaded.UnmarshalText([]byte(records)); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(m)
		if err == nil {
			db.Change(func(rows map[string][]byte) { rows[manifest.Prefix(table)] = text })
			err = manifest.WriteFile(j.manifestFile(0), m)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		properties         map[string]string
		said               string
		count, start, part string
		err                string
	}{
		{map[string]string{"table": "later"}, "the 500 records that were loaded are used", "700", "200", "500", ""},
		{map[string]string{"table": "parts"}, "", "", "", "", `table "parts" holds the records 0-99, 800-899: say which`},
		{map[string]string{"table": "begun"}, "1000 records assumed", "1000", "0", "1000", ""},
		{map[string]string{"table": "unknown"}, "1000 records assumed", "1000", "0", "1000", ""},
		{map[string]string{"manifest": "none"}, "1000 records assumed", "1000", "0", "1000", ""},
		{map[string]string{"recordcount": "10"}, "", "10", "0", "10", ""},
		{map[string]string{"insertcount": "7"}, "", "1000", "0", "7", ""},
		{map[string]string{"dotransactions": "false"}, "", "1000", "0", "1000", ""},
	}
	for _, tt := range tests {
		j := job(tt.properties)
		err := f.settleRecords(t.Context(), &j)
		if tt.err != "" {
			if exitcode.Of(err) != exitcode.Usage || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%v: %v, want %q", tt.properties, err, tt.err)
			}
			continue
		}
		p := j.Spec.Properties()
		if err != nil || p["recordcount"] != tt.count || p["insertstart"] != tt.start || p["insertcount"] != tt.part {
			t.Errorf("%v: recordcount %s, insertstart %s, insertcount %s, %v", tt.properties, p["recordcount"], p["insertstart"], p["insertcount"], err)
		}
		if got := strings.Join(said, "; "); strings.TrimPrefix(got, "recordcount is not set: ") != tt.said {
			t.Errorf("%v: said %q, want %q", tt.properties, got, tt.said)
		}
	}
	nothingLeft(t, db)
}

// TestVerifyTable: a scan that does not account for every record is followed by a look
// for each.
func TestVerifyTable(t *testing.T) {
	t.Parallel()
	db := &memory.DB{}
	f, _ := trio(t, db)
	out := t.TempDir()
	count := map[string]string{"dotransactions": "false", "recordcount": "3000", "target": "0", "maxexecutiontime": "0", "dataintegrity": "true"}
	job := func() Job { return Job{Spec: properties(t, count), Out: out} }
	if _, err := f.Run(t.Context(), job()); err != nil {
		t.Fatal(err)
	}
	all, err := f.Verify(t.Context(), job())
	if err != nil || len(all) != 1 || all[0].Run.Verification.Checked != 3000 || all[0].Run.Phase != "verify" {
		t.Fatalf("%d passes, %v", len(all), err)
	}
	var lost string
	db.Change(func(rows map[string][]byte) {
		for lost = range rows {
			break
		}
		rows["usertable:user17"] = rows[lost]
		delete(rows, lost)
	})
	all, err = f.Verify(t.Context(), job())
	if exitcode.Of(err) != exitcode.Wrong || len(all) != 2 {
		t.Fatalf("%d passes, %v", len(all), err)
	}
	scan, get := all[0].Run.Verification, all[1].Run.Verification
	if scan.Missing != 1 || scan.Unexpected != 1 || get.Missing != 1 || len(get.Problems) != 1 || get.Problems[0].Key != lost {
		t.Errorf("scan %+v, get %+v, lost %s", scan, get, lost)
	}
	nothingLeft(t, db)
}
