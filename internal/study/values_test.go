// SPDX-License-Identifier: Apache-2.0

package study

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/internal/spec"
)

func TestValues(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"7":                       "7",
		"1, 2,8":                  "1 2 8",
		"rawkv,stream":            "rawkv stream",
		"1,2,4,…,32":              "1 2 4 8 16 32",
		"1,2,4,...,32":            "1 2 4 8 16 32",
		"10,20,30,…,50":           "10 20 30 40 50",
		"1k,2k,3k,…,5k":           "1000 2000 3000 4000 5000",
		"0.1,0.2,0.3,…,0.5":       "0.1 0.2 0.3 0.4 0.5",
		"10000..200000/2":         "10000 200000",
		"10..40/4":                "10 20 30 40",
		"10k..40k/4":              "10000 20000 30000 40000",
		"1..2.5/4":                "1 1.5 2 2.5",
		"10..20/4":                "10 13 17 20",
		"1,3,9,27,…,243":          "1 3 9 27 81 243",
		"100,200,300,…,300000000": "", // too many
		"":                        "",
		"1,,2":                    "",
		"1,2,1":                   "",
		"1,2,…,8":                 "", // plus 1, or times 2?
		"1,2,5,…,9":               "",
		"1,2,4,…,1000":            "",
		"4,2,1,…,0.5":             "",
		"1,2,4,…":                 "",
		"…,8":                     "",
		"1,2,4…8":                 "",
		"1,2,3,…,5,6":             "",
		"1..8":                    "", // how many?
		"8..1/2":                  "",
		"1..3/9":                  "",
		"1..3/1":                  "",
		"1..3/3,5":                "",
		"../a.properties,../b":    "../a.properties ../b",
		"1..x/3":                  "",
		"1000@30s,2000":           "",
	} {
		values, err := Values(text)
		if got := strings.Join(values, " "); err == nil && got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
}

// What is written as a range has as many values as it says, evenly spaced, between its ends and with them.
func TestSpread(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		n := 2 + random.IntN(50)
		low := 1 + random.IntN(100_000)
		high := low + n + random.IntN(1_000_000)
		values, err := Values(fmt.Sprintf("%d..%d/%d", low, high, n))
		if err != nil {
			t.Fatal(err)
		}
		if len(values) != n || values[0] != strconv.Itoa(low) || values[n-1] != strconv.Itoa(high) {
			t.Fatalf("%d..%d/%d: %v", low, high, n, values)
		}
		for i, text := range values {
			v, err := strconv.Atoi(text)
			if even := float64(low) + float64(high-low)*float64(i)/float64(n-1); err != nil || math.Abs(float64(v)-even) > 0.5+1e-6 {
				t.Fatalf("%d..%d/%d: number %d is %s, want %v", low, high, n, i, text, even)
			}
		}
	}
}

func FuzzValues(f *testing.F) {
	for _, text := range []string{"1,2,4,…,1024", "10000..200000/10", "a,b", "1,2,3,...,9", "1e9,2e9,3e9,…,9e99", "1..9/3", "-1,0,1,…,3"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		values, err := Values(text)
		if err != nil {
			return
		}
		if len(values) == 0 || len(values) > maxValues {
			t.Fatalf("%q: %d values", text, len(values))
		}
		if !strings.Contains(text, "…") && !strings.Contains(text, "...") && !rangeForm.MatchString(text) {
			return
		}
		last := 0.0
		for _, v := range values { // numbers that grow
			n, err := spec.ParseRate(v)
			if err != nil || n <= last {
				t.Fatalf("%q: %v", text, values)
			}
			last = n
		}
	})
}
