// SPDX-License-Identifier: Apache-2.0

// Package units shows numbers with their units, as people read them.
package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Micros shows microseconds in the unit that fits, with three digits or more:
// 912 µs, 1.23 ms, 12.3 ms, 2.50 s.
func Micros(us float64) string {
	switch {
	case us < 9.995:
		return trimmed(us, 1) + " µs"
	case us < 999.5:
		return trimmed(us, 0) + " µs"
	case us < 999_500:
		return digits(us/1e3) + " ms"
	}
	return digits(us/1e6) + " s"
}

// Range shows where a range of microseconds ends: 60 s, 1 h.
func Range(us int64) string {
	if hours := us / 3_600_000_000; hours > 0 && us%3_600_000_000 == 0 {
		return fmt.Sprintf("%d h", hours)
	}
	return Seconds(float64(us) / 1e6)
}

// digits shows a number with three significant digits at least.
func digits(v float64) string {
	switch {
	case v < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return Grouped(v)
}

// trimmed shows a number with so many decimals, none if they are zero.
func trimmed(v float64, decimals int) string {
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', decimals, 64), ".0")
}

// Count shows a count with its thousands apart.
func Count(n int64) string {
	text := strconv.FormatInt(n, 10)
	start := 0
	if n < 0 {
		start = 1
	}
	for i := len(text) - 3; i > start; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Grouped shows a whole number with its thousands apart.
func Grouped(v float64) string { return Count(int64(math.Round(v))) }

// Number shows a quantity: whole above 100, with a decimal or two below, two digits below 0.1.
func Number(v float64) string {
	switch {
	case v >= 99.95 || v == math.Trunc(v):
		return Grouped(v)
	case v >= 9.995:
		return trimmed(v, 1)
	case v < 0.095:
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// Rate shows a number of something per second.
func Rate(v float64) string { return Number(v) + "/s" }

// Percent shows a share, with as many decimals as it takes to be told from 0 and 100 %.
func Percent(share float64) string {
	p := share * 100
	if p > 0 && p < 0.095 {
		return strconv.FormatFloat(p, 'g', 1, 64) + " %"
	}
	return trimmed(p, 1) + " %"
}

// Seconds shows a length of time.
func Seconds(s float64) string { return trimmed(s, 1) + " s" }

func Plural(n int64, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

// Bytes shows a number of bytes, in powers of 1000.
func Bytes(n float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "KB"}} {
		if n >= 0.9995*unit.size {
			return Number(n/unit.size) + " " + unit.name
		}
	}
	return Grouped(n) + " B"
}

func Megabytes(n int64) string { return fmt.Sprintf("%.0f MB", float64(n)/1e6) }
