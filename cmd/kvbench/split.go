// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/kvbench/kvbench/internal/coordinator"
)

// splitting is how a table is laid out before it is loaded.
type splitting struct {
	regions string // number, auto, or empty: not at all
	force   bool
}

func (l *splitting) add(f *pflag.FlagSet) {
	f.StringVar(&l.regions, "split", "", "before the load, split the table into so many regions and spread them over the stores: `number|auto`")
	f.BoolVar(&l.force, "split-force", false, "split a table that has rows as well")
}

// maxSplit is what a worker accepts.
const maxSplit = 10_000

// number returns how many regions there are to be; 0 for auto.
func (l *splitting) number() (int, error) {
	if l.regions == "auto" {
		return 0, nil
	}
	n, err := strconv.Atoi(l.regions)
	if err != nil || n < 1 || n > maxSplit {
		return 0, fmt.Errorf("--split %s: want auto, or a number of regions from 1 to %d", l.regions, maxSplit)
	}
	return n, nil
}

func (l *splitting) check() error {
	switch {
	case l.regions != "":
		_, err := l.number()
		return err
	case l.force:
		return errors.New("--split-force does nothing without --split")
	}
	return nil
}

// do splits the table, if asked to, and says so to the user and in the run's record.
func (l *splitting) do(ctx context.Context, fleet *coordinator.Fleet, job *coordinator.Job) error {
	if l.regions == "" {
		return nil
	}
	n, err := l.number()
	if err != nil {
		return err
	}
	done, err := fleet.Split(ctx, job.Spec, n, l.force, job.Warn)
	if err != nil {
		return err
	}
	job.Warn(done)
	job.Spec.Warnings = append(job.Spec.Warnings, done)
	return nil
}
