// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/spec"
)

// Split has the first worker split the range that a load will fill into so many regions (0: as many as suit it), and spread them
// over the stores. It returns how the table lies then. With force, a table that has rows is split as well.
func (f *Fleet) Split(ctx context.Context, s *spec.Spec, regions int, force bool, say func(string)) (string, error) {
	done, err := f.tend(ctx, &workerpb.TendRequest{
		Properties: s.Properties(), Chore: &workerpb.TendRequest_Split{Split: &workerpb.Split{Regions: int32(regions), Force: force}},
	}, say)
	return done.GetDone(), err
}

// Clean has the first worker remove a table and what is remembered of it, in the store and in the results directory out as well. If
// it is not really to, it only says what there is.
func (f *Fleet) Clean(ctx context.Context, s *spec.Spec, out string, really bool, say func(string)) (string, error) {
	done, err := f.tend(ctx, &workerpb.TendRequest{
		Properties: s.Properties(), Chore: &workerpb.TendRequest_Clean{Clean: &workerpb.Clean{Really: really}},
	}, say)
	if err != nil || !really {
		return done.GetDone(), err
	}
	job := Job{Spec: s, Out: out}
	if err := os.Remove(job.manifestFile(done.GetClusterId())); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return done.GetDone(), err
	}
	return done.GetDone(), nil
}

// Settle has the first worker wait until the database has come to rest, or so long has passed: an error of code
// [exitcode.Degraded] then says why it has not.
func (f *Fleet) Settle(ctx context.Context, s *spec.Spec, most time.Duration, say func(string)) (string, error) {
	done, err := f.tend(ctx, &workerpb.TendRequest{
		Properties: s.Properties(), Chore: &workerpb.TendRequest_Settle{Settle: &workerpb.Settle{MostNanos: int64(most)}},
	}, say)
	if err == nil && done.GetGaveUp() {
		err = exitcode.With(exitcode.Degraded, errors.New(done.GetDone()))
	}
	return done.GetDone(), err
}

// tend has the first worker do a chore, and returns the last piece of its answer.
func (f *Fleet) tend(ctx context.Context, req *workerpb.TendRequest, say func(string)) (*workerpb.TendResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := f.members[0]
	stream, err := m.client.Tend(ctx, req)
	for err == nil {
		var resp *workerpb.TendResponse
		if resp, err = stream.Recv(); err != nil {
			break
		}
		if resp.GetProgress() == "" {
			return resp, nil
		}
		say(resp.GetProgress())
	}
	if ctx.Err() != nil {
		return nil, exitcode.With(exitcode.Interrupted, errors.New("interrupted; what has been done of it stays"))
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("it ended without an answer")
	}
	return nil, failures(map[string]error{m.name: err}, f.Size())
}
