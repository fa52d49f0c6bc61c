// SPDX-License-Identifier: Apache-2.0

package results

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/plainfile"
)

// Second is a line of seconds.csv: one interval of one worker at a glance. Its
// counts hold whatever completed in it, of the warm-up as well.
type Second struct {
	Start, End time.Duration // on the run's clock

	Target  float64 // this worker's share, operations per second
	Started int64   // operations
	OK      int64
	Missing int64 // not found
	Wrong   int64
	Failed  int64
	Batches int64
	RPCs    int64
	measure.Deviations

	InFlight   float64 // calls, on average
	Unanswered measure.Unanswered
	Stall      measure.Stall

	LagP50, LagP99, LagMax int64 // µs
	LaneP99                int64 // µs

	Answers measure.Answers

	Host measure.HostSample
}

// column is one field of a Second in seconds.csv.
type column struct {
	name  string
	write func(buf []byte, s *Second) []byte
	read  func(text string, s *Second) error
}

func integer[T int | int64](name string, field func(*Second) *T) column {
	return column{name,
		func(buf []byte, s *Second) []byte { return strconv.AppendInt(buf, int64(*field(s)), 10) },
		func(text string, s *Second) error {
			n, err := parseCounter(text)
			*field(s) = T(n)
			return err
		},
	}
}

func number(name string, decimals int, field func(*Second) *float64) column {
	return column{name,
		func(buf []byte, s *Second) []byte { return strconv.AppendFloat(buf, *field(s), 'f', decimals, 64) },
		func(text string, s *Second) (err error) {
			*field(s), err = parseNumber(text, math.MaxFloat64)
			return err
		},
	}
}

func duration(name string, unit time.Duration, field func(*Second) *time.Duration) column {
	return column{name,
		func(buf []byte, s *Second) []byte {
			if unit == time.Second {
				return strconv.AppendFloat(buf, seconds(*field(s)), 'f', 6, 64)
			}
			return strconv.AppendInt(buf, int64(field(s).Round(unit)/unit), 10)
		},
		func(text string, s *Second) error {
			v, err := parseNumber(text, maxSeconds*float64(time.Second/unit))
			*field(s) = Duration(v * unit.Seconds())
			return err
		},
	}
}

// maxCount bounds the counters of one line, so that sums of them stay far from overflow.
const maxCount = 1 << 52

func parseCounter(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && (n < 0 || n > maxCount) {
		return 0, fmt.Errorf("%s is out of range", text)
	}
	return n, err
}

// parseSeconds reads a time on the run's clock.
func parseSeconds(text string) (time.Duration, error) {
	v, err := parseNumber(text, maxSeconds)
	return Duration(v), err
}

// parseNumber reads a number within 0 and limit.
func parseNumber(text string, limit float64) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err == nil && (math.IsNaN(v) || v < 0 || v > limit) {
		return 0, fmt.Errorf("%s is out of range", text)
	}
	return v, err
}

var secondColumns = []column{
	duration("start_s", time.Second, func(s *Second) *time.Duration { return &s.Start }),
	duration("end_s", time.Second, func(s *Second) *time.Duration { return &s.End }),
	number("target", -1, func(s *Second) *float64 { return &s.Target }),
	integer("started", func(s *Second) *int64 { return &s.Started }),
	integer("ok", func(s *Second) *int64 { return &s.OK }),
	integer("not_found", func(s *Second) *int64 { return &s.Missing }),
	integer("wrong", func(s *Second) *int64 { return &s.Wrong }),
	integer("errors", func(s *Second) *int64 { return &s.Failed }),
	integer("batches", func(s *Second) *int64 { return &s.Batches }),
	integer("rpcs", func(s *Second) *int64 { return &s.RPCs }),
	integer("queued", func(s *Second) *int64 { return &s.Queued }),
	integer("skipped", func(s *Second) *int64 { return &s.Skipped }),
	integer("blocked", func(s *Second) *int64 { return &s.Blocked }),
	integer("cut_off", func(s *Second) *int64 { return &s.CutOff }),
	integer("clamped", func(s *Second) *int64 { return &s.Clamped }),
	number("in_flight", 3, func(s *Second) *float64 { return &s.InFlight }),
	integer("unanswered", func(s *Second) *int64 { return &s.Unanswered.Calls }),
	duration("oldest_s", time.Second, func(s *Second) *time.Duration { return &s.Unanswered.Oldest }),
	duration("stalled_s", time.Second, func(s *Second) *time.Duration { return &s.Stall.Total }),
	duration("stall_max_s", time.Second, func(s *Second) *time.Duration { return &s.Stall.Longest }),
	duration("stall_at_s", time.Second, func(s *Second) *time.Duration { return &s.Stall.At }),
	integer("lag_p50_us", func(s *Second) *int64 { return &s.LagP50 }),
	integer("lag_p99_us", func(s *Second) *int64 { return &s.LagP99 }),
	integer("lag_max_us", func(s *Second) *int64 { return &s.LagMax }),
	integer("lane_p99_us", func(s *Second) *int64 { return &s.LaneP99 }),
	duration("first_answer_s", time.Second, func(s *Second) *time.Duration { return &s.Answers.First }),
	duration("last_answer_s", time.Second, func(s *Second) *time.Duration { return &s.Answers.Last }),
	duration("cpu_s", time.Second, func(s *Second) *time.Duration { return &s.Host.CPU }),
	integer("cores", func(s *Second) *int { return &s.Host.Cores }),
	integer("gomaxprocs", func(s *Second) *int { return &s.Host.Procs }),
	integer("gcs", func(s *Second) *int64 { return &s.Host.GCs }),
	duration("gc_pause_us", time.Microsecond, func(s *Second) *time.Duration { return &s.Host.GCPause }),
	duration("sched_p50_us", time.Microsecond, func(s *Second) *time.Duration { return &s.Host.SchedP50 }),
	duration("sched_p99_us", time.Microsecond, func(s *Second) *time.Duration { return &s.Host.SchedP99 }),
	integer("goroutines", func(s *Second) *int { return &s.Host.Goroutines }),
	integer("heap_bytes", func(s *Second) *int64 { return &s.Host.HeapBytes }),
	integer("rss_bytes", func(s *Second) *int64 { return &s.Host.RSSBytes }),
	number("machine_share", 3, func(s *Second) *float64 { return &s.Host.Machine }),
	duration("cpu_wait_s", time.Second, func(s *Second) *time.Duration { return &s.Host.CPUWait }),
	integer("throttled_periods", func(s *Second) *int64 { return &s.Host.ThrottledPeriods }),
	duration("throttled_s", time.Second, func(s *Second) *time.Duration { return &s.Host.Throttled }),
	integer("runnable", func(s *Second) *int { return &s.Host.Runnable }),
}

