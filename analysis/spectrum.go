// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/workload"
)

// Spectrum is the whole distribution of a latency of a run's answered operations.
type Spectrum struct {
	Run       string
	Kind      string // or [AllKinds]
	Time      string // "service" or "response"
	Histogram *hdrhistogram.Histogram
}

// Reach is where the histogram ends, in microseconds, if latencies lie beyond; else 0.
func (s *Spectrum) Reach() int64 {
	if beyond, reach := measure.Reach(s.Histogram); s.Histogram.Max() >= beyond {
		return reach
	}
	return 0
}

// Spectra are those of a run: first that of all kinds, of the response time if there is one.
func (r *Run) Spectra() []Spectrum {
	var all []Spectrum
	add := func(kind string, is func(workload.Kind) bool) {
		row := r.answeredOf(is)
		for _, s := range []Spectrum{{r.ID(), kind, "response", row.response}, {r.ID(), kind, "service", row.service}} {
			if s.Histogram != nil && s.Histogram.TotalCount() > 0 {
				all = append(all, s)
			}
		}
	}
	add(AllKinds, anyKind)
	for k := range workload.Kind(workload.Kinds) {
		add(k.String(), func(of workload.Kind) bool { return of == k })
	}
	return all
}
