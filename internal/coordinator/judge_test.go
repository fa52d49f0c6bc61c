// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/objective"
	"github.com/kvbench/kvbench/internal/spec"
)

// judging is a judge of a run of two workers at 1,000/s, with a warm-up of two seconds, that is told second by second.
type judging struct {
	t    *testing.T
	spec *spec.Spec
	judge
	fleet   fleetSeen
	at      int64
	waiting *workerpb.Histogram // at the end of the next seconds
}

func newJudging(t *testing.T, texts ...string) *judging {
	t.Helper()
	var all []objective.Objective
	for _, text := range texts {
		o, err := objective.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	s := &spec.Spec{Warmup: 2 * time.Second, Duration: time.Minute}
	return &judging{t: t, spec: s, judge: newJudge(all), fleet: fleetSeen{workers: 2, batch: 1}}
}

// second lets the workers tell of a second in which each had so many operations, of which some failed and the others took so long.
func (j *judging) second(workers int, ended, failed int64, took time.Duration) {
	j.at++
	for range workers {
		iv := &workerpb.Interval{FromNanos: (j.at - 1) * int64(time.Second), ToNanos: j.at * int64(time.Second), Target: 500, Totals: &workerpb.Totals{}}
		for _, w := range j.watched {
			p := &workerpb.Part{Answered: ended - failed, Failed: failed, Ended: ended}
			if w.GetTime() != "" && ended > failed {
				p.Latency = &workerpb.Histogram{Micros: []uint32{uint32(took.Microseconds())}, Counts: []uint64{uint64(ended - failed)}}
			}
			if w.GetTime() != "" {
				p.Waiting = j.waiting
			}
			iv.Parts = append(iv.Parts, p)
		}
		j.add(iv, j.spec)
	}
	j.judge.judge(j.at, &j.fleet)
}

// is checks how the objectives stand.
func (j *judging) is(want ...objective.State) {
	j.t.Helper()
	for i, v := range j.views {
		if v.State != want[i] {
			j.t.Errorf("after %d s %s is %v (%s), want %v", j.at, v.Objective, v.State, v.Why, want[i])
		}
	}
}

func TestJudgedByTheLastSeconds(t *testing.T) {
	t.Parallel()
	const kept, broken, unknown = objective.Kept, objective.Broken, objective.Unknown
	j := newJudging(t, "READ service p99 < 5ms", "errors < 1%", "rate >= 99%", "READ rate >= 900/s")
	j.is(unknown, unknown, unknown, unknown)
	for range 2 { // warm-up
		j.second(2, 500, 400, 50*time.Millisecond)
	}
	j.is(unknown, unknown, unknown, unknown)
	for range 4 {
		j.second(2, 500, 0, time.Millisecond)
	}
	j.is(kept, kept, kept, kept)
	if v := j.views[0]; v.Text != "1.00 ms" || j.broken(time.Hour, 0) != nil {
		t.Errorf("%+v", v)
	}
	// One slow second of five is more than a hundredth of all operations, and so for as long as it is among the last ten.
	j.second(2, 500, 0, 50*time.Millisecond)
	j.is(broken, kept, kept, kept)
	if v := j.views[0]; v.Since != 7*time.Second || v.Why != "READ service p99 is 50.0 ms, above 5.00 ms" {
		t.Errorf("%+v", v)
	}
	for range 9 {
		j.second(2, 500, 0, time.Millisecond)
	}
	j.is(broken, kept, kept, kept)
	if v := j.broken(16*time.Second, 9*time.Second); v != &j.views[0] || v.Since != 7*time.Second {
		t.Errorf("broken for nine seconds: %+v", v)
	}
	if v := j.broken(16*time.Second, 10*time.Second); v != nil {
		t.Errorf("broken for ten seconds: %+v", v)
	}
	j.second(2, 500, 0, time.Millisecond)
	j.is(kept, kept, kept, kept)
	for range 10 {
		j.second(2, 480, 48, time.Millisecond)
	}
	j.is(kept, broken, broken, broken)
	// Where nothing is answered there is no latency.
	for range 10 {
		j.second(2, 0, 0, 0)
	}
	j.is(unknown, unknown, broken, broken)
	// What has waited for longer than the limit is above it, however it ends.
	j.waiting = &workerpb.Histogram{Micros: []uint32{4000}, Counts: []uint64{8}}
	j.second(2, 0, 0, 0)
	j.is(unknown, unknown, broken, broken)
	j.waiting.Micros[0] = 1_000_000
	for range 20 {
		j.second(2, 0, 0, 0)
	}
	j.is(broken, unknown, broken, broken)
	if v := j.views[0]; v.Since != time.Duration(j.at-19)*time.Second || v.Why != "READ service p99 is at least 1.00 s, above 5.00 ms, with 16 that were not answered yet" {
		t.Errorf("at %d s: %+v", j.at, v)
	}
	j.waiting = nil
	j.second(2, 500, 0, time.Millisecond)
	j.is(kept, kept, broken, broken)
	if len(j.seconds) > 2*judgedSeconds {
		t.Errorf("%d seconds are kept", len(j.seconds))
	}
}

// What lost workers do is not known: they may do all that is missing.
func TestJudgedWithoutSomeWorkers(t *testing.T) {
	t.Parallel()
	j := newJudging(t, "READ service p99 < 5ms", "errors < 1%", "rate >= 99%", "rate >= 400/s")
	for range 4 {
		j.second(2, 500, 0, time.Millisecond)
	}
	j.fleet.unseen = "1 of 2 workers not heard of"
	for range 10 {
		j.second(1, 500, 0, time.Millisecond)
	}
	j.is(objective.Unknown, objective.Unknown, objective.Unknown, objective.Kept)
	if why := j.views[2].Why; !strings.Contains(why, "rate is 50 % of the target (500/s of 1,000/s) of what was seen, and 1 of 2 workers not heard of") {
		t.Errorf("%q", why)
	}
	// Of workers whose loss is tolerated nothing is asked.
	j.fleet.unseen = ""
	j.second(1, 500, 0, time.Millisecond)
	j.is(objective.Kept, objective.Kept, objective.Kept, objective.Kept)
}

// A worker that knows nothing of what is watched, and slots that never started, leave it unknown.
func TestJudgedByLittle(t *testing.T) {
	t.Parallel()
	j := newJudging(t, "READ service p99 < 5ms", "errors < 1%", "rate >= 50%")
	for at := range int64(10) {
		j.add(&workerpb.Interval{FromNanos: at * int64(time.Second), ToNanos: (at + 1) * int64(time.Second), Target: 500}, j.spec)
	}
	j.judge.judge(10, &j.fleet)
	j.is(objective.Unknown, objective.Unknown, objective.Unknown)
	j.at = 10
	j.second(2, 500, 0, time.Millisecond)
	j.seconds[j.at].skipped = 100
	j.judge.judge(j.at, &j.fleet)
	j.is(objective.Unknown, objective.Unknown, objective.Kept)
}