func secondsHeader() []byte {
	var buf []byte
	for i, c := range secondColumns {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = append(buf, c.name...)
	}
	return append(buf, '\n')
}

func appendSecond(buf []byte, s *Second) []byte {
	for i, c := range secondColumns {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = c.write(buf, s)
	}
	return append(buf, '\n')
}

// secondParser reads the lines of seconds.csv by the names in its header, so that it
// reads what other versions have written: columns that it does not know are passed
// over, and those that are not there are 0.
type secondParser struct {
	columns []*column // in the order of the header, nil: unknown; none before the header
}

func (p *secondParser) parse(line []byte) (s Second, err error) {
	if len(line) == 0 {
		return s, errNoRecord
	}
	if line[0] >= 'a' && line[0] <= 'z' {
		p.columns, err = parseHeader(line)
		return s, cmp.Or(err, errNoRecord)
	}
	if p.columns == nil {
		return s, errors.New("there is no header before it that says what its columns are")
	}
	for i, c := range p.columns {
		field, rest, more := bytes.Cut(line, []byte(","))
		if c != nil {
			if err := c.read(string(field), &s); err != nil {
				return s, fmt.Errorf("column %s: %w", c.name, err)
			}
		}
		if !more && i < len(p.columns)-1 {
			return s, fmt.Errorf("%d columns, want %d", i+1, len(p.columns))
		}
		line = rest
	}
	if s.End < s.Start {
		return s, fmt.Errorf("it ends at %v, before it starts at %v", s.End, s.Start)
	}
	return s, nil
}

// parseHeader finds the columns that a header names. Those without which a line is
// no interval must be there.
func parseHeader(line []byte) ([]*column, error) {
	var columns []*column
	missing := map[string]bool{"start_s": true, "end_s": true}
	for name := range strings.SplitSeq(string(line), ",") {
		i := slices.IndexFunc(secondColumns, func(c column) bool { return c.name == name })
		if i < 0 {
			columns = append(columns, nil)
			continue
		}
		columns = append(columns, &secondColumns[i])
		delete(missing, name)
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("the header has no %s", strings.Join(slices.Sorted(maps.Keys(missing)), " and no "))
	}
	return columns, nil
}

// newSecond sums up an interval.
func newSecond(iv *measure.Interval, target float64, host measure.HostSample) *Second {
	s := &Second{Start: iv.Start, End: iv.End, Target: target, Answers: iv.Answers, Host: host, Unanswered: iv.Unanswered, Stall: iv.Stall}
	if length := iv.End - iv.Start; length > 0 {
		s.InFlight = float64(iv.InFlight) / float64(length)
	}
	lag, lane := measure.NewHDR(), measure.NewHDR()
	for _, set := range []*measure.Set{&iv.Window, &iv.Warmup} {
		for row := range measure.Row(measure.Rows) {
			cell := &set.Cells[row]
			*s.outcome(row) += cell.Operations
			s.Batches += cell.Batches
			s.RPCs += cell.RPCs
		}
		for _, n := range set.Started {
			s.Started += n
		}
		s.Deviations.Add(set.Deviations)
		set.Lag.AddTo(lag)
		set.Lane.AddTo(lane)
	}
	if l := measure.LatencyOf(lag); l != nil {
		s.LagP50, s.LagP99, s.LagMax = l.P50, l.P99, l.Max
	}
	if l := measure.LatencyOf(lane); l != nil {
		s.LaneP99 = l.P99
	}
	return s
}

// outcome returns where the operations of a row are counted.
func (s *Second) outcome(row measure.Row) *int64 {
	return [...]*int64{&s.OK, &s.Missing, &s.Wrong, &s.Failed}[row.Outcome()]
}

// Seconds yields the lines of seconds.csv in a worker's directory: a quick look
// at a journal, without its histograms. A line that cannot be read is yielded as
// a [*LineError]; the ones after it follow.
func Seconds(dir string) iter.Seq2[Second, error] {
	return func(yield func(Second, error) bool) {
		f, err := plainfile.Open(dir, SecondsFile)
		if err != nil {
			yield(Second{}, err)
			return
		}
		defer f.Close()
		newLines(f, SecondsFile, new(secondParser).parse).all(yield)
	}
}
