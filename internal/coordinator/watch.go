// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/results"
)

// watchAll follows the run until no worker is at work any more. When ctx ends it
// stops the run; when patient does, it returns at once.
func (r *running) watchAll(ctx, patient context.Context) {
	var watchers sync.WaitGroup
	for _, p := range r.workers {
		if p.state == results.Running { // with one that is led anew, some may have ended
			watchers.Go(func() { r.watch(patient, p) })
		}
	}
	done := make(chan struct{})
	var helpers sync.WaitGroup
	helpers.Go(func() {
		select {
		case <-ctx.Done():
			r.mu.Lock()
			r.stopNow("by the user")
			r.mu.Unlock()
		case <-done:
		}
	})
	helpers.Go(func() { r.report(done) })
	if r.job.Spec.VerifyWrites {
		helpers.Go(func() { r.verifyWrites(patient, done) })
	}
	watchers.Wait()
	close(done)
	helpers.Wait()
}

// stopNow asks every watcher to stop its worker, once. r.mu is held.
func (r *running) stopNow(why string) {
	if r.stopped {
		return
	}
	r.stopped = true
	at := max(0, time.Since(r.zero)).Seconds()
	r.record.StoppedS = &at
	r.event(results.Event{Kind: "stop", Text: why})
	close(r.stopping)
}

// watch follows one worker until its part is over and its journal is copied.
func (r *running) watch(ctx context.Context, p *workerRun) {
	next := after(r.zero.Add(pollPhase + time.Duration(p.index)*r.spread()/time.Duration(len(r.workers))))
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	stopping := r.stopping
	for {
		select {
		case <-ctx.Done():
			return
		case <-stopping:
			stopping = nil // once
			if err := r.tellToStop(ctx, p); err != nil {
				r.lose(p, "it cannot be told to stop: "+failure(err).Error())
				return
			}
		case <-timer.C:
			next = after(next)
			timer.Reset(time.Until(next))
		}
		if r.poll(ctx, p) {
			return
		}
	}
}

// spread is over how long the workers are asked, one after another, so that a large fleet does not
// answer at one moment.
func (r *running) spread() time.Duration {
	return min(maxSpread, time.Duration(len(r.workers))*time.Millisecond)
}

// after returns the first moment from now on that lies whole seconds from t.
func after(t time.Time) time.Time {
	ahead := time.Until(t)
	t = t.Add(-ahead.Truncate(time.Second))
	if ahead <= 0 {
		t = t.Add(time.Second)
	}
	return t
}

// tellToStop stops a worker. One that answers has been told, also if it has not ended yet, for it waits for stores that do not answer.
func (r *running) tellToStop(ctx context.Context, p *workerRun) error {
	err := r.stopOne(ctx, p)
	if status.Code(err) != codes.DeadlineExceeded {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	if _, silent := p.client.Status(ctx, &workerpb.StatusRequest{RunId: r.job.RunID, RenewLease: true}); silent != nil {
		return err
	}
	return nil
}

func (r *running) stopOne(ctx context.Context, p *workerRun) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	_, err := p.client.Stop(ctx, &workerpb.StopRequest{RunId: r.job.RunID, GraceNanos: int64(stopGrace)})
	if status.Code(err) == codes.NotFound {
		return nil // restarted: the poll finds out
	}
	return err
}

// poll asks a worker how it does and copies what it has measured meanwhile. It
// returns true when there is nothing more to come, or nothing that is waited for.
func (r *running) poll(ctx context.Context, p *workerRun) bool {
	return r.follow(ctx, p) || r.overdue(ctx, p)
}

