// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/worker/workertest"
)

// TestDecide: only what is certain is claimed.
func TestDecide(t *testing.T) {
	t.Parallel()
	a := &part{member: &member{name: "a"}, offset: offset{roundTrip: 2 * time.Millisecond}}
	b := &part{member: &member{name: "b"}, offset: offset{roundTrip: 2 * time.Millisecond}}
	key := func(name string) *workerpb.Dispute {
		return &workerpb.Dispute{Key: []byte(name), Found: 1, StartNanos: int64(5 * time.Second), EndNanos: int64(5100 * time.Millisecond)}
	}
	gone := key("gone")
	gone.Gone = true
	wrong := key("wrong")
	wrong.Problem = "is cut off"
	disputes := []*dispute{
		{Dispute: key("old"), by: a},
		{Dispute: gone, by: a},
		{Dispute: wrong, by: a, undecided: true},
		{Dispute: key("unknown"), by: a, undecided: true},
		{Dispute: key("theirs, later"), by: a, other: b, otherEnd: 6 * time.Second},
		{Dispute: key("theirs, never acknowledged"), by: a, other: b, otherEnd: 1<<63 - 1},
		{Dispute: key("theirs, before, as far as clocks tell"), by: a, other: b, otherEnd: 5*time.Second - 5*time.Millisecond},
		{Dispute: key("theirs, long before"), by: a, other: b, otherEnd: 3 * time.Second},
		{Dispute: key("old"), by: b}, // the same loss, seen twice
	}
	r := &running{zero: time.Now().Add(-10 * time.Second)}
	v := &results.Verification{Of: results.OfWrites}
	r.decide(v, disputes)
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
// is claimed to be lost; then one is.
func TestVerifyWrites(t *testing.T) {
	t.Parallel()
	db := &workertest.Memory{Delay: time.Millisecond}
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
	if v == nil || v.Bad() != 0 || v.Undecided != 0 || v.Expected < 100 || v.Fraction != 1 {
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

// TestManifestInResults: with manifest=results nothing but the data is written into the store,
// and a run is still refused that does not fit.
func TestManifestInResults(t *testing.T) {
	t.Parallel()
	db := &workertest.Memory{}
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
// that were loaded.
func TestLoadedRecordsAreUsed(t *testing.T) {
	t.Parallel()
	for _, kept := range []string{"store", "results"} {
		db := &workertest.Memory{}
		f, _ := trio(t, db)
		out := t.TempDir()
		var warnings []string
		job := func(p map[string]string) Job {
			source := spec.Source{Pairs: []spec.Pair{{Key: "manifest", Value: kept}, {Key: "threadcount", Value: "4"}, {Key: "readproportion", Value: "1"}, {Key: "updateproportion", Value: "0"}}}
			for key, value := range p {
				source.Pairs = append(source.Pairs, spec.Pair{Key: key, Value: value})
			}
			s, err := spec.Parse(source)
			if err != nil {
				t.Fatal(err)
			}
			warnings = nil
			return Job{Spec: s, Out: out, Warn: func(w string) { warnings = append(warnings, w) }}
		}
		load := func(p map[string]string) {
			p["dotransactions"] = "false"
			if _, err := f.Run(t.Context(), job(p)); err != nil {
				t.Fatalf("%s: load of %v: %v", kept, p, err)
			}
		}
		load(map[string]string{"recordcount": "3000"})
		load(map[string]string{"recordcount": "700", "insertstart": "200", "table": "later"})
		load(map[string]string{"recordcount": "100", "table": "parts"})
		load(map[string]string{"recordcount": "900", "insertstart": "800", "table": "parts"})

		tests := []struct {
			name                        string
			properties                  map[string]string
			warning                     string // "": none of the records
			records, start, countLoaded string
			err                         string
		}{
			{"all", nil, "recordcount is not set: the 3000 records that were loaded are used", "3000", "0", "3000", ""},
			{"from some record on", map[string]string{"table": "later"}, "recordcount is not set: the 500 records that were loaded are used", "700", "200", "500", ""},
			{"said", map[string]string{"recordcount": "10"}, "", "10", "0", "10", ""},
			{"said in part", map[string]string{"insertcount": "7"}, "", "1000", "0", "7", ""},
			{"of other rows", map[string]string{"fieldcount": "3"}, "3000 records", "", "", "", "fieldcount"},
			{"in parts", map[string]string{"table": "parts"}, "", "", "", "", `table "parts" holds the records 0-99, 800-899: say which`},
			{"not remembered", map[string]string{"table": "other"}, "recordcount is not set: 1000 records assumed", "1000", "0", "1000", ""},
			{"not asked for", map[string]string{"manifest": "none"}, "recordcount is not set: 1000 records assumed", "1000", "0", "1000", ""},
		}
		for _, tt := range tests {
			p := map[string]string{"operationcount": "300"}
			maps.Copy(p, tt.properties)
			s, err := f.Run(t.Context(), job(p))
			said := slices.IndexFunc(warnings, func(w string) bool { return strings.HasPrefix(w, "recordcount is not set") })
			if (said >= 0) != (tt.warning != "") || said >= 0 && !strings.Contains(warnings[said], tt.warning) {
				t.Errorf("%s, %s: warnings %q, want %q", kept, tt.name, warnings, tt.warning)
			}
			if tt.err != "" {
				if exitcode.Of(err) != exitcode.Usage || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("%s, %s: %v, want %q", kept, tt.name, err, tt.err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s, %s: %v", kept, tt.name, err)
				continue
			}
			run, err := results.ReadRun(s.Dir)
			if err != nil {
				t.Fatal(err)
			}
			if run.Spec["recordcount"] != tt.records || run.Spec["insertstart"] != tt.start || run.Spec["insertcount"] != tt.countLoaded || strconv.FormatInt(run.Plan.Records, 10) != tt.records {
				t.Errorf("%s, %s: recordcount %s, insertstart %s, insertcount %s; plan %+v", kept, tt.name, run.Spec["recordcount"], run.Spec["insertstart"], run.Spec["insertcount"], run.Plan)
			}
			if tt.warning != "" && !slices.Contains(run.Warnings, tt.warning) {
				t.Errorf("%s, %s: run.json warns of %q", kept, tt.name, run.Warnings)
			}
			if tt.name == "all" {
				for _, m := range run.Fleet {
					for iv := range intervals(t, s.Dir, m.Name) {
						if iv.Missing > 0 {
							t.Errorf("%s: %d reads missed", kept, iv.Missing)
						}
					}
				}
			}
		}
		all, err := f.Verify(t.Context(), job(map[string]string{"verify": "scan", "table": "later"}))
		if err != nil || len(all) != 1 || all[0].Run.Verification.Checked != 500 {
			t.Errorf("%s: verification: %d passes, %v", kept, len(all), err)
		}
		nothingLeft(t, db)
	}
}

// TestVerifyTable: a scan that does not account for every record is followed by a look
// for each.
func TestVerifyTable(t *testing.T) {
	t.Parallel()
	db := &workertest.Memory{}
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
