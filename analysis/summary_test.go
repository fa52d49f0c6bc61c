// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/results"
)

// A summary says what the report says, is read again where nothing has changed, and made anew where something has.
func TestSummaryIsKept(t *testing.T) {
	t.Parallel()
	dir := (&fixture{window: 2 * time.Second, target: 100, threads: 8}).write(t)
	first, err := SummaryOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	p := report(t, dir)
	if first.OpsPerS != p.OpsPerS || first.Verdict != p.Verdict || !reflect.DeepEqual(first.Total(), p.total()) {
		t.Errorf("the summary says %+v, the report %v and %+v", first, p.OpsPerS, p.Verdict)
	}
	path := filepath.Join(dir, summaryFile)
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := SummaryOf(dir)
	if err != nil || !reflect.DeepEqual(again.Kinds, first.Kinds) {
		t.Errorf("read again: %v, %+v", err, again)
	}
	if after, err := os.Stat(path); err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("it was written again: %v", err)
	}
	// As a note that is added later.
	rec, err := results.ReadRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	rec.Label = "after"
	if err := results.WriteRun(dir, rec); err != nil {
		t.Fatal(err)
	}
	if changed, err := SummaryOf(dir); err != nil || changed.Label != "after" {
		t.Errorf("after a change: %v, %+v", err, changed)
	}
	// What is kept may be damaged.
	if err := os.WriteFile(path, []byte(`{"of":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := SummaryOf(dir); err != nil || s.Label != "after" {
		t.Errorf("from a damaged one: %v, %+v", err, s)
	}
}
