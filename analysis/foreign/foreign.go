// SPDX-License-Identifier: Apache-2.0

// Package foreign reads what other load generators have measured: tikvbench's results, HdrHistogram interval logs of any
// maker, and the summaries that go-ycsb and YCSB print. It streams, so that memory does not grow with the
// number of operations; what it leaves out it names, with file and line; and it says what such results cannot tell.
package foreign

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/units"
)

// The makers of results.
const (
	TikvBench    = "tikvbench"
	HdrHistogram = "HdrHistogram interval log"
	GoYCSB       = "go-ycsb"
	YCSB         = "YCSB"
)

// AllKinds is the name of the row of all operations together.
const AllKinds = "TOTAL"

// Result is what one run of another tool has measured, as far as its files tell. Times named _s are seconds.
type Result struct {
	Name  string     `json:"name"`
	Path  string     `json:"path"`
	Maker string     `json:"maker"`
	Start *time.Time `json:"start,omitempty"` // of the first operation or interval; absent: unknown
	SpanS float64    `json:"span_s"`          // from there to the end of the last; 0: unknown
	Rated string     `json:"rated"`           // over what rates are, in words; "": there are none

	Settings map[string]string `json:"settings"` // as the tool was given them

	Percentiles []float64 `json:"percentiles,omitempty"` // those that were asked for

	SourcesExpected int        `json:"sources_expected"` // clients that were asked for; 0: unknown
	Sources         []Source   `json:"sources"`
	Rows            []Measured `json:"rows"`

	LeftOut  int64    `json:"lines_left_out"`
	Problems []Unread `json:"problems"` // the first of what was left out
	Missing  []string `json:"missing"`
	Notes    []string `json:"notes"`
	Unknown  []string `json:"unknown"` // what results of this kind cannot tell
}

// Source is one client's part.
type Source struct {
	Name      string           `json:"name"`
	Samples   int64            `json:"samples"`
	Failed    int64            `json:"failed"`
	StartS    float64          `json:"start_s"` // after the result's start, by the client's own clock
	EndS      float64          `json:"end_s"`
	ServiceUS *measure.Latency `json:"service_us,omitempty"` // of what succeeded; absent: unknown
}

// Values of Measured.Time.
const (
	Service  = "service"
	Response = "response"
	Either   = "unknown" // the file does not tell
)

// Values of Measured.Outcome.
const (
	OK     = "ok"
	Failed = "failed"
)

// Measured is one kind of operation with one outcome. Its latency is a merged histogram's or, where a tool
// printed numbers alone, those: they are never merged with others.
type Measured struct {
	Kind      string             `json:"kind"`
	Outcome   string             `json:"outcome"`
	Time      string             `json:"time"` // what the latency is
	Samples   int64              `json:"samples"`
	PerS      float64            `json:"per_s"` // 0: unknown
	LatencyUS *measure.Latency   `json:"latency_us,omitempty"`
	Printed   map[string]float64 `json:"printed_us,omitempty"` // by their names in a latency, and "min"
}

// Number returns a number of the row's latency in microseconds, by its name as in "p99_9"; false if it is
// not known, or not exactly.
func (m *Measured) Number(name string) (float64, bool) {
	if m.LatencyUS == nil {
		v, ok := m.Printed[name]
		return v, ok
	}
	metric, ok := measure.MetricNamed(name)
	if !ok {
		var us int64
		us, ok = m.LatencyUS.Percentiles[name]
		metric = measure.Metric{Name: name, Of: func(*measure.Latency) float64 { return float64(us) }}
	}
	if !ok || !metric.Known(m.LatencyUS) {
		return 0, false
	}
	return metric.Of(m.LatencyUS), true
}

// Unread is a line, or a file, that could not be read.
type Unread struct {
	File string `json:"file"`
	Line int64  `json:"line,omitempty"`
	Text string `json:"text"`
}

func (p Unread) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.Text
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
}

// Whole tells whether nothing is known to be missing.
func (r *Result) Whole() bool { return len(r.Missing) == 0 && r.LeftOut == 0 }

