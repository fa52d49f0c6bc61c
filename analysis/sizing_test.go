// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/results"
)

// Runs tell a plan their rate, stores and table; those that say nothing are named.
func TestMeasured(t *testing.T) {
	t.Parallel()
	load := func(change func(*results.Run)) *Run {
		r, err := Load((&fixture{window: 2 * time.Second, target: 500, result: okay, change: func(rec *results.Run) {
			rec.Cluster.Stores = []string{"s1", "s2"}
			rec.Cluster.Details = map[string]string{"replicas": "2"}
			rec.Spec = map[string]string{"fieldcount": "10", "fieldlength": "100", "readproportion": "1", "updateproportion": "0", "insertproportion": "0",
				"deleteproportion": "0", "scanproportion": "0", "readmodifywriteproportion": "0"}
			change(rec)
		}}).write(t))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	told, not := Measured([]*Run{
		load(func(*results.Run) {}),
		load(func(r *results.Run) { r.Cluster.Stores = nil }),
		load(func(r *results.Run) { r.State = results.Interrupted }),
		load(func(r *results.Run) { r.Phase, r.Spec["fieldlengthdistribution"] = "load", "uniform" }),
	})
	if len(told) != 2 || len(not) != 2 || !strings.Contains(not[0], "how many stores") || !strings.Contains(not[1], "not a valid result") {
		t.Fatalf("%+v, %q", told, not)
	}
	if m := told[0]; m.Load || m.Mix != "READ" || m.OpsPerS < 490 || m.OpsPerS > 510 || m.Stores != 2 || m.Saturated || m.Records != 100_000 || m.Value != 1000 || m.Replicas != 2 {
		t.Errorf("%+v", m)
	}
	if m := told[1]; !m.Load || m.Mix != "" || m.Value != 0 {
		t.Errorf("a load: %+v", m)
	}
}
