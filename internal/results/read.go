// SPDX-License-Identifier: Apache-2.0

package results

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/plainfile"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/workload"
)

// Count is what was counted of one row in one interval.
type Count struct{ Operations, Batches, RPCs, Retries int64 }

// Add adds o.
func (c *Count) Add(o Count) {
	c.Operations += o.Operations
	c.Batches += o.Batches
	c.RPCs += o.RPCs
	c.Retries += o.Retries
}

// Counts is what was counted in one interval, of the window or outside of it.
type Counts struct {
	Rows    [measure.Rows]Count
	Started [workload.Kinds]int64
	Costs   [workload.Kinds]measure.CostCounts
	measure.Deviations
	ScannedRows int64
}

// Histogram is one histogram of one interval.
type Histogram struct {
	Tag
	*measure.Packed
}

// Interval is all that a journal holds of one interval.
type Interval struct {
	Second
	Window, Warmup Counts
	Histograms     []Histogram
	Errors         []Errors
	Traffic        []store.Traffic
}

// JournalReader reads a worker's journal, interval by interval.
type JournalReader struct {
	secs    *lines[Second]
	counts  *lines[count]
	hists   *lines[histogram]
	parser  *histogramParser // of hists
	errs    *lines[errorsLine]
	traffic *lines[trafficLine]

	warn  func(error)
	files []io.Closer
	last  time.Duration
}

// OpenJournal opens the journal in a worker's directory. Whatever of it cannot be
// read without ending the reading is told to warn, as a *[LineError] where it is a line.
func OpenJournal(dir string, warn func(error)) (*JournalReader, error) {
	r := &JournalReader{warn: warn}
	open := func(name string) io.Reader {
		f, err := plainfile.Open(dir, name)
		if err != nil {
			warn(err)
			return bytes.NewReader(nil)
		}
		r.files = append(r.files, f)
		return f
	}
	secs, err := plainfile.Open(dir, SecondsFile)
	if err != nil {
		return nil, err
	}
	r.files = append(r.files, secs)
	r.read(secs, open(CountsFile), open(HistogramsFile), open(ErrorsFile), open(TrafficFile))
	return r, nil
}

func (r *JournalReader) read(secs, counts, hists, errs, traffic io.Reader) {
	r.secs = newLines(secs, SecondsFile, new(secondParser).parse)
	r.counts = newLines(counts, CountsFile, parseCount)
	r.parser = &histogramParser{decoder: measure.NewDecoder()}
	r.hists = newLines(bufio.NewReaderSize(hists, 64<<10), HistogramsFile, r.parser.parse) // the one that is large
	r.errs = newLines(errs, ErrorsFile, parseErrors)
	r.traffic = newLines(traffic, TrafficFile, parseTraffic)
}