// Code is the exit code of the result's verdict.
func (r *Result) Code() int {
	if r.Whole() {
		return exitcode.Valid
	}
	return exitcode.Degraded
}

// Verdict says in a sentence how far the result can be trusted.
func (r *Result) Verdict() string {
	switch {
	case len(r.Missing) > 0:
		return "degraded: something is missing"
	case r.LeftOut > 0:
		return fmt.Sprintf("degraded: %s %s left out", units.Count(r.LeftOut), units.Plural(r.LeftOut, "line was", "lines were"))
	}
	return "read whole; whether the run was a good one, such results do not tell"
}

// maxProblems bounds how many problems are shown of one result.
const maxProblems = 8

// leave notes something that is left out.
func (r *Result) leave(problems []Unread, all int64) {
	r.LeftOut += all
	r.Problems = append(r.Problems, problems[:min(len(problems), maxProblems-len(r.Problems))]...)
}

func (r *Result) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

func (r *Result) miss(format string, args ...any) {
	r.Missing = append(r.Missing, fmt.Sprintf(format, args...))
}

// newResult returns an empty result; its lists are never nil, since JSON shows them.
func newResult(path, maker string, o Options) *Result {
	name := filepath.Base(path)
	if absolute, err := filepath.Abs(path); err == nil {
		name = filepath.Base(absolute)
	}
	return &Result{Name: name, Path: path, Maker: maker, Percentiles: o.Percentiles, Settings: map[string]string{}, Sources: []Source{}, Rows: []Measured{},
		Problems: []Unread{}, Missing: []string{}, Notes: []string{}, Unknown: []string{}}
}

// Options say how results are read.
type Options struct {
	Unit        Unit      // of interval logs that do not tell theirs
	Percentiles []float64 // of latencies, beside those that every one has
}

// Load reads the results that path stands for: a file; the directory of a tikvbench run, or one that holds those of several;
// or a directory of interval logs, which are taken for those of one run. [ErrNone] says that there are none.
func Load(path string, o Options) ([]*Result, error) {
	real, err := filepath.EvalSymlinks(path) // what the user has named may be a link
	if err != nil {
		return nil, err
	}
	if !isDir(real) {
		r, err := loadFile(path, real, o)
		if err != nil {
			return nil, err
		}
		return []*Result{r}, nil
	}
	if isTikvBench(real) {
		r, err := loadTikvBench(path, real, o)
		return []*Result{r}, err
	}
	if logs := logsIn(real); len(logs) > 0 {
		r, err := loadLogs(path, real, logs, o)
		return []*Result{r}, err
	}
	var all []*Result
	entries, err := os.ReadDir(real)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if below := filepath.Join(real, e.Name()); e.IsDir() && isTikvBench(below) {
			r, err := loadTikvBench(filepath.Join(path, e.Name()), below, o)
			if err != nil {
				return nil, err
			}
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: %w", path, ErrNone)
	}
	return all, nil
}

// ErrNone is of a path at which there are no results.
var ErrNone = errors.New("no results of another tool: want the directory of a tikvbench run (cmd.txt, */results.csv), HdrHistogram interval logs (.hdr, .hlog), or a file with the summary that go-ycsb or YCSB printed")

// exists tells whether a file or directory is there.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// logSuffixes are those of the names of interval logs; .gz may follow.
var logSuffixes = []string{".hdr", ".hlog"}

// logsIn lists the interval logs directly in a directory, by their names.
func logsIn(dir string) (names []string) {
	entries, _ := os.ReadDir(dir) // one that cannot be read has none; whoever goes on reads it again, and says so
	for _, e := range entries {
		if e.Type()&fs.ModeType == 0 && plainFileName(e.Name()) != strings.TrimSuffix(e.Name(), ".gz") {
			names = append(names, e.Name())
		}
	}
	return names
}

// plainFileName is the name of an interval log without what tells its form.
func plainFileName(name string) string {
	name = strings.TrimSuffix(name, ".gz")
	for _, suffix := range logSuffixes {
		name = strings.TrimSuffix(name, suffix)
	}
	return name
}
