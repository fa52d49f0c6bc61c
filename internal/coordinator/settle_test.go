// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kvbench/kvbench/internal/results"
)

// TestSettle: a worker whose whole journal is there did its part, whatever its coordinator saw of it.
func TestSettle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		seen    results.State // of the worker, by its coordinator
		run     results.State
		journal results.State // by the worker; "": there is none
		ended   results.Cause
		want    results.State
		wantRun results.State
	}{
		{results.Running, results.Running, results.Finished, results.ByDuration, results.Finished, results.Finished},
		{results.Running, results.Running, results.Finished, results.ByStop, results.Finished, results.Interrupted},
		{results.Running, results.Running, results.Finished, results.ByLease, results.Failed, results.Finished},
		{results.Running, results.Running, results.Running, "", results.Running, results.Running},
		{results.Running, results.Running, "", "", results.Running, results.Running},
		{results.Failed, results.Failed, results.Finished, results.ByDuration, results.Finished, results.Finished},
		{results.Lost, results.Finished, results.Finished, results.ByOperations, results.Finished, results.Finished},
		{results.Lost, results.Failed, results.Finished, results.ByShutdown, results.Lost, results.Failed},
		{results.Lost, results.Finished, results.Running, "", results.Lost, results.Finished},
		{results.Abandoned, results.Interrupted, results.Finished, results.ByLease, results.Abandoned, results.Interrupted},
	} {
		dir := t.TempDir()
		if c.journal != "" {
			if err := os.Mkdir(filepath.Join(dir, "w0"), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := results.WriteWorker(filepath.Join(dir, "w0"), &results.Worker{State: c.journal, Ended: c.ended, EndS: 3}); err != nil {
				t.Fatal(err)
			}
		}
		record := &results.Run{State: c.run, Fleet: []results.Member{{Name: "w0", State: c.seen, Reason: "as it was"}}}
		if err := settle(record, dir); err != nil {
			t.Fatal(err)
		}
		m := record.Fleet[0]
		if m.State != c.want || record.State != c.wantRun || m.State == results.Finished && m.Reason != "" {
			t.Errorf("%+v: the worker is %s (%q), the run %s", c, m.State, m.Reason, record.State)
		}
	}
}
