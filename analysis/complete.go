// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/pace"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/units"
)

// What a results directory should hold follows from what the run has recorded, never from
// what is found: files have the length with which they were closed, intervals follow each other from
// zero to the end that the worker recorded, and the files tell of the same operations.

// readEvents reads the events. A run that was collected from its workers has none.
func (r *Run) readEvents(dir string) {
	for e, err := range results.Events(dir) {
		switch {
		case err == nil:
			r.events = append(r.events, e)
		case errors.Is(err, fs.ErrNotExist):
			return
		default:
			r.warn("", err)
			r.missing = append(r.missing, "a part of "+results.EventsFile)
		}
	}
	if len(r.events) == 0 {
		r.missing = append(r.missing, results.EventsFile+" is empty")
	}
}

// readToldEvents adds what the workers were told of. What several were told is one event.
func (r *Run) readToldEvents() {
	type told struct {
		s          float64
		kind, text string
	}
	seen := make(map[told]bool)
	for _, w := range r.workers {
		for e, err := range results.Events(w.dir) {
			if len(seen) == results.MaxToldEvents {
				r.warn(w.member.Name, fmt.Errorf("%s: only the first %d events are shown", results.EventsFile, len(seen)))
				break
			}
			var line *results.LineError
			switch {
			case err == nil:
				if id := (told{e.S, e.Kind, e.Text}); !seen[id] {
					seen[id] = true
					e.At = r.record.Start.Add(results.Duration(e.S)) // by one clock for all
					r.events = append(r.events, e)
				}
			case errors.Is(err, fs.ErrNotExist):
				if w.info.Bytes[results.EventsFile] > 0 {
					r.lacks(w.member.Name, results.EventsFile+" is not there")
				}
			case errors.As(err, &line):
				r.damaged(w, err)
			default:
				r.warn(w.member.Name, err)
			}
		}
	}
	slices.SortStableFunc(r.events, func(a, b results.Event) int { return cmp.Compare(a.S, b.S) })
}

// damaged notes what of a worker's journal cannot be read. A line that a kill has torn is
// what the loss of a worker looks like, and nothing else.
func (r *Run) damaged(w *worker, err error) {
	r.warn(w.member.Name, err)
	var line *results.LineError
	switch {
	case errors.As(err, &line):
		if !line.Torn || w.complete {
			r.lacks(w.member.Name, "lines of "+line.File)
		}
	case errors.Is(err, fs.ErrNotExist):
		var path *fs.PathError
		if errors.As(err, &path) {
			r.lacks(w.member.Name, filepath.Base(path.Path)+" is not there")
		}
	default:
		r.lacks(w.member.Name, err.Error())
	}
}

// lacks notes once what is missing of a worker.
func (r *Run) lacks(worker, what string) {
	if text := worker + ": " + what; !slices.Contains(r.missing, text) {
		r.missing = append(r.missing, text)
	}
}

// lacks says what is not there of what the worker has recorded.
func (w *worker) lacks() (missing []string) {
	say := func(format string, args ...any) {
		missing = append(missing, w.member.Name+": "+fmt.Sprintf(format, args...))
	}
	if !w.complete {
		if w.member.State == results.Finished {
			say("%s does not say that it was closed", results.WorkerFile)
		}
		return missing
	}
	for _, name := range slices.Sorted(maps.Keys(w.info.Bytes)) {
		// One that is not there is named when it is read.
		if info, err := os.Stat(filepath.Join(w.dir, filepath.Base(name))); err == nil && info.Size() != w.info.Bytes[name] {
			say("%s has %s of %s bytes", name, units.Count(info.Size()), units.Count(w.info.Bytes[name]))
		}
	}
	for _, g := range w.gaps {
		say("%s holds nothing from %.1f to %.1f s", results.SecondsFile, g.from.Seconds(), g.to.Seconds())
	}
	return missing
}

// told is how many operations, batches and errors each of a journal's files tells of, warm-up and all.
type told struct {
	seconds, counts, failed, texts int64 // operations: by seconds.csv and counts.csv; failed ones by counts.csv and errors.jsonl
	batches, service, response     int64 // batches: by counts.csv, and those in the histograms
}

func (d *told) add(iv *results.Interval) {
	d.seconds += iv.OK + iv.Missing + iv.Wrong + iv.Failed
	for _, c := range []*results.Counts{&iv.Window, &iv.Warmup} {
		for i, n := range c.Rows {
			d.counts += n.Operations
			d.batches += n.Batches
			if !answered(measure.Row(i)) {
				d.failed += n.Operations
			}
		}
	}
	for _, h := range iv.Histograms {
		switch h.Quantity {
		case results.Service:
			d.service += h.TotalCount()
		case results.Response:
			d.response += h.TotalCount()
		}
	}
	for _, e := range iv.Errors {
		d.texts += e.Count
	}
}

// differ says where the files of a journal do not tell of the same.
func (d *told) differ(worker string, paced bool) (missing []string) {
	responses := d.batches
	if !paced {
		responses = 0
	}
	for _, c := range []struct {
		file        string
		has, should int64
		what        string
	}{
		{results.CountsFile, d.counts, d.seconds, "operations"},
		{results.HistogramsFile, d.service, d.batches, "service times"},
		{results.HistogramsFile, d.response, responses, "response times"},
		{results.ErrorsFile, d.texts, d.failed, "errors"},
	} {
		if c.has != c.should {
			missing = append(missing, fmt.Sprintf("%s: %s holds %s of %s %s", worker, c.file, units.Count(c.has), units.Count(c.should), c.what))
		}
	}
	return missing
}

// due is how many operations the run was asked for in the time over which rates are taken. Journals
// say it, also where the target was changed on the way; where they say nothing, the run's record does.
func (r *Run) due() float64 {
	sum, profile := r.fleet.due, r.profile()
	if profile == nil {
		return sum
	}
	share := 1 / float64(max(r.record.Plan.Workers, len(r.workers), 1))
	fill := func(g gap) {
		if from, to := max(g.from, r.window.from), min(g.to, r.window.to); from < to {
			sum += share * (profile.Count(to) - profile.Count(from))
		}
	}
	for _, w := range r.workers {
		for _, g := range w.gaps {
			fill(g)
		}
		if !w.complete {
			fill(gap{w.end, r.window.to})
		}
	}
	for range r.record.Plan.Workers - len(r.workers) {
		fill(gap{r.window.from, r.window.to})
	}
	return sum
}

// profile is the target over time that the run began with; nil if its record does not tell.
func (r *Run) profile() *pace.Profile {
	if s, err := spec.ParseMap(r.record.Spec); err == nil && s.Paced() {
		if p, err := s.Profile(); err == nil {
			return &p
		}
	}
	if p, err := pace.NewProfile(pace.Stage{From: r.record.Target, To: r.record.Target}); err == nil {
		return &p
	}
	return nil
}
