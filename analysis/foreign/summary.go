// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kvbench/kvbench/internal/units"
)

// summaryUnknown are what printed summaries cannot tell.
var summaryUnknown = []string{
	"The distribution: percentiles are numbers that the tool printed, of one client. They are never merged with those of others, nor can others be computed.",
	"Whether the target was kept, what was never answered, and what the client itself cost.",
}

// closedLoop is said of latencies that count from when an operation started.
const closedLoop = "Response times: latencies count from when an operation started. While a client waits for a stalled server it asks for nothing: coordinated omission hides such stalls."

// summary is a printed summary that is being read. Lines that belong to no summary are passed over, since a tool prints
// others, and its database prints, too.
type summary struct {
	result *Result
	maker  string // of the lines that were read; "": there were none
	rows   map[string]*printed

	ended    int     // go-ycsb said so many times that the run is over
	overall  int     // YCSB has so many summaries
	runtime  float64 // s
	buckets  int64   // lines of YCSB's that hold buckets
	header   []string
	intended bool
}

// printed is what was printed of one operation.
type printed struct {
	count   int64
	perS    float64
	numbers map[string]float64 // microseconds
	returns map[string]int64   // how many calls returned what
}

// loadSummary reads a file with a summary.
func loadSummary(path, dir, base string, o Options) (*Result, error) {
	f, err := openFile(path, dir, base)
	if err != nil {
		return nil, err
	}
	r, err := readSummary(path, f, o)
	if err := errors.Join(err, f.close()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

func readSummary(path string, f *file, o Options) (*Result, error) {
	s := &summary{result: newResult(path, "", o), rows: make(map[string]*printed)}
	f.each(func(line []byte) { s.add(f, string(bytes.TrimSpace(line))) })
	s.result.leave(f.problems, f.left)
	if err := s.tell(); err != nil {
		return nil, err
	}
	return s.result, nil
}

// row is that of an operation; nil if that has no name, or there are too many.
func (s *summary) row(f *file, name string) *printed {
	if p := s.rows[name]; p != nil {
		return p
	}
	if !nameable([]byte(name)) || len(s.rows) == maxKinds {
		f.problem(f.line, "operation %q: want a name of up to %d letters, and up to %d of them", short([]byte(name)), maxName, maxKinds)
		return nil
	}
	p := &printed{numbers: make(map[string]float64), returns: make(map[string]int64)}
	s.rows[name] = p
	return p
}

// is tells whether lines of this maker may come, and notes one that does.
func (s *summary) is(f *file, maker string) bool {
	if s.maker == "" {
		s.maker = maker
	}
	if s.maker != maker {
		f.problem(f.line, "a line of %s in a summary of %s", maker, s.maker)
	}
	return s.maker == maker
}

var (
	goYCSBLine    = regexp.MustCompile(`^([A-Za-z0-9_.-]+)\s+- (Takes\(s\): .*)$`)
	ycsbLine      = regexp.MustCompile(`^\[([^\]]+)\], ([^,]+), (.*)$`)
	propertyLine  = regexp.MustCompile(`^"([^"]{1,100})"="([^"]{0,1000})"$`)
	goPercentile  = regexp.MustCompile(`(?i)^([0-9.]+)(?:st|nd|rd|th)\((us|ms)\)$`)
	ycsbQuantile  = regexp.MustCompile(`^([0-9.]+)(?:st|nd|rd|th)?PercentileLatency\((us|ms)\)$`)
	ycsbLatency   = regexp.MustCompile(`^(Average|Min|Max)Latency\((us|ms)\)$`)
	runFinished   = regexp.MustCompile(`^Run finished, takes `)
	ycsbBucketKey = regexp.MustCompile(`^>?[0-9]+$`)
)

// add reads a line.
func (s *summary) add(f *file, line string) {
	switch {
	case line == "":
	case strings.HasPrefix(line, "["):
		if m := ycsbLine.FindStringSubmatch(line); m != nil {
			if s.is(f, YCSB) {
				s.ycsb(f, m[1], m[2], strings.TrimSpace(m[3]))
			}
		} else if strings.HasPrefix(line, "[{") && strings.Contains(line, `"Operation"`) {
			s.goJSON(f, line)
		} else if f.torn && strings.Contains(line, "],") {
			f.problem(f.line, "torn: the last line has no end")
		}
	case strings.HasPrefix(line, "|"):
		s.goTable(f, line)
	case runFinished.MatchString(line):
		if s.is(f, GoYCSB) {
			s.ended++
		}
	default:
		if m := propertyLine.FindStringSubmatch(line); m != nil && len(s.result.Settings) < 1000 {
			s.result.Settings[m[1]] = m[2]
		} else if m := goYCSBLine.FindStringSubmatch(line); m != nil && s.is(f, GoYCSB) {
			if f.torn {
				f.problem(f.line, "torn: the last line has no end")
				return
			}
			cells := make(map[string]string)
			for _, part := range strings.Split(m[2], ", ") {
				key, value, _ := strings.Cut(part, ": ")
				cells[key] = value
			}
			s.goRow(f, m[1], cells)
		}
	}
}

// goRow takes what go-ycsb printed of an operation. It prints sums from the start every some seconds, so that the last one counts.
func (s *summary) goRow(f *file, name string, cells map[string]string) {
	p := &printed{numbers: make(map[string]float64), returns: make(map[string]int64)}
	for _, key := range slices.Sorted(maps.Keys(cells)) {
		value, err := strconv.ParseFloat(strings.TrimSpace(cells[key]), 64)
		if err != nil || !(value >= 0 && value <= maxSamples) {
			f.problem(f.line, "%s %q is no number", key, short([]byte(cells[key])))
			return
		}
		switch name := strings.ToLower(key); name {
		case "takes(s)":
		case "count":
			p.count = int64(value)
		case "ops":
			p.perS = value
		case "avg(us)":
			p.numbers["mean"] = value
		case "min(us)", "max(us)":
			p.numbers[name[:3]] = value
		default:
			if m := goPercentile.FindStringSubmatch(key); m != nil && percentileNamed(m[1]) != "" {
				p.numbers[percentileNamed(m[1])] = value * unitOf(m[2])
			} else {
				f.problem(f.line, "column %q is unknown", short([]byte(key)))
				return
			}
		}
	}
	if row := s.row(f, name); row != nil {
		*row = *p
	}
}

// goJSON takes a line of --outputstyle json: all operations at a time.
func (s *summary) goJSON(f *file, line string) {
	var rows []map[string]string
	if err := json.Unmarshal([]byte(line), &rows); err != nil {
		f.problem(f.line, "JSON: %v", err)
		return
	}
	for _, cells := range rows {
		if name := cells["Operation"]; s.is(f, GoYCSB) {
			delete(cells, "Operation")
			s.goRow(f, name, cells)
		}
	}
}

// goTable takes a line of outputstyle table, whose header names its columns.
func (s *summary) goTable(f *file, line string) {
	var cells []string
	for _, cell := range strings.Split(strings.Trim(line, "|"), "|") {
		cells = append(cells, strings.TrimSpace(cell))
	}
	switch {
	case strings.EqualFold(cells[0], "operation"):
		s.header = cells
	case s.header == nil: // a table of something else
	case f.torn || len(cells) != len(s.header):
		f.problem(f.line, "%d columns, want %d", len(cells), len(s.header))
	default:
		if !s.is(f, GoYCSB) {
			return
		}
		row := make(map[string]string)
		for i, key := range s.header[1:] {
			row[key] = cells[i+1]
		}
		s.goRow(f, cells[0], row)
	}
}

// ycsb takes a line of YCSB's text exporter: what it is of, of what, and the value.
func (s *summary) ycsb(f *file, name, key, text string) {
	if f.torn {
		f.problem(f.line, "torn: the last line has no end")
		return
	}
	if ycsbBucketKey.MatchString(key) {
		s.buckets++
		return
	}
	if strings.HasPrefix(name, "TOTAL_GC") || strings.HasPrefix(name, "MAX_") || strings.HasPrefix(name, "MIN_") {
		return // of the client's virtual machine
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || !(value >= 0 && value <= maxSamples) {
		f.problem(f.line, "%s %q of %s is no number", short([]byte(key)), short([]byte(text)), short([]byte(name)))
		return
	}
	if name == "OVERALL" {
		if key == "RunTime(ms)" {
			s.runtime = value / 1000
			s.overall++
		}
		return
	}
	p := s.row(f, name)
	if p == nil {
		return
	}
	switch {
	case key == "Operations":
		p.count = int64(value)
	case strings.HasPrefix(key, "Return="):
		if len(p.returns) < maxKinds {
			p.returns[strings.TrimPrefix(key, "Return=")] += int64(value)
		}
	case key == "LatencyVariance(us)":
	default:
		if m := ycsbLatency.FindStringSubmatch(key); m != nil {
			p.numbers[map[string]string{"Average": "mean", "Min": "min", "Max": "max"}[m[1]]] = value * unitOf(m[2])
		} else if m := ycsbQuantile.FindStringSubmatch(key); m != nil && percentileNamed(m[1]) != "" {
			p.numbers[percentileNamed(m[1])] = value * unitOf(m[2])
		} else {
			f.problem(f.line, "%q of %s is unknown", short([]byte(key)), name)
		}
	}
}

// unitOf is a unit in microseconds.
func unitOf(name string) float64 {
	if strings.EqualFold(name, "ms") {
		return 1000
	}
	return 1
}

// percentileNamed makes "p99_9" of "99.9"; "" if that is no percentile.
func percentileNamed(text string) string {
	percent, err := strconv.ParseFloat(text, 64)
	if err != nil || !(percent > 0 && percent < 100) {
		return ""
	}
	return "p" + strings.ReplaceAll(strconv.FormatFloat(percent, 'f', -1, 64), ".", "_")
}

// tell makes the report of what was read.
func (s *summary) tell() error {
	r := s.result
	r.Maker = s.maker
	r.Unknown = append(r.Unknown, summaryUnknown...)
	switch {
	case len(s.rows) == 0 && s.maker == "":
		return ErrNone
	case s.ended > 1 || s.overall > 1:
		return fmt.Errorf("the summaries of %d runs or clients in one file: percentiles cannot be merged, so give each a file of its own", max(s.ended, s.overall))
	}
	r.Sources = append(r.Sources, Source{Name: r.Name})
	if s.maker == YCSB {
		s.tellYCSB()
	} else {
		s.tellGoYCSB()
	}
	for _, name := range slices.SortedFunc(maps.Keys(s.rows), func(a, b string) int { return strings.Compare(plainName(a), plainName(b)) }) {
		s.addRow(name, s.rows[name])
	}
	if !s.intended {
		r.Unknown = append(r.Unknown, closedLoop)
	}
	if len(r.Rows) == 0 {
		r.miss("There is no operation in it.")
	}
	return nil
}

// plainName is what a name is sorted by: errors after what they are of.
func plainName(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(name, "_ERROR"), "-FAILED")
}

// addRow adds the row of an operation.
func (s *summary) addRow(name string, p *printed) {
	r := s.result
	row := Measured{Kind: plainName(name), Outcome: OK, Time: Service, Samples: p.count, PerS: p.perS, Printed: p.numbers}
	if row.Kind != name {
		row.Outcome = Failed
	}
	if s.maker == YCSB {
		if kind, ok := strings.CutPrefix(row.Kind, "Intended-"); ok && kind != "" {
			row.Kind, row.Time, s.intended = kind, Response, true
		}
		if s.runtime > 0 {
			row.PerS = float64(p.count) / s.runtime
		}
	}
	if p.count == 0 && len(p.numbers) == 0 {
		return
	}
	r.Rows = append(r.Rows, row)
	switch client := &r.Sources[0]; {
	case row.Time != Service: // counted as such already
	case row.Outcome == Failed:
		client.Failed += p.count
	case row.Kind != AllKinds:
		client.Samples += p.count
	}
	if strings.HasPrefix(row.Kind, "BATCH_") && row.Outcome == OK {
		r.note("%s: a latency is of a batch%s. Its rate is of batches.", row.Kind, r.batch())
	}
	for _, code := range slices.Sorted(maps.Keys(p.returns)) {
		if n := p.returns[code]; code != "OK" && n > 0 {
			r.note("%s: %s of %s %s %s.", row.Kind, units.Count(n), units.Count(p.count), units.Plural(n, "call returned", "calls returned"), code)
		}
	}
}

func (s *summary) tellGoYCSB() {
	r := s.result
	r.Rated = "the time since the first operation of each kind, as printed"
	if s.ended == 0 {
		r.note("It does not say \"Run finished\": if this is what the run printed, it was cut off, and the numbers are those of its last interim summary.")
	}
	if s.rows["READ_MODIFY_WRITE"] != nil {
		r.note("What a READ_MODIFY_WRITE is made of is counted as READ and UPDATE once more, and %s counts both.", AllKinds)
	}
	r.Unknown = append(r.Unknown, "Whether reads found anything: a read without a value counts as any other, and an update whose read failed as one that succeeded.")
}

func (s *summary) tellYCSB() {
	r := s.result
	if s.overall == 0 {
		r.miss("There is no [OVERALL], RunTime(ms): the summary is cut off, or not whole.")
		r.Rated = "nothing: how long the run took is not there"
	} else {
		r.Rated = fmt.Sprintf("the run's %s, start and end included", units.Seconds(math.Round(s.runtime*10)/10))
		r.SpanS = s.runtime
	}
	if s.buckets > 0 {
		r.note("%s %s of buckets left out: they are read from .hdr files.", units.Count(s.buckets), units.Plural(s.buckets, "line", "lines"))
	}
	r.note("Latencies are taken to be service times where the name does not begin with Intended-; with measurement.interval=intended, which the summary does not tell, they are response times.")
}
