// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/spec"
)

// cell is one of several runs that answer a question together.
type cell struct {
	dir string // of its results
	run *analysis.Run
	doc *analysis.Document // of that run alone
}

// report is what was measured, with its verdict.
func (c *cell) report() *analysis.Report { return c.doc.Runs[0] }

// cell runs a spec as kvbench run does, and reads what was measured. It connects to the fleet anew, so that
// workers may have been replaced since the last one. first stops the run and second gives it up; command is what does the same again.
//
// There is no cell of a run that did not begin, only an error. An error beside a cell says how the run ended, and
// its verdict does as well: nothing was lost on the way if the code of both is [exitcode.Valid].
func (b *bench) cell(first, second context.Context, s *spec.Spec, command string) (*cell, error) {
	summaries, err := b.perform(first, second, s, command)
	if len(summaries) == 0 {
		if err == nil {
			err = exitcode.With(exitcode.Interrupted, errors.New("nothing was measured"))
		}
		return nil, err
	}
	dir := summaries[0].Dir
	run, unread := analysis.Load(dir)
	if unread != nil {
		return nil, errors.Join(err, unread)
	}
	return &cell{dir: dir, run: run, doc: analysis.Summarize(run)}, err
}
