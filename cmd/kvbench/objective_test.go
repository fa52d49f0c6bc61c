// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/results"
)

func TestParseObjective(t *testing.T) {
	for text, want := range map[string]results.Objective{
		"READ response p99 < 5ms":            {Kind: "READ", Time: "response", Metric: "p99", LimitUS: 5000},
		" TOTAL service p99.9<1.5s ":         {Kind: "TOTAL", Time: "service", Metric: "p99_9", LimitUS: 1_500_000},
		"UPDATE service mean < 250us":        {Kind: "UPDATE", Time: "service", Metric: "mean", LimitUS: 250},
		"READ_MODIFY_WRITE service max < 1h": {Kind: "READ_MODIFY_WRITE", Time: "service", Metric: "max", LimitUS: 3_600_000_000},
	} {
		if got, err := parseObjective(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"":                            "want KIND TIME METRIC < DURATION",
		"READ p99 < 5ms":              "want KIND TIME METRIC < DURATION",
		"READ response p99 > 5ms":     "want KIND TIME METRIC < DURATION",
		"errors < 1%":                 "--max-errors",
		"FETCH response p99 < 5ms":    `"FETCH": want one of TOTAL, READ`,
		"READ users p99 < 5ms":        `"users": want one of service, response`,
		"READ response p98 < 5ms":     `"p98": want one of`,
		"READ response p99 < 5":       `"5": want a time`,
		"READ response p99 < -1ms":    `want a time of 1us to 1h`,
		"READ response p99 < 2h < 3h": `want a time`,
	} {
		if got, err := parseObjective(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v, want %q", text, got, err, want)
		}
	}
}

func FuzzParseObjective(f *testing.F) {
	f.Add("READ response p99 < 5ms")
	f.Fuzz(func(t *testing.T, text string) {
		o, err := parseObjective(text)
		if err == nil && (o.LimitUS < 1 || o.Kind == "" || o.Time == "" || o.Metric == "") {
			t.Errorf("%q: %+v", text, o)
		}
	})
}

// TestObjectives: a run that misses an objective exits with 7 and says which; one that holds them is valid.
func TestObjectives(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	for _, s := range f.cluster.State().Stores {
		if err := f.cluster.SlowStore(s.ID, 20*time.Millisecond, 1); err != nil {
			t.Fatal(err)
		}
	}
	run := start(t, f.verb("run", "-w", "read", "--target", "100", "--duration", "2s", "--json",
		"--slo", "READ service p50 < 10ms", "--slo", "READ service p50 < 1h")...)
	run.exits(exitcode.SLO, time.Minute)
	if v := run.report().Verdict; v.Code != exitcode.SLO || strings.Count(v.Text, "objective missed: READ service p50 is 2") != 1 {
		t.Errorf("%+v", v)
	}
}
