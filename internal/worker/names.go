// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"strings"

	"github.com/kvbench/kvbench/internal/control/workerpb"
)

// stateName and endName are the wire's names in words.
func stateName(s workerpb.State) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "STATE_"))
}

func endName(e workerpb.End) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(e.String(), "END_")), "_", " ")
}
