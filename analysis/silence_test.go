// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/results"
)

// Answers of many intervals are held as few spans, between which the same silences lie.
func TestSilencesOfMergedAnswers(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(9, 10))
	between := func(from, to time.Duration) time.Duration {
		return from + time.Duration(random.Int64N(int64(to-from)+1))
	}
	const end = 60 * time.Second
	for round := range 300 {
		record := &results.Run{State: results.Finished, WindowS: end.Seconds()}
		workers := []*worker{{end: end}}
		merged, single := &Run{record: record, workers: workers}, &Run{record: record, workers: workers}
		for start := time.Duration(0); start < end; start += between(0, 2*time.Second) {
			iv := &results.Interval{Second: results.Second{Start: start, End: start + between(0, 3*time.Second)}}
			first := between(iv.Start, iv.End)
			iv.Answers = measure.Answers{First: first, Last: between(first, iv.End)}
			if iv.Answers.Last == 0 {
				continue
			}
			merged.answers.add(iv)
			single.answers.spans = append(single.answers.spans, iv.Answers)
		}
		from, to := between(0, end/2), between(end/2, end)
		got, want := merged.silences(from, to), single.silences(from, to)
		if !slices.Equal(got, want) {
			t.Fatalf("round %d: %v, want %v", round, got, want)
		}
		if m, n := len(merged.answers.spans), len(single.answers.spans); m >= n {
			t.Errorf("round %d: of %d spans %d are left", round, n, m)
		}
	}
}