// Close closes the journal.
func (r *JournalReader) Close() error {
	var errs []error
	for _, f := range r.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// All yields the intervals that have not been read, to the last whole one. An error comes last.
func (r *JournalReader) All() iter.Seq2[*Interval, error] {
	return func(yield func(*Interval, error) bool) {
		for {
			iv := new(Interval)
			err := r.Next(iv)
			if err == io.EOF || !yield(iv, err) || err != nil {
				return
			}
		}
	}
}

// Next sets iv to the next interval, or returns io.EOF after the last whole one. What iv was before is overwritten:
// a reader that is done with an interval hands it in again, and the next one needs no memory.
func (r *JournalReader) Next(iv *Interval) error {
	for {
		second, err := r.secs.next()
		var line *LineError
		if errors.As(err, &line) {
			r.warn(err)
			continue
		}
		if err != nil {
			return err
		}
		if r.secs.done {
			return io.EOF
		}
		if second.Start < r.last {
			r.warn(fmt.Errorf("%s:%d: interval at %v left out: it is earlier than the one before", SecondsFile, r.secs.line, second.Start))
			continue
		}
		r.last = second.End
		for _, h := range iv.Histograms {
			r.parser.spare = append(r.parser.spare, h.Packed)
		}
		*iv = Interval{Second: second, Histograms: iv.Histograms[:0], Errors: iv.Errors[:0], Traffic: iv.Traffic[:0]}
		return r.fill(iv)
	}
}

// fill takes what belongs to an interval from the other files.
func (r *JournalReader) fill(iv *Interval) error {
	at := span{iv.Start, iv.End}
	return errors.Join(
		take(r.counts, at, r.warn, func(c count) error {
			if c.warmup {
				return iv.Warmup.add(c)
			}
			return iv.Window.add(c)
		}),
		take(r.hists, at, r.warn, func(h histogram) error {
			iv.Histograms = append(iv.Histograms, h.Histogram)
			return nil
		}),
		take(r.errs, at, r.warn, func(e errorsLine) error {
			iv.Errors = append(iv.Errors, e.Errors)
			return nil
		}),
		take(r.traffic, at, r.warn, func(t trafficLine) error {
			iv.Traffic = append(iv.Traffic, t.Traffic)
			return nil
		}),
	)
}

// add counts a line of counts.csv.
func (c *Counts) add(line count) error {
	if row, ok := measure.ParseRow(line.tag); ok {
		c.Rows[row].Add(line.Count)
		return nil
	}
	for k := range workload.Kind(workload.Kinds) {
		if what, ok := strings.CutPrefix(line.tag, k.String()); ok && c.addOf(k, what, line.Count) {
			return nil
		}
	}
	switch line.tag {
	case queuedTag:
		c.Queued += line.Operations
	case skippedTag:
		c.Skipped += line.Operations
	case blockedTag:
		c.Blocked += line.Operations
	case cutOffTag:
		c.CutOff += line.Operations
	case clampedTag:
		c.Clamped += line.Operations
	case rowsTag:
		c.ScannedRows += line.Operations
	default:
		return fmt.Errorf("tag %q is unknown", line.tag)
	}
	return nil
}

// addOf counts what a line says of a kind, or tells that it does not know it.
func (c *Counts) addOf(k workload.Kind, what string, n Count) bool {
	cost := &c.Costs[k]
	switch what {
	case startedSuffix:
		c.Started[k] += n.Operations
		return true
	case transactionsSuffix:
		cost.Transactions += n.Operations
		cost.Batches += n.Batches
		return true
	case timestampsSuffix:
		cost.Timestamps += n.Operations
		return true
	}
	name, ok := strings.CutPrefix(what, commandInfix)
	if !ok {
		return false
	}
	for command := range cost.Commands {
		if store.Command(command).String() == name {
			cost.Commands[command] += n.Operations
			return true
		}
	}
	return false
}

// span is the interval that a line belongs to.
type span struct{ start, end time.Duration }

func (s span) at() span { return s }

func (s span) compare(o span) int {
	return cmp.Or(cmp.Compare(s.start, o.start), cmp.Compare(s.end, o.end))
}

// take passes the lines of an interval to f, and leaves later ones where they are.
func take[T interface{ at() span }](l *lines[T], at span, warn func(error), f func(T) error) error {
	for {
		line, err := l.peek()
		if l.done {
			return err
		}
		if err == nil {
			switch line.at().compare(at) {
			case 1:
				return nil
			case 0:
				err = f(line)
			default:
				err = fmt.Errorf("there is no interval from %v to %v in %s", line.at().start, line.at().end, SecondsFile)
			}
			if err != nil {
				err = &LineError{File: l.file, Line: l.line, Err: err}
			}
		}
		if err != nil {
			warn(err)
		}
		l.drop()
	}
}

// count is a line of counts.csv.
type count struct {
	span
	warmup bool
	tag    string
	Count
}

func parseCount(line []byte) (c count, err error) {
	text := string(line)
	if text == "" || strings.HasPrefix(text, "start_s,") { // earlier versions had fewer columns
		return c, errNoRecord
	}
	fields := [7]string{6: "0"} // which earlier versions did not write
	for i, rest, more := 0, text, true; more && i < len(fields); i++ {
		if fields[i], rest, more = strings.Cut(rest, ","); !more && i < 5 {
			return c, fmt.Errorf("%d columns, want 7", i+1)
		}
	}
	if c.start, err = parseSeconds(fields[0]); err != nil {
		return c, err
	}
	if c.end, err = parseSeconds(fields[1]); err != nil {
		return c, err
	}
	c.tag, c.warmup = strings.CutPrefix(fields[2], warmupPrefix)
	for i, n := range []*int64{&c.Operations, &c.Batches, &c.RPCs, &c.Retries} {
		if *n, err = parseCounter(fields[3+i]); err != nil {
			return c, err
		}
	}
	return c, nil
}

// histogram is a line of hist.hlog.
type histogram struct {
	span
	Histogram
}

// olderHighest is where the histograms of earlier versions of this program end: at a minute.
const olderHighest = 60_000_000

// histogramParser reads the lines of an interval log as HdrHistogram's log writers make them:
// Tag=name,start,length,max,histogram.
type histogramParser struct {
	decoder *measure.Decoder
	spare   []*measure.Packed // memory for the next ones
}

func (p *histogramParser) parse(line []byte) (h histogram, err error) {
	if len(line) == 0 || line[0] == '#' || line[0] == '"' {
		return h, errNoRecord
	}
	name, rest, _ := bytes.Cut(line, []byte(","))
	start, rest, _ := bytes.Cut(rest, []byte(","))
	length, rest, _ := bytes.Cut(rest, []byte(","))
	_, text, ok := bytes.Cut(rest, []byte(","))
	if !ok {
		return h, fmt.Errorf("%d columns, want 5", bytes.Count(line, []byte(","))+1)
	}
	if h.Tag, ok = ParseTag(bytes.TrimPrefix(name, []byte("Tag="))); !ok {
		return h, fmt.Errorf("tag %q is unknown", name)
	}
	if h.start, err = parseSeconds(string(start)); err != nil {
		return h, err
	}
	took, err := parseSeconds(string(length))
	if err != nil {
		return h, err
	}
	h.end = h.start + took
	h.Packed = p.take()
	if err := p.decoder.Decode(h.Packed, text); err != nil {
		return h, err
	}
	if highest := h.Highest(); highest != measure.Highest && highest != olderHighest {
		return h, fmt.Errorf("it reaches to %d µs, and not to %d: merging would lose values", highest, measure.Highest)
	}
	return h, nil
}

// take returns a histogram to be overwritten.
func (p *histogramParser) take() *measure.Packed {
	n := len(p.spare)
	if n == 0 {
		return new(measure.Packed)
	}
	h := p.spare[n-1]
	p.spare = p.spare[:n-1]
	return h
}

// errorsLine is a line of errors.jsonl.
type errorsLine struct {
	span
	Errors
}

func parseErrors(line []byte) (e errorsLine, err error) {
	if e.Errors, err = parseJSON[Errors](line); err != nil {
		return e, err
	}
	if !(e.StartS >= 0 && e.StartS <= e.EndS && e.EndS <= maxSeconds) || e.Count < 0 {
		return e, fmt.Errorf("%d errors from %g to %g s cannot be", e.Count, e.StartS, e.EndS)
	}
	e.span = span{Duration(e.StartS), Duration(e.EndS)}
	return e, nil
}
