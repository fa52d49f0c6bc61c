// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/store/memory"
)

// flip changes a bit in the middle of a file.
func flip(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 1
	if err := os.WriteFile(path, text, 0o666); err != nil {
		t.Fatal(err)
	}
}

// copied checks that the copy of a worker's journal is one.
func copied(t *testing.T, p *process, run, dir string) {
	t.Helper()
	for _, name := range results.JournalFiles {
		want, err := os.ReadFile(filepath.Join(p.cfg.Data, run, p.cfg.Name, name))
		if (name == results.ServersFile || name == results.EventsFile) && errors.Is(err, fs.ErrNotExist) {
			continue // one worker at most has it
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, p.cfg.Name, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s of %s is not that of the worker: %v", name, p.cfg.Name, err)
		}
	}
}

// TestDamagedCopyIsMended damages what was copied in a run before it ends.
func TestDamagedCopyIsMended(t *testing.T) {
	t.Parallel()
	f, ps := trio(t, &memory.DB{Delay: time.Millisecond})
	out := t.TempDir()
	var once sync.Once
	var warned strings.Builder
	s, err := f.Run(t.Context(), Job{
		RunID: "damaged", Spec: properties(t, map[string]string{"maxexecutiontime": "5"}), Out: out,
		Warn: func(text string) { warned.WriteString(text) },
		Progress: func(s *Snapshot) {
			if s.Workers[1].Operations > 0 {
				once.Do(func() { flip(t, filepath.Join(out, "damaged", "w1", results.SecondsFile)) })
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range ps {
		copied(t, p, s.RunID, s.Dir)
	}
	want := "the copy of " + results.SecondsFile + " differed from the worker's journal"
	if e := events(t, s.Dir)["copy"]; len(e) != 1 || !strings.HasPrefix(e[0], "w1 "+want) || !strings.Contains(warned.String(), "w1: "+want) {
		t.Errorf("events %q, said %q", e, warned.String())
	}
}

// TestCollectFindsDamage collects into folders in which something is damaged.
func TestCollectFindsDamage(t *testing.T) {
	t.Parallel()
	f, ps := trio(t, &memory.DB{})
	s, err := f.Run(t.Context(), Job{Spec: properties(t, map[string]string{"maxexecutiontime": "0", "operationcount": "1000", "target": "0"}), Out: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	collectedBy := func(f *Fleet) (n int) {
		all, err := f.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range all {
			for _, k := range w.Kept {
				if k.GetCollected() {
					n++
				}
			}
		}
		return n
	}
	if n := collectedBy(f); n != 3 {
		t.Errorf("%d of 3 workers know that they were collected", n)
	}
	path := filepath.Join(s.Dir, "w2", results.HistogramsFile)
	for what, damage := range map[string]func() error{
		"a bit": func() error { flip(t, path); return nil },
		"another file": func() error { // of the same length
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, bytes.Repeat([]byte("x"), int(info.Size())), 0o666)
		},
		"a start that is gone": func() error {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, text[10:], 0o666)
		},
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		dir, err := f.Collect(t.Context(), s.RunID, filepath.Dir(s.Dir), false)
		if dir != s.Dir || exitcode.Of(err) != exitcode.Degraded || !strings.Contains(err.Error(), "w2: the copy of "+results.HistogramsFile) || !strings.Contains(err.Error(), "--fresh") {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := f.Collect(t.Context(), s.RunID, filepath.Dir(s.Dir), true); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		for _, p := range ps {
			copied(t, p, s.RunID, s.Dir)
		}
	}
	// One that is only cut is completed.
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Collect(t.Context(), s.RunID, filepath.Dir(s.Dir), false); err != nil {
		t.Error(err)
	}
	copied(t, ps[2], s.RunID, s.Dir)
}
