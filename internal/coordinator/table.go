// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"

	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/workload"
)

// Verify verifies that a table holds the records that it should and nothing else.
// The workers scan the whole table; if that does not account for every record, each
// one is got, to tell which. Every pass has a summary. The error says what was found.
func (f *Fleet) Verify(ctx context.Context, job Job) ([]*Summary, error) {
	if job.Warn == nil {
		job.Warn = func(string) {}
	}
	if job.Spec.Verify != spec.ByScan { // it is that of the load
		var err error
		if job.Spec, err = passOf(job.Spec.Properties(), spec.ByScan); err != nil {
			return nil, err
		}
	}
	scan, err := f.Run(ctx, job)
	if scan == nil {
		return nil, err
	}
	all := []*Summary{scan}
	v := scan.Run.Verification
	if v == nil || v.Missing == 0 || ctx.Err() != nil {
		return all, err
	}
	job.RunID = ""
	var getErr error
	if job.Spec, getErr = passOf(scan.Run.Spec, spec.ByGet); getErr != nil {
		return all, errors.Join(err, getErr)
	}
	get, getErr := f.Run(ctx, job)
	if get == nil {
		return all, errors.Join(err, getErr)
	}
	all = append(all, get)
	w := get.Run.Verification
	if w == nil || !w.Complete() {
		return all, errors.Join(err, getErr)
	}
	// Of records, and their rows, the second pass knows better. What no record has, the first alone can have seen.
	unexpected := *v
	unexpected.Missing, unexpected.Wrong, unexpected.Problems = 0, 0, nil
	for _, p := range v.Problems {
		if !slices.ContainsFunc(w.Problems, func(other results.Problem) bool { return other.Key == p.Key }) {
			unexpected.Problems = append(unexpected.Problems, p)
		}
	}
	return all, errors.Join(verdictOf(&unexpected), getErr, leftOut(job, v, w))
}

// leftOut judges the records that a scan of the whole table did not find, and that are there. Hashes of numbers that are
// not one-to-one give some of them one key; no more than chance explains are taken for that.
func leftOut(job Job, scan, get *results.Verification) error {
	n := scan.Missing - get.Missing
	if n <= 0 {
		return nil
	}
	key := job.Spec.Key
	if key.Hash != spec.Mix && key.Order == spec.Hashed && float64(n) <= mostCollisions(job.Spec.InsertCount) {
		job.Warn(fmt.Sprintf("%d records share their keys with others: keyhash=%s is not one-to-one, keyhash=%s is", n, key.Hash, spec.Mix))
		return nil
	}
	return exitcode.With(exitcode.Wrong, fmt.Errorf("a scan of the whole table left out at least %d records that are there when they are got: scans lose rows, or somebody wrote to the table meanwhile", n))
}

// mostCollisions is how many of n records may share a key with an earlier one by chance, where keys are
// hashes of 63 bits: the expected number of pairs, and six standard deviations of the Poisson distribution. Below a hundredth of a pair it is 0.
func mostCollisions(n int64) float64 {
	pairs := float64(n) * float64(n) / (1 << 64)
	if pairs < 0.01 {
		return 0
	}
	return math.Ceil(pairs + 6*math.Sqrt(pairs))
}

// passOf is a specification of a verification by that way.
func passOf(properties map[string]string, way string) (*spec.Spec, error) {
	properties = maps.Clone(properties)
	properties["verify"], properties["dotransactions"] = way, "false"
	pass, err := spec.ParseMap(properties)
	if err != nil {
		return nil, exitcode.With(exitcode.Usage, err)
	}
	pass.Warnings = nil // have been said
	return pass, nil
}

// verified joins what the workers of a run found of the table, by their journals in dir.
func verified(s *spec.Spec, record *results.Run, dir string) (*results.Verification, error) {
	v := &results.Verification{Of: results.OfTable, Expected: s.InsertCount, Fraction: 1, Problems: []results.Problem{}}
	all := &workload.Findings{}
	for _, m := range record.Fleet {
		w := &results.Worker{}
		if m.State == results.Finished {
			var err error
			if w, err = results.ReadWorker(filepath.Join(dir, m.Name)); err != nil {
				return nil, err
			}
		}
		if w.Findings == nil {
			v.Partial = true
			v.Notes = append(v.Notes, m.Name+" did not do its part: what it should have read is not known")
			continue
		}
		all.Add(w.Findings)
		for _, problem := range w.Findings.Problems {
			if len(v.Problems) < workload.MaxProblems {
				v.Problems = append(v.Problems, results.Problem{Worker: m.Name, Key: problem.Key, Text: problem.Text})
			}
		}
	}
	if record.StoppedS != nil {
		v.Partial = true
		v.Notes = append(v.Notes, "it was stopped before its end")
	}
	v.Checked, v.Missing, v.Wrong, v.Unexpected, v.Unread = all.Rows, all.Missing, all.Wrong, all.Unexpected, all.Unread
	if s.Verify == spec.ByScan && v.Complete() {
		account(v, all)
	}
	return v, nil
}

// account compares the keys found by a scan of the whole table with those that
// should be there.
func account(v *results.Verification, all *workload.Findings) {
	v.AtLeast = true // a record that is missing and a row that is no record's cancel each other
	switch d := all.Rows - all.Unexpected - all.Expected; {
	case d < 0:
		v.Missing = -d
	case d > 0:
		v.Unexpected += d
	case all.Unexpected == 0 && all.FoundSum != all.ExpectedSum:
		v.Missing, v.Unexpected = 1, 1
		v.Notes = append(v.Notes, "there are as many rows as records, but not under the same keys: at least one is missing, and one is unexpected")
	default:
		v.AtLeast = false
	}
}

// verdictOf is the error of a verification that found something; nil if all is well.
func verdictOf(v *results.Verification) error {
	switch {
	case v == nil:
		return nil
	case v.Bad() > 0:
		text := v.Text()
		for _, p := range v.Problems[:min(len(v.Problems), 5)] {
			text += fmt.Sprintf("\n  key %s %s", p.Key, p.Text)
			if p.AtS != nil {
				text += fmt.Sprintf(" (%s, acknowledged at %.3f s)", p.Worker, *p.AtS)
			}
		}
		return exitcode.With(exitcode.Wrong, errors.New(text))
	case !v.Complete():
		return exitcode.With(exitcode.Degraded, errors.New(v.Text()+"; the verification is not complete"))
	}
	return nil
}
