// SPDX-License-Identifier: Apache-2.0

package objective

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kvbench/kvbench/internal/measure"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]struct {
		o     Objective
		shown string
	}{
		"READ response p99 < 5ms":            {Objective{Kind: "READ", Time: "response", Metric: "p99", LimitUS: 5000}, "READ response p99 < 5.00 ms"},
		" TOTAL service p99.9<1.5s ":         {Objective{Kind: "TOTAL", Time: "service", Metric: "p99_9", LimitUS: 1_500_000}, "TOTAL service p99.9 < 1.50 s"},
		"UPDATE service mean < 250us":        {Objective{Kind: "UPDATE", Time: "service", Metric: "mean", LimitUS: 250}, "UPDATE service mean < 250 µs"},
		"READ_MODIFY_WRITE service max < 1h": {Objective{Kind: "READ_MODIFY_WRITE", Time: "service", Metric: "max", LimitUS: 3_600_000_000}, "READ_MODIFY_WRITE service max < 3,600 s"},
		"errors < 0.1%":                      {Objective{Kind: "TOTAL", Metric: "errors", Limit: 0.001}, "errors < 0.1 %"},
		"TOTAL errors<0.001":                 {Objective{Kind: "TOTAL", Metric: "errors", Limit: 0.001}, "errors < 0.1 %"},
		"READ errors < 1 %":                  {Objective{Kind: "READ", Metric: "errors", Limit: 0.01}, "READ errors < 1 %"},
		"errors < 0.00001%":                  {Objective{Kind: "TOTAL", Metric: "errors", Limit: 1e-7}, "errors < 0.00001 %"},
		"rate >= 99%":                        {Objective{Kind: "TOTAL", Metric: "share", Limit: 0.99}, "rate >= 99 % of the target"},
		"rate >= 99.95%":                     {Objective{Kind: "TOTAL", Metric: "share", Limit: 0.9995}, "rate >= 99.95 % of the target"},
		"rate>=50000/s":                      {Objective{Kind: "TOTAL", Metric: "rate", Limit: 50000}, "rate >= 50,000/s"},
		"rate >= 50k/s":                      {Objective{Kind: "TOTAL", Metric: "rate", Limit: 50000}, "rate >= 50,000/s"},
		"SCAN rate >= 0.5/s":                 {Objective{Kind: "SCAN", Metric: "rate", Limit: 0.5}, "SCAN rate >= 0.5/s"},
	} {
		got, err := Parse(text)
		if d := got.Limit - want.o.Limit; err == nil && max(d, -d) < 1e-12 {
			got.Limit = want.o.Limit
		}
		if err != nil || got != want.o || got.String() != want.shown {
			t.Errorf("%q: %+v (%s), %v", text, got, got, err)
		}
	}
	for text, want := range map[string]struct {
		column int
		text   string
	}{
		"":                                {1, "there is no limit: want KIND TIME METRIC < DURATION"},
		"errors":                          {7, "there is no limit"},
		"< 5ms":                           {1, "want KIND TIME METRIC < DURATION"},
		"READ p99 < 5ms":                  {1, "want KIND TIME METRIC < DURATION"},
		"READ UPDATE errors < 1%":         {6, `"UPDATE": want one of service, response`},
		"FETCH response p99 < 5ms":        {1, `"FETCH": want one of TOTAL, READ`},
		"  read errors < 1%":              {3, `"read": want one of TOTAL, READ`},
		"READ users p99 < 5ms":            {6, `"users": want one of service, response`},
		"READ response p98 < 5ms":         {15, `"p98": want one of`},
		"READ response p99 > 5ms":         {19, `">": an objective on READ response p99 is written with <`},
		"READ response p99 <= 5ms":        {19, `written with <`},
		"rate < 5/s":                      {6, `"<": an objective on rate is written with >=`},
		"READ response p99 < 5":           {21, `"5": want a time of 1us to 1h`},
		"READ response p99 < -1ms":        {21, `want a time of 1us to 1h`},
		"READ response p99 < 2h < 3h":     {21, `want a time`},
		"READ response p99 <":             {20, "there is no limit behind it"},
		"errors < 0%":                     {10, "want a share above 0%"},
		"errors < 101%":                   {10, "want a share above 0%"},
		"errors < 5/s":                    {10, "want a share"},
		"errors < NaN":                    {10, "want a share"},
		"errors < 5ms":                    {10, "want a share"},
		"rate >= 120%":                    {9, "want a share of the target"},
		"rate >= 5000":                    {9, "want a share of the target, as in 99%, or operations a second"},
		"rate >= Inf/s":                   {9, "operations a second"},
		"rate >= 5%/s":                    {9, "operations a second"},
		"READ rate >= 99%":                {14, "the target is one of all kinds together"},
		"'READ response p99 < 5ms'":       {1, `"'READ": want one of`},
		"READ response p99 and p50 < 5ms": {1, "want KIND"},
	} {
		_, err := Parse(text)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || syntax.Column != want.column || !strings.Contains(err.Error(), want.text) {
			t.Errorf("%q: %+v, want column %d, %q", text, err, want.column, want.text)
		}
	}
}

