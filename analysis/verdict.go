// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/objective"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/units"
	"github.com/kvbench/kvbench/internal/workload"
)

// What is tolerated.
const (
	// targetShare is how much of the target must have been answered.
	targetShare = 0.99
	// errorShare is how much may fail, unless the run has a limit of its own.
	errorShare = 0.001
	// busyShare is from which share of its cores on a client is taken to be the limit.
	busyShare = 0.85
	// waitShare is how much of its cores' time a client's threads must have waited for
	// a core, beside what they used, for that to be a lack; and waitedShare which part of the
	// time of the calls in flight, for few of them to be held up. Threads that wait for longer than they run
	// hold up all calls of their lane, which then count as one.
	waitShare   = 0.15
	waitedShare = 0.5
	// crowdedShare is from which part of the window on threads that wait for longer than they run leave it open who is the limit.
	crowdedShare = 0.1
	// machineShare is from which share of a machine's processors in use, by anyone,
	// on the client's machine is the limit, where the system does not tell how long threads wait.
	machineShare = 0.95
	// fullShare is from which share of the threads in flight on the server is.
	fullShare = 0.9
	// inVainShare is which part of what is missing of a target must have waited for the database until the end for that to be the limit.
	inVainShare = 0.9
	// queuedShare is from which share of the operations that found no free thread on their lag is
	// worth a word, and shortShare from which share on the threads are what a missed target lacked.
	queuedShare = 0.01
	shortShare  = 0.1
)

// judge gives the verdict on a run: the gravest finding's code, and all findings.
func judge(p *Report, r *Run) results.Verdict {
	rec := r.record
	v := results.Verdict{Code: exitcode.Valid}
	var findings []string
	find := func(code int, format string, args ...any) {
		if v.Code == exitcode.Valid {
			v.Code = code
		}
		findings = append(findings, fmt.Sprintf(format, args...))
	}
	// In the order of gravity.
	if n := p.count(workload.Wrong); n > 0 {
		find(exitcode.Wrong, "verification found %s wrong %s", units.Count(n), units.Plural(n, "value", "values"))
	}
	if v := rec.Verification; v != nil && v.Bad() > 0 {
		find(exitcode.Wrong, "%s", v.Text())
	}
	if r.probe != nil && r.probe.Bad() != "" {
		find(exitcode.Wrong, "the probe found that %s", r.probe.Bad())
	}
	if rec.State == results.Interrupted || rec.StoppedS != nil && rec.StopWhy == "" {
		find(exitcode.Interrupted, "interrupted")
	}
	if rec.StopSLO { // whatever else there is
		find(exitcode.SLO, "stopped: %s", rec.StopWhy)
	}
	degraded(p, rec, func(format string, args ...any) { find(exitcode.Degraded, format, args...) })
	if r.probe != nil {
		for _, text := range r.probe.Lacks() {
			find(exitcode.Degraded, "of the probe: %s", text)
		}
	}
	if rec.Paced && p.missedTarget() && !has(rec.Limits.SLO, objective.Share) { // which says how much is enough
		find(exitcode.Target, "%s of the target of %s was reached", units.Percent(p.OpsPerS/p.TargetOps), units.Rate(p.TargetOps))
		if p.Hang != nil {
			find(exitcode.Target, "%s", p.Hang.text())
		}
	}
	for _, o := range rec.Limits.SLO {
		row := objectiveRow(o, o.Judge(r.seen(p, o)))
		p.Objectives = append(p.Objectives, row)
		if row.Found != "" {
			find(exitcode.SLO, "%s", row.Found)
		}
	}
	if v.Code == exitcode.Valid {
		findings = append(findings, "valid")
	}
	if text := limitText(p); text != "" {
		findings = append(findings, text)
	}
	if s := p.Servers; s != nil && s.Counted != nil && s.Counted.Result == CountedMore {
		findings = append(findings, s.Counted.Text)
	}
	if n := p.NoAnswer; n != nil {
		findings = append(findings, fmt.Sprintf("no answer for %s at %s", units.Seconds(n.S), units.Seconds(n.AtS)))
	}
	if text := oftenStill(p, stalledShare); text != "" && p.WindowS >= shortWindow.Seconds() {
		findings = append(findings, text)
	}
	if p.WindowS > 0 && p.WindowS < shortWindow.Seconds() {
		findings = append(findings, fmt.Sprintf("measured for only %s, too short for a rate and percentiles to mean much", units.Micros(p.WindowS*1e6)))
	}
	v.Text = strings.Join(findings, "; ")
	return v
}

