// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/bits"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/units"
	"github.com/kvbench/kvbench/internal/workload"
)

// Unit is that of the values in an interval log, in nanoseconds; 0 if it is not known.
type Unit int64

// units by their names.
var unitNames = []struct {
	name string
	unit Unit
}{{"ns", 1}, {"us", 1000}, {"ms", 1_000_000}}

// UnitNames are the names of units that an interval log can be in.
func UnitNames() (names []string) {
	for _, u := range unitNames {
		names = append(names, u.name)
	}
	return names
}

func (u *Unit) String() string {
	for _, n := range unitNames {
		if n.unit == *u {
			return n.name
		}
	}
	return ""
}

// Type and Set make a unit the value of a flag.
func (u *Unit) Type() string { return "unit" }

func (u *Unit) Set(text string) error {
	for _, n := range unitNames {
		if n.name == text {
			*u = n.unit
			return nil
		}
	}
	return fmt.Errorf("unit %q is none of %s", text, strings.Join(UnitNames(), ", "))
}

// ErrUnit is of an interval log that does not tell the unit of its values.
var ErrUnit = errors.New("it does not tell the unit of its values: give it (--unit ns, us or ms)")

// intervalUnknown are what interval logs cannot tell.
var intervalUnknown = []string{
	"Whether all clients are here, and whether the run went as it was meant to: an interval log holds latencies alone, without a target, errors or what was never answered.",
}

// isLog tells whether a file that begins so is an interval log.
func isLog(begin []byte) bool {
	for line := range bytes.Lines(begin) {
		line = bytes.TrimSpace(line)
		switch {
		case len(line) == 0:
			continue
		case bytes.HasPrefix(line, []byte("#")), bytes.HasPrefix(line, []byte(`"StartTimestamp"`)), bytes.HasPrefix(line, []byte("Tag=")):
			return true
		}
		fields := bytes.SplitN(line, []byte(","), 4)
		return len(fields) == 4 && bytes.HasPrefix(fields[3], []byte("HIST"))
	}
	return false
}

// distribution is what the intervals of one tag hold together.
type distribution struct {
	sum   measure.Sum
	mean  float64 // the sum of the values, in microseconds, as the intervals' own means have it
	below int64   // values of less than a microsecond
}

// intervalLog is an interval log that is being read. Times are seconds since the epoch or, if the log does not say
// when it began, since then.
type intervalLog struct {
	unit  Unit
	named string // what the log says that it is of

	startS, baseS      float64
	hasStart, hasBase  bool
	firstS, lastS      float64 // of intervals that hold anything, or none
	intervals, instant int64   // and those of no length that hold values
	tags               map[string]*distribution
}

// loadLogs reads interval logs of one run, each of which is a source.
func loadLogs(path, dir string, names []string, o Options) (*Result, error) {
	r := newResult(path, HdrHistogram, o)
	r.Unknown = append(r.Unknown, intervalUnknown...)
	rows, rated := make(map[string]*distribution), true
	first, last := math.Inf(1), math.Inf(-1)
	var logs []*intervalLog
	for _, name := range names {
		shown := path
		if isDir(path) {
			shown = filepath.Join(path, name)
		}
		l, f, err := readLog(shown, dir, name, o.Unit)
		if err != nil {
			return nil, err
		}
		r.leave(f.problems, f.left)
		if l.intervals == 0 {
			r.miss("%s has no interval in it.", shown)
			continue
		}
		for tag, d := range l.tags {
			kind := cmp.Or(tag, l.named, plainFileName(name))
			if rows[kind] == nil {
				rows[kind] = &distribution{}
			}
			rows[kind].merge(d)
		}
		if l.instant > 0 {
			r.note("%s: %s %s no length, and values: rates have them in their numbers and not in their time.", shown, units.Count(l.instant), units.Plural(l.instant, "interval has", "intervals have"))
		}
		rated = rated && l.hasStart
		first, last = min(first, l.firstS), max(last, l.lastS)
		logs = append(logs, l)
		s := Source{Name: name, StartS: l.firstS, EndS: l.lastS}
		for _, d := range l.tags {
			s.Samples += d.sum.Count()
		}
		r.Sources = append(r.Sources, s)
	}
	if len(logs) == 0 {
		r.Rated = ""
		return r, nil
	}
	for i := range r.Sources {
		r.Sources[i].StartS -= first
		r.Sources[i].EndS -= first
	}
	switch {
	case rated || len(logs) == 1:
		r.SpanS = last - first
	default:
		r.note("Not all logs say when they began: how their times belong together is not known, and so are rates.")
	}
	if rated && first < 1<<40 {
		start := time.UnixMilli(int64(first * 1000)).UTC()
		r.Start = &start
	}
	r.addDistributions(rows)
	return r, nil
}

