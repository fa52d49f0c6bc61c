// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/kvbench/kvbench/analysis/availability"
	"github.com/kvbench/kvbench/analysis/foreign"
	"github.com/kvbench/kvbench/internal/objective"
	"github.com/kvbench/kvbench/internal/prices"
	"github.com/kvbench/kvbench/internal/results"
)

// Run is one run's results, read and merged.
type Run struct {
	record   *results.Run
	prices   *prices.Prices // nil: not known
	events   []results.Event
	warnings []string
	missing  []string            // what is not here, or not whole, that the run has written
	probe    *availability.Probe // nil: there was none, or what it saw is not here
	workers  []*worker
	window   window

	fleet    totals
	byWorker []*totals
	series   []Point
	detail   *Detail
	answers  answers
	blocks   *blocks
	sent     *sentBins
	servers  map[string][]results.ServerSample // by store
	pd       []results.ServerSample
	course   course
}

// ID is the run's name.
func (r *Run) ID() string { return r.record.RunID }

// Demand adds objectives to those that the run was given, for its report to judge.
func (r *Run) Demand(more ...objective.Objective) {
	r.record.Limits.SLO = objective.Union(r.record.Limits.SLO, more)
}

// maxWarnings bounds how much a damaged directory can say.
const maxWarnings = 20

// Load reads the directory of one run. What can be read of a damaged one is
// read, and the report says what could not.
func Load(dir string) (*Run, error) {
	record, err := results.ReadRun(dir)
	if err != nil {
		return nil, err
	}
	r := &Run{record: record}
	r.readEvents(dir)
	r.readProbe(dir)
	for _, m := range record.Fleet {
		w, err := r.look(dir, m)
		if err != nil {
			return nil, err
		}
		r.workers = append(r.workers, w)
	}
	r.readToldEvents()
	r.readServers()
	r.window = findWindow(record, r.workers)
	if err := r.read(); err != nil {
		return nil, err
	}
	r.countProbe()
	return r, nil
}

func (r *Run) warn(worker string, err error) {
	text := err.Error()
	if worker != "" {
		text = worker + ": " + text
	}
	switch {
	case len(r.warnings) < maxWarnings:
		r.warnings = append(r.warnings, text)
	case len(r.warnings) == maxWarnings:
		r.warnings = append(r.warnings, "and more")
	}
}

// look finds out how far a worker came, and what of its journal is not there.
func (r *Run) look(dir string, m results.Member) (*worker, error) {
	path, err := results.WorkerDir(dir, m.Name)
	if err != nil {
		return nil, err
	}
	w := &worker{member: m, dir: path}
	if info, err := results.ReadWorker(path); err == nil {
		w.info = *info
	} else if !errors.Is(err, fs.ErrNotExist) {
		r.warn(m.Name, err)
	}
	w.journal = true
	for s, err := range results.Seconds(path) {
		var line *results.LineError
		switch {
		case err == nil:
			if w.intervals == 0 {
				w.begin = s.Start
			}
			if s.Start > w.end {
				w.gaps = append(w.gaps, gap{w.end, s.Start})
			}
			w.intervals++
			w.end = max(w.end, s.End)
			w.worked = w.worked || s.OK+s.Missing+s.Wrong+s.Failed > 0
		case errors.As(err, &line): // warned of when the journal is read
		case errors.Is(err, fs.ErrNotExist):
			w.journal = false
			r.warn(m.Name, errors.New("its journal is not there"))
		default:
			return nil, err
		}
	}
	w.complete = w.info.State == results.Finished
	if w.complete {
		if end := results.Duration(w.info.EndS); w.end < end {
			w.gaps = append(w.gaps, gap{w.end, end})
		}
	}
	r.missing = append(r.missing, w.lacks()...)
	w.lost = m.State == results.Lost || m.State == results.Failed || w.info.State != results.Finished || !w.journal
	return w, nil
}

// stream is how one worker's intervals go to whoever merges them, and come back for the next ones.
type stream struct{ full, free chan *results.Interval }

func newStream() stream {
	// One is being filled, one merged, and one waits between.
	const intervals = 3
	s := stream{make(chan *results.Interval, intervals), make(chan *results.Interval, intervals)}
	for range intervals {
		s.free <- new(results.Interval)
	}
	return s
}