func limitText(p *Report) string {
	switch p.Limit.By {
	case ByUnknown, ByErrors: // which have been named
		return ""
	case ByOthers:
		return "limited by other processes on the client's machine"
	case ByServer:
		if why := p.Servers.limits(); why != "" {
			return "limited by the server: " + why
		}
		if few := fewConnections(p); few != "" && unansweredText(p) == "" {
			return "limited by the server, or by the client's " + few
		}
	case ByClient:
		if throttled(p, throttledShare) != "" && stoodStill(p) == "" {
			return "limited by the client, throttled by its CPU limit"
		}
	case ByTarget:
		if len(p.WorkersLost) > 0 || p.Rated < float64(p.Operations) {
			return "target met while all workers ran"
		}
		return "target met"
	}
	return "limited by the " + p.Limit.By
}

// degraded finds what makes a result one of less than was asked for.
func degraded(p *Report, rec *results.Run, find func(format string, args ...any)) {
	if rec.StopWhy != "" && !rec.StopSLO {
		find("stopped: %s", rec.StopWhy)
	}
	if n := len(p.WorkersLost); n > rec.Limits.TolerateLost {
		find("%d of %d workers lost", n, p.WorkersExpected)
	}
	if text := stoodStill(p); text != "" {
		find("%s", text)
	}
	if text := throttled(p, throttledShare); text != "" {
		find("%s", text)
	}
	if missing := p.WorkersExpected - len(p.Workers); missing > 0 {
		find("%d of %d workers never took part", missing, p.WorkersExpected)
	}
	switch n := len(p.Missing); {
	case n == 1:
		find("the results are not complete: %s", p.Missing[0])
	case n > 1:
		find("the results are not complete: %s, and %d more", p.Missing[0], n-1)
	}
	switch rec.State {
	case results.Preparing, results.Running:
		find("the coordinator never closed the run: it runs still, or was killed")
	case results.Failed:
		find("the run failed")
	}
	if n := abandoned(p.Workers); n > 0 {
		find("the user gave up on %d of %d workers: what they measured last is not here", n, p.WorkersExpected)
	}
	all := p.completed()
	failed, most := p.failed()
	if v := rec.Verification; v != nil && v.Bad() == 0 && !v.Complete() {
		find("the verification is not complete")
	}
	limit := errorShare
	switch {
	case rec.Limits.ErrorShare != nil:
		limit = *rec.Limits.ErrorShare
	case has(rec.Limits.SLO, objective.Errors): // which says how many are too many
		limit = 1
	}
	if share := float64(failed) / float64(max(all, 1)); share > limit {
		find("%s of the operations failed (limit: %s): %s", units.Percent(share), units.Percent(limit), most)
	}
	if text := missedKeys(p, rec); text != "" {
		find("%s", text)
	}
	// That the run failed has been said.
	if by := p.Ended.By; by == EndLease || by == EndUnknown || by == EndFailed && rec.State != results.Failed {
		find("it ended after %s: %s", units.Seconds(p.Ended.AtS), p.Ended.Text)
	}
	if all == 0 {
		find("no operation completed in the window")
	}
	if p.Hang != nil && !(rec.Paced && p.missedTarget()) { // which says that operations are missing
		find("%s", p.Hang.text())
	}
}

// abandoned counts the workers that the user did not wait for.
func abandoned(workers []WorkerRow) (n int) {
	for i := range workers {
		if workers[i].State == results.Abandoned {
			n++
		}
	}
	return n
}

