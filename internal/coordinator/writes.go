// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/workload"
)

const (
	readBackPoll = 100 * time.Millisecond
	attestBatch  = 200 // disputes in a question
	attestTime   = 10 * time.Second

	// What clocks may differ by, beside what their comparison says: it was made
	// before the start, and quartz is off by some 50 millionths.
	clockSlack = 10 * time.Millisecond
	clockDrift = 1e-4
)

// verifyWrites waits until no worker writes any more, has all read back what they
// have written, decides what they dispute, and lets them end.
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
func (r *running) written() (writers []*part, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.parts {
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

// dispute is a key that does not hold what a worker was told OK for.
type dispute struct {
	*workerpb.Dispute
	by *part

	other      *part // that may have written the value
	otherEnd   time.Duration
	undecided  bool // somebody cannot be asked
	unfollowed bool // somebody knows nothing of the key
}

// readBack has all workers read back what they have written, and decides the disputes.
func (r *running) readBack(ctx context.Context, writers []*part) *results.Verification {
	v := &results.Verification{Of: results.OfWrites, Fraction: 1, Problems: []results.Problem{}}
	var (
		wg       sync.WaitGroup
		mu       sync.Mutex
		disputes []*dispute
	)
	for _, p := range writers {
		wg.Go(func() {
			resp, err := p.client.ReadBack(ctx, &workerpb.ReadBackRequest{RunId: r.job.RunID})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				v.Partial = true
				v.Notes = append(v.Notes, fmt.Sprintf("%s did not read back what it wrote: %s", p.name, failure(err)))
				return
			}
			v.Expected += resp.GetKeys()
			v.Checked += resp.GetKeys() - resp.GetUnread()
			v.Unread += resp.GetUnread()
			v.Fraction = min(v.Fraction, resp.GetTracked())
			if untold := resp.GetDisputed() - int64(len(resp.GetDisputes())); untold > 0 {
				v.Undecided += untold
				v.Partial = true
				v.Notes = append(v.Notes, fmt.Sprintf("%s found %d keys that differ, of which %d were looked into", p.name, resp.GetDisputed(), len(resp.GetDisputes())))
			}
			for _, d := range resp.GetDisputes() {
				disputes = append(disputes, &dispute{Dispute: d, by: p})
			}
		})
	}
	wg.Wait()
	if len(writers) < len(r.parts) {
		v.Partial = true
		v.Notes = append(v.Notes, fmt.Sprintf("%d of %d workers could not say what they wrote", len(r.parts)-len(writers), len(r.parts)))
		for _, d := range disputes {
			d.undecided = true
		}
	}
	r.attest(ctx, writers, disputes)
	if v.Fraction < 1 {
		v.Notes = append(v.Notes, fmt.Sprintf("a sample of all keys was followed, %.3g %% of them: -p verifywrites.keys sets how many", 100*v.Fraction))
	}
	r.decide(v, disputes)
	return v
}

// attest asks every worker about the disputes of the others.
func (r *running) attest(ctx context.Context, writers []*part, disputes []*dispute) {
	for batch := range slices.Chunk(disputes, attestBatch) {
		req := &workerpb.AttestRequest{RunId: r.job.RunID}
		for _, d := range batch {
			req.Disputes = append(req.Disputes, &workerpb.Dispute{Key: d.GetKey(), Found: d.GetFound()})
		}
		for _, p := range writers {
			asked, cancel := context.WithTimeout(ctx, attestTime)
			resp, err := p.client.Attest(asked, req)
			cancel()
			for i, d := range batch {
				switch {
				case d.by == p:
				case err != nil || len(resp.GetAnswers()) != len(batch):
					d.undecided = true
				case resp.GetAnswers()[i].GetMine():
					if end := time.Duration(resp.GetAnswers()[i].GetEndNanos()); d.other == nil || end > d.otherEnd {
						d.other, d.otherEnd = p, end
					}
				case !resp.GetAnswers()[i].GetFollowed():
					d.unfollowed = true
				}
			}
		}
	}
}

// decide counts the disputes by what they are.
func (r *running) decide(v *results.Verification, disputes []*dispute) {
	elapsed := time.Since(r.zero)
	seen := make(map[string]bool) // several workers may have written a key that is lost
	for _, d := range disputes {
		acked := time.Duration(d.GetStartNanos())
		text := ""
		var count *int64
		switch {
		case d.GetProblem() != "":
			text, count = "holds a row that "+d.GetProblem(), &v.Wrong
		case d.other != nil && d.otherEnd >= acked-slack(d.by, d.other, elapsed):
			continue // written at the same time, or later
		case d.other != nil:
			text, count = fmt.Sprintf("is older than acknowledged: it holds what %s was told OK for at %.3f s", d.other.name, d.otherEnd.Seconds()), &v.Stale
		case d.unfollowed && v.Fraction < 1: // in another worker's sample it is not
			v.Expected--
			v.Checked--
			continue
		case d.undecided, d.unfollowed:
			v.Undecided++
			continue
		case d.GetGone():
			text, count = "is gone", &v.Missing
		default:
			text, count = "is older than acknowledged: it holds what no worker wrote last", &v.Stale
		}
		if seen[string(d.GetKey())] {
			continue
		}
		seen[string(d.GetKey())] = true
		*count++
		if len(v.Problems) < workload.MaxProblems {
			at := time.Duration(d.GetEndNanos()).Seconds()
			key := fmt.Sprintf("%q", d.GetKey())
			v.Problems = append(v.Problems, results.Problem{Worker: d.by.name, Key: key[1 : len(key)-1], Text: text, AtS: &at})
		}
	}
}

// slack is by how much the clocks of two workers may differ.
func slack(a, b *part, elapsed time.Duration) time.Duration {
	return a.offset.roundTrip/2 + b.offset.roundTrip/2 + clockSlack + time.Duration(clockDrift*float64(elapsed))
}
