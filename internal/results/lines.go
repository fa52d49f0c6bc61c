// SPDX-License-Identifier: Apache-2.0

package results

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// LineError is a line of a journal that cannot be read: the torn last one of a
// worker that was killed, or damage.
type LineError struct {
	File string
	Line int
	Torn bool // it is the last line and has no end
	Err  error
}

func (e *LineError) Error() string {
	if e.Torn {
		return fmt.Sprintf("%s:%d: torn last line left out", e.File, e.Line)
	}
	return fmt.Sprintf("%s:%d: line left out: %v", e.File, e.Line, e.Err)
}

func (e *LineError) Unwrap() error { return e.Err }

// maxLine bounds a line: a histogram with every bucket in use is far smaller.
const maxLine = 1 << 20

// lines reads a file of one record per line. Empty lines and, where parse
// returns errNoRecord, headers and comments are passed over.
type lines[T any] struct {
	in    *bufio.Reader
	file  string
	line  int
	parse func(line []byte) (T, error)
	done  bool // nothing follows

	held   bool // record and err wait for drop
	record T
	err    error
}

var errNoRecord = fmt.Errorf("no record")

func newLines[T any](r io.Reader, file string, parse func([]byte) (T, error)) *lines[T] {
	return &lines[T]{in: bufio.NewReaderSize(r, 16<<10), file: file, parse: parse}
}

// next returns the next record; or a *LineError, after which it can be called
// again; or, with done set, the end (nil) or the error that ended reading.
func (l *lines[T]) next() (record T, err error) {
	var none T
	for !l.done {
		text, err := l.readLine()
		switch {
		case err == io.EOF && len(text) == 0:
			l.done = true
			return none, nil
		case err == errTooLong:
			return none, &LineError{File: l.file, Line: l.line, Err: err}
		case err == io.EOF:
			return none, &LineError{File: l.file, Line: l.line, Torn: true, Err: io.ErrUnexpectedEOF}
		case err != nil:
			l.done = true
			return none, err
		}
		record, err := l.parse(text)
		if err == errNoRecord {
			continue
		}
		if err != nil {
			return none, &LineError{File: l.file, Line: l.line, Err: err}
		}
		return record, nil
	}
	return none, nil
}

// all yields what is left: records, *LineErrors, and the error that ended reading.
func (l *lines[T]) all(yield func(T, error) bool) {
	for {
		record, err := l.next()
		if l.done && err == nil || !yield(record, err) || l.done {
			return
		}
	}
}

// peek is next, but the record stays until drop.
func (l *lines[T]) peek() (T, error) {
	if !l.held {
		l.record, l.err = l.next()
		l.held = true
	}
	return l.record, l.err
}

func (l *lines[T]) drop() { l.held = false }

var errTooLong = fmt.Errorf("longer than %d bytes", maxLine)

// readLine returns the next line without its end, valid until the next call.
func (l *lines[T]) readLine() ([]byte, error) {
	l.line++
	text, err := l.in.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		long := bytes.Clone(text)
		for err == bufio.ErrBufferFull {
			text, err = l.in.ReadSlice('\n')
			if len(long) <= maxLine {
				long = append(long, text...)
			}
		}
		if len(long) > maxLine && (err == nil || err == io.EOF) {
			return nil, errTooLong
		}
		text = long
	}
	if err != nil {
		return text, err
	}
	return bytes.TrimSuffix(text[:len(text)-1], []byte("\r")), nil
}

// parseJSON reads a line of a .jsonl file.
func parseJSON[T any](line []byte) (v T, err error) {
	if len(bytes.TrimSpace(line)) == 0 {
		return v, errNoRecord
	}
	err = json.Unmarshal(line, &v)
	return v, err
}
