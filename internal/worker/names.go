// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"strings"

	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/results"
)

// stateName and endName are the wire's names in words.
func stateName(s workerpb.State) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "STATE_"))
}

// causes are the wire's names in those of results.
var causes = map[workerpb.End]results.Cause{
	workerpb.End_END_COMPLETE:      results.ByDuration, // unless all of the work was done before
	workerpb.End_END_STOPPED:       results.ByStop,
	workerpb.End_END_LEASE_EXPIRED: results.ByLease,
	workerpb.End_END_SHUTDOWN:      results.ByShutdown,
	workerpb.End_END_FAILED:        results.ByError,
}

func endName(e workerpb.End) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(e.String(), "END_")), "_", " ")
}
