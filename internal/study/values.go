// SPDX-License-Identifier: Apache-2.0

package study

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kvbench/kvbench/internal/spec"
)

// maxValues bounds how many values a property may be varied over.
const maxValues = 1000

// rangeForm is how a range begins, which a path does not.
var rangeForm = regexp.MustCompile(`^\s*[0-9][^,@]*?\.\.[^,@]*$`)

// Values reads what a property is varied over:
//
//	1,2,8             these
//	1,2,4,…,1024      goes on as it began, times or plus the same; … may be written ...
//	10000..200000/10  so many values, evenly spaced, both ends among them
//
// The second and third are numbers, of which k, m and g stand for thousands and more.
func Values(text string) ([]string, error) {
	text = strings.ReplaceAll(text, "...", "…")
	ends, count, spaced := strings.Cut(text, "/")
	from, to, ranged := strings.Cut(ends, "..")
	switch {
	case strings.Contains(text, "…"):
		return progression(text)
	case ranged && rangeForm.MatchString(text):
		if !spaced {
			return nil, fmt.Errorf("how many values? write %s/10", text)
		}
		return spread(from, to, count)
	case strings.Contains(text, "@"):
		return nil, errors.New("a target that changes over time stands in a list of its own: [1000@30s, …]")
	}
	var values []string
	for value := range strings.SplitSeq(text, ",") {
		if value = strings.TrimSpace(value); value == "" {
			return nil, errors.New("a value is empty")
		}
		if rangeForm.MatchString(value) {
			return nil, fmt.Errorf("%s: a range stands alone, as in 10000..200000/10", value)
		}
		values = append(values, value)
	}
	return values, distinct(values)
}

// distinct checks that no value stands there twice, and that they are not too many.
func distinct(values []string) error {
	seen := make(map[string]bool)
	for _, v := range values {
		if seen[v] {
			return fmt.Errorf("%s stands there twice", v)
		}
		seen[v] = true
	}
	if len(values) > maxValues {
		return fmt.Errorf("%d values: at most %d", len(values), maxValues)
	}
	return nil
}

// spread returns n values from one to another, whole ones if both ends are.
func spread(from, to, count string) ([]string, error) {
	low, err := spec.ParseRate(from)
	if err != nil {
		return nil, fmt.Errorf("%q %w", from, err)
	}
	high, err := spec.ParseRate(to)
	if err != nil {
		return nil, fmt.Errorf("%q %w", to, err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(count))
	if err != nil || n < 2 || n > maxValues {
		return nil, fmt.Errorf("%q values: want a number from 2 to %d", count, maxValues)
	}
	if high <= low {
		return nil, fmt.Errorf("from %s to %s: want the smaller one first", from, to)
	}
	whole := low == math.Trunc(low) && high == math.Trunc(high)
	values := make([]string, n)
	for i := range values {
		v := low + (high-low)*float64(i)/float64(n-1)
		if whole {
			v = math.Round(v)
		}
		values[i] = number(v)
	}
	if len(slices.Compact(slices.Clone(values))) < n {
		return nil, fmt.Errorf("there are no %d whole numbers from %s to %s", n, from, to)
	}
	return values, nil
}

// progression returns the values of what three or more of them begin, up to the last.
func progression(text string) ([]string, error) {
	const form = "want three values, … and the last one, as 1,2,4,…,1024 (times 2) or 10,20,30,…,100 (plus 10)"
	head, last, _ := strings.Cut(text, "…")
	last = strings.TrimSpace(last)
	if !strings.HasPrefix(last, ",") || !strings.HasSuffix(strings.TrimSpace(head), ",") {
		return nil, errors.New(form)
	}
	var given []float64
	for value := range strings.SplitSeq(strings.TrimSuffix(strings.TrimSpace(head), ",")+last, ",") {
		v, err := spec.ParseRate(value)
		if err != nil {
			return nil, fmt.Errorf("%q %w", value, err)
		}
		given = append(given, v)
	}
	if len(given) < 4 || strings.Count(last, ",") != 1 {
		return nil, errors.New(form)
	}
	begun, end := given[:len(given)-1], given[len(given)-1]
	plus, times := begun[1]-begun[0], begun[1]/begun[0]
	var next func(float64) float64
	switch {
	case follows(begun, func(v float64) float64 { return v + plus }):
		next = func(v float64) float64 { return v + plus }
	case follows(begun, func(v float64) float64 { return v * times }):
		next = func(v float64) float64 { return v * times }
	default:
		return nil, errors.New("the values before … grow neither by the same sum nor by the same factor: " + form)
	}
	if begun[1] <= begun[0] || end <= begun[len(begun)-1] {
		return nil, errors.New("values before … must grow towards the last one")
	}
	values := begun
	for v := begun[len(begun)-1]; !same(v, end); {
		before := v
		if v = next(v); v > end && !same(v, end) {
			return nil, fmt.Errorf("%s is not reached: after %s comes %s", number(end), number(before), number(v))
		}
		if values = append(values, v); len(values) > maxValues {
			return nil, fmt.Errorf("more than %d values", maxValues)
		}
	}
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = number(v)
	}
	texts[len(texts)-1] = number(end)
	return texts, distinct(texts)
}

// follows tells whether each value is what next makes of the one before.
func follows(values []float64, next func(float64) float64) bool {
	for i := range values[1:] {
		if !same(next(values[i]), values[i+1]) {
			return false
		}
	}
	return true
}

// same tells whether values are equal but for rounding.
func same(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b)) }

// number writes a value as properties take it.
func number(v float64) string {
	return strconv.FormatFloat(math.Round(v*1e6)/1e6, 'f', -1, 64)
}