// count adds up the operations of all kinds that ended as o, which is not OK: of that there is a row of the total.
func (p *Report) count(o workload.Outcome) (n int64) {
	for _, k := range p.Kinds {
		if k.Outcome == o.String() {
			n += k.Operations
		}
	}
	return n
}

// missedTarget tells whether less was answered than was asked for.
func (p *Report) missedTarget() bool {
	// Targets are sums of shares, exact to a millionth.
	return p.TargetOps > 0 && p.OpsPerS < (targetShare-1e-6)*p.TargetOps && p.TargetOps-p.OpsPerS > p.slack()
}

// slack is how much of a rate, per second, may be missing by chance. A batch more
// or less per worker is where the window happened to cut the schedule; that of a Poisson process
// holds its mean only within some standard deviations, each the root of the number of batches.
func (p *Report) slack() float64 {
	if p.WindowS <= 0 {
		return 0
	}
	batch := float64(max(p.Plan.Batch, 1))
	edge := batch * float64(max(len(p.Workers), 1))
	if p.Spec["arrival"] == spec.Poisson {
		edge += 3 * batch * math.Sqrt(p.TargetOps*p.WindowS/batch)
	}
	return edge / p.WindowS
}

// limitOf says what kept a run from being faster, and if that was the client, what helps.
func limitOf(p *Report, r *Run) Limit {
	limit := foundLimit(p, r)
	if few := fewConnections(p); limit.By == ByServer && few != "" && unansweredText(p) == "" {
		limit.Why += fmt.Sprintf("; the fleet has only %s, which a store serves with one thread each of its %d (server.grpc-concurrency): more connections may raise the rate as well", few, grpcThreads)
	}
	if limit.By == ByClient && driver(r) == "rawkv" {
		limit.Why += "; --driver stream costs the client a fraction of the CPU"
	}
	return limit
}

