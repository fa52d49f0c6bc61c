// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/kvbench/kvbench/internal/plainfile"
)

// maxLine bounds a line, in bytes: an interval log's, with a histogram of which every bucket is in use, is shorter.
const maxLine = 4 << 20

// file is one that is read line by line.
type file struct {
	name     string // in problems
	in       *bufio.Reader
	close    func() error
	line     int64 // number of the line that was read last
	torn     bool  // that had no end
	left     int64
	problems []Unread
}

// openFile opens a file as a source of lines; one that gzip has packed is unpacked.
func openFile(name, dir, base string) (*file, error) {
	f, err := plainfile.Open(dir, base)
	if err != nil {
		return nil, err
	}
	in, err := unpacked(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	return &file{name: name, in: in, close: f.Close}, nil
}

// unpacked returns what r holds, without the packing if gzip has packed it.
func unpacked(r io.Reader) (*bufio.Reader, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	if magic, _ := in.Peek(2); !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return in, nil
	}
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	return bufio.NewReaderSize(z, 64<<10), nil
}

// problem notes that the line at hand, or what line names, is left out.
func (f *file) problem(line int64, format string, args ...any) {
	if f.left++; len(f.problems) < maxProblems {
		f.problems = append(f.problems, Unread{File: f.name, Line: line, Text: fmt.Sprintf(format, args...)})
	}
}

// next returns the next line without its end, valid until the next call, and io.EOF after the last. A line that is too long
// is a problem, and passed over. What ends the file before its time, as a torn archive does, is an error.
func (f *file) next() ([]byte, error) {
	for {
		f.line++
		text, err := f.in.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			long := bytes.Clone(text)
			size := len(long)
			for err == bufio.ErrBufferFull {
				text, err = f.in.ReadSlice('\n')
				if size += len(text); size <= maxLine {
					long = append(long, text...)
				}
			}
			if text = long; size > maxLine && (err == nil || err == io.EOF) {
				f.problem(f.line, "longer than %d bytes", maxLine)
				if err == io.EOF {
					return nil, io.EOF
				}
				continue
			}
		}
		if err == io.EOF && len(text) > 0 {
			f.torn = true
			return bytes.TrimSuffix(text, []byte("\r")), nil
		}
		if err != nil {
			return nil, err
		}
		return bytes.TrimSuffix(text[:len(text)-1], []byte("\r")), nil
	}
}

// each calls read for every line. An error of reading, beyond the end, is a problem: what came before it is kept.
func (f *file) each(read func(line []byte)) {
	for {
		line, err := f.next()
		switch {
		case err == io.EOF:
			return
		case err != nil:
			f.problem(f.line, "the rest cannot be read: %v", err)
			return
		}
		read(line)
	}
}

// sniffed is how much of a file is looked at to tell what it is, in bytes.
const sniffed = 64 << 10

// loadFile reads a file whatever it holds.
func loadFile(path, real string, o Options) (*Result, error) {
	f, err := openFile(path, filepath.Dir(real), filepath.Base(real))
	if err != nil {
		return nil, err
	}
	begin, err := f.in.Peek(sniffed)
	if err := errors.Join(notEOF(err), f.close()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	dir, base := filepath.Dir(real), filepath.Base(real)
	switch {
	case len(begin) == 0:
		return nil, fmt.Errorf("%s: the file is empty", path)
	case bytes.HasPrefix(begin, []byte(csvHeader)):
		return loadSamples(path, dir, base, o)
	case isLog(begin):
		return loadLogs(path, dir, []string{base}, o)
	}
	return loadSummary(path, dir, base, o)
}

// notEOF is err, unless that says that a file is shorter than what was asked for.
func notEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// fileSize is that of a file in bytes; 0 if it cannot be looked at.
func fileSize(path string) int64 {
	info, err := os.Lstat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
