// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/control/workerpb"
)

// TestKeep: the names of runs say how many days old they are, and C that they were collected. Each has 10 bytes.
func TestKeep(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	now := time.Now()
	for _, c := range []struct {
		keep Keep
		runs string // the newest first
		gone string
	}{
		{Keep{Runs: 3}, "1 2 3", ""},
		{Keep{Runs: 2}, "1 2 3", "3"},
		{Keep{Runs: 2}, "1 2C 3", "2C"},
		{Keep{Runs: 2}, "1C 2C 3C", "3C"},
		{Keep{Runs: 1}, "1 2C 3 4C", "4C 2C 3"},
		{Keep{Runs: 20, Bytes: 20}, "1 2C 3 4C", "4C 2C"},
		{Keep{Runs: 20, Bytes: 20}, "1 2 3", "3"},
		{Keep{Runs: 20, Bytes: 5}, "1", "1"},
		{Keep{Runs: 20, Age: 5 * day}, "1 2C 5 6 7C", "7C 6"},
		{Keep{Runs: 1, Age: 5 * day, Bytes: 10}, "1 2C 6", "6 2C"},
		{Keep{Runs: 1, Age: time.Hour, Bytes: 1}, "", ""},
	} {
		var runs []*workerpb.KeptRun
		for _, name := range strings.Fields(c.runs) {
			age := time.Duration(name[0]-'0') * day
			if name == "5" {
				age -= time.Minute
			}
			runs = append(runs, &workerpb.KeptRun{RunId: name, Bytes: 10, ModifiedUnixNanos: now.Add(-age).UnixNano(), Collected: strings.HasSuffix(name, "C")})
		}
		var gone []string
		for _, k := range c.keep.surplus(runs, now) {
			gone = append(gone, k.GetRunId())
		}
		if got := strings.Join(gone, " "); got != c.gone {
			t.Errorf("%+v of %q: %q go, want %q", c.keep, c.runs, got, c.gone)
		}
	}
}
