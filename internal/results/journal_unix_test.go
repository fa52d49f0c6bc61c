// SPDX-License-Identifier: Apache-2.0

//go:build unix

package results

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestJournalThatCannotBeStarted: a process that has no more files to open gets an error.
func TestJournalThatCannotBeStarted(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	low := limit
	low.Cur = 64
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	}()
	dir := t.TempDir() + "/w"
	var open []*os.File
	defer func() {
		for _, f := range open {
			f.Close()
		}
	}()
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		open = append(open, f)
	}
	const left = 3 // enough for worker.json, and not for all of the journal
	for range left {
		open[len(open)-1].Close()
		open = open[:len(open)-1]
	}
	j, err := CreateJournal(dir, Worker{})
	if j != nil || !errors.Is(err, unix.EMFILE) {
		t.Errorf("%v, %v; want %v", j, err, unix.EMFILE)
	}
}