// overdue gives up a worker that answers and does not end although its work, or the run when it was stopped, the grace
// and a lease are over: nobody is waited for without end. A run without a duration
// takes as long as it takes, and so does reading back what was written.
func (r *running) overdue(ctx context.Context, p *workerRun) bool {
	s := r.job.Spec
	due := s.Warmup + s.Duration + s.Grace
	r.mu.Lock()
	silent, stopped := time.Since(p.lastSeen) >= r.job.LostAfter, r.stopped
	if stopped {
		due = results.Duration(*r.record.StoppedS) + stopGrace
	}
	r.mu.Unlock()
	if now := time.Since(r.zero); s.Duration == 0 && !stopped || s.VerifyWrites || now < due+r.job.Lease {
		return false
	}
	if silent {
		return false // which is known, and has its own time
	}
	r.lose(p, fmt.Sprintf("it has not ended, or its journal cannot be copied, %v after its time was over", r.job.Lease))
	if err := r.stopOne(ctx, p); err != nil {
		r.fleet.log.Warn("a worker that does not end cannot be stopped", "worker", p.name, "error", failure(err))
	}
	return true
}

func (r *running) follow(ctx context.Context, p *workerRun) bool {
	r.mu.Lock()
	after, reads := p.latest.GetToNanos(), r.readsServers(p)
	r.mu.Unlock()
	asked, cancel := context.WithTimeout(ctx, pollTimeout)
	resp, err := p.client.Status(asked, &workerpb.StatusRequest{RunId: r.job.RunID, RenewLease: true, AfterNanos: after, ReadServers: reads})
	cancel()
	switch {
	case err == nil:
		r.heard(p, resp)
		finished := resp.GetRun().GetState() == workerpb.State_STATE_FINISHED
		if !finished && len(resp.GetIntervals()) == 0 && len(p.journal.have) > 0 {
			return false // there is nothing new to copy
		}
		copied := r.copy(ctx, p, finished)
		if errors.Is(copied, errTooMuch) {
			r.lose(p, copied.Error())
			if err := r.stopOne(ctx, p); err != nil {
				r.fleet.log.Warn("a worker that sends without end cannot be stopped", "worker", p.name, "error", failure(err))
			}
			return true
		}
		if errors.Is(copied, errCopy) {
			r.notCopied(copied)
		}
		if !finished {
			return false
		}
		if copied == nil || errors.Is(copied, errCopy) {
			r.ended(p, resp.GetRun(), copied)
			return true
		}
		return r.silent(p, copied)
	case status.Code(err) == codes.NotFound:
		// The process is a new one, or has another run by now. What was measured may be on its disk.
		copied := r.copy(ctx, p, true)
		if copied == nil && r.endedBefore(p) {
			return true
		}
		r.lose(p, "it was restarted")
		if copied == nil || errors.Is(copied, errCopy) || status.Code(copied) == codes.NotFound {
			r.settle(p, copied)
			return true
		}
		return r.silent(p, copied)
	default:
		return r.silent(p, err)
	}
}

// readsServers tells whether this worker is the one that reads the stores' own figures: the first, and when that is lost or has ended, the
// next that is asked. r.mu is held.
func (r *running) readsServers(p *workerRun) bool {
	if r.reader.state != results.Running && p.state == results.Running {
		r.reader = p
	}
	return r.reader == p
}

// longest is how long the run has gone on by now at most.
func (r *running) longest() time.Duration {
	s, now := r.job.Spec, time.Since(r.zero)
	if s.Duration == 0 || s.VerifyWrites {
		return now
	}
	return min(now, s.Warmup+s.Duration+s.Grace+r.job.Lease)
}

// copy copies what a worker has measured meanwhile. A whole copy is compared with the
// journal, and files that differ are fetched once more.
func (r *running) copy(ctx context.Context, p *workerRun, whole bool) error {
	p.journal.most = mostBytes(r.longest())
	pulling, cancel := context.WithTimeout(ctx, pullTimeout)
	err := p.journal.pull(pulling, p.client)
	cancel()
	if err != nil || !whole {
		return err
	}
	ctx, cancel = context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	differ, err := p.journal.complete(ctx, p.client)
	if err != nil || len(differ) == 0 {
		return err
	}
	text := fmt.Sprintf("the copy of %s differed from the worker's journal, and is fetched anew", strings.Join(differ, ", "))
	r.event(results.Event{Kind: "copy", Worker: p.name, Text: text})
	r.job.Warn(p.name + ": " + text)
	if err := p.journal.forget(differ); err != nil {
		return err
	}
	if differ, err = p.journal.complete(ctx, p.client); err == nil && len(differ) > 0 {
		err = fmt.Errorf("%w: %s differs from the worker's journal again: is the disk of %s broken?", errCopy, strings.Join(differ, ", "), r.dir)
	}
	return err
}

