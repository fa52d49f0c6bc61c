// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Both versions of control groups, each with the limit at the process's own group, above it, and in a
// container, which is shown a path that it does not have.
func TestThrottling(t *testing.T) {
	t.Parallel()
	const (
		v2before = "usage_usec 5\nnr_periods 10\nnr_throttled 3\nthrottled_usec 1500000\n"
		v2after  = "usage_usec 9\nnr_periods 20\nnr_throttled 7\nthrottled_usec 2000000\n"
		v1before = "nr_periods 10\nnr_throttled 3\nthrottled_time 1500000000\n"
		v1after  = "nr_periods 20\nnr_throttled 7\nthrottled_time 2000000000\n"
	)
	for name, tt := range map[string]struct{ membership, file, before, after string }{
		"version 2":              {"0::/a/b\n", "a/b/cpu.stat", v2before, v2after},
		"version 2, above":       {"0::/a/b\n", "a/cpu.stat", v2before, v2after},
		"version 2 in container": {"0::/\n", "cpu.stat", v2before, v2after},
		"version 1":              {"5:memory:/x\n4:cpu,cpuacct:/a/b\n", "cpu,cpuacct/a/b/cpu.stat", v1before, v1after},
		"version 1 in container": {"4:cpu,cpuacct:/docker/1\n", "cpu/cpu.stat", v1before, v1after},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write := func(name, text string) string {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
					t.Fatal(err)
				}
				return path
			}
			membership := write("membership", tt.membership)
			write("sys/"+tt.file, tt.before)
			th := newThrottling(membership, filepath.Join(dir, "sys"))
			if got := th.since(); got != (throttled{}) {
				t.Errorf("%+v before anything has changed", got)
			}
			write("sys/"+tt.file, tt.after)
			if got, want := th.since(), (throttled{4, 500 * time.Millisecond}); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
	if th := newThrottling(filepath.Join(t.TempDir(), "none"), t.TempDir()); th.since() != (throttled{}) {
		t.Error("a process without control groups was throttled")
	}
}