// addDistributions adds a row for each kind. There is none of all kinds: tags may be of the same operations.
func (r *Result) addDistributions(rows map[string]*distribution) {
	var below int64
	r.Rated = "the time from the first interval to the end of the last"
	if r.SpanS <= 0 {
		r.Rated = "nothing: it is not known how long the intervals are"
	}
	unknown := false
	for _, kind := range slices.Sorted(maps.Keys(rows)) {
		d := rows[kind]
		row := Measured{Kind: kind, Outcome: OK, Time: Either, Samples: d.sum.Count()}
		row.Kind, row.Time = timeOf(kind)
		if ours, ok := measure.ParseRow(row.Kind); ok { // kvbench's own tags, as in READ.error.timeout
			row.Kind = ours.Kind().String()
			if ours.Outcome() == workload.Failed {
				row.Outcome = Failed
			} else {
				row.Outcome = ours.Name()
			}
		}
		if r.SpanS > 0 {
			row.PerS = float64(row.Samples) / r.SpanS
		}
		if row.LatencyUS = measure.LatencyOf(d.sum.HDR(), r.Percentiles...); row.LatencyUS != nil && row.LatencyUS.Beyond == 0 {
			row.LatencyUS.Mean = d.mean / float64(row.Samples)
		}
		below += d.below
		unknown = unknown || row.Time == Either
		r.Rows = append(r.Rows, row)
	}
	if below > 0 {
		r.note("%s %s below 1 µs, and shown as 1 µs.", units.Count(below), units.Plural(below, "value is", "values are"))
	}
	if unknown {
		r.Unknown = append(r.Unknown, "Whether latencies are service or response times, where the time is shown as unknown: the log does not say whether they count from when an operation started, or should have.")
	}
}

// timeOf tells what a tag says of its latencies, and the kind without it: YCSB's Intended-READ and kvbench's READ.ok.response are
// response times.
func timeOf(tag string) (kind, time string) {
	if kind, ok := strings.CutPrefix(tag, "Intended-"); ok && kind != "" {
		return kind, Response
	}
	for _, t := range []string{Service, Response} {
		if kind, ok := strings.CutSuffix(tag, "."+t); ok && kind != "" {
			return kind, t
		}
	}
	return tag, Either
}

// readLog reads one interval log.
func readLog(shown, dir, name string, unit Unit) (*intervalLog, *file, error) {
	f, err := openFile(shown, dir, name)
	if err != nil {
		return nil, nil, err
	}
	l := newIntervalLog(unit)
	if err := errors.Join(l.read(f), f.close()); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", shown, err)
	}
	return l, f, nil
}

func newIntervalLog(unit Unit) *intervalLog {
	return &intervalLog{unit: unit, tags: make(map[string]*distribution), firstS: math.Inf(1), lastS: math.Inf(-1)}
}

// read reads a log. An error is one that keeps the whole log from being read; whatever else there is, is a problem of the file.
func (l *intervalLog) read(f *file) error {
	for {
		line, err := f.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			f.problem(f.line, "the rest cannot be read: %v", err)
			return nil
		}
		if err := l.add(f, line); err != nil {
			return err
		}
	}
}

// comments of interval logs that say something.
var (
	baseComment  = regexp.MustCompile(`^#\[BaseTime: ([0-9.]+)`)
	startComment = regexp.MustCompile(`^#\[StartTime: ([0-9.]+)`)
	namedComment = regexp.MustCompile(`^#\[Logging for: ([^\]]+)\]`)
	unitComment  = regexp.MustCompile(`(?i)\b(nano|micro|milli)seconds?\b`)
)

