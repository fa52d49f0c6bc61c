// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/store/memory"
	"github.com/kvbench/kvbench/internal/workload"
)

// parsed is a specification: name and value in turn.
func parsed(t testing.TB, pairs ...string) *spec.Spec {
	t.Helper()
	properties := map[string]string{"dotransactions": "false", "recordcount": "1000"}
	for i := 0; i < len(pairs); i += 2 {
		properties[pairs[i]] = pairs[i+1]
	}
	s, err := spec.ParseMap(properties)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestReservedKeysLieInNoTable(t *testing.T) {
	t.Parallel()
	names := []string{"usertable", "kvbench.load/usertable", "kvbench.load", "a:b", "", "kvbench.load/a%3Ab", "ü", "\x00"}
	for _, table := range names {
		key := Prefix(table) + "/run/0.0"
		for _, other := range names {
			if strings.HasPrefix(key, other+":") {
				t.Errorf("the key %q of table %q lies in table %q", key, table, other)
			}
			if other != table && Prefix(other) == Prefix(table) {
				t.Errorf("tables %q and %q share a key", table, other)
			}
		}
	}
}

// loaded is a manifest of the default shape with the records of those ranges.
func loaded(t testing.TB, pending *Range, ranges ...int64) *Manifest {
	m := &Manifest{Version: Version, LoadID: "first", Shape: Shape(parsed(t)), Pending: pending}
	for i := 0; i < len(ranges); i += 2 {
		m.Loaded.AddRange(ranges[i], ranges[i+1])
	}
	return m
}

func TestForLoad(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		pairs   []string
		m       *Manifest
		present int64
		id      string
		done    string // records after the load
		err     string // or why not
		warning string
	}{
		{"nothing there", nil, nil, 0, "second", "0-999", "", ""},
		{"all there", nil, loaded(t, nil, 0, 1000), 1000, "second", "0-999", "", ""},
		{"more there", []string{"recordcount", "10"}, loaded(t, nil, 0, 1000), 10, "second", "0-999", "", ""},
		{"extended", []string{"recordcount", "1500"}, loaded(t, nil, 0, 1000), 1000, "second", "0-1499", "", ""},
		{"another part", []string{"recordcount", "3000", "insertstart", "2000"}, loaded(t, nil, 0, 1000), 0, "second", "0-999,2000-2999", "", ""},
		{"overlapping", []string{"recordcount", "1500", "insertstart", "500"}, loaded(t, nil, 0, 1000), 500, "second", "0-1499", "", ""},
		{"broken off", nil, loaded(t, &Range{0, 1000}), 0, "first", "0-999", "", ""},
		{"broken off, now longer", []string{"recordcount", "1500"}, loaded(t, &Range{0, 1000}), 0, "first", "0-1499", "", ""},
		{"broken off, now shorter", []string{"recordcount", "500"}, loaded(t, &Range{0, 1000}), 0, "", "", "finish it first (-p recordcount=1000)", ""},
		{"broken off elsewhere", nil, loaded(t, &Range{5000, 1000}), 0, "", "", "finish it first (-p recordcount=6000 -p insertstart=5000)", ""},
		{"again", []string{"reload", "true", "recordcount", "500"}, loaded(t, nil, 0, 1000), 0, "second", "0-999", "", ""},
		{"broken off, anew", []string{"reload", "true"}, loaded(t, &Range{0, 2000}), 0, "second", "0-999", "", ""},
		{"other rows", []string{"fieldcount", "5"}, loaded(t, nil, 0, 1000), 0, "", "", `fieldcount is "10" there and "5" here`, ""},
		{"other keys", []string{"insertorder", "ordered"}, loaded(t, nil, 0, 1000), 0, "", "", `insertorder is "hashed" there and "ordered" here`, ""},
		{"other rows, anew", []string{"fieldcount", "5", "reload", "true"}, loaded(t, nil, 0, 2000), 0, "second", "0-999", "", "another shape"},
		{"same by other words", []string{"minfieldlength", "7", "fieldnameprefix", "f"}, loaded(t, nil, 0, 1000), 1000, "second", "0-999", "", ""},
	}
	for _, test := range tests {
		p, err := ForLoad(parsed(t, test.pairs...), "second", test.m, nil)
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) || !strings.Contains(err.Error(), "reload=true") {
				t.Errorf("%s: error %v, want %q", test.name, err, test.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		done, _ := p.Done().Loaded.MarshalText()
		if p.Present != test.present || p.Manifest.LoadID != test.id || string(done) != test.done || p.Done().Pending != nil {
			t.Errorf("%s: present %d, load %s, afterwards %s", test.name, p.Present, p.Manifest.LoadID, done)
		}
		if text := strings.Join(p.Warnings, ""); (text == "") != (test.warning == "") || !strings.Contains(text, test.warning) {
			t.Errorf("%s: warnings %q", test.name, text)
		}
	}
}

func TestForRun(t *testing.T) {
	t.Parallel()
	checkable := loaded(t, nil, 0, 1000)
	checkable.Shape["dataintegrity"] = "true"
	bank := []string{"tikv.type", "txn", "valueformat", "balance", "fieldcount", "1", "readproportion", "0"}
	accounts := func(pending *Range) *Manifest {
		m := loaded(t, pending, 0, 1000)
		m.Shape = Shape(parsed(t, bank...))
		return m
	}
	tests := []struct {
		name          string
		pairs         []string
		m             *Manifest
		err, warnings string
	}{
		{"fits", nil, loaded(t, nil, 0, 1000), "", ""},
		{"fewer", []string{"recordcount", "10"}, loaded(t, nil, 0, 1000), "", ""},
		{"more", []string{"recordcount", "1001"}, loaded(t, nil, 0, 1000), "kvbench load -p recordcount=1001", ""},
		{"not complete", nil, loaded(t, &Range{0, 1000}), "run kvbench load again", ""},
		{"not complete beyond", nil, loaded(t, &Range{0, 2000}, 0, 1000), "", "is not complete"},
		{"other rows", []string{"valueformat", "raw"}, loaded(t, nil, 0, 1000), `valueformat is "go-ycsb" there and "raw" here`, ""},
		{"not checkable", []string{"dataintegrity", "true"}, loaded(t, nil, 0, 1000), "dataintegrity", ""},
		{"checkable, not checked", []string{"updateproportion", "0"}, checkable, "", ""},
		{"checkable, spoilt", nil, checkable, "", "will find those wrong"},
		{"checkable, checked", []string{"dataintegrity", "true"}, checkable, "", ""},
		{"some accounts", append(slices.Clip(bank), "recordcount", "10"), accounts(nil), "and leave out recordcount", ""},
		{"accounts that are being loaded", bank, accounts(&Range{0, 2000}), "run kvbench load again", ""},
		{"all accounts", bank, accounts(nil), "", ""},
		{"verify a part", []string{"verify", "scan", "recordcount", "10"}, loaded(t, nil, 0, 1000), "verify all of them", ""},
		{"verify all", []string{"verify", "scan"}, loaded(t, nil, 0, 1000), "", ""},
	}
	for _, test := range tests {
		warnings, err := ForRun(parsed(t, append([]string{"dotransactions", "true"}, test.pairs...)...), test.m)
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: error %v, want %q", test.name, err, test.err)
		}
		if text := strings.Join(warnings, ""); (text == "") != (test.warnings == "") || !strings.Contains(text, test.warnings) {
			t.Errorf("%s: warnings %q, want %q", test.name, text, test.warnings)
		}
	}
}

