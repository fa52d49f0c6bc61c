// SPDX-License-Identifier: Apache-2.0

package measure

import "testing"

func TestParseMachineTime(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]int64{
		"cpu  10 1 5 100 20 2 3 4 50 60\ncpu0 1 1 1 1 1 1 1 1\n": {25, 145},
		"cpu 1 2 3\n":            {},
		"cpu 1 2 3 x 5 6 7 8\n":  {},
		"intr 1 2 3 4 5 6 7 8\n": {},
		"":                       {},
	} {
		if busy, total := parseMachineTime([]byte(text)); busy != want[0] || total != want[1] {
			t.Errorf("%q: %d of %d, want %v", text, busy, total, want)
		}
	}
}

func TestParseSchedStat(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"914256 607216 15\n": 607216,
		"1 0 0":              0,
		"1 -5 0":             -1,
		"1":                  -1,
		"a b c":              -1,
		"":                   -1,
	} {
		got, ok := parseSchedStat([]byte(text))
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, ok, want)
		}
	}
}
