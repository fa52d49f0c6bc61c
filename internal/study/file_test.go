// SPDX-License-Identifier: Apache-2.0

package study

import (
	"strings"
	"testing"
	"time"
)

const whole = `
name: night
workload: [read, ./more.properties]
properties:
  recordcount: 1k
  tikv.pd: "a:1,b:2"
vary:
  threadcount: 1,2,4,…,8
  target: [1000, "1000@30s,2000"]
variants:
  A: {driver: rawkv}
  B: {driver: stream}
repeats: 3
order: random
seed: 7
pause: 5s
load: once
load-properties: {threadcount: 64}
slo: READ service p99 < 5ms
prices: {A: a.yaml, B: b.yaml}
hooks:
  before: |
    one
    two
  during: {at: 15s, command: kill it, text: killed it, timeout: 1s}
  after: {command: repair}
stop: {failures: 5, within: 2h, skip-higher: threadcount}
`

func TestParse(t *testing.T) {
	t.Parallel()
	f, err := Parse("night.yaml", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	r := f.Rules
	switch {
	case f.Name != "night" || len(f.Workloads) != 2 || f.Workloads[1].Value != "./more.properties":
		t.Errorf("name or workloads: %+v", f)
	case len(f.Properties) != 2 || f.Properties[0].Value != "1k" || f.Properties[1].Value != "a:1,b:2" || f.Properties[1].Where != "night.yaml:6:3":
		t.Errorf("properties: %+v", f.Properties)
	case len(f.Vary) != 2 || len(f.Vary[0].Values) != 4 || f.Vary[1].Values[1].Value != "1000@30s,2000" || f.Vary[1].Values[1].Where != "night.yaml:9:18":
		t.Errorf("varied: %+v", f.Vary)
	case len(f.Variants) != 2 || f.Variants[1].Name != "B" || f.Variants[1].Pairs[0].Value != "stream":
		t.Errorf("variants: %+v", f.Variants)
	case r.Repeats != 3 || r.Order != Random || r.Seed != 7 || r.Pause != Duration(5*time.Second) || r.Load != Once || f.Loads[0].Value != "64":
		t.Errorf("rules: %+v", r)
	case len(f.SLO) != 1 || len(f.Prices) != 2 || f.Prices[1].Key != "B" || f.Prices[1].Value != "b.yaml" || r.Stop.Failures != 5 || r.Stop.Within != Duration(2*time.Hour) || r.Stop.SkipHigher != "threadcount" || f.SkipWhere != "night.yaml:27:46":
		t.Errorf("objectives or end: %+v, %+v", f.SLO, r.Stop)
	case *r.Hooks.Before != Hook{Command: "one\ntwo\n", Timeout: hookTimeout} || *r.Hooks.After != Hook{Command: "repair", Timeout: hookTimeout} ||
		*r.Hooks.During != Hook{Command: "kill it", At: Duration(15 * time.Second), Text: "killed it", Timeout: Duration(time.Second)}:
		t.Errorf("hooks: %+v", r.Hooks)
	}
}

// Each fault is found, with the line and column of what is wrong.
func TestEachFaultHasItsPlace(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                "s.yaml:1:1: there is nothing in it: kvbench study init",
		"just words":                      "s.yaml:1:1: want names with values",
		"vary: {threadcount: [1, 2":       "s.yaml:1:",
		"a: b: c":                         "s.yaml:1:",
		"vary:\n  threadcount: 1,2,4,…,9": "s.yaml:2:16: threadcount: 9 is not reached",
		"vary: {threadcount: [1, 1]}":     "s.yaml:1:21: threadcount: 1 stands there twice",
		"vary: {threadcount: []}":         "s.yaml:1:8: threadcount is varied over no value",
		"vary: {threadcount: [{a: 1}]}":   "s.yaml:1:23: want one plain value",
		"vary: {threadcount: }":           "s.yaml:1:20: there is no value",
		"vary: {threadcount: [1]}\nvary: {target: 2}": "s.yaml:2:1:",
		"vary: [a]":                             "s.yaml:1:7: want names with values",
		"vary: &x {threadcount: 1}":             "s.yaml:1:7: want names with values",
		"properties: {a: *x}":                   "s.yaml:1:",
		"properties: {a: !!str 1}":              "without anchors, aliases and tags",
		"repeat: 3":                             `s.yaml:1:1: a study has no "repeat": want one of hooks, load,`,
		"repeats: 0":                            "s.yaml:1:10: repeats: 0: want a whole number from 1 to 1000",
		"order: abba":                           "s.yaml:1:8: order: abba: want interleaved or random",
		"pause: 5":                              "s.yaml:1:8: pause: 5: want a time from 0s to 24h0m0s, as in 30s or 5m",
		"load: twice":                           "s.yaml:1:7: load: twice: want never or once or each",
		"load-properties: {threadcount: 3}":     "load-properties do nothing without load",
		"slo: [READ p98 < 5ms]":                 "s.yaml:1:7:",
		"hooks: {before: {timeout: 1s}}":        "s.yaml:1:9: before has no command",
		"hooks: {before: {command: x, at: 1s}}": `before has no "at"`,
		"hooks: {during: {command: x, text: \"a\\nb\"}}": "s.yaml:1:36:",
		"stop: {within: 1ms}":                            "s.yaml:1:16: within: 1ms",
		"name: a b":                                      "s.yaml:1:7: name \"a b\"",
		"variants: {../x: {}}":                           "s.yaml:1:12: name \"../x\"",
		"name: a\n---\nname: b":                          "s.yaml:3:5: a second document begins",
		strings.Repeat("# a comment\n", MaxSize/12+1):    "a study has at most",
	} {
		_, err := Parse("s.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
	_, err := Parse("s.yaml", []byte("repeats: 0\norder: abba\nfoo: 1"))
	if n := len(strings.Split(err.Error(), "\n")); n != 3 {
		t.Errorf("%d faults, want all 3: %v", n, err)
	}
}

// Every fault names a place in the file, and what is taken can be planned or refused.
func FuzzParse(f *testing.F) {
	f.Add(whole)
	f.Add("vary: {threadcount: '1,2,4,…,8'}")
	f.Add("variants: {A: {target: 5}, B: {}}\nhooks: {during: {at: 1s, command: x}}")
	f.Add("? [a]\n: b")
	f.Add("a: &x [*x]")
	f.Add("- |\n x")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Parse("s.yaml", []byte(text))
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !strings.HasPrefix(line, "s.yaml:") {
					t.Fatalf("a fault without a place: %q of %q", line, err)
				}
			}
			return
		}
		if _, err := file.Plan(plain{}); err != nil && err.Error() == "" {
			t.Fatal("an error that says nothing")
		}
	})
}
