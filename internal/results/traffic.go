// SPDX-License-Identifier: Apache-2.0

package results

import (
	"encoding/json"
	"fmt"

	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/store"
)

// Traffic is a line of traffic.jsonl: what a worker's driver has sent to one store
// in one interval, of the warm-up as well.
type Traffic struct {
	StartS float64 `json:"start_s"`
	EndS   float64 `json:"end_s"`
	store.Traffic
}

func (j *Journal) appendTraffic(iv *measure.Interval, traffic []store.Traffic) error {
	for i := range traffic {
		if traffic[i].Empty() {
			continue
		}
		line, err := json.Marshal(Traffic{seconds(iv.Start), seconds(iv.End), traffic[i]})
		if err != nil {
			return fmt.Errorf("encode traffic: %w", err)
		}
		j.buf = append(append(j.buf, line...), '\n')
	}
	return nil
}

// trafficLine is a line of traffic.jsonl.
type trafficLine struct {
	span
	store.Traffic
}

func parseTraffic(line []byte) (t trafficLine, err error) {
	parsed, err := parseJSON[Traffic](line)
	if err != nil {
		return t, err
	}
	if !(parsed.StartS >= 0 && parsed.StartS <= parsed.EndS && parsed.EndS <= maxSeconds) {
		return t, fmt.Errorf("from %g to %g s cannot be", parsed.StartS, parsed.EndS)
	}
	t.span, t.Traffic = span{Duration(parsed.StartS), Duration(parsed.EndS)}, parsed.Traffic
	counts := []int64{t.Messages, t.Commands, t.Unsent, t.Breaks}
	for size, n := range t.Sizes {
		counts = append(counts, n, int64(size))
	}
	for _, n := range t.Kinds {
		counts = append(counts, n)
	}
	for _, n := range t.Fallbacks {
		counts = append(counts, n)
	}
	for _, n := range counts {
		if n < 0 || n > maxCount {
			return t, fmt.Errorf("%d is out of range", n)
		}
	}
	return t, nil
}
