// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/kvbench/kvbench/internal/atomicfile"
	"github.com/kvbench/kvbench/internal/plainfile"
	"github.com/kvbench/kvbench/internal/results"
)

// Summary is what a list of runs shows of one.
type Summary struct {
	RunID    string          `json:"run_id"`
	Dir      string          `json:"dir"`
	Start    time.Time       `json:"start"`
	Phase    string          `json:"phase"`
	State    results.State   `json:"state"`
	Label    string          `json:"label,omitempty"`
	Note     string          `json:"note,omitempty"`
	Workload string          `json:"workload"`
	Workers  int             `json:"workers"`
	Threads  int             `json:"threads"` // per worker
	Target   float64         `json:"target_ops"`
	OpsPerS  float64         `json:"ops_per_s"`
	WindowS  float64         `json:"window_s"`
	Verdict  results.Verdict `json:"verdict"`
	Kinds    []KindRow       `json:"kinds"`
}

// summaryFile keeps a run's summary beside its results: to merge the histograms of hundreds of runs takes minutes. It is no
// name of a worker, see CheckName of internal/results.
const summaryFile = ".summary.json"

const maxSummary = 1 << 20

// kept is what summaryFile holds.
type kept struct {
	Of string `json:"of"` // the files that it is of, see fingerprint
	Summary
}

// SummaryOf returns the summary of a run's directory: the one that is kept there, if no file has changed since; else it is made
// anew, and kept if that can be.
func SummaryOf(dir string) (*Summary, error) {
	of, err := fingerprint(dir)
	if err != nil {
		return nil, err
	}
	var k kept
	text, err := plainfile.ReadIn(dir, summaryFile, maxSummary)
	if err == nil && json.Unmarshal(text, &k) == nil && k.Of == of {
		k.Dir = dir // it may have been moved
		return &k.Summary, nil
	}
	r, err := Load(dir)
	if err != nil {
		return nil, err
	}
	p := r.Report()
	s := Summary{RunID: p.RunID, Dir: dir, Start: p.Start, Phase: p.Phase, State: p.State, Label: p.Label, Note: p.Note, Workload: p.Workload, Workers: p.WorkersExpected,
		Threads: p.Plan.Threads, Target: p.TargetOps, OpsPerS: p.OpsPerS, WindowS: p.WindowS, Verdict: p.Verdict, Kinds: p.Kinds}
	if text, err := json.Marshal(kept{of, s}); err == nil && len(text) <= maxSummary {
		// A folder that cannot be written is read anew the next time.
		_ = atomicfile.Write(filepath.Join(dir, summaryFile), text, 0o666)
	}
	return &s, nil
}

// fingerprint changes whenever a file of a run's directory does: it is of their names, lengths and times.
func fingerprint(dir string) (string, error) {
	h := fnv.New64a()
	fmt.Fprintf(h, "document %d\n", DocumentVersion)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			return err
		}
		info, err := e.Info()
		if err == nil {
			fmt.Fprintf(h, "%s %d %d\n", strings.TrimPrefix(path, dir), info.Size(), info.ModTime().UnixNano())
		}
		return err
	})
	return fmt.Sprintf("%016x", h.Sum64()), err
}

// Total is the row of all kinds; nil if there is none.
func (s *Summary) Total() *KindRow {
	for i := range s.Kinds {
		if s.Kinds[i].Kind == AllKinds {
			return &s.Kinds[i]
		}
	}
	return nil
}
