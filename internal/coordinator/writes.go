// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/ledger"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/workload"
)

const (
	readBackPoll = 100 * time.Millisecond
	askBatch     = 100 // keys in a question
	askTime      = 10 * time.Second

	// What clocks may differ by, beside what their comparison says: it was made
	// before the start, and quartz is off by some 50 millionths.
	clockSlack = 10 * time.Millisecond
	clockDrift = 1e-4
)

// verifyWrites waits until no worker writes any more, has all read back what they
// have written, decides what differs, and lets them end.
func (r *running) verifyWrites(ctx context.Context, done <-chan struct{}) {
	tick := time.NewTicker(readBackPoll)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-r.stopping:
			return
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		writers, all := r.written()
		if !all {
			continue
		}
		if len(writers) > 0 {
			v := r.readBack(ctx, writers)
			r.mu.Lock()
			r.record.Verification = v
			r.mu.Unlock()
			r.event(results.Event{Kind: "verified", Text: v.Text()})
		}
		var released sync.WaitGroup
		for _, p := range writers {
			released.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, stopTimeout)
				defer cancel()
				_, _ = p.client.Stop(ctx, &workerpb.StopRequest{RunId: r.job.RunID}) // who cannot be told has a lease
			})
		}
		released.Wait()
		return
	}
}

// written returns the workers that have written and wait, and whether all do that
// are still at work.
func (r *running) written() (writers []*workerRun, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.workers {
		if p.state != results.Running {
			continue
		}
		if !p.written {
			return nil, false
		}
		writers = append(writers, p)
	}
	return writers, true
}

// mismatch is a key that does not hold what a worker was told OK for.
type mismatch struct {
	*workerpb.Mismatch
	by *workerRun

	other     *workerRun // that may have written the value
	otherEnd  time.Duration
	undecided bool // somebody cannot be asked, or knows nothing of the key
}

// readBack has all workers read back what they have written, one part of all keys after the
// other, so that only the keys of one part are ever held, and decides what differs.
func (r *running) readBack(ctx context.Context, writers []*workerRun) *results.Verification {
	v := &results.Verification{Of: results.OfWrites, Problems: []results.Problem{}}
	if len(writers) < len(r.workers) {
		v.Partial = true
		v.Notes = append(v.Notes, fmt.Sprintf("%d of %d workers could not say what they wrote", len(r.workers)-len(writers), len(r.workers)))
	}
	silent := make([]bool, len(writers)) // of whom nothing is known any more
	for part := range ledger.Parts {
		r.readPart(ctx, part, writers, silent, v)
	}
	if v.Fraction < 1 {
		v.Notes = append(v.Notes, fmt.Sprintf("a sample of all keys was followed, %.3g %% of them: -p verifywrites.keys sets how many", 100*v.Fraction))
	}
	return v
}

// partRead is what a worker read back of a part of all keys.
type partRead struct {
	keys, unread, untracked []uint64
	mismatches              []*mismatch
	level                   uint
}

// readPart adds what all workers find in one part of the keys.
func (r *running) readPart(ctx context.Context, number int, writers []*workerRun, silent []bool, v *results.Verification) {
	reads, failures := make([]*partRead, len(writers)), make([]error, len(writers))
	var wg sync.WaitGroup
	for i, p := range writers {
		if !silent[i] {
			wg.Go(func() { reads[i], failures[i] = r.readFrom(ctx, p, number) })
		}
	}
	wg.Wait()
	var level uint // that all have in common
	for i, p := range writers {
		if err := failures[i]; err != nil {
			silent[i], v.Partial = true, true
			v.Notes = append(v.Notes, fmt.Sprintf("%s did not read back all that it wrote: %s", p.name, failure(err)))
		}
		if reads[i] != nil {
			level = max(level, reads[i].level)
		}
	}
	v.Fraction += math.Exp2(-float64(level)) / ledger.Parts
	unknown := len(writers) < len(r.workers) || slices.Contains(silent, true)
	keys, unread, untracked := make(map[uint64]bool), make(map[uint64]bool), make(map[uint64]bool)
	var found []*mismatch
	for _, read := range reads {
		if read == nil {
			continue
		}
		followed := func(hash uint64) bool { return ledger.Follows(hash, level) }
		note(keys, read.keys, followed)
		note(unread, read.unread, followed)
		note(untracked, read.untracked, followed)
		for _, m := range read.mismatches {
			m.undecided = unknown
			// Of a key that not all follow, only what does not depend on the others can be said.
			if followed(m.GetHash()) || m.GetProblem() != "" {
				keys[m.GetHash()] = true
				found = append(found, m)
			}
		}
	}
	for hash := range keys { // which another worker can speak for
		delete(untracked, hash)
	}
	v.Expected += int64(len(keys) + len(untracked))
	v.Checked += int64(len(keys) - len(unread))
	v.Undecided += int64(len(untracked))
	v.Unread += int64(len(unread))
	r.ask(ctx, writers, found)
	r.decide(v, found)
}