// read merges the journals. Each is read by a goroutine of its own, which adds up what is the worker's; what is the fleet's is
// added up in the order of time, so that only one bin of the series is held.
func (r *Run) read() error {
	end := time.Duration(0)
	for _, w := range r.workers {
		end = max(end, w.end)
		r.byWorker = append(r.byWorker, &totals{})
	}
	var (
		wg      sync.WaitGroup
		tracks  = newTracks(r.workers, end, r.record.Paced)
		streams = make([]stream, len(r.workers))
		errs    = make([]error, len(r.workers))
		mu      sync.Mutex // of warnings
	)
	for i, w := range r.workers {
		streams[i] = newStream()
		wg.Go(func() {
			defer close(streams[i].full)
			if !w.journal {
				return
			}
			add := func(iv *results.Interval) {
				r.byWorker[i].add(iv, &r.window)
				tracks.add(i, iv)
			}
			errs[i] = readJournal(w.dir, streams[i], add, func(err error) {
				mu.Lock()
				defer mu.Unlock()
				r.damaged(w, err)
			})
		})
	}
	heat := r.merge(streams, end, tracks)
	wg.Wait()
	r.detail = tracks.detail()
	r.detail.Heat = heat
	for i, t := range r.byWorker {
		r.fleet.merge(t)
		r.missing = append(r.missing, t.told.differ(r.workers[i].member.Name, r.record.Paced)...)
	}
	return errors.Join(errs...)
}

// readJournal passes each interval of a journal to add, and then to the stream.
func readJournal(dir string, to stream, add func(*results.Interval), warn func(error)) error {
	j, err := results.OpenJournal(dir, warn)
	if err != nil {
		return err
	}
	defer j.Close()
	for {
		iv := <-to.free
		switch err := j.Next(iv); {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", dir, err)
		}
		add(iv)
		to.full <- iv
	}
}

// merge adds up the intervals of all workers, the earliest first, and returns the heat maps.
func (r *Run) merge(streams []stream, end time.Duration, tracks *tracks) []Heat {
	series := newSeries(&r.window, end)
	r.blocks = newBlocks(&r.window)
	r.sent = newSentBins(end)
	r.course = newCourse(r, series)
	heads := make([]*results.Interval, len(streams))
	for i, s := range streams {
		heads[i] = <-s.full
	}
	for {
		first := -1
		for i, head := range heads {
			if head != nil && (first < 0 || head.Start < heads[first].Start) {
				first = i
			}
		}
		if first < 0 {
			break
		}
		iv := heads[first]
		series.add(iv)
		tracks.addStores(iv)
		r.answers.add(iv)
		r.blocks.add(iv)
		r.sent.add(iv)
		r.course.add(iv)
		streams[first].free <- iv
		heads[first] = <-streams[first].full
	}
	r.series = series.close()
	r.blocks.close()
	return series.heat()
}

// LoadAll loads the runs that paths stand for: directories of runs, or
// directories that hold such, oldest first.
func LoadAll(paths ...string) ([]*Run, error) {
	var runs []*Run
	for _, path := range paths {
		dirs, err := results.Find(path)
		if err != nil {
			return nil, err
		}
		for _, dir := range dirs {
			r, err := Load(dir)
			if err != nil {
				return nil, err
			}
			runs = append(runs, r)
		}
	}
	return runs, nil
}

// LoadAny loads what paths stand for: runs, as [LoadAll] does, and results of other tools.
func LoadAny(o foreign.Options, paths ...string) (*Set, error) {
	set := new(Set)
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		noRun := error(nil)
		if info.IsDir() {
			runs, err := LoadAll(path)
			if err == nil {
				set.Runs = append(set.Runs, runs...)
				continue
			}
			if noRun = err; !errors.Is(err, results.ErrNoRun) {
				return nil, err
			}
		}
		others, err := foreign.Load(path, o)
		if errors.Is(err, foreign.ErrNone) && noRun != nil {
			err = fmt.Errorf("%w; and %w", noRun, foreign.ErrNone)
		}
		if err != nil {
			return nil, err
		}
		set.Foreign = append(set.Foreign, others...)
	}
	return set, nil
}
