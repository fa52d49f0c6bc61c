// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/workload"
)

// objectives is the value of a flag that may be given several times, each time with a latency that must not be exceeded.
type objectives struct{ all *[]results.Objective }

func (o *objectives) String() string { return "" }

func (o *objectives) Type() string { return "objective" }

func (o *objectives) Set(text string) error {
	one, err := parseObjective(text)
	if err == nil {
		*o.all = append(*o.all, one)
	}
	return err
}

// parseObjective reads "READ response p99 < 5ms".
func parseObjective(text string) (o results.Objective, err error) {
	what, limit, ok := strings.Cut(text, "<")
	words := strings.Fields(what)
	switch {
	case len(words) > 0 && words[0] == "errors":
		return o, errors.New("how many operations may fail is said with --max-errors")
	case !ok || len(words) != 3:
		return o, errors.New("want KIND TIME METRIC < DURATION, as in 'READ response p99 < 5ms'")
	}
	kinds := []string{analysis.AllKinds}
	for k := range workload.Kind(workload.Kinds) {
		kinds = append(kinds, k.String())
	}
	var metrics []string
	for _, m := range analysis.Metrics {
		metrics = append(metrics, m.Title())
	}
	for i, known := range [][]string{kinds, {"service", "response"}, metrics} {
		if !slices.Contains(known, words[i]) {
			return o, fmt.Errorf("%q: want one of %s", words[i], strings.Join(known, ", "))
		}
	}
	d, err := time.ParseDuration(strings.TrimSpace(limit))
	if err != nil || d < time.Microsecond || d > time.Hour {
		return o, fmt.Errorf("%q: want a time of 1us to 1h, as in 5ms", strings.TrimSpace(limit))
	}
	return results.Objective{Kind: words[0], Time: words[1], Metric: analysis.Metrics[slices.Index(metrics, words[2])].Name, LimitUS: d.Microseconds()}, nil
}