func foundLimit(p *Report, r *Run) Limit {
	switch failed, most := p.failed(); {
	case r.record.Phase == "verify":
		return Limit{ByUnknown, "a verification reads what is there; what could be read faster is not asked"}
	case float64(failed) >= failedShare*float64(max(p.completed(), 1)):
		return Limit{ByErrors, fmt.Sprintf("%s, of %s operations: while they fail, a rate says nothing of what the database or the client could do", most, units.Count(p.completed()))}
	case p.WindowS > 0 && p.WindowS < shortWindow.Seconds() && !(p.Paced && !p.missedTarget()):
		return Limit{ByUnknown, fmt.Sprintf("in %s it cannot be told", units.Micros(p.WindowS*1e6))}
	}
	if text := stoodStill(p); text != "" {
		if w := stillest(p.Workers); w.CPUWaitS >= w.StallMaxS && w.starved() {
			return Limit{ByUnknown, fmt.Sprintf("%s, and its threads waited for %s for processors in the window (%s): whether others kept it from running or it was stopped cannot be told", text, units.Seconds(w.CPUWaitS), w.machine())}
		}
		return Limit{ByClient, text + ": latencies and rates hold that, and not only what the database did"}
	}
	if text := throttled(p, throttledShare); text != "" {
		return Limit{ByClient, text + ": give it more, or use more workers; latencies and rates hold that, and not only what the database did"}
	}
	if p.Paced && p.OpsPerS > 0 && !p.missedTarget() {
		why := fmt.Sprintf("the schedule was kept with %s of %d threads in flight on average", units.Number(p.InFlight), p.Threads)
		if text, _ := strained(p); text != "" {
			why += "; but " + text + ", so that latencies include waiting in the client"
		}
		if share := p.queued(); share >= queuedShare {
			why += fmt.Sprintf("; %s of the operations were due while all threads had one, and waited for the database to answer", units.Percent(share))
			if n := p.NoAnswer; n != nil {
				why += fmt.Sprintf(", which it did not for %s from %s on", units.Seconds(n.S), units.Seconds(n.AtS))
			} else {
				why += ": with more threads they would start in time"
			}
		}
		return Limit{ByTarget, why}
	}
	if text := p.unasked(); text != "" {
		return Limit{ByUnknown, text}
	}
	if text := unansweredText(p); text != "" {
		// What a client without a processor has not read yet looks as if it had not been answered, and what has come late it cannot catch up with.
		if lack, _ := strained(p); p.Hang == nil && (lack != "" || crowded(p.Workers, p.WindowS) != "") {
			return Limit{ByUnknown, text + "; but " + cmp.Or(lack, crowded(p.Workers, p.WindowS)) + ": how much each is to blame cannot be told"}
		}
		return Limit{ByServer, text}
	}
	if p.OpsPerS == 0 && p.ErrorsPerS == 0 {
		if p.InFlight >= fullShare*float64(p.Threads) {
			return Limit{ByServer, fmt.Sprintf("%s of %d threads were waiting for the database on average, and none was answered in the window", units.Number(p.InFlight), p.Threads)}
		}
		return Limit{ByUnknown, "nothing was measured"}
	}
	if text, others := strained(p); others {
		return Limit{ByOthers, text + ": run the workers on machines that nothing else needs"}
	} else if text != "" {
		return Limit{ByClient, text + ": use more workers, on machines that nothing else needs"}
	}
	if text := crowded(p.Workers, p.WindowS); text != "" {
		return Limit{ByUnknown, text + ": whether that or the database was the limit cannot be told"}
	}
	service := r.fleet.sum(every).service
	if d := p.LaneDelayUS; d != nil && service != nil {
		if typical := float64(service.ValueAtPercentile(50)); d.Mean > typical/2 && d.Mean > 100 {
			return Limit{ByClient, fmt.Sprintf("answers waited %s on average for their lane, after %s (p50) of service time", units.Micros(d.Mean), units.Micros(typical))}
		}
	}
	full := p.InFlight / float64(max(p.Threads, 1))
	if full >= fullShare {
		return Limit{ByServer, fmt.Sprintf("%s of %d threads were waiting for the database on average, while the busiest worker used %s of its cores; more threads may raise the rate, at higher latency", units.Number(p.InFlight), p.Threads, busiestShare(p.Workers))}
	}
	if share := p.queued(); p.Paced && share >= shortShare {
		return Limit{ByServer, fmt.Sprintf("%s of the operations were due while all %d %s waited for the database, though only %s did on average: it answers in bursts; more threads may bridge them", units.Percent(share), p.Threads, units.Plural(int64(p.Threads), "thread", "threads"), units.Number(p.InFlight))}
	}
	if text := p.inVain(); text != "" {
		return Limit{ByServer, text}
	}
	if p.Paced && p.LagUS != nil {
		return Limit{ByClient, fmt.Sprintf("operations started %s (p99) after they were due, though only %s of %d threads were in flight on average", MetricNamed("p99").Show(p.LagUS), units.Number(p.InFlight), p.Threads)}
	}
	return Limit{ByUnknown, fmt.Sprintf("%s of %d threads were in flight on average, and the busiest worker used %s of its cores", units.Number(p.InFlight), p.Threads, busiestShare(p.Workers))}
}

// inVain says that what is missing of the target was due and waited for the database until the end, in a call or for a thread, all of which
// waited for it then: so it is with a rate slightly above what a database does, of which a queue grows while threads are free. Empty if that was not so.
func (p *Report) inVain() string {
	if !p.Paced || !p.missedTarget() {
		return ""
	}
	waited := p.CutOff + p.Blocked*int64(max(p.Plan.Batch, 1))
	if float64(waited) < inVainShare*(p.TargetOps-p.OpsPerS)*p.WindowS {
		return ""
	}
	return fmt.Sprintf("%s operations waited for the database in vain until the end, which is what is missing of the target: it answers fewer than are due, though only %s of %d threads were in flight on average",
		units.Count(waited), units.Number(p.InFlight), p.Threads)
}