// note adds those hashes that are followed to a set.
func note(to map[uint64]bool, hashes []uint64, followed func(uint64) bool) {
	for _, hash := range hashes {
		if followed(hash) {
			to[hash] = true
		}
	}
}

// readFrom has a worker read back a part. With an error, what it returns is not all.
func (r *running) readFrom(ctx context.Context, p *workerRun, number int) (*partRead, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	read := &partRead{}
	stream, err := p.client.ReadBack(ctx, &workerpb.ReadBackRequest{RunId: r.job.RunID, Part: int32(number)})
	for err == nil {
		var piece *workerpb.ReadBackResponse
		if piece, err = stream.Recv(); err != nil {
			break
		}
		read.keys = append(read.keys, piece.GetKeys()...)
		read.unread = append(read.unread, piece.GetUnread()...)
		read.untracked = append(read.untracked, piece.GetUntracked()...)
		read.level = max(read.level, uint(piece.GetLevel()))
		for _, m := range piece.GetMismatches() {
			read.mismatches = append(read.mismatches, &mismatch{Mismatch: m, by: p})
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return read, err
}

// ask asks every worker what it wrote to the keys that others found to differ.
func (r *running) ask(ctx context.Context, writers []*workerRun, found []*mismatch) {
	for batch := range slices.Chunk(found, askBatch) {
		var wg sync.WaitGroup
		answers := make([][]*workerpb.Wrote, len(writers))
		for i, p := range writers {
			req := &workerpb.WroteRequest{RunId: r.job.RunID}
			for _, m := range batch {
				if m.by != p {
					req.Mismatches = append(req.Mismatches, &workerpb.Mismatch{Key: m.GetKey(), Found: m.GetFound()})
				}
			}
			if len(req.Mismatches) == 0 {
				continue
			}
			wg.Go(func() {
				asked, cancel := context.WithTimeout(ctx, askTime)
				defer cancel()
				if resp, err := p.client.Wrote(asked, req); err == nil && len(resp.GetAnswers()) == len(req.Mismatches) {
					answers[i] = resp.GetAnswers()
				}
			})
		}
		wg.Wait()
		for i, p := range writers {
			rest := answers[i]
			for _, m := range batch {
				switch {
				case m.by == p:
					continue
				case len(rest) == 0:
					m.undecided = true
					continue
				case rest[0].GetMine():
					if end := time.Duration(rest[0].GetEndNanos()); m.other == nil || end > m.otherEnd {
						m.other, m.otherEnd = p, end
					}
				case !rest[0].GetFollowed():
					m.undecided = true
				}
				rest = rest[1:]
			}
		}
	}
}

// claim is what is said of a key, from the least to the worst.
type claim int

const (
	nothing claim = iota
	undecided
	missing
	stale
	wrong
)

// claim says what a mismatch shows.
func (m *mismatch) claim(elapsed time.Duration) (claim, string) {
	acked := time.Duration(m.GetStartNanos())
	switch {
	case m.GetProblem() != "":
		return wrong, "holds a row that " + m.GetProblem()
	case m.other != nil && m.otherEnd >= acked-slack(m.by, m.other, elapsed):
		return nothing, "" // written at the same time, or later
	case m.other != nil:
		return stale, fmt.Sprintf("is older than acknowledged: it holds what %s was told OK for at %.3f s", m.other.name, m.otherEnd.Seconds())
	case m.undecided:
		return undecided, ""
	case m.GetGone():
		return missing, "is gone"
	default:
		return stale, "is older than acknowledged: it holds what no worker wrote last"
	}
}

// decide counts keys by what is said of them: the worst, if several workers wrote to one.
func (r *running) decide(v *results.Verification, found []*mismatch) {
	elapsed := time.Since(r.zero)
	slices.SortFunc(found, func(a, b *mismatch) int { return bytes.Compare(a.GetKey(), b.GetKey()) })
	for len(found) > 0 {
		n := 1
		for n < len(found) && bytes.Equal(found[n].GetKey(), found[0].GetKey()) {
			n++
		}
		what, text, by := nothing, "", found[0]
		for _, m := range found[:n] {
			if c, t := m.claim(elapsed); c > what {
				what, text, by = c, t, m
			}
		}
		found = found[n:]
		switch what {
		case undecided:
			v.Undecided++
		case missing:
			v.Missing++
		case stale:
			v.Stale++
		case wrong:
			v.Wrong++
		}
		if text != "" && len(v.Problems) < workload.MaxProblems {
			at := time.Duration(by.GetEndNanos()).Seconds()
			key := fmt.Sprintf("%q", by.GetKey())
			v.Problems = append(v.Problems, results.Problem{Worker: by.by.name, Key: key[1 : len(key)-1], Text: text, AtS: &at})
		}
	}
}

// slack is by how much the clocks of two workers may differ.
func slack(a, b *workerRun, elapsed time.Duration) time.Duration {
	return a.offset.roundTrip/2 + b.offset.roundTrip/2 + clockSlack + time.Duration(clockDrift*float64(elapsed))
}