// notCopied tells, once, that what workers measure cannot be copied. The run goes on:
// they have it.
func (r *running) notCopied(err error) {
	r.mu.Lock()
	told := r.copyFailed
	r.copyFailed = true
	r.mu.Unlock()
	if told {
		return
	}
	text := fmt.Sprintf("%s; the run goes on, and the workers keep what they measure", oneLine(err.Error()))
	r.event(results.Event{Kind: "copy", Text: text})
	if r.job.FleetFlags != "" { // workers of this process end with it
		text += fmt.Sprintf("; kvbench collect %s --out %s %s fetches the rest", r.job.RunID, r.job.Out, r.job.FleetFlags)
	}
	r.job.Warn(text)
}

// heard takes up what a worker has said.
func (r *running) heard(p *workerRun, resp *workerpb.StatusResponse) {
	r.mu.Lock()
	defer r.mu.Unlock()
	away := p.lastSeen
	p.lastSeen = time.Now()
	p.totals = resp.GetTotals()
	if iv := resp.GetIntervals(); len(iv) > 0 {
		p.latest = iv[len(iv)-1]
		for _, one := range iv {
			r.judge.add(one, r.job.Spec)
		}
	}
	p.written = resp.GetRun().GetState() == workerpb.State_STATE_WRITTEN
	p.skew = max(0, time.Duration(resp.GetRun().GetStartSkewNanos()))
	if p.state == results.Lost {
		p.state, p.reason = results.Running, ""
		r.changed(p, results.WorkerBack, fmt.Sprintf("it answers again, and had gone on; not heard of from %.1f s to %.1f s",
			max(0, away.Sub(r.zero)).Seconds(), p.lastSeen.Sub(r.zero).Seconds()))
	}
}

// silent notes that a worker did not answer. It returns true when it need not be
// waited for any longer.
func (r *running) silent(p *workerRun, err error) bool {
	r.mu.Lock()
	lastSeen, idle := p.lastSeen, r.idleSince
	giveUp := r.atWorkUntil(lastSeen).Add(r.job.Rejoin)
	r.mu.Unlock()
	if time.Since(lastSeen) < r.job.LostAfter {
		return false
	}
	r.lose(p, failure(err).Error())
	r.tellAwaited()
	select {
	case <-r.stopping:
		return true
	default:
		return !idle.IsZero() && time.Since(idle) > r.job.Rejoin && time.Now().After(giveUp)
	}
}

// tellAwaited says once for whom a run waits of which no worker is at work as far as is known.
func (r *running) tellAwaited() {
	r.mu.Lock()
	if r.awaiting || r.idleSince.IsZero() || r.stopped {
		r.mu.Unlock()
		return
	}
	r.awaiting = true
	var lost []string
	until := r.idleSince.Add(r.job.Rejoin)
	for _, p := range r.workers {
		if p.state == results.Lost && p.client != nil {
			lost = append(lost, p.name)
			if at := r.atWorkUntil(p.lastSeen).Add(r.job.Rejoin); at.After(until) {
				until = at
			}
		}
	}
	r.mu.Unlock()
	if len(lost) > 0 {
		r.job.Warn(fmt.Sprintf("waiting up to %.0f s for %s to come back; Ctrl-C does not wait", max(0, time.Until(until)).Seconds(), some(lost, len(r.workers))))
	}
}

