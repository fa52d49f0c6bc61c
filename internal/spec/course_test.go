// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A day's course is read however its times are written, and takes as long as it is given.
func TestCourse(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"0,100\n21600,100\n43200,400\n86400,50\n",
		"\ufeff\"Time\",\"rate\"\r\n1772000000000,100\r\n1772021600000,100\r\n1772043200000,400\r\n1772086400000,50\r\n",
		"time,rate\n2026-01-02 00:00:00,100\n2026-01-02 06:00:00,100\n2026-01-02 09:00:00,\n2026-01-02 12:00:00,400\n2026-01-02 15:00:00,NaN\n2026-01-03 00:00:00,50\n",
		"2026-01-02T00:00:00Z,100\n2026-01-02T07:00:00+01:00,100\n2026-01-02T12:00:00Z,400\n2026-01-03T00:00:00Z,50\n",
	} {
		for within, want := range map[time.Duration]string{
			0:                "100@6h0m0s,100..400@6h0m0s,400..50@12h0m0s",
			10 * time.Minute: "100@2m30s,100..400@2m30s,400..50@5m0s",
		} {
			stages, err := parseCourse(text, within)
			if err != nil {
				t.Errorf("%q: %v", text, err)
			} else if got := formatProfile(stages); got != want {
				t.Errorf("%q within %v: %s, want %s", text, within, got, want)
			}
		}
	}
	if stages, err := parseCourse("00:00,5\n06:00,5\n12:00,5\n18:00,6", 0); err != nil || formatProfile(stages) != "5@12h0m0s,5..6@6h0m0s" {
		t.Errorf("%v, %v", stages, err)
	}
}

func TestCourseFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                          "1: fewer than two lines with a rate: want two columns",
		"time,rate\n1,5\n2,":        "1: fewer than two lines",
		"1,5\n2,6,7":                "2: 3 columns: want two columns",
		"1,5\nnoon,6":               `2: time "noon": want 2026-01-02T15:04:05Z`,
		"1,5\n2,1.2 K":              `2: rate "1.2 K" is none: want operations a second as a plain number`,
		"1,5\n2,-1":                 `2: rate "-1"`,
		"1,5\n3,6\n2,7":             `3: time "2" does not lie behind that of line 2`,
		"1,5\n2,0":                  "2: the last rate is 0",
		"1,5\n2,\"6":                "2: ",
		"1,5\n1.0001,6\n2,7":        "2: lies less than a millisecond behind the line before",
		"0,5\n" + "90000000000,6":   "at most 315360000",
		manyMoments(maxMoments + 1): "2001: more than 2000 lines",
	} {
		if _, err := parseCourse(text, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

func manyMoments(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(formatReal(float64(i)) + ",1\n")
	}
	return b.String()
}

// A target names a file and how long it takes; the spec has the rates themselves. Other properties and other targets stay as they are.
func TestWithCourses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "day@1.csv")
	if err := os.WriteFile(file, []byte("0,100\n60,200\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]string{file: "100..200@1m0s", file + "@90s": "100..200@1m30s", file + "@6": "100..200@6s", "5@1s,7": "5@1s,7"} {
		sources, err := WithCourses(Source{Name: "a", Pairs: []Pair{{Key: "target", Value: target}, {Key: "tikv.ca", Value: "x.csv"}}})
		if err != nil || sources[0].Pairs[0].Value != want || sources[0].Pairs[1].Value != "x.csv" {
			t.Errorf("%s: %v, %v, want %s", target, sources, err, want)
		}
	}
	for target, want := range map[string]string{
		file + "@x":         "time of " + file + ": must be seconds",
		file + "@0":         "takes no time: write ",
		"nosuch.csv@10m":    "nosuch.csv",
		os.DevNull + ".csv": "no such file",
	} {
		_, err := WithCourses(Source{Pairs: []Pair{{Key: "target", Value: target, Where: "s.yaml:3:4"}}})
		if err == nil || !strings.HasPrefix(err.Error(), "s.yaml:3:4: target=") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", target, err, want)
		}
	}
	if _, err := Parse(Source{Pairs: []Pair{{Key: "target", Value: file}}}); err == nil {
		t.Error("who is sent a file's name reads it")
	}
}

// What is read is a profile as target has it, of the length that was asked for, and faults have a line.
func FuzzCourse(f *testing.F) {
	f.Add("time,rate\n0,1\n5,2\n9.5,0\n10,3", 0)
	f.Add("2026-01-02 15:04,1\n2026-01-02 15:05,2", 600)
	f.Add("1772000000000,1\n1772000000001,\"2\"", 1)
	f.Add("1e14,1\n0,2", 5)
	f.Fuzz(func(t *testing.T, text string, seconds int) {
		within := time.Duration(min(max(seconds, 0), 1_000_000)) * time.Second
		stages, err := parseCourse(text, within)
		if err != nil {
			if line, _, ok := strings.Cut(err.Error(), ":"); !ok || strings.Trim(line, "0123456789") != "" || line == "" {
				t.Fatalf("a fault without a line: %v", err)
			}
			return
		}
		again, err := parseProfile(formatProfile(stages))
		if err != nil {
			t.Fatalf("%q makes %s: %v", text, formatProfile(stages), err)
		}
		var all time.Duration
		for i, s := range again {
			if s != stages[i] {
				t.Fatalf("%+v is read as %+v", stages[i], s)
			}
			all += s.Length
		}
		if within > 0 && math.Abs((all-within).Seconds()) > 0.001 {
			t.Fatalf("%v in all, want %v", all, within)
		}
	})
}
