// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/control"
	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/worker/workertest"
)

// TestDetached starts a run, leaves it alone, and comes back as somebody else.
func TestDetached(t *testing.T) {
	t.Parallel()
	db := &workertest.Memory{Delay: time.Millisecond}
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
		for !ok(f.Status(t.Context())) {
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

	dir, err := f.Collect(t.Context(), "detached", out)
	if err != nil || dir != s.Dir {
		t.Fatal(dir, err)
	}
	if run, err := results.ReadRun(dir); err != nil || run.State != results.Running {
		t.Errorf("collected while it runs: %v %v", run.State, err)
	}
	early := operations(t, dir, "w1")

	if _, err := f.SetTarget(t.Context(), "detached", 3000); err != nil {
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
	if _, err := f.Collect(t.Context(), "detached", out); err != nil {
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
	if late := operations(t, dir, "w1"); late <= early || all3 != db.Gets.Load()-3 {
		t.Errorf("%d operations, then %d; %d in all, the database saw %d", early, late, all3, db.Gets.Load()-3)
	}
}

func TestVerbsOnUnknownRuns(t *testing.T) {
	t.Parallel()
	f, _ := trio(t, &workertest.Memory{})
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
		{"collect", func() error { _, err := f.Collect(t.Context(), "r", out); return err }, exitcode.Unreachable, "none of the 3 workers knows run r"},
		{"collect to elsewhere", func() error { _, err := f.Collect(t.Context(), "x", out); return err }, exitcode.Usage, "--out"},
		{"collect a path", func() error { _, err := f.Collect(t.Context(), "../r", out); return err }, exitcode.Usage, "../r"},
	}
	for _, tt := range tests {
		if err := tt.do(); exitcode.Of(err) != tt.code || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
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
