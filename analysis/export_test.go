// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"testing"
	"time"
)

// SmallRun writes the results of a short run, for tests from outside, which may render.
func SmallRun(t testing.TB) (dir string) {
	return (&fixture{workers: 1, warmup: time.Second, window: 6 * time.Second, target: 20}).write(t)
}