func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "objectives")
	read := func(text string) ([]Objective, error) {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return ReadFile(path)
	}
	got, err := read("\ufeff# what we promise\r\nREAD response p99 < 5ms\r\n\r\n  errors < 0.1%   # of all\nrate >= 99%")
	if err != nil || len(got) != 3 || got[0].LimitUS != 5000 || got[1].Metric != Errors || got[2].Metric != Share {
		t.Errorf("%+v, %v", got, err)
	}
	for text, want := range map[string]string{
		"":                                   path + ": it holds no objective",
		"# none\n":                           "it holds no objective",
		"errors < 1%\n\n  READ p99 < 5ms\n":  path + ":3:3: want KIND TIME METRIC",
		"rate >= 99% # ok\nerrors < five\n":  path + `:2:10: "five": want a share`,
		"errors < 1%\nREAD \xff p99 < 5ms\n": path + ":2: not UTF-8",
		strings.Repeat("# long\n", 10_000):   "more than",
		"rate >= 99 # of what?\n":            path + ":1:9:",
		"errors < # what?\n":                 path + ":1:9: <: there is no limit behind it",
	} {
		if got, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %+v, %v, want %q", text, got, err, want)
		}
	}
	if _, err := ReadFile(t.TempDir()); err == nil {
		t.Error("a folder is read")
	}
}

// A flag adds each objective once.
func TestFlag(t *testing.T) {
	var all []Objective
	one := One(&all)
	for _, text := range []string{"errors < 1%", "rate >= 99%", "errors < 1%"} {
		if err := one.Set(text); err != nil {
			t.Fatal(err)
		}
	}
	if len(all) != 2 {
		t.Errorf("%+v", all)
	}
	if err := one.Set("errors"); err == nil || len(all) != 2 {
		t.Errorf("%v, %+v", err, all)
	}
}

// What may follow leads to objectives, and to nothing else; a word that has been begun is completed.
func TestContinue(t *testing.T) {
	var whole int
	begun := []string{""}
	for len(begun) > 0 {
		text := begun[0]
		begun = begun[1:]
		if _, err := Parse(text); err == nil {
			whole++
			if more := Continue(text + " "); more != nil {
				t.Errorf("%q goes on with %q", text, more)
			}
			continue
		}
		more := Continue(strings.TrimLeft(text+" ", " "))
		if len(more) == 0 {
			t.Errorf("nothing follows %q", text)
		}
		for _, next := range more {
			if !strings.HasPrefix(next, text) || len(next) <= len(text) {
				t.Errorf("%q follows %q", next, text)
				return
			}
		}
		begun = append(begun, more...)
	}
	if least := len(kinds()) * 2 * len(measure.Metrics); whole < least {
		t.Errorf("%d objectives are found, want %d and more", whole, least)
	}
	for text, want := range map[string][]string{
		"READ re":           {"READ response"},
		"READ response p99": {"READ response p99", "READ response p99.9", "READ response p99.99"},
		"TOTAL rate >= 9":   {"TOTAL rate >= 99%"},
		"  ra":              {"rate"},
		"nothing ":          nil,
		"READ nothing < ":   nil,
		"READ errors >= ":   nil,
	} {
		if got := Continue(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		text  string
		paced bool
		want  string
	}{
		{"READ response p99 < 5ms", true, ""},
		{"READ response p99 < 5ms", false, "has no response time"},
		{"READ service p99 < 5ms", false, ""},
		{"rate >= 99%", true, ""},
		{"rate >= 99%", false, "has no share of it: say a rate"},
		{"rate >= 50/s", false, ""},
		{"errors < 1%", false, ""},
	} {
		o, err := Parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if err := Check([]Objective{o}, c.paced); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, paced %v: %v, want %q", c.text, c.paced, err, c.want)
		}
	}
	if err := Check(make([]Objective, Most+1), true); err == nil {
		t.Error("too many are taken")
	}
}

