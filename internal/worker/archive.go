// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kvbench/kvbench/internal/control"
	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/plainfile"
	"github.com/kvbench/kvbench/internal/results"
)

// archive is the directory of a worker's journals, which survives a restart of the
// worker: <run-id>/<name>/ is a journal, and <run-id>/run.json what the coordinator
// wrote of the run when it started it.
type archive struct{ dir string }

// create makes the folder of a run, with the coordinator's record in it, if there is
// one, and returns the path that its journal is to have.
func (a archive) create(id, name string, record []byte) (string, error) {
	dir := filepath.Join(a.dir, id)
	err := os.MkdirAll(dir, 0o777)
	if err == nil && len(record) > 0 {
		err = os.WriteFile(filepath.Join(dir, results.RunFile), record, 0o666)
	}
	if err != nil {
		return "", fmt.Errorf("make the journal: %w", err)
	}
	return filepath.Join(dir, name), nil
}

func (a archive) has(id string) bool {
	_, err := os.Lstat(filepath.Join(a.dir, id))
	return !errors.Is(err, fs.ErrNotExist)
}

// open returns the path of a run's journal, and the worker's name in it.
func (a archive) open(id string) (dir, name string, err error) {
	if err := results.CheckName(id); err != nil {
		return "", "", status.Errorf(codes.InvalidArgument, "run: %v", err)
	}
	entries, err := os.ReadDir(filepath.Join(a.dir, id))
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", status.Errorf(codes.NotFound, "the worker has no journal of run %s", id)
	}
	if err != nil {
		return "", "", err
	}
	for _, e := range entries {
		if e.IsDir() {
			return filepath.Join(a.dir, id, e.Name()), e.Name(), nil
		}
	}
	return "", "", status.Errorf(codes.NotFound, "the worker has no journal of run %s", id)
}

// list returns the runs kept, the newest first.
func (a archive) list() ([]*workerpb.KeptRun, error) {
	entries, err := os.ReadDir(a.dir)
	if err != nil {
		return nil, err
	}
	var runs []*workerpb.KeptRun
	for _, e := range entries {
		dir, name, err := a.open(e.Name())
		if !e.IsDir() || err != nil {
			continue // not ours
		}
		k := &workerpb.KeptRun{RunId: e.Name(), Name: name, Collected: a.wasCollected(e.Name())}
		for _, file := range results.JournalFiles {
			if info, err := os.Stat(filepath.Join(dir, file)); err == nil {
				k.Bytes += info.Size()
				k.ModifiedUnixNanos = max(k.GetModifiedUnixNanos(), info.ModTime().UnixNano())
			}
		}
		runs = append(runs, k)
	}
	slices.SortFunc(runs, func(x, y *workerpb.KeptRun) int {
		return cmp.Or(cmp.Compare(y.GetModifiedUnixNanos(), x.GetModifiedUnixNanos()), cmp.Compare(x.GetRunId(), y.GetRunId()))
	})
	return runs, nil
}

// activeID returns the id of the active run, or nothing.
func (w *Worker) activeID() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.run != nil && w.run.active() {
		return w.run.id
	}
	return ""
}

// ListRuns implements [workerpb.WorkerServer].
func (w *Worker) ListRuns(context.Context, *workerpb.ListRunsRequest) (*workerpb.ListRunsResponse, error) {
	runs, err := w.journals.list()
	if err != nil {
		return nil, err
	}
	active := w.activeID()
	for _, k := range runs {
		k.Active = k.GetRunId() == active
	}
	return &workerpb.ListRunsResponse{Runs: runs}, nil
}

// Record implements [workerpb.WorkerServer].
func (w *Worker) Record(_ context.Context, req *workerpb.RecordRequest) (*workerpb.RecordResponse, error) {
	dir, _, err := w.journals.open(req.GetRunId())
	if err != nil {
		return nil, err
	}
	record, err := plainfile.ReadIn(filepath.Dir(dir), results.RunFile, results.MaxRunBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return &workerpb.RecordResponse{}, nil
	}
	if err == nil {
		record, err = control.Compress(record)
	}
	if err != nil {
		return nil, err
	}
	return &workerpb.RecordResponse{Record: record}, nil
}

// pieceBytes is how much of a file travels in one message.
const pieceBytes = 128 << 10

// Collect implements [workerpb.WorkerServer].
func (w *Worker) Collect(req *workerpb.CollectRequest, out grpc.ServerStreamingServer[workerpb.CollectResponse]) error {
	dir, _, err := w.journals.open(req.GetRunId())
	if err != nil {
		return err
	}
	info, err := results.ReadWorker(dir)
	whole := err == nil && info.State == results.Finished // from here on nothing is added
	for _, name := range results.JournalFiles {           // in the order in which a growing journal must be copied
		have, known := req.GetHave()[name]
		if name == results.WorkerFile {
			have, known = 0, false // it is replaced, not appended to
		}
		if err := sendFile(out, dir, name, have, known, req.GetVerify()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if whole && req.GetVerify() {
		if err := w.journals.markCollected(req.GetRunId()); err != nil { // it then stays as long as one that was not
			w.cfg.Log.Warn("that a journal was collected cannot be noted", "run", req.GetRunId(), "error", err)
		}
	}
	return nil
}

// sendFile sends what a file holds from offset on, as far as it went when it was
// opened, and if that is asked for a checksum of all of that. A file that the caller does
// not know is sent even when it is empty.
func sendFile(out grpc.ServerStreamingServer[workerpb.CollectResponse], dir, name string, offset int64, known, verify bool) error {
	f, err := plainfile.Open(dir, name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if offset < 0 || offset > info.Size() {
		return status.Errorf(codes.OutOfRange, "%s has %d bytes and the caller has %d: it is not a copy of this one", name, info.Size(), offset)
	}
	buf := make([]byte, min(pieceBytes, info.Size()-offset))
	for offset < info.Size() || !known {
		known = true
		n, err := f.ReadAt(buf[:min(int64(len(buf)), info.Size()-offset)], offset)
		if err != nil && err != io.EOF {
			return err
		}
		if err := out.Send(&workerpb.CollectResponse{File: name, Offset: offset, Data: buf[:n]}); err != nil {
			return err
		}
		offset += int64(n)
	}
	if !verify {
		return nil
	}
	sum, err := control.Sum(io.NewSectionReader(f, 0, offset))
	if err != nil {
		return err
	}
	return out.Send(&workerpb.CollectResponse{File: name, Offset: offset, Sum: &sum})
}
