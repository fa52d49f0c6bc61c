// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kvbench/kvbench/internal/atomicfile"
	"github.com/kvbench/kvbench/internal/control"
	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/plainfile"
	"github.com/kvbench/kvbench/internal/results"
)

// journal is the copy of a worker's journal in the results directory. It grows
// as the original does. It is for one goroutine.
type journal struct {
	run  string
	dir  string
	have map[string]int64 // bytes by file
	self []byte           // what WorkerFile holds, as far as it is known
	most int64            // bytes that a file may have
}

// mostBytes is more than any file of a journal has after so long a run: where each second fills all
// buckets of all histograms, it is some hundred KiB.
func mostBytes(length time.Duration) int64 {
	return 16<<20 + int64(max(0, length).Seconds()*(4<<20))
}

// openJournal returns the copy in dir, which is made if it is not there, as far
// as it goes.
func openJournal(run, dir string) (*journal, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	j := &journal{run: run, dir: dir, have: make(map[string]int64), most: math.MaxInt64}
	for _, name := range results.JournalFiles {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil {
			j.have[name] = info.Size()
		}
	}
	return j, nil
}

// pull copies what the worker has beyond the copy. When it fails, the copy holds
// what came until then, and a later pull goes on from there.
func (j *journal) pull(ctx context.Context, client workerpb.WorkerClient) error {
	_, err := j.fetch(ctx, client, false)
	return err
}

// complete is pull, and compares the whole copy with the journal afterwards. It returns the
// files that differ, which only fetching them anew mends.
func (j *journal) complete(ctx context.Context, client workerpb.WorkerClient) (differ []string, err error) {
	return j.fetch(ctx, client, true)
}

// forget removes files of the copy, so that they are fetched anew.
func (j *journal) forget(names []string) error {
	for _, name := range names {
		if err := os.Remove(filepath.Join(j.dir, name)); err != nil {
			return fmt.Errorf("%w: %w", errCopy, err)
		}
		delete(j.have, name)
	}
	j.self = nil
	return nil
}

func (j *journal) fetch(ctx context.Context, client workerpb.WorkerClient, verify bool) (differ []string, err error) {
	stream, err := client.Collect(ctx, &workerpb.CollectRequest{RunId: j.run, Have: j.have, Verify: verify})
	if err != nil {
		return nil, err
	}
	whole := 0 // pieces of which there is one of each file
	for {
		piece, err := stream.Recv()
		if err == io.EOF {
			return differ, nil
		}
		if err == nil && (piece.Sum != nil || piece.GetFile() == results.WorkerFile) {
			if whole++; whole > len(results.JournalFiles)+1 || piece.Sum != nil && !verify {
				err = fmt.Errorf("%w: it sends again and again what is sent once", errTooMuch)
			}
		}
		if err == nil && piece.Sum == nil {
			err = j.write(piece)
		} else if err == nil {
			var same bool
			if same, err = j.same(piece); !same {
				differ = append(differ, piece.GetFile())
			}
		}
		if err != nil {
			return nil, err
		}
	}
}

// same tells whether a file of the copy, as it is on the disk, is that of the worker.
func (j *journal) same(p *workerpb.CollectResponse) (bool, error) {
	name := p.GetFile()
	if !slices.Contains(results.JournalFiles, name) {
		return false, fmt.Errorf("%w: the worker sends a checksum of %q, which is not of a journal", errCopy, name)
	}
	f, err := plainfile.Open(j.dir, name)
	if err != nil {
		return false, fmt.Errorf("%w: %w", errCopy, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, fmt.Errorf("%w: %w", errCopy, err)
	}
	sum, err := control.Sum(f)
	if err != nil {
		return false, fmt.Errorf("%w: %w", errCopy, err)
	}
	return info.Size() == p.GetOffset() && sum == p.GetSum(), nil
}

// errTooMuch is a worker that sends without end.
var errTooMuch = errors.New("the worker is broken")

// errCopy is a failure of the copy, not of the worker.
var errCopy = errors.New("the journal cannot be copied")

// write adds a piece to the copy. What a worker says is checked: it names files,
// and this is where they are written.
func (j *journal) write(p *workerpb.CollectResponse) error {
	name := p.GetFile()
	if !slices.Contains(results.JournalFiles, name) {
		return fmt.Errorf("%w: the worker sends a file %q, which is not of a journal", errCopy, name)
	}
	path, n := filepath.Join(j.dir, name), int64(len(p.GetData()))
	have, known := j.have[name]
	switch {
	case known && n == 0:
		return fmt.Errorf("%w: it sends nothing of %s again and again", errTooMuch, name)
	case n > j.most-have:
		return fmt.Errorf("%w: it sends more than %d MiB of %s, and no run of this length has so much", errTooMuch, j.most>>20, name)
	}
	if name == results.WorkerFile {
		have = 0 // it comes whole, in one piece
	}
	if p.GetOffset() != have {
		return fmt.Errorf("%w: the worker sends %s from byte %d on, and %d are here", errCopy, name, p.GetOffset(), have)
	}
	if name == results.WorkerFile {
		if bytes.Equal(p.GetData(), j.self) {
			return nil
		}
		if err := atomicfile.Write(path, p.GetData(), 0o644); err != nil {
			return fmt.Errorf("%w: %w", errCopy, err)
		}
		j.self = bytes.Clone(p.GetData())
		return nil
	}
	f, err := plainfile.Append(j.dir, name)
	if err != nil {
		return fmt.Errorf("%w: %w", errCopy, err)
	}
	written, err := f.Write(p.GetData())
	j.have[name] += int64(written) // which may be nothing, of an empty file
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("%w: %w", errCopy, err)
	}
	return nil
}
