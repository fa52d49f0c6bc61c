// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/kvbench/kvbench/internal/measure"
)

// csvHeader begins a file of samples: an operation each line, with when it started (microseconds since the epoch) and how long it took.
const csvHeader = "operation,timestamp_us,latency_us"

const (
	second = int64(time.Second / time.Microsecond)

	// maxApart bounds how far, in seconds, an operation may lie from the first of its file: 36 hours. So far goes what is counted by the second.
	maxApart = 36 * 3600
	// maxKinds and maxName bound what names of operations take.
	maxKinds, maxName = 64, 64
	// maxLatency is the longest that a latency can be meant to be, in microseconds: longer than a file may span.
	maxLatency = maxApart * second
)

// seconds counts by the second of the epoch; memory is taken only where there is something to count.
type seconds struct {
	blocks map[int64]*[blockSeconds]int64
	number int64 // of the block that was used last, which is at
	at     *[blockSeconds]int64
}

const blockSeconds = 1024

func (s *seconds) add(sec, n int64) {
	if number := sec / blockSeconds; s.at == nil || number != s.number {
		if s.blocks == nil {
			s.blocks = make(map[int64]*[blockSeconds]int64)
		}
		if s.blocks[number] == nil {
			s.blocks[number] = new([blockSeconds]int64)
		}
		s.number, s.at = number, s.blocks[number]
	}
	s.at[sec%blockSeconds] += n
}

// sum counts the seconds from one up to another.
func (s *seconds) sum(from, to int64) (n int64) {
	for number, block := range s.blocks {
		for i, count := range block {
			if sec := number*blockSeconds + int64(i); sec >= from && sec < to {
				n += count
			}
		}
	}
	return n
}

func (s *seconds) merge(o *seconds) {
	for number, block := range o.blocks {
		for i, n := range block {
			if n > 0 {
				s.add(number*blockSeconds+int64(i), n)
			}
		}
	}
}

// samples are those of one name of operation.
type samples struct {
	name    string
	latency measure.Sum
	ends    seconds
}

func (s *samples) failed() bool { return strings.HasSuffix(s.name, "_ERROR") }

func (s *samples) kind() string { return strings.TrimSuffix(s.name, "_ERROR") }

func (s *samples) merge(o *samples) {
	s.latency.Merge(&o.latency)
	s.ends.merge(&o.ends)
}

// sampleFile is a file of samples, added up. Times are microseconds since the epoch.
type sampleFile struct {
	kinds       []*samples
	current     *samples // of the line before
	origin      int64    // when the first operation of the file started
	first, last int64    // the earliest start and the latest end
	count       int64
	zero        int64 // operations that took 0 µs
	totals      int64 // lines that repeat another one
}

// chunk is how much is read at a time, in bytes, and so how long a line may be.
const chunk = 256 << 10

// read adds up a file. This is the one place through which every operation of a run goes: no garbage.
func (s *sampleFile) read(f *file) {
	buf, skip := make([]byte, 0, chunk), false
	for {
		n, err := f.in.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		rest := buf
		for {
			end := bytes.IndexByte(rest, '\n')
			if end < 0 {
				break
			}
			f.line++
			if skip {
				skip = false
			} else {
				s.add(f, rest[:end])
			}
			rest = rest[end+1:]
		}
		if len(rest) == cap(buf) {
			if !skip {
				f.problem(f.line+1, "longer than %d bytes", chunk)
			}
			skip, rest = true, rest[:0]
		}
		buf = buf[:copy(buf[:cap(buf)], rest)]
		if err == nil {
			continue
		}
		if len(buf) > 0 && !skip {
			f.problem(f.line+1, "torn: the last line has no end")
		}
		if err != io.EOF {
			f.problem(f.line+1, "the rest cannot be read: %v", err)
		}
		return
	}
}

// add counts a line.
func (s *sampleFile) add(f *file, line []byte) {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	if f.line == 1 && string(line) == csvHeader {
		return
	}
	name, rest, ok := s.split(line)
	if !ok {
		f.problem(f.line, "%d columns, want operation,timestamp_us,latency_us", 1+bytes.Count(line, []byte{','}))
		return
	}
	comma := 16 // as many digits have times of our century
	if len(rest) <= comma || rest[comma] != ',' {
		if comma = bytes.IndexByte(rest, ','); comma < 0 {
			f.problem(f.line, "2 columns, want operation,timestamp_us,latency_us")
			return
		}
	}
	start, ok := number(rest[:comma])
	if !ok || start == 0 {
		f.problem(f.line, "timestamp %q is no time in microseconds", short(rest[:comma]))
		return
	}
	us, ok := number(rest[comma+1:])
	if !ok || us > maxLatency {
		f.problem(f.line, "latency %q is no time in microseconds up to 36 h", short(rest[comma+1:]))
		return
	}
	if s.origin == 0 {
		s.origin, s.first = start, start
	}
	if apart := start - s.origin; apart > maxLatency || apart < -maxLatency {
		f.problem(f.line, "timestamp %d lies more than 36 h from that of the first operation", start)
		return
	}
	k := s.current
	if k == nil || k.name != string(name) {
		if k = s.of(name); k == nil {
			f.problem(f.line, "operation %q: want a name of up to %d letters, and up to %d of them", short(name), maxName, maxKinds)
			return
		}
		s.current = k
	}
	if k.name == AllKinds {
		s.totals++
		return
	}
	end := start + us
	s.first, s.last = min(s.first, start), max(s.last, end)
	s.count++
	if us == 0 {
		s.zero++
	}
	k.latency.Record(us, 1)
	k.ends.add(end/second, 1)
}

// split parts a line at its first comma. Most lines are of the same operation as the one before.
func (s *sampleFile) split(line []byte) (name, rest []byte, ok bool) {
	if s.current != nil {
		if n := len(s.current.name); len(line) > n && line[n] == ',' && string(line[:n]) == s.current.name {
			return line[:n], line[n+1:], true
		}
	}
	return bytes.Cut(line, []byte{','})
}

// of returns the samples of a name; nil if it is none.
func (s *sampleFile) of(name []byte) *samples {
	for _, k := range s.kinds {
		if k.name == string(name) {
			return k
		}
	}
	if !nameable(name) || len(s.kinds) == maxKinds {
		return nil
	}
	k := &samples{name: string(name)}
	s.kinds = append(s.kinds, k)
	return k
}

// nameable tells whether text can be the name of an operation: letters, digits, and what joins them.
func nameable(text []byte) bool {
	for _, c := range text {
		if !(c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.') {
			return false
		}
	}
	return len(text) > 0 && len(text) <= maxName && string(text) != "_ERROR"
}

// number reads a whole number of at most 18 digits: what is longer cannot be meant.
func number(text []byte) (n int64, ok bool) {
	if len(text) == 0 || len(text) > 18 {
		return 0, false
	}
	for _, c := range text {
		digit := c - '0'
		if digit > 9 {
			return 0, false
		}
		n = 10*n + int64(digit)
	}
	return n, true
}

// short is the beginning of text that stands in a message.
func short(text []byte) string {
	const most = 40
	if len(text) <= most {
		return string(text)
	}
	return fmt.Sprintf("%s… (%d bytes)", text[:most], len(text))
}
