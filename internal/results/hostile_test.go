// SPDX-License-Identifier: Apache-2.0

//go:build unix

package results

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What lies where a file should is named, and neither followed nor waited for.
func TestNoFilesInAFolder(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.WriteFile(elsewhere, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, put := range map[string]func(path string) error{
		"a symbolic link": func(path string) error { return os.Symlink(elsewhere, path) },
		"a pipe":          func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a folder":        func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		dir := t.TempDir()
		for _, name := range []string{RunFile, EventsFile, WorkerFile, SecondsFile, CountsFile} {
			if err := put(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		_, runErr := ReadRun(dir)
		_, workerErr := ReadWorker(dir)
		_, openErr := OpenEvents(dir)
		_, journalErr := OpenJournal(dir, func(error) {})
		errs := map[string]error{RunFile: runErr, WorkerFile: workerErr, SecondsFile: journalErr, EventsFile: openErr}
		for _, err := range Events(dir) {
			errs[EventsFile] = err
		}
		for name, err := range errs {
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), filepath.Join(dir, name)) {
				t.Errorf("%s is %s: %v", name, want, err)
			}
		}
		// A part of a journal that is no file is told, and the rest is read.
		if err := os.Remove(filepath.Join(dir, SecondsFile)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, SecondsFile), secondsHeader(), 0o600); err != nil {
			t.Fatal(err)
		}
		var told []string
		j, err := OpenJournal(dir, func(err error) { told = append(told, err.Error()) })
		if err != nil {
			t.Fatal(err)
		}
		j.Close()
		if all := strings.Join(told, "\n"); !strings.Contains(all, filepath.Join(dir, CountsFile)+" is "+want) {
			t.Errorf("%s is %s: told %q", CountsFile, want, all)
		}
	}
}

// The path that is given may be a link; nothing below it is followed.
func TestFindThroughALink(t *testing.T) {
	root := t.TempDir()
	dir, err := CreateRun(root, "r")
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteRun(dir, &Run{RunID: "r"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"latest", "again"} {
		if err := os.Symlink("r", filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if dirs, err := Find(root); err != nil || len(dirs) != 1 {
		t.Errorf("%v, %v", dirs, err)
	}
	dirs, err := Find(filepath.Join(root, "latest"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("%v, %v", dirs, err)
	}
	if _, err := ReadRun(dirs[0]); err != nil {
		t.Error(err)
	}
}

func TestFleetIsBounded(t *testing.T) {
	record := func(workers int) []byte {
		var b bytes.Buffer
		fmt.Fprintf(&b, `{"version": %d, "fleet": [`, Version)
		for i := range workers {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `{"name":"w%d"}`, i)
		}
		b.WriteString("]}")
		return b.Bytes()
	}
	if _, err := ParseRun(record(MaxWorkers)); err != nil {
		t.Error(err)
	}
	if _, err := ParseRun(record(MaxWorkers + 1)); err == nil || !strings.Contains(err.Error(), "10001 workers") {
		t.Errorf("one worker too many: %v", err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, RunFile), record(1_000_000), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadRun(dir); err == nil || !strings.Contains(err.Error(), "more than 8388608 bytes") {
		t.Errorf("a million workers: %v", err)
	}
}

func FuzzParseRun(f *testing.F) {
	f.Add([]byte(`{"version": 1, "run_id": "r", "warmup_s": 1, "window_s": 10, "fleet": [{"name": "w0", "lost_at_s": 3}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ParseRun(text)
		if err != nil {
			return
		}
		for _, m := range r.Fleet {
			if CheckName(m.Name) != nil {
				t.Errorf("a worker is named %q", m.Name)
			}
		}
	})
}
