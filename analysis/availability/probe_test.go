// SPDX-License-Identifier: Apache-2.0

package availability_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/analysis/availability"
)

// small is what is kept of a small probe.
const small = `{"start": "2026-03-14T15:09:26Z", "table": "t", "length_s": 10, "interval_s": 0.1, "deadline_s": 1,
"cluster": {"probes": 100, "in_time": 90, "unavailable_s": 1, "longest_stall": {"store": "a", "from_s": 3, "seconds": 2, "ended": true}},
"stores": [{"store": "a", "id": 1, "probes": 100, "in_time": 90, "late": 10, "stalls": [{"store": "a", "from_s": 3, "seconds": 2, "ended": true}]}],
"read_back": {"acknowledged": 100, "right": 99, "lost": 1, "findings": [{"key": "k", "problem": "lost", "store": "a", "acknowledged_at_s": 4}], "complete": true}}`

func TestParse(t *testing.T) {
	for _, test := range []struct{ old, new, want string }{
		{"", "", ""},
		{`"interval_s": 0.1`, `"interval_s": 0`, "an interval of 0 s"},
		{`"deadline_s": 1`, `"deadline_s": -1`, "a deadline of -1 s"},
		{`"length_s": 10`, `"length_s": 1e300`, "seconds of length"},
		{`"in_time": 90, "unav`, `"in_time": 101, "unav`, "101 of 100 writes in time"},
		{`"late": 10`, `"late": 11`, "store 1: 90 writes in time and 11 late of 100"},
		{`"from_s": 3, "seconds": 2, "ended": true}]`, `"from_s": -3, "seconds": 2}]`, "store 1: 2 s from -3 s on"},
		{`"right": 99`, `"right": "many"`, "cannot unmarshal"},
	} {
		_, err := availability.Parse([]byte(strings.Replace(small, test.old, test.new, 1)))
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.new, err, test.want)
		}
	}
}

// Whatever is kept of a probe, there is an error, or something that can be moved, judged and written.
func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte(`{"interval_s": 1, "deadline_s": 1, "stores": [{}], "read_back": {"findings": null}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := availability.Parse(text)
		if err != nil {
			return
		}
		p.Shift(2)
		_, _ = p.Bad(), p.Lacks()
		if _, err := json.Marshal(p); err != nil {
			t.Error(err)
		}
	})
}