// Loads of any fleets and batch sizes, broken off anywhere, and each longer than the
// one before: nothing is left out that is not there, and the end is reached.
func TestSkipLeavesNothingOut(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		there := map[int64]bool{}
		var m *Manifest
		var lanes []Lane
		records := int64(1)
		for attempt := range 6 {
			last := attempt == 5
			records += r.Int64N(200)
			batch := 1 + r.IntN(30)
			s := parsed(t, "recordcount", fmt.Sprint(records), "batch.size", fmt.Sprint(batch))
			p, err := ForLoad(s, fmt.Sprint(attempt), m, lanes)
			if err != nil {
				t.Fatal(err)
			}
			if p.Present > int64(len(there)) {
				t.Fatalf("seed %d: %d records are said to be there, %d are", seed, p.Present, len(there))
			}
			workers, width := 1+r.IntN(4), 1+r.IntN(3)
			for w := range workers {
				for l := range width {
					place := workload.Place{Worker: w, Workers: workers, Lane: l, Lanes: width}
					lane := Lane{Run: fmt.Sprint(attempt), Count: records, LaneProgress: workload.LaneProgress{
						Worker: w, Workers: workers, Lane: l, Lanes: width, Batch: int64(batch)}}
					for j := int64(0); last || j < r.Int64N(20); j++ {
						index := place.Index(j)
						first := index * int64(batch)
						if first >= records {
							lane.Finished = true
							break
						}
						end := min(first+int64(batch), records)
						if p.Skip(index) > index {
							for n := first; n < end; n++ {
								if !there[n] {
									t.Fatalf("seed %d: record %d of %d is left out and not there", seed, n, records)
								}
							}
						} else if !last && r.IntN(4) == 0 {
							continue // failed, or in flight when it was broken off
						}
						for n := first; n < end; n++ {
							there[n] = true
						}
						lane.Done.Add(j)
					}
					lanes = append(lanes, lane)
				}
			}
			m = p.Manifest
			if last && !Finished(lanes, fmt.Sprint(attempt), workers) {
				t.Errorf("seed %d: not finished", seed)
			}
		}
		if int64(len(there)) != records {
			t.Fatalf("seed %d: %d records of %d", seed, len(there), records)
		}
	}
}

