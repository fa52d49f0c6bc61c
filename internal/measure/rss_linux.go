// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"bytes"
	"os"
	"strconv"
)

// residentBytes reads the second field of /proc/self/statm (see proc(5)): resident pages.
func residentBytes() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
