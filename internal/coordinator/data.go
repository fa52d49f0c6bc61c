// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/manifest"
	"github.com/kvbench/kvbench/internal/spec"
)

// settleRecords decides which records a run uses whose user has left that open: those
// that were loaded, if that is remembered. All workers are then told the same.
func (f *Fleet) settleRecords(ctx context.Context, job *Job) error {
	s := job.Spec
	if !s.RecordsOpen() {
		return nil
	}
	var loaded manifest.Range
	if s.Manifest != spec.None {
		var err error
		if loaded, err = f.loaded(ctx, job); err != nil {
			return err
		}
	}
	warning := fmt.Sprintf("recordcount is not set: %d records assumed", s.Records)
	properties := s.Properties()
	if loaded.Count > 0 {
		warning = fmt.Sprintf("recordcount is not set: the %d records that were loaded are used", loaded.Count)
		maps.Copy(properties, loaded.Properties())
	}
	settled, err := spec.ParseMap(properties)
	if err != nil {
		return exitcode.With(exitcode.Usage, fmt.Errorf("%s: %w", warning, err))
	}
	settled.Warnings = append(slices.Clone(s.Warnings), warning)
	job.Spec = settled
	job.Warn(warning)
	return nil
}

// loaded asks one worker which records were loaded into the table; an empty range if
// nothing is remembered.
func (f *Fleet) loaded(ctx context.Context, job *Job) (manifest.Range, error) {
	m := f.members[0]
	asked, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	resp, err := m.take(asked, &workerpb.PrepareRequest{
		RunId:      job.RunID,
		Properties: job.Spec.Properties(),
		Workers:    1,
		LeaseNanos: int64(job.Lease),
		Name:       m.name,
		RecallOnly: true,
	})
	if err == nil {
		freed, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		_, err = m.client.Stop(freed, &workerpb.StopRequest{RunId: job.RunID})
	}
	if err != nil {
		return manifest.Range{}, failures(map[string]error{m.name: err}, f.Size())
	}
	if job.Spec.Manifest == spec.InStore {
		return manifest.Range{Start: resp.GetLoaded().GetStart(), Count: resp.GetLoaded().GetCount()}, nil
	}
	kept, err := manifest.ReadFile(job.manifestFile(resp.GetCluster().GetId()))
	var records manifest.Range
	if err == nil {
		records, err = kept.Records()
	}
	return records, exitcode.With(exitcode.Usage, err)
}

// checkData looks at what the workers found in the store, before anything is
// started: warnings go to the user, and a load of what is there already ends here.
func (r *running) checkData() error {
	s := r.job.Spec
	for _, p := range r.workers {
		for _, w := range p.warnings {
			if !slices.Contains(r.warnings, w) {
				r.warnings = append(r.warnings, w)
			}
		}
	}
	present, complete := r.workers[0].present, true
	for _, p := range r.workers {
		present, complete = min(present, p.present), complete && p.complete
	}
	r.operations = s.Operations
	if s.Phase == spec.Load {
		r.operations = s.InsertCount - present
	}
	if s.Manifest == spec.InResults {
		var err error
		if complete, err = r.checkFile(); err != nil {
			return err
		}
	}
	switch {
	case s.Phase != spec.Load:
	case complete:
		return exitcode.With(exitcode.Valid, fmt.Errorf("nothing to do: all %d records are in the store already; -p reload=true loads them again", s.InsertCount))
	case present > 0:
		r.warnings = append(r.warnings, fmt.Sprintf("the load goes on where it stood: %d of %d records are in the store already", present, s.InsertCount))
	}
	for _, w := range r.warnings {
		r.job.Warn(w)
	}
	return nil
}

// The manifest in the results directory, for users who forbid writing it into the
// store. It is written when a load is complete: one that is broken off begins anew.

func (j *Job) manifestFile(cluster uint64) string {
	return filepath.Join(j.Out, manifest.FileName(cluster, j.Spec.Key.Table))
}

func (r *running) manifestFile() string {
	var cluster uint64
	for _, p := range r.workers {
		if cluster == 0 {
			cluster = p.cluster.GetId()
		}
	}
	return r.job.manifestFile(cluster)
}

// checkFile compares the run with the manifest in the results directory, and tells
// whether a load has nothing left to do.
func (r *running) checkFile() (complete bool, err error) {
	s := r.job.Spec
	m, err := manifest.ReadFile(r.manifestFile())
	if err != nil {
		return false, exitcode.With(exitcode.Usage, err)
	}
	if s.Phase == spec.Load {
		plan, err := manifest.ForLoad(s, r.job.RunID, m, nil)
		if err != nil {
			return false, exitcode.With(exitcode.Usage, err)
		}
		r.warnings = append(r.warnings, plan.Warnings...)
		r.plan = plan
		return plan.Complete, nil
	}
	if m == nil {
		r.warnings = append(r.warnings, fmt.Sprintf("%s is not there: nothing is remembered of a load of table %q", r.manifestFile(), s.Key.Table))
		return false, nil
	}
	warnings, err := manifest.ForRun(s, m)
	r.warnings = append(r.warnings, warnings...)
	if err != nil {
		return false, exitcode.With(exitcode.Usage, err)
	}
	return false, nil
}

// remember writes the manifest of a load that every worker has finished.
func (r *running) remember() error {
	if r.plan == nil {
		return nil
	}
	return manifest.WriteFile(r.manifestFile(), r.plan.Done())
}
