// SPDX-License-Identifier: Apache-2.0

//go:build unix

package measure

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the user and system time that the process has used.
func cpuTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
