// SPDX-License-Identifier: Apache-2.0

//go:build unix

package dirlock

import (
	"errors"
	"testing"
)

// TestOneAtATime: a lock file that is left over keeps nobody out.
func TestOneAtATime(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		held, err := Take(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Take(dir); !errors.Is(err, ErrInUse) {
			t.Errorf("the second one: %v, want %v", err, ErrInUse)
		}
		if err := held.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
