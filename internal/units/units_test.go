// SPDX-License-Identifier: Apache-2.0

package units

import "testing"

func TestFormat(t *testing.T) {
	t.Parallel()
	for us, want := range map[float64]string{0: "0 µs", 0.4: "0.4 µs", 1: "1 µs", 9.99: "10 µs", 900: "900 µs", 999.4: "999 µs", 999.6: "1.00 ms",
		1234: "1.23 ms", 12_345: "12.3 ms", 123_456: "123 ms", 999_499: "999 ms", 999_999: "1.00 s", 60_000_000: "60.0 s"} {
		if got := Micros(us); got != want {
			t.Errorf("Micros(%g) = %q, want %q", us, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 10_000_000_000: "10,000,000,000", -1234: "-1,234", -123: "-123"} {
		if got := Count(n); got != want {
			t.Errorf("Count(%d) = %q, want %q", n, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0", 0.001: "0.001", 0.0123: "0.012", 0.5: "0.50", 9.5: "9.50", 12.34: "12.3", 100: "100", 1234.5: "1,235"} {
		if got := Number(v); got != want {
			t.Errorf("Number(%g) = %q, want %q", v, got, want)
		}
	}
	for share, want := range map[float64]string{0: "0 %", 0.00001: "0.001 %", 0.001: "0.1 %", 0.5: "50 %", 0.9949: "99.5 %", 1: "100 %"} {
		if got := Percent(share); got != want {
			t.Errorf("Percent(%g) = %q, want %q", share, got, want)
		}
	}
}