// atWorkUntil is how long a worker that was heard of then may be at work without us: to the
// end of its time, or of its lease. It is worth waiting for while no other is either: it may
// be this machine that was cut off.
func (r *running) atWorkUntil(lastSeen time.Time) time.Time {
	s := r.job.Spec
	lease := lastSeen.Add(r.job.Lease)
	if s.Duration == 0 || s.VerifyWrites { // it takes as long as it takes
		return lease
	}
	if end := r.zero.Add(s.Warmup + s.Duration); r.job.Detach || end.Before(lease) {
		return end
	}
	return lease
}

// workerFinished is the kind of the event that a worker has done its part.
const workerFinished = "worker-finished"

// lose declares a worker lost, once.
func (r *running) lose(p *workerRun, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.state != results.Running {
		return
	}
	p.state, p.reason, p.lostAt = results.Lost, oneLine(reason), max(0, p.lastSeen.Sub(r.zero))
	r.changed(p, results.WorkerLost, fmt.Sprintf("%s; last heard of at %.1f s", p.reason, p.lostAt.Seconds()))
	r.mind()
}

// mind stops the run if that is to be done when too many workers are lost. r.mu is held.
func (r *running) mind() {
	if !r.job.Limits.StopOnLoss || r.stopped {
		return
	}
	var lost []string
	for _, p := range r.workers {
		if p.state == results.Lost || p.state == results.Failed {
			lost = append(lost, p.name)
		}
	}
	if len(lost) > r.job.Limits.TolerateLost {
		r.record.StopWhy = some(lost, len(r.workers)) + " lost, and --on-loss=stop"
		r.stopNow(r.record.StopWhy)
	}
}

// endedBefore takes up that a worker whose process has forgotten the run had done its part:
// its journal, which is copied, says so.
func (r *running) endedBefore(p *workerRun) bool {
	w, err := results.ReadWorker(p.journal.dir)
	if err != nil || w.State != results.Finished {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch end := w.EndS; w.Ended {
	case results.ByDuration, results.ByOperations:
	case results.ByStop:
		if r.record.StoppedS == nil {
			r.record.StoppedS = &end
		}
	default:
		return false
	}
	p.state, p.reason = results.Finished, ""
	r.changed(p, workerFinished, "its journal says so")
	return true
}

// settle notes that a restarted worker's journal has been copied as far as it went.
func (r *running) settle(p *workerRun, copied error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if copied != nil {
		r.changed(p, "journal", "what it measured last is gone: "+failure(copied).Error())
		return
	}
	r.changed(p, "journal", "it is back with its journal, which is copied")
}

// ended takes up how a worker's part has ended.
func (r *running) ended(p *workerRun, run *workerpb.RunStatus, copied error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.state, p.reason = results.Finished, ""
	elapsed := time.Duration(run.GetElapsedNanos())
	kind := workerFinished
	switch end := run.GetEnd(); end {
	case workerpb.End_END_COMPLETE:
	case workerpb.End_END_STOPPED:
		if r.record.StoppedS == nil { // not by us
			at := elapsed.Seconds()
			r.record.StoppedS = &at
		}
	case workerpb.End_END_SHUTDOWN:
		p.state, p.reason, kind = results.Lost, "it was shut down", results.WorkerLost
	default:
		p.state, p.reason, kind = results.Failed, oneLine(run.GetError()), "worker-failed"
	}
	if copied != nil {
		p.state, p.reason, kind = results.Failed, oneLine(copied.Error()), "worker-failed"
	}
	p.lostAt = elapsed
	r.changed(p, kind, p.reason)
	r.mind()
}

// changed notes a worker's new state, which [running.save] writes. r.mu is held.
func (r *running) changed(p *workerRun, kind, text string) {
	r.event(results.Event{Kind: kind, Worker: p.name, Text: text})
	atWork := false
	for _, p := range r.workers {
		atWork = atWork || p.state == results.Running
	}
	switch {
	case atWork:
		r.idleSince, r.awaiting = time.Time{}, false
	case r.idleSince.IsZero():
		r.idleSince = time.Now()
	}
	r.changes = true
}

func oneLine(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "\n", "; ") }