// add reads a line. An error is one that keeps the whole log from being read.
func (l *intervalLog) add(f *file, line []byte) error {
	switch {
	case len(bytes.TrimSpace(line)) == 0, line[0] == '"':
		return nil
	case line[0] == '#':
		l.comment(f, string(line))
		return nil
	case f.torn:
		f.problem(f.line, "torn: the last line has no end")
		return nil
	}
	tag := ""
	if rest, ok := bytes.CutPrefix(line, []byte("Tag=")); ok {
		name, rest, ok := bytes.Cut(rest, []byte(","))
		if !ok || len(name) == 0 || len(name) > maxName {
			f.problem(f.line, "tag %q: want a name of up to %d bytes, and a comma", short(name), maxName)
			return nil
		}
		tag, line = string(name), rest
	}
	fields := bytes.SplitN(line, []byte(","), 4)
	if len(fields) < 4 {
		f.problem(f.line, "%d columns, want start, length, maximum and histogram", len(fields))
		return nil
	}
	start, ok := secondsOf(fields[0])
	length, lengthOK := secondsOf(fields[1])
	if !ok || !lengthOK {
		f.problem(f.line, "an interval from %q on, %q s long", short(fields[0]), short(fields[1]))
		return nil
	}
	h, err := hdrhistogram.DecodePacked(bytes.TrimSpace(fields[3]))
	if err != nil {
		f.problem(f.line, "the histogram cannot be read: %v", err)
		return nil
	}
	if h.TotalCount() > maxSamples {
		f.problem(f.line, "the histogram counts more than can be: %d", h.TotalCount())
		return nil
	}
	if l.unit == 0 {
		return ErrUnit
	}
	d := l.tags[tag]
	if d == nil {
		if len(l.tags) == maxKinds {
			f.problem(f.line, "tag %q: there are more than %d", tag, maxKinds)
			return nil
		}
		d = &distribution{}
		l.tags[tag] = d
	}
	d.add(h, l.unit)
	start += l.base(start)
	l.intervals++
	l.firstS, l.lastS = min(l.firstS, start), max(l.lastS, start+length)
	if length == 0 && h.TotalCount() > 0 {
		l.instant++
	}
	return nil
}

// maxSamples bounds the number of values, so that sums stay far from overflow.
const maxSamples = 1 << 48

// comment takes what a line that begins with # says.
func (l *intervalLog) comment(f *file, line string) {
	for _, c := range []struct {
		form *regexp.Regexp
		to   *float64
		has  *bool
	}{{baseComment, &l.baseS, &l.hasBase}, {startComment, &l.startS, &l.hasStart}} {
		if m := c.form.FindStringSubmatch(line); m != nil {
			v, ok := secondsOf([]byte(m[1]))
			if !ok {
				f.problem(f.line, "%q is no time", m[1])
				return
			}
			*c.to, *c.has = v, true
			return
		}
	}
	if m := namedComment.FindStringSubmatch(line); m != nil && nameable([]byte(m[1])) {
		l.named = m[1]
		l.unit = cmp.Or(l.unit, 1000) // only YCSB writes so, whose logs are in microseconds
		return
	}
	if m := unitComment.FindStringSubmatch(line); m != nil && l.unit == 0 {
		l.unit = map[string]Unit{"nano": 1, "micro": 1000, "milli": 1_000_000}[strings.ToLower(m[1])]
	}
}

// base is what is added to the times of intervals. Without a base time they count from the start, unless they
// can only be times since the epoch: the rule of HdrHistogram's own reader, a year.
func (l *intervalLog) base(start float64) float64 {
	const year = 365 * 24 * 3600
	if !l.hasBase {
		l.hasBase = true
		if l.hasStart && start < l.startS-year {
			l.baseS = l.startS
		}
		l.hasStart = l.hasStart || start > year
	} else if !l.hasStart {
		l.hasStart = l.baseS > year
	}
	return l.baseS
}

// add counts a histogram: each bucket at its upper end, as percentiles are, and the mean as the histogram has it.
func (d *distribution) add(h *hdrhistogram.PackedHistogram, unit Unit) {
	perMicro := float64(unit) / 1000
	top := bucketTop(h.LowestTrackableValue(), h.SignificantFigures())
	h.ForEachBucket(func(v, n int64) bool {
		us := float64(top(v)) * perMicro
		if v > 0 && us < 1 {
			d.below += n
			us = 1
		}
		d.sum.Record(int64(min(us, measure.Highest)), n)
		return true
	})
	if n := h.TotalCount(); n > 0 {
		d.mean += h.Mean() * perMicro * float64(n)
	}
}

func (d *distribution) merge(o *distribution) {
	d.sum.Merge(&o.sum)
	d.mean += o.mean
	d.below += o.below
}

// bucketTop returns what makes of the lowest value of a bucket the highest one: HdrHistogram's geometry, see the library's
// New. Values below a power of two that tells apart so many digits have a bucket each unit; from there each doubling is twice as coarse.
func bucketTop(lowest, digits int64) func(int64) int64 {
	subBits := bits.Len64(uint64(2*math.Pow10(int(digits))) - 1)
	unitBits := bits.Len64(uint64(max(lowest, 1))) - 1
	return func(v int64) int64 {
		shift := unitBits + max(0, bits.Len64(uint64(v)>>unitBits)-subBits)
		return v | (1<<shift - 1)
	}
}

// secondsOf reads a time or a length in seconds, up to some thousand years.
func secondsOf(text []byte) (float64, bool) {
	const most = 1e11
	v, err := strconv.ParseFloat(string(bytes.TrimSpace(text)), 64)
	return v, err == nil && v >= 0 && v <= most
}
