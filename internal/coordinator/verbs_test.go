// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/control"
	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/store/memory"
)

// TestDetached starts a run, leaves it alone, and comes back as somebody else.
func TestDetached(t *testing.T) {
	t.Parallel()
	db := &memory.DB{Delay: time.Millisecond}
	f, ps := trio(t, db)
	out := t.TempDir()
	s, err := f.Run(t.Context(), Job{
		RunID: "detached", Spec: properties(t, map[string]string{"maxexecutiontime": "600"}), Out: out,
		Detach: true, Lease: 100 * time.Millisecond, // which a detached run does not have
	})
	if err != nil || s.Run.State != results.Running {
		t.Fatal(err, s)
	}
	f.Close()

	f = fleetOf(t, control.Security{}, ps...)
	waitFor := func(what string, ok func([]WorkerStatus) bool) {
		t.Helper()
		deadline := time.Now().Add(20 * time.Second)
		for {
			if all, _ := f.Status(t.Context()); ok(all) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatal("not within 20 s: " + what)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	all := func(ok func(WorkerStatus) bool) func([]WorkerStatus) bool {
		return func(ws []WorkerStatus) bool {
			for _, w := range ws {
				if w.Err != nil || !ok(w) {
					return false
				}
			}
			return true
		}
	}
	waitFor("all are measuring", all(func(w WorkerStatus) bool {
		return w.Run.GetState() == workerpb.State_STATE_RUNNING && w.Totals.GetStarted() > 0
	}))

	dir, err := f.Collect(t.Context(), "detached", out, false)
	if err != nil || dir != s.Dir {
		t.Fatal(dir, err)
	}
	if run, err := results.ReadRun(dir); err != nil || run.State != results.Running {
		t.Errorf("collected while it runs: %v %v", run.State, err)
	}
	early := operations(t, dir, "w1")

	if n, err := f.Annotate(t.Context(), "detached", 0, "killed tikv-2"); err != nil || n != 3 {
		t.Errorf("annotated on %d: %v", n, err)
	}
	if _, err := f.Annotate(t.Context(), "detached", time.Hour, "killed tikv-2"); err == nil || !strings.Contains(err.Error(), "1h0m0s is not in the time") {
		t.Errorf("annotated in the future: %v", err)
	}
	if id, now, err := f.Clock(t.Context(), ""); err != nil || id != "detached" || now <= 0 {
		t.Errorf("clock of %q: %v %v", id, now, err)
	}
	changed, err := f.SetTarget(t.Context(), "detached", 3000)
	if err != nil {
		t.Error(err)
	}
	before := db.Gets.Load()
	waitFor("the new target", func([]WorkerStatus) bool { return db.Gets.Load() > before+4000 })

	if n, err := f.Stop(t.Context(), "detached", time.Second); err != nil || n != 3 {
		t.Errorf("stopped %d: %v", n, err)
	}
	waitFor("all have stopped", all(func(w WorkerStatus) bool {
		return w.Run.GetState() == workerpb.State_STATE_FINISHED && w.Run.GetEnd() == workerpb.End_END_STOPPED && len(w.Kept) == 1
	}))
	if _, err := f.Collect(t.Context(), "detached", out, false); err != nil {
		t.Error(err)
	}
	run, err := results.ReadRun(dir)
	if err != nil || run.State != results.Interrupted || run.StoppedS == nil || run.Fleet[2].State != results.Finished {
		t.Errorf("%+v %v", run, err)
	}
	var all3 int64
	for _, m := range run.Fleet {
		all3 += operations(t, dir, m.Name)
	}
	if _, _, err := f.Clock(t.Context(), ""); exitcode.Of(err) != exitcode.Usage || !strings.Contains(err.Error(), "run detached is over") {
		t.Errorf("clock of a run that is over: %v", err)
	}
	if _, err := f.Annotate(t.Context(), "detached", 0, "late"); err == nil || !strings.Contains(err.Error(), "only a run that goes on") {
		t.Errorf("annotated afterwards: %v", err)
	}
	for _, m := range run.Fleet {
		var told []string
		for e, err := range results.Events(filepath.Join(dir, m.Name)) {
			if err != nil {
				t.Error(err)
			}
			told = append(told, fmt.Sprintf("%.3f %s %s", e.S, e.Kind, e.Text))
		}
		want := []string{"0.000 annotation killed tikv-2", fmt.Sprintf("%.3f target 3,000/s, 600/s before", changed.Seconds())}
		if !slices.Equal(told, want) {
			t.Errorf("%s was told %q, want %q", m.Name, told, want)
		}
	}
	if late := operations(t, dir, "w1"); late <= early || all3 != db.Gets.Load()-3 {
		t.Errorf("%d operations, then %d; %d in all, the database saw %d", early, late, all3, db.Gets.Load()-3)
	}
}

func TestVerbsOnUnknownRuns(t *testing.T) {
	t.Parallel()
	f, _ := trio(t, &memory.DB{})
	out := t.TempDir()
	if err := os.Mkdir(filepath.Join(out, "r"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := results.WriteRun(filepath.Join(out, "r"), &results.Run{RunID: "r"}); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		do   func() error
		code int
		want string
	}{
		{"stop", func() error { _, err := f.Stop(t.Context(), "r", 0); return err }, exitcode.Unreachable, "none of the 3 workers knows run r"},
		{"target", func() error { _, err := f.SetTarget(t.Context(), "r", 1); return err }, exitcode.Unreachable, "none of the 3 workers knows run r"},
		{"annotate", func() error { _, _, err := f.Clock(t.Context(), "r"); return err }, exitcode.Unreachable, "none of the 3 workers knows run r"},
		{"collect", func() error { _, err := f.Collect(t.Context(), "r", out, false); return err }, exitcode.Unreachable, "none of the 3 workers knows run r"},
		{"collect what nobody has", func() error { _, err := f.Collect(t.Context(), "x", out, false); return err }, exitcode.Unreachable, "none of the 3 workers knows run x"},
		{"collect a path", func() error { _, err := f.Collect(t.Context(), "../r", out, false); return err }, exitcode.Usage, "../r"},
	}
	for _, tt := range tests {
		if err := tt.do(); exitcode.Of(err) != tt.code || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	if _, err := os.Stat(filepath.Join(out, "x")); err == nil {
		t.Error("there is a directory of a run that nobody has")
	}
}

// TestCollectElsewhere: what a coordinator started is collected where it never was.
func TestCollectElsewhere(t *testing.T) {
	t.Parallel()
	db := &memory.DB{}
	f, ps := trio(t, db)
	tolerance := 0.25
	job := func(change map[string]string) Job {
		p := map[string]string{"target": "0", "maxexecutiontime": "0", "dataintegrity": "true", "recordcount": "3000"}
		maps.Copy(p, change)
		return Job{Spec: properties(t, p), Out: t.TempDir(), Limits: results.Limits{ErrorShare: &tolerance}}
	}
	load, err := f.Run(t.Context(), job(map[string]string{"dotransactions": "false"}))
	if err != nil {
		t.Fatal(err)
	}
	db.Change(func(rows map[string][]byte) { rows["usertable:user17"] = []byte("x") })
	verify, err := f.Run(t.Context(), job(map[string]string{"verify": "scan"}))
	if exitcode.Of(err) != exitcode.Wrong {
		t.Fatal(err)
	}
	for _, s := range []*Summary{load, verify} {
		if err := os.RemoveAll(filepath.Dir(s.Dir)); err != nil {
			t.Fatal(err)
		}
	}
	f.Close()

	for _, p := range ps[:2] { // journals and records outlive the process
		p.restart()
	}
	f = fleetOf(t, control.Security{}, ps...)
	out := filepath.Join(t.TempDir(), "new")
	for _, s := range []*Summary{load, verify} {
		dir, err := f.Collect(t.Context(), s.RunID, out, false)
		if err != nil {
			t.Fatal(err)
		}
		got, err := results.ReadRun(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got.State != results.Finished || got.Phase != s.Run.Phase || !maps.Equal(got.Spec, s.Run.Spec) ||
			got.Limits.ErrorShare == nil || *got.Limits.ErrorShare != tolerance || !got.Start.Equal(s.Run.Start) {
			t.Errorf("%s: %+v\nwas %+v", s.Run.Phase, got, s.Run)
		}
		for i, m := range got.Fleet {
			if m.State != results.Finished || m.Name != s.Run.Fleet[i].Name {
				t.Errorf("%s: %+v", s.Run.Phase, m)
			}
		}
		if v, was := got.Verification, s.Run.Verification; !reflect.DeepEqual(v, was) {
			t.Errorf("%s: verification %+v, was %+v", s.Run.Phase, v, was)
		}
	}
	few := filepath.Join(t.TempDir(), "few")
	if dir, err := fleetOf(t, control.Security{}, ps[1:]...).Collect(t.Context(), load.RunID, few, false); exitcode.Of(err) != exitcode.Degraded ||
		dir == "" || !strings.Contains(err.Error(), "not among these workers, and not collected to the end: "+ps[0].cfg.Name) {
		t.Errorf("of a fleet that is not whole: %q %v", dir, err)
	}
	var all int64
	for _, p := range ps {
		all += operations(t, filepath.Join(out, load.RunID), p.cfg.Name)
	}
	if all != 3000 {
		t.Errorf("%d operations are collected, want 3000", all)
	}

	// Workers that were not given the record cannot help.
	for _, p := range ps {
		if err := os.Remove(filepath.Join(p.cfg.Data, load.RunID, results.RunFile)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Collect(t.Context(), load.RunID, t.TempDir(), false); exitcode.Of(err) != exitcode.Usage || !strings.Contains(err.Error(), "--out") {
		t.Errorf("without a record: %v", err)
	}
	for _, bad := range []string{"{", `{"version":1,"run_id":"other"}`, `{"version":99}`} {
		if err := os.WriteFile(filepath.Join(ps[1].cfg.Data, load.RunID, results.RunFile), []byte(bad), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Collect(t.Context(), load.RunID, t.TempDir(), false); err == nil || !strings.Contains(err.Error(), "cannot be used") {
			t.Errorf("a record %s: %v", bad, err)
		}
	}
}

// TestJournalIsChecked sends what a worker must not send.
func TestJournalIsChecked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j, err := openJournal("r", filepath.Join(dir, "w"))
	if err != nil {
		t.Fatal(err)
	}
	if err := j.write(&workerpb.CollectResponse{File: results.SecondsFile, Data: []byte("abc")}); err != nil {
		t.Fatal(err)
	}
	bad := []*workerpb.CollectResponse{
		{File: "../../escape", Data: []byte("x")},
		{File: "run.json", Data: []byte("x")},
		{File: "", Data: []byte("x")},
		{File: results.SecondsFile, Offset: 0, Data: []byte("again")},
		{File: results.SecondsFile, Offset: 100, Data: []byte("a gap")},
		{File: results.SecondsFile, Offset: -1, Data: []byte("x")},
	}
	for _, p := range bad {
		if err := j.write(p); err == nil {
			t.Errorf("%v was written", p)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "w", results.SecondsFile)); err != nil || string(b) != "abc" {
		t.Errorf("%q %v", b, err)
	}
	// A copy that is opened again goes on where it stood.
	if j, err = openJournal("r", filepath.Join(dir, "w")); err != nil || j.have[results.SecondsFile] != 3 {
		t.Errorf("%v %v", j.have, err)
	}
}

// FuzzJournalPiece writes whatever a worker may send: nothing but the files of a
// journal is ever touched, and only at their ends.
func FuzzJournalPiece(f *testing.F) {
	for _, name := range results.JournalFiles {
		f.Add(name, int64(0), []byte("data"))
	}
	f.Add("../x", int64(0), []byte("data"))
	f.Add(results.SecondsFile, int64(-1), []byte("data"))
	f.Add(results.SecondsFile, int64(4), []byte("data"))
	f.Fuzz(func(t *testing.T, name string, offset int64, data []byte) {
		root := t.TempDir()
		j, err := openJournal("r", filepath.Join(root, "w"))
		if err != nil {
			t.Fatal(err)
		}
		err = j.write(&workerpb.CollectResponse{File: name, Offset: offset, Data: data})
		known := slices.Contains(results.JournalFiles, name)
		if want := known && offset == 0; (err == nil) != want {
			t.Fatalf("%q at %d: %v", name, offset, err)
		}
		entries, err := os.ReadDir(root)
		if err != nil || len(entries) != 1 {
			t.Errorf("beside the journal: %v %v", entries, err)
		}
		files, err := os.ReadDir(filepath.Join(root, "w"))
		if err != nil || len(files) > 1 || len(files) == 1 && files[0].Name() != name {
			t.Errorf("in the journal: %v %v", files, err)
		}
	})
}