// uniform holds latencies of 1 to n microseconds, and more ones of 1 s.
func uniform(n, slow int64) *hdrhistogram.Histogram {
	h := measure.NewHDR()
	for us := range n {
		_ = h.RecordValue(us + 1)
	}
	_ = h.RecordValues(1_000_000, slow)
	return h
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		text string
		seen Seen
		want State
		says string // of the value, or why not
	}{
		{"READ service p99 < 1ms", Seen{Answered: uniform(1000, 0)}, Kept, "990 µs"},
		{"READ service p99 < 500us", Seen{Answered: uniform(1000, 0)}, Broken, "READ service p99 is 990 µs, above 500 µs"},
		{"READ service p99.9 < 1ms", Seen{Answered: uniform(999, 0)}, Unknown, "999 calls are too few for READ service p99.9"},
		{"READ service p99.9 < 500us", Seen{Answered: uniform(999, 0)}, Broken, "READ service p99.9 is at least 989 µs, above 500 µs"},
		{"READ service p99 < 1us", Seen{Answered: uniform(1, 0)}, Unknown, "too few"},
		{"READ service max < 1ms", Seen{Answered: uniform(9, 1)}, Broken, "READ service max is 1.00 s, above 1.00 ms"},
		{"READ service p99 < 1ms", Seen{}, Unknown, "was not measured"},
		{"READ service p99 < 1ms", Seen{Answered: uniform(1000, 0), Unseen: "1 of 3 workers lost"}, Unknown, "READ service p99 is 990 µs of what was seen, and 1 of 3 workers lost"},
		{"READ service p99 < 500us", Seen{Answered: uniform(1000, 0), Unseen: "1 of 3 workers lost"}, Broken, "above 500 µs"},
		// Calls that wait count as what they have waited.
		{"READ service p99 < 1ms", Seen{Answered: uniform(1000, 0), Least: uniform(1000, 20)}, Broken, "READ service p99 is at least 1.00 s, above 1.00 ms, with 20 that were not answered yet"},
		{"READ service p99 < 1ms", Seen{Answered: uniform(1000, 0), Least: uniform(1000, 20), NeverCalls: 20}, Broken, "20 that were never answered"},
		{"READ service p99 < 1ms", Seen{Least: uniform(0, 200)}, Broken, "with 200 that were not answered yet"},
		{"READ service p99 < 1ms", Seen{Least: uniform(0, 8)}, Broken, "READ service p99 is at least 1.00 s, above 1.00 ms, with 8 that were not answered yet"},
		{"READ service p99 < 1ms", Seen{Least: uniform(5, 3)}, Unknown, "was not measured"},
		{"READ service p99 < 1ms", Seen{Answered: uniform(1000, 0), NeverCalls: 20}, Unknown, "without 20 that were never answered"},
		{"READ service p50 < 1ms", Seen{Answered: uniform(1000, 0), NeverCalls: 20}, Kept, ""},
		{"READ service mean < 1ms", Seen{Answered: uniform(1000, 0), NeverCalls: 1}, Unknown, "without 1 that were never answered"},

		{"errors < 0.1%", Seen{Operations: 10_000, Failed: 9}, Kept, "0.09 % (9 of 10,000 operations)"},
		{"errors < 0.1%", Seen{Operations: 10_000, Failed: 10}, Broken, "errors are 0.1 % (10 of 10,000 operations), not below 0.1 %"},
		{"READ errors < 0.1%", Seen{Operations: 3000, Failed: 2999}, Broken, "READ errors are 99.97 %"},
		{"errors < 0.1%", Seen{Operations: 10_000, Failed: 9, Never: 1}, Kept, ""},
		{"errors < 0.1%", Seen{Operations: 10_000, Failed: 9, Never: 2}, Unknown, "0.09 % (9 of 10,000 operations) without 2 that were never answered"},
		{"errors < 0.1%", Seen{Operations: 10_000, Failed: 10, Never: 1}, Unknown, "never answered"},
		{"errors < 0.1%", Seen{}, Unknown, "objective errors was not measured"},
		{"errors < 0.1%", Seen{Operations: 1000, Unseen: "1 of 3 workers lost"}, Unknown, "of what was seen, and 1 of 3 workers lost"},
		{"errors < 100%", Seen{Never: 5}, Unknown, "never answered"},

		{"rate >= 99%", Seen{Rate: 990, Target: 1000}, Kept, "99 % of the target (990/s of 1,000/s)"},
		{"rate >= 99%", Seen{Rate: 989, Target: 1000}, Broken, "rate is 98.9 % of the target (989/s of 1,000/s), below 99 % of the target"},
		{"rate >= 99%", Seen{Rate: 989, Target: 1000, Slack: 2}, Kept, ""},
		{"rate >= 99%", Seen{Rate: 989}, Unknown, "was not measured"},
		{"rate >= 1000/s", Seen{Rate: 999.9995}, Kept, ""},
		{"rate >= 1000/s", Seen{Rate: 998}, Broken, "rate is 998/s, below 1,000/s"},
		{"READ rate >= 10/s", Seen{}, Broken, "READ rate is 0/s, below 10/s"},
		{"rate >= 1000/s", Seen{Rate: 600, More: true, Unseen: "1 of 3 workers lost"}, Unknown, "rate is 600/s of what was seen, and 1 of 3 workers lost"},
		{"rate >= 1000/s", Seen{Rate: 1600, More: true, Unseen: "1 of 3 workers lost"}, Kept, ""},
	} {
		o, err := Parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		f := o.Judge(&c.seen)
		if f.State != c.want || !strings.Contains(f.Text+"\n"+f.Why, c.says) || (f.Why == "") != (f.State == Kept) {
			t.Errorf("%s of %+v: %v, %q, %q, want %v, %q", c.text, c.seen, f.State, f.Text, f.Why, c.want, c.says)
		}
	}
	// What lies beyond the histograms is no number.
	h := measure.NewHDR()
	_ = h.RecordValues(measure.Highest, 1000)
	o := Objective{Kind: AllKinds, Time: Service, Metric: "p99", LimitUS: 2 * 3_600_000_000}
	if f := o.Judge(&Seen{Answered: h}); f.State != Unknown || f.Value != nil || !strings.Contains(f.Why, "> 1 h") {
		t.Errorf("%+v", f)
	}
	// Of a record that somebody else has written.
	if f := (Objective{Kind: "READ", Metric: "charm"}).Judge(&Seen{Operations: 5}); f.State != Unknown {
		t.Errorf("%+v", f)
	}
	if f := (Objective{Kind: "READ", Time: "service", Metric: "p12"}).Judge(&Seen{Answered: h}); f.State != Unknown {
		t.Errorf("%+v", f)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"READ response p99 < 5ms", "errors < 0.1%", "READ errors < 1 %", "rate >= 99%", "rate >= 50000/s", "rate>=1e3/s", "TOTAL service mean<1h", "< 5", "a # b"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, err := Parse(text)
		var syntax *SyntaxError
		switch {
		case err != nil:
			if !errors.As(err, &syntax) || syntax.Column < 1 || syntax.Column > len([]rune(text))+1 {
				t.Errorf("%q: %+v", text, err)
			}
			return
		case !slices.Contains(kinds(), o.Kind), o.Latency() != (o.LimitUS > 0), o.Latency() == (o.Limit > 0):
			t.Errorf("%q: %+v", text, o)
		}
		if f := o.Judge(&Seen{}); f.Why == "" {
			t.Errorf("%q: what was not seen is %v", text, f.State)
		}
	})
}

func FuzzParseLines(f *testing.F) {
	f.Add("# one\nREAD response p99 < 5ms\n\nerrors < 0.1% # two\n")
	f.Add("rate >= 99%\r\nrate")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := parseLines(text)
		if (err == nil) != (len(all) > 0) {
			t.Errorf("%q: %+v, %v", text, all, err)
		}
		if lines := strings.Count(text, "\n") + 1; len(all) > lines {
			t.Errorf("%d objectives on %d lines", len(all), lines)
		}
	})
}

var _ fmt.Stringer = Objective{}
