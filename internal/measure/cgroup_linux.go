// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// throttling reads how often, and for how long, the process was denied the processors because a
// limit of its control group, or of one above it, was reached. It is for one goroutine.
type throttling struct {
	groups map[string]throttled // by cpu.stat, as it was read last
}

// throttled is what a control group's cpu.stat tells.
type throttled struct {
	periods int64         // in which the limit was reached
	time    time.Duration // over all processors
}

// newThrottling finds the control groups of the process, see cgroups(7): version 2 has one
// hierarchy, version 1 one for the controller "cpu". In a container a path may be that of the
// host, and is not to be found then: what counts is at the root of what is mounted.
func newThrottling(membership, mounted string) *throttling {
	t := &throttling{groups: make(map[string]throttled)}
	text, _ := os.ReadFile(membership)
	for line := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n") {
		fields := strings.SplitN(line, ":", 3)
		if len(fields) < 3 {
			continue
		}
		roots := []string{mounted, filepath.Join(mounted, "unified")}
		if controllers := strings.Split(fields[1], ","); fields[1] != "" {
			roots = nil
			for _, c := range controllers {
				if c == "cpu" {
					roots = []string{filepath.Join(mounted, fields[1]), filepath.Join(mounted, "cpu")}
				}
			}
		}
		for _, root := range roots {
			for path := filepath.Clean("/" + fields[2]); ; path = filepath.Dir(path) {
				name := filepath.Join(root, path, "cpu.stat")
				if now, ok := readThrottled(name); ok {
					t.groups[name] = now
				}
				if path == "/" {
					break
				}
			}
		}
	}
	return t
}

// since returns what was denied since the last call: that of the group which was denied most.
func (t *throttling) since() (most throttled) {
	for name, before := range t.groups {
		now, ok := readThrottled(name)
		if !ok {
			continue
		}
		t.groups[name] = now
		if d := now.time - before.time; d > most.time {
			most = throttled{now.periods - before.periods, d}
		}
	}
	return most
}

func readThrottled(name string) (t throttled, ok bool) {
	text, err := os.ReadFile(name)
	if err != nil {
		return t, false
	}
	return parseThrottled(text)
}

// parseThrottled reads a cpu.stat. The time is throttled_usec in version 2, and throttled_time, in
// nanoseconds, in version 1. A group without a limit has neither.
func parseThrottled(text []byte) (t throttled, ok bool) {
	for line := range bytes.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 {
			continue
		}
		switch name {
		case "nr_throttled":
			t.periods = n
		case "throttled_usec":
			t.time, ok = time.Duration(n)*time.Microsecond, true
		case "throttled_time":
			t.time, ok = time.Duration(n), true
		}
	}
	return t, ok
}
