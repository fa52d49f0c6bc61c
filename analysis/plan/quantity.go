// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Range is where a quantity lies, both ends included.
type Range struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Exactly is a quantity that is known.
func Exactly(v float64) Range { return Range{v, v} }

// Kind is what a quantity counts, which says how it is written.
type Kind struct {
	name string // what to want
	low  float64
	high float64
	of   func(suffix string) float64 // what the suffix multiplies with; 0: there is no such
}

// The kinds.
var (
	Count  = Kind{"a number, as in 500m or 10G", 1, 1e15, thousands}
	Bytes  = Kind{"bytes, as in 26, 1KB, 96MiB or 4TB", 1, 1e18, bytes}
	Factor = Kind{"a factor of 1 or more, as in 3", 1, 1000, plain}
)

func plain(suffix string) float64 {
	if suffix == "" {
		return 1
	}
	return 0
}

// thousands are those of numbers: k, m, g and t, in either case.
func thousands(suffix string) float64 {
	return map[string]float64{"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}[strings.ToLower(suffix)]
}

// bytes are in powers of 1000 (KB, or k) and 1024 (KiB, or ki).
func bytes(suffix string) float64 {
	s := strings.TrimSuffix(strings.ToLower(suffix), "b")
	if binary := map[string]float64{"ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40}[s]; binary > 0 {
		return binary
	}
	return thousands(s)
}

// Parse reads a quantity, or a range as 3..6.
func (k Kind) Parse(text string) (Range, error) {
	from, to, ranged := strings.Cut(text, "..")
	low, err := k.one(from)
	if err != nil || !ranged {
		return Exactly(low), err
	}
	high, err := k.one(to)
	if err == nil && low > high {
		err = fmt.Errorf("%s: the range ends before it begins", text)
	}
	return Range{low, high}, err
}

func (k Kind) one(text string) (float64, error) {
	text = strings.TrimSpace(text)
	end := strings.LastIndexAny(text, "0123456789.") + 1
	number, suffix := text[:end], strings.TrimSpace(text[end:])
	v, err := strconv.ParseFloat(number, 64)
	unit := k.of(suffix)
	if err != nil || unit == 0 || strings.ContainsAny(number, "xXpP_") {
		return 0, fmt.Errorf("%q: want %s, or a range, as in 3..6", text, k.name)
	}
	if v *= unit; !(v >= k.low && v <= k.high) {
		return 0, fmt.Errorf("%q: want %g to %g", text, k.low, k.high)
	}
	return v, nil
}

// Flag is the value of a flag that is a quantity.
type Flag struct {
	to    *Range
	kind  Kind
	exact bool
	text  string
}

// NewFlag makes the value of a flag, which sets to; exact refuses ranges. It is initial at first, as the flag would read it: empty for nothing.
func NewFlag(to *Range, kind Kind, exact bool, initial string) *Flag {
	f := &Flag{to: to, kind: kind, exact: exact}
	if initial != "" {
		if err := f.Set(initial); err != nil {
			panic(err) // a caller's mistake
		}
	}
	return f
}

func (f *Flag) String() string { return f.text }

// Type is what the value is.
func (f *Flag) Type() string { return "quantity" }

// Set reads the value.
func (f *Flag) Set(text string) error {
	r, err := f.kind.Parse(text)
	switch {
	case err != nil:
		return err
	case f.exact && r.Low != r.High:
		return errors.New("want one value, and no range")
	}
	*f.to, f.text = r, text
	return nil
}
