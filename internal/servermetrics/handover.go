// SPDX-License-Identifier: Apache-2.0

package servermetrics

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/kvbench/kvbench/internal/clock"
)

// A store's threads keep what they have counted for a second, and hand it over with the first answer after that. So each is given
// something to answer before a reading that is to have everything: twice before the load, more than a second apart, and once when the load
// has been over for more than a second. Between the second and the reading nothing is handed over.
const (
	keeps = time.Second + 10*time.Millisecond // how long a thread may keep its counts

	// HandoverLead is how long before the load a watcher must be at work: the first prompt has what is left of it.
	HandoverLead = keeps + lastPrompt + 550*time.Millisecond
	lastPrompt   = 200 * time.Millisecond // before the load

	afterEnd   = keeps + 90*time.Millisecond // that workers do not end at the same moment
	promptTime = 500 * time.Millisecond      // for the answers
	countTime  = 20 * time.Millisecond       // stores count what they have answered already

	promptsPerThread = 4 // connections go to threads in turn, or by chance
	usualThreads     = 5 // TiKV's server.grpc-concurrency by default
	maxPrompts       = 64
)

// handover makes the threads of one store hand over their counts, through connections of its own.
type handover struct {
	conns []*grpc.ClientConn
	sent  int           // commands
	last  time.Duration // how long before the load it prompts for the second time
}

// handover connects to a store when it is first prompted.
func (r *reader) handover(ctx context.Context, timeout time.Duration) (*handover, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := r.configure(ctx); err != nil {
		return nil, err
	}
	creds := insecure.NewCredentials()
	if r.tls != nil {
		creds = credentials.NewTLS(r.tls.Clone())
	}
	threads := cmp.Or(min(r.sizes["pool_size.grpc_server"], maxPrompts), usualThreads)
	h := &handover{last: lastPrompt}
	for range min(promptsPerThread*int(threads), maxPrompts) {
		conn, err := grpc.NewClient(r.server.Store, grpc.WithTransportCredentials(creds))
		if err != nil {
			return nil, errors.Join(err, h.close())
		}
		h.conns = append(h.conns, conn)
	}
	return h, nil
}

func (h *handover) close() error {
	var errs []error
	for _, conn := range h.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

// prompt has a read answered on each connection. It belongs to no region, so that the store refuses it, and counts it, whatever it holds.
func (h *handover) prompt(ctx context.Context) error {
	errs := make([]error, len(h.conns))
	var asked sync.WaitGroup
	for i, conn := range h.conns {
		asked.Go(func() {
			_, errs[i] = tikvpb.NewTikvClient(conn).RawGet(ctx, &kvrpcpb.RawGetRequest{Context: &kvrpcpb.Context{}, Key: []byte("kvbench-probe")})
		})
	}
	asked.Wait()
	h.sent += len(h.conns)
	return errors.Join(errs...)
}

// begin reads a store just before the load begins, with all that it has counted until then. ok is false, and there may be nothing to
// read, if that has not worked in time.
func (h *handover) begin(ctx context.Context, r *reader, timeout time.Duration) (s Sample, ok bool) {
	in := func(end time.Duration) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, end-r.clk.Now())
	}
	first, cancel := in(-h.last - keeps)
	defer cancel()
	if h.prompt(first) != nil || !sleepUntil(ctx, r.clk, -h.last) {
		return s, false
	}
	second, cancel := in(0)
	defer cancel()
	if h.prompt(second) != nil || !sleepUntil(ctx, r.clk, r.clk.Now()+countTime) {
		return s, false
	}
	s = r.read(ctx, timeout)
	s.At, s.Prompted = 0, h.sent
	return s, s.Figures != nil
}

// end reads a store when the load, which has just ended, has been over for so long that its threads hand over all that they have counted.
// It gives up when ctx ends.
func (h *handover) end(ctx context.Context, r *reader) (s Sample, ok bool) {
	if !sleepUntil(ctx, r.clk, r.clk.Now()+afterEnd) {
		return s, false
	}
	prompting, cancel := context.WithTimeout(ctx, max(promptTime, h.last))
	defer cancel()
	if h.prompt(prompting) != nil || !sleepUntil(ctx, r.clk, r.clk.Now()+countTime) {
		return s, false
	}
	s = r.read(ctx, lastWait)
	s.Prompted = h.sent
	return s, s.Figures != nil
}

// sleepUntil returns false if ctx ends before it is so late.
func sleepUntil(ctx context.Context, clk clock.Clock, at time.Duration) bool {
	timer := time.NewTimer(at - clk.Now())
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