func TestFinished(t *testing.T) {
	t.Parallel()
	lane := func(run string, worker, lane, lanes int, finished bool) Lane {
		return Lane{Run: run, Finished: finished, LaneProgress: workload.LaneProgress{Worker: worker, Workers: 2, Lane: lane, Lanes: lanes, Batch: 1}}
	}
	all := []Lane{lane("r", 0, 0, 2, true), lane("r", 0, 1, 2, true), lane("r", 1, 0, 1, true)}
	if !Finished(all, "r", 2) {
		t.Error("all lanes are finished")
	}
	for i := range all {
		less := append(append([]Lane{}, all[:i]...), all[i+1:]...)
		if Finished(append(less, lane("other", all[i].Worker, all[i].Lane, all[i].Lanes, true)), "r", 2) {
			t.Errorf("lane %d is not known to be finished", i)
		}
		all[i].Finished = false
		if Finished(all, "r", 2) {
			t.Errorf("lane %d is not finished", i)
		}
		all[i].Finished = true
	}
}

func TestKeeper(t *testing.T) {
	t.Parallel()
	db := &memory.DB{}
	driver, err := db.Open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	clk := clock.Since(time.Now())
	session, err := driver.Open(0, 1, &clk)
	if err != nil {
		t.Fatal(err)
	}
	k := &Keeper{Session: session, Clock: &clk, Table: "usertable", Timeout: time.Second}
	if m, err := k.Read(); m != nil || err != nil {
		t.Fatalf("%v, %v", m, err)
	}
	m := loaded(t, &Range{7, 1 << 40}, 0, 1000, 2000, 1<<50)
	if err := k.Write(m); err != nil {
		t.Fatal(err)
	}
	if back, err := k.Read(); err != nil || !reflect.DeepEqual(back, m) {
		t.Fatalf("%+v, %v", back, err)
	}
	const lanes = page + 7
	for i := range lanes {
		l := Lane{Run: "r", LaneProgress: workload.LaneProgress{Worker: i, Workers: lanes, Lanes: 1, Batch: 20}}
		l.Done.AddRange(0, int64(i))
		if err := k.WriteLanes("first", []Lane{l}); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.WriteLanes("first0", []Lane{{Run: "r"}}); err != nil { // of another load
		t.Fatal(err)
	}
	got, err := k.Lanes("first")
	if err != nil || len(got) != lanes {
		t.Fatalf("%d lanes, %v", len(got), err)
	}
	for _, l := range got {
		if l.Done.Len() != int64(l.Worker) || l.Run != "r" {
			t.Errorf("lane %+v", l)
		}
	}
	if err := k.Forget("first"); err != nil {
		t.Fatal(err)
	}
	if got, err := k.Lanes("first"); err != nil || len(got) != 0 {
		t.Errorf("%d lanes are left, %v", len(got), err)
	}
	if got, err := k.Lanes("first0"); err != nil || len(got) != 1 {
		t.Errorf("%d lanes of the other load are left, %v", len(got), err)
	}
	if db.Keys() != 0 {
		t.Errorf("%d keys lie in tables", db.Keys())
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
}

func TestLargeProgressIsCutShort(t *testing.T) {
	t.Parallel()
	var d workload.Done
	for n := range int64(100_000) {
		d.Add(3 * n)
	}
	less := bounded(d)
	text, _ := less.MarshalText()
	if len(text) > mostText || less.Len() < 1000 {
		t.Errorf("%d bytes, %d numbers", len(text), less.Len())
	}
	for n := range int64(300_000) {
		if less.Contains(n) && !d.Contains(n) {
			t.Fatalf("%d was added", n)
		}
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), FileName(42, "a/b"))
	if m, err := ReadFile(path); m != nil || err != nil {
		t.Fatalf("%v, %v", m, err)
	}
	m := loaded(t, nil, 0, 1000)
	if err := WriteFile(path, m); err != nil {
		t.Fatal(err)
	}
	if back, err := ReadFile(path); err != nil || !reflect.DeepEqual(back, m) {
		t.Errorf("%+v, %v", back, err)
	}
}

// Whatever lies under the reserved keys, a load is planned or refused.
func FuzzForLoad(f *testing.F) {
	m, _ := json.Marshal(loaded(f, &Range{0, 1000}, 3, 9))
	l, _ := json.Marshal(Lane{LaneProgress: workload.LaneProgress{Workers: 2, Lanes: 1, Batch: 20}})
	f.Add(m, l)
	f.Add([]byte(`{"version":1,"pending":{"start":0,"count":1}}`), []byte(`{"workers":0,"batch":3,"done":"0-4611686018427387903"}`))
	s := parsed(f, "batch.size", "3")
	f.Fuzz(func(t *testing.T, text, lane []byte) {
		m, err := parse(text)
		if err != nil {
			return
		}
		var l Lane
		if json.Unmarshal(lane, &l) != nil {
			return
		}
		p, err := ForLoad(s, "r", m, []Lane{l})
		if err != nil {
			return
		}
		for index := range int64(400) {
			if next := p.Skip(index); next < index {
				t.Fatalf("batch %d comes after %d", next, index)
			}
		}
		if p.Present < 0 || p.Present > s.InsertCount {
			t.Fatalf("%d records are there", p.Present)
		}
		if again, err := json.Marshal(p.Done()); err != nil || bytes.Contains(again, []byte("pending")) {
			t.Fatalf("%s, %v", again, err)
		}
		_, _ = ForRun(s, m)
	})
}
