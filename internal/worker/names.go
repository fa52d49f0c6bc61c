// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/kvbench/kvbench/internal/control/workerpb"
)

// Stopped is the reason in worker.json of a run that somebody has stopped.
const Stopped = "stopped"

// stateName and endName are the wire's names in words.
func stateName(s workerpb.State) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "STATE_"))
}

func endName(e workerpb.End) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(e.String(), "END_")), "_", " ")
}

// panicked ends the run because of a panic in a part of it.
func (r *run) panicked(part string, p any) {
	r.log.Error("panic", "part", part, "panic", p, "stack", string(debug.Stack()))
	r.stop(workerpb.End_END_FAILED, 0, fmt.Errorf("panic in %s: %v (the worker's log has the stack)", part, p))
}

// firstLine is the first line of an error's text.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
