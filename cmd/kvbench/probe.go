// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvbench/kvbench/analysis/availability"
	"github.com/kvbench/kvbench/analysis/render"
	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/coordinator"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/printable"
	"github.com/kvbench/kvbench/internal/probe"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/units"
)

// probing says how to probe.
type probing struct {
	interval, deadline time.Duration
	noSplit, keep      bool
}

// What is asked of stores unless flags say otherwise.
const (
	probeInterval = 100 * time.Millisecond
	probeDeadline = time.Second
)

// add adds the flags of which writes are made, whose names begin with prefix.
func (p *probing) add(f *pflag.FlagSet, prefix string) {
	f.DurationVar(&p.interval, prefix+"interval", probeInterval, "between two small writes to a store, 10ms to 1m")
	f.DurationVar(&p.deadline, prefix+"deadline", probeDeadline, "for a small write to be acknowledged in time, from when it was due; it is given up after tikv.timeout")
}

func (a *app) probeCommand() *cobra.Command {
	var p probing
	var what *specFlags
	var duration time.Duration
	var quiet bool
	var out, label, note string
	var report reportFlags
	cmd := &cobra.Command{
		Use:     "probe",
		GroupID: "load",
		Short:   "Write a little to each store ten times a second, and tell for how long none was acknowledged",
		Long: `Write a small value to each store every 100 ms, whatever became of the writes before, alone or beside
any load, while something is done to the cluster. In the end it tells for how long each store acknowledged
nothing, which share of the writes was acknowledged in time, and whether each acknowledged write is there.

It writes to keys of a table of its own, ` + probe.Table + `, and removes them in the end. So that each store
leads a region of it, it asks PD to split and spread that table. One process does all, without workers. To probe
while kvbench makes a load, and have both in one report: kvbench run --probe.

It ends after --duration or with Ctrl-C, keeps and reports what it saw in any case, and exits with 6 if an
acknowledged write is lost or wrong, 130 if it was interrupted before --duration was over, 4 if a write was
not acknowledged in time or something is not known, else 0. A second Ctrl-C leaves out reading back.`,
		Example: `  kvbench probe --pd 127.0.0.1:2379                   until Ctrl-C
  kvbench probe --duration 10m --interval 50ms --json >probe.json
  kvbench probe -w cluster.properties --deadline 200ms --label "rolling restart"
  kubectl -n kvbench exec -it kvbench-0 -- /kvbench probe --pd basic-pd.tikv-cluster:2379 --out /tmp/probe`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.SortFlags = false
	what = addClusterFlags(f)
	p.add(f, "")
	f.BoolVar(&p.noSplit, "no-split", false, "leave regions as they are: stores that lead none of "+probe.Table+" are not probed")
	f.BoolVar(&p.keep, "keep", false, "leave the keys that were written to "+probe.Table)
	f.DurationVar(&duration, "duration", 0, "how long; 0: until Ctrl-C")
	f.StringVar(&out, "out", "results", "`folder` that gets a folder for what was seen")
	f.BoolVar(&quiet, "quiet", false, "show no progress")
	f.StringVar(&label, "label", "", "`name` for it in lists and reports")
	f.StringVar(&note, "note", "", "`text` to keep with it")
	report.add(cmd, render.Reports)
	cmd.RunE = func(*cobra.Command, []string) error {
		s, err := what.parse(a.env, spec.Pair{Key: "dotransactions", Value: "true", Where: "kvbench probe"})
		if err == nil && duration < 0 {
			err = fmt.Errorf("--duration %v: want a time above 0, or 0 for no end", duration)
		}
		if err == nil {
			err = errors.Join(probe.Check("--", p.interval, p.deadline, s.TiKV.Timeout), printableText("--label", label), printableText("--note", note))
		}
		if err != nil {
			return usage(err)
		}
		if err := report.check(); err != nil {
			return err
		}
		record := &results.Run{
			RunID: results.NewRunID(time.Now()), Phase: results.Probing, State: results.Running, Probed: true,
			Spec: clusterProperties(s), Versions: map[string]string{"kvbench": version, "go": runtime.Version()}, Command: commandLine(nil, a.args), Label: label, Note: note,
			Cluster: results.Cluster{PD: s.TiKV.PD},
		}
		dir, err := a.probeAlone(s, p, duration, record, out, quiet)
		if dir == "" {
			return err
		}
		if err != nil {
			fmt.Fprintln(a.stderr, "kvbench: "+printable.Text(err.Error()))
		}
		if !quiet {
			fmt.Fprintln(a.stderr, "results:", dir)
		}
		return report.write(a, dir)
	}
	return cmd
}

// clusterProperties are the properties that say which cluster it is, and how it is reached.
func clusterProperties(s *spec.Spec) map[string]string {
	all := s.Properties()
	maps.DeleteFunc(all, func(name, _ string) bool { return !strings.HasPrefix(name, "tikv.") })
	return all
}

// probeAlone probes for a time, or until it is interrupted, and keeps what it saw in a folder, which it returns; "" if nothing was begun.
func (a *app) probeAlone(s *spec.Spec, p probing, duration time.Duration, record *results.Run, out string, quiet bool) (dir string, err error) {
	first, second, release := a.interruptible()
	defer release()
	view := newProbeView(a, quiet)
	u, err := startProbe(first, apart(s), p, record.RunID, func(text string) { view.say("kvbench: " + text) }, func(at time.Duration, all []probe.Snapshot) { view.show(probe.Line(at, all)) })
	if err != nil {
		view.close()
		return "", err
	}
	record.Start, record.Cluster.ID, record.Cluster.Stores = u.epoch.UTC(), u.cluster.ID, u.cluster.Stores
	record.Cluster.Details = u.cluster.Details
	if dir, err = results.CreateRun(out, record.RunID); err == nil {
		err = results.WriteRun(dir, record)
	}
	if err != nil {
		view.close()
		_, failed := u.finish(second)
		return "", errors.Join(usage(err), failed)
	}
	timed, cancel := first, context.CancelFunc(func() {})
	if duration > 0 {
		timed, cancel = context.WithTimeout(first, duration)
	}
	<-timed.Done()
	cancel()
	view.close()
	record.State = results.Finished
	if duration > 0 && first.Err() != nil {
		record.State = results.Interrupted
	}
	seen, err := u.finish(second)
	return dir, errors.Join(err, results.WriteProbe(dir, seen), results.WriteRun(dir, record))
}

// underway is a probe that goes on.
type underway struct {
	*probe.Probe
	epoch   time.Time // zero of its clock
	cluster store.Cluster
	keep    bool
	drivers []store.Driver
	stop    chan struct{}
	abandon chan struct{}
	done    chan struct{}

	tell    func(string)
	mu      sync.Mutex
	remarks []string
}

// say tells a user something, and keeps it for the report.
func (u *underway) say(text string) {
	u.mu.Lock()
	u.remarks = append(u.remarks, text)
	u.mu.Unlock()
	u.tell("probe: " + text)
}

// cleanTime is how long removing the keys may take.
const cleanTime = 30 * time.Second

// apart returns how a probe reaches a spec's cluster: each store over one connection, with a message for each call. client-go waits up to 5 s for
// the connection of a stream to a store that is gone, and learns that at once from a call that is not in one.
func apart(s *spec.Spec) *spec.Spec {
	own := *s
	own.TiKV.MaxBatchSize, own.TiKV.ConnCount, own.TiKV.Clients = 0, 1, 1
	if s.Driver == spec.Stream {
		own.Driver = spec.RawKV
	}
	return &own
}

// among returns how a probe does it in a process that has workers: its settings of client-go are those of the process.
func among(s *spec.Spec) *spec.Spec {
	own := *s
	own.TiKV.Clients = 1
	if s.Driver == spec.Stream {
		own.Driver, own.TiKV.ConnCount = spec.RawKV, 1 // as opener has it
	}
	return &own
}

// startProbe begins to probe a cluster as a spec reaches it. What a user should know is said, and how the stores are told every second. finish must follow.
func startProbe(ctx context.Context, s *spec.Spec, p probing, id string, say func(string), tick func(time.Duration, []probe.Snapshot)) (*underway, error) {
	u := &underway{epoch: time.Now(), keep: p.keep, tell: say, stop: make(chan struct{}), abandon: make(chan struct{}), done: make(chan struct{})}
	writer, err := u.open(ctx, s, s.TiKV.Timeout)
	if err != nil {
		return nil, err
	}
	reader, err := u.open(ctx, s, probe.ReadTime)
	if err != nil {
		return nil, errors.Join(err, u.close())
	}
	u.cluster = reader.Cluster()
	u.Probe, err = probe.New(ctx, probe.Config{
		Writer: writer, Reader: reader, Clock: clock.Since(u.epoch), Table: probe.Table, ID: id,
		Interval: p.interval, Deadline: p.deadline, GiveUp: s.TiKV.Timeout, Split: !p.noSplit,
		Say:  u.say,
		Tick: tick,
	})
	if err != nil {
		return nil, exitcode.With(exitcode.Unreachable, errors.Join(err, u.close()))
	}
	go func() {
		defer close(u.done)
		u.Run(u.stop, u.abandon)
	}()
	return u, nil
}

// open opens a driver whose calls take so long at most.
func (u *underway) open(ctx context.Context, s *spec.Spec, timeout time.Duration) (store.Administered, error) {
	timed := *s
	timed.TiKV.Timeout = timeout
	d, err := opener(nil)(ctx, &timed)
	if err != nil {
		return nil, exitcode.With(exitcode.Unreachable, err)
	}
	u.drivers = append(u.drivers, d)
	administered, ok := d.(store.Administered)
	if !ok {
		return nil, fmt.Errorf("driver %s cannot tell where keys are", s.Driver)
	}
	return administered, nil
}

func (u *underway) close() (err error) {
	for _, d := range u.drivers {
		err = errors.Join(err, d.Close())
	}
	return err
}

// finish ends a probe, reads back what was acknowledged, and removes it. What is not done when second ends is left.
func (u *underway) finish(second context.Context) (*availability.Probe, error) {
	close(u.stop)
	select {
	case <-u.done:
	case <-second.Done():
		close(u.abandon)
		<-u.done
	}
	seen := u.Seen(u.epoch)
	seen.ReadBack = u.ReadBack(second)
	seen.Kept = u.keep
	if !u.keep {
		cleaning, cancel := context.WithTimeout(second, cleanTime)
		defer cancel()
		if err := u.Clean(cleaning); err != nil {
			seen.Kept = true
			u.remarks = append(u.remarks, err.Error())
		}
	}
	seen.Remarks = append(seen.Remarks, u.remarks...)
	return seen, errors.Join(u.Close(), u.close())
}

// besides is the probe that a run may have beside it.
type besides struct {
	on bool
	probing
}

func (b *besides) add(f *pflag.FlagSet) {
	f.BoolVar(&b.on, "probe", false, "beside the load write a little to each store, from this process, and read it back: what users of each store saw is in the report (kvbench probe)")
	b.probing.add(f, "probe-")
}

// check tells whether a run of a spec can have it.
func (b *besides) check(s *spec.Spec, detach bool) error {
	switch {
	case !b.on && b.probing != (probing{}) && b.probing != (probing{interval: probeInterval, deadline: probeDeadline}):
		return errors.New("--probe-interval and --probe-deadline say how to probe: --probe says that it be done")
	case !b.on:
		return nil
	case detach:
		return errors.New("--probe: --detach leaves nobody to probe: use kvbench probe beside the run")
	}
	return probe.Check("--probe-", b.interval, b.deadline, s.TiKV.Timeout)
}

// begin begins to probe, in a process that has workers or has none. What it returns ends that, and keeps what was seen with a run, if there is one; what is not done when
// abandon is closed is left.
func (b *besides) begin(ctx context.Context, job *coordinator.Job, workers bool) (end func(*coordinator.Summary) error, err error) {
	if !b.on {
		return func(*coordinator.Summary) error { return nil }, nil
	}
	told := &stallTold{deadline: b.deadline, say: job.Warn, stalled: make(map[uint64]bool)}
	how := apart(job.Spec)
	if workers {
		how = among(job.Spec)
	}
	u, err := startProbe(ctx, how, b.probing, results.NewRunID(time.Now()), job.Warn, told.tick)
	if err != nil {
		return nil, exitcode.With(exitcode.Unreachable, fmt.Errorf("--probe: this process must reach PD and the stores itself: %w", err))
	}
	if workers && how.TiKV.MaxBatchSize > 0 {
		u.say("workers are in the same process, so that its calls share messages as theirs do: a store that is gone costs it up to 5 s, whatever the cluster does")
	}
	job.Probed = true
	abandon := job.Abandon
	return func(summary *coordinator.Summary) error {
		second, cancel := context.WithCancel(context.Background())
		released := make(chan struct{})
		go func() {
			defer close(released)
			select {
			case <-abandon:
				cancel()
			case <-second.Done():
			}
		}()
		seen, err := u.finish(second)
		cancel()
		<-released
		if summary != nil && summary.Dir != "" {
			err = errors.Join(err, results.WriteProbe(summary.Dir, seen))
		}
		if bad := seen.Bad(); bad != "" {
			err = errors.Join(exitcode.With(exitcode.Wrong, errors.New("the probe found that "+bad)), err)
		}
		return err
	}, nil
}

// stallTold says when a store stalls for longer than a deadline, and when that is over.
type stallTold struct {
	deadline time.Duration
	say      func(string)
	stalled  map[uint64]bool
}

func (s *stallTold) tick(_ time.Duration, all []probe.Snapshot) {
	for _, store := range all {
		switch long := store.Stall != nil && store.Stall.Seconds > s.deadline.Seconds(); {
		case long && !s.stalled[store.ID]:
			s.say(fmt.Sprintf("probe: store %d (%s) has acknowledged nothing for %s", store.ID, store.Address, units.Micros(store.Stall.Seconds*1e6)))
			s.stalled[store.ID] = true
		case store.Stall == nil && s.stalled[store.ID]:
			s.say(fmt.Sprintf("probe: store %d (%s) stalls no more", store.ID, store.Address))
			s.stalled[store.ID] = false
		}
	}
}

// probeView shows a probe while it goes on: on a terminal in a line that is written anew, elsewhere in a line a second. What cannot
// be written at once is dropped.
type probeView struct {
	app      *app
	quiet    bool
	terminal bool
	lines    chan string
	ended    chan struct{}
}

func newProbeView(a *app, quiet bool) *probeView {
	v := &probeView{app: a, quiet: quiet, terminal: terminal(a.console), lines: make(chan string, 16), ended: make(chan struct{})}
	go func() {
		defer close(v.ended)
		for text := range v.lines {
			fmt.Fprint(a.stderr, text)
		}
	}()
	return v
}

func (v *probeView) put(text string) {
	select {
	case v.lines <- text:
	default: // nobody reads
	}
}

// show shows how the stores are.
func (v *probeView) show(line string) {
	switch {
	case v.quiet:
	case v.terminal:
		v.put("\r\x1b[K" + cut(printable.Line(line), columns(v.app.console)-1))
	default:
		v.put(printable.Line(line) + "\n")
	}
}

// say shows a line that stays.
func (v *probeView) say(text string) {
	begin := ""
	if v.terminal && !v.quiet {
		begin = "\r\x1b[K"
	}
	v.put(begin + printable.Text(text) + "\n")
}

// close ends it, and waits a second at most for what has not been written yet.
func (v *probeView) close() {
	if v.terminal && !v.quiet {
		v.put("\n")
	}
	close(v.lines)
	select {
	case <-v.ended:
	case <-time.After(patience):
	}
}

// cut returns as much of a text as fits into a width.
func cut(text string, width int) string {
	if runes := []rune(text); width > 0 && len(runes) > width {
		return string(runes[:width])
	}
	return text
}