// unasked says that the target was missed for workers that did nothing in the window, while the
// others did what was asked of them.
func (p *Report) unasked() string {
	idle := 0
	for i := range p.Workers {
		if p.Workers[i].OpsPerS == 0 && p.Workers[i].State == results.Lost {
			idle++
		}
	}
	if asked := p.TargetOps * float64(p.WorkersExpected-idle) / float64(p.WorkersExpected); idle == 0 || asked == 0 || p.OpsPerS < targetShare*asked {
		return ""
	}
	return fmt.Sprintf("%d of %d workers were lost before anything was measured, and nobody was asked for their share of the target; the others kept theirs", idle, p.WorkersExpected)
}

// queued is the share of the operations that were due while all threads had one.
// Slots that never came for that reason are among them.
func (p *Report) queued() float64 {
	batch := int64(max(p.Plan.Batch, 1))
	return float64(p.Queued+p.Blocked*batch) / float64(max(p.completed()+p.CutOff+p.Skipped*batch, 1))
}

// completed is the number of operations that came back, whatever with.
func (p *Report) completed() (n int64) {
	for _, k := range p.Kinds {
		if k.Kind != AllKinds {
			n += k.Operations
		}
	}
	return n
}

// strained says which worker lacked processors, "" if none did, and whether others used them.
func strained(p *Report) (text string, others bool) {
	if w := busiest(p.Workers); w != nil && w.CPUShare >= busyShare {
		return fmt.Sprintf("%s used %s of its %d %s", w.Name, units.Percent(w.CPUShare), w.Cores, units.Plural(int64(w.Cores), "core", "cores")), false
	}
	for i := range p.Workers {
		w := &p.Workers[i]
		switch capacity := p.WindowS * float64(w.Cores); {
		case capacity == 0:
		case w.CPUWaitS > 0:
			waited := w.CPUWaitS / capacity
			inFlight := p.InFlight / float64(len(p.Workers))
			if waited > w.CPUShare {
				inFlight = min(inFlight, 1)
			}
			if waited >= waitShare && (w.CPUShare+waited >= busyShare || w.CPUWaitS >= waitedShare*inFlight*p.WindowS) {
				return fmt.Sprintf("%s used %s of its %d %s, and its threads wanted another %s that they did not get (%s)",
					w.Name, units.Percent(w.CPUShare), w.Cores, units.Plural(int64(w.Cores), "core", "cores"), units.Percent(waited), w.machine()), w.starved()
			}
		case w.MachineShare >= machineShare:
			return fmt.Sprintf("%s used %s of its %d cores (%s)", w.Name, units.Percent(w.CPUShare), w.Cores, w.machine()), w.starved()
		}
	}
	return "", false
}

// crowded says which worker's threads waited for processors for longer than they ran, and for much of the window; "" if none did.
func crowded(workers []WorkerRow, window float64) string {
	for i := range workers {
		w := &workers[i]
		ran := w.CPUShare * float64(w.Cores) * window
		if w.CPUWaitS > ran && w.CPUWaitS >= crowdedShare*window {
			return fmt.Sprintf("%s ran for %s of processor time, and its threads waited for %s until they got it (%s)", w.Name, units.Seconds(ran), units.Seconds(w.CPUWaitS), w.machine())
		}
	}
	return ""
}

// machine says how busy the worker's machine was.
func (w *WorkerRow) machine() string {
	text := fmt.Sprintf("its machine was %s busy", units.Percent(w.MachineShare))
	if w.OthersShare >= 0.01 {
		text += fmt.Sprintf(", %s of it or more with other processes", units.Percent(w.OthersShare))
	}
	return text
}

// starved tells whether others used more of the worker's machine than it did itself.
func (w *WorkerRow) starved() bool { return w.OthersShare > w.CPUShare }

func driver(r *Run) string {
	for _, w := range r.workers {
		if w.info.Driver != "" {
			return w.info.Driver
		}
	}
	return ""
}

func busiest(workers []WorkerRow) (most *WorkerRow) {
	for i := range workers {
		if w := &workers[i]; w.Cores > 0 && (most == nil || w.CPUShare > most.CPUShare) {
			most = w
		}
	}
	return most
}

func busiestShare(workers []WorkerRow) string {
	if w := busiest(workers); w != nil {
		return units.Percent(w.CPUShare)
	}
	return "an unknown share"
}
