// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/results"
)

// Format is a form of a report.
type Format string

// The formats.
const (
	FormatText Format = "text"
	FormatJSON Format = "json"
	FormatCSV  Format = "csv"
	FormatHTML Format = "html"
)

// formats are all of them.
var formats = []Format{FormatText, FormatJSON, FormatCSV, FormatHTML}

// ParseFormat returns the format of that name.
func ParseFormat(name string) (Format, error) {
	if f := Format(name); slices.Contains(formats, f) {
		return f, nil
	}
	return "", fmt.Errorf("format %q is none of text, json, csv, html", name)
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

// Write writes the document in a format; colour is for text alone.
func (d *Document) Write(w io.Writer, f Format, colour bool) error {
	switch f {
	case FormatJSON:
		return JSON(w, d)
	case FormatCSV:
		return CSV(w, d)
	case FormatHTML:
		return HTML(w, d)
	}
	return Text(w, d, colour)
}

// WriteFile writes the document into a file.
func (d *Document) WriteFile(path string, f Format) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Write(file, f, false), file.Close())
}

// Code is the exit code of the gravest verdict among the runs, in the order in
// which verdicts weigh their findings.
func (d *Document) Code() int {
	gravity := []int{exitcode.Valid, exitcode.SLO, exitcode.Target, exitcode.Degraded, exitcode.Interrupted, exitcode.Wrong}
	worst := exitcode.Valid
	for _, r := range d.Runs {
		if slices.Index(gravity, r.Verdict.Code) > slices.Index(gravity, worst) {
			worst = r.Verdict.Code
		}
	}
	return worst
}
