// SPDX-License-Identifier: Apache-2.0

// Package probe writes a little to each store of a cluster at regular moments, whatever became of the writes before, and so
// sees what a user would see: for how long a store acknowledges nothing, and afterwards whether all that was acknowledged is there.
//
// Writes are to keys of a table of their own, which is cut into slots with a region each; PD says which store leads
// which. Each write has its own key, so that each can be read back.
package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kvbench/kvbench/analysis/availability"
	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/store"
)

// Table is where probes write by default.
const Table = "kvbench.probe"

// Config says how to probe.
type Config struct {
	// Writer makes the probes and nothing else.
	Writer store.Driver
	// Reader asks PD, and reads back.
	Reader store.Administered

	Clock    clock.Clock
	Table    string
	ID       string        // tells the keys of this probe from those of others
	Interval time.Duration // between two probes of a store
	Deadline time.Duration // from when a probe was due, for it to be acknowledged in time
	GiveUp   time.Duration // after so long the writer gives a probe up
	Split    bool          // the table, so that each store leads a region of it

	Say  func(text string)                      // what a user should know, a line each; any goroutine calls it
	Ends func(Ended)                            // nil, or told of each probe that has ended, by the goroutine that runs Run
	Tick func(at time.Duration, all []Snapshot) // nil, or told every second how the stores are, by the same; at counts from the first probe
}

// Ended is a probe that has ended.
type Ended struct {
	Store    string
	Due, End time.Duration
	Class    store.Class // OK: it was acknowledged
}

// Snapshot is how a store is at a moment.
type Snapshot struct {
	store.Member
	Probed bool                // false: it leads no region that probes write to
	Worst  time.Duration       // of the responses of the last second; 0: there was none
	Stall  *availability.Stall // that goes on; nil: none
	Failed int64               // probes in the last second
}

// Probe is one under way. Its methods are for one goroutine.
type Probe struct {
	Config
	ground  *ground
	writer  store.Session
	reader  store.Session
	begun   time.Duration // when the first probe was due, on the clock
	ended   time.Duration // when the last probe might have been
	over    time.Duration // when the last one had ended
	targets []*target     // by the order in which they were found
	flights []*flight     // all there are, by their calls' owners
	free    []*flight     // those that are not under way
	busy    int           // those that are
	writes  []write

	mu    sync.Mutex
	found *layout // by the one who follows; nil: nothing new
}

// target is a store.
type target struct {
	store.Member
	tally *availability.Tally
	slot  int           // that is written to; -1: it leads none
	next  time.Duration // when the next probe is due

	worst  time.Duration // of the responses since the last tick
	failed int64         // since then
}

// write is one probe's. Its place in the list is its number, from which its key and its value follow.
type write struct {
	end    time.Duration
	target uint16
	slot   uint8
	fate   fate
}

// fate is what is known of a write.
type fate uint8

const (
	undetermined fate = iota // it may have happened, or may happen yet
	acknowledged
)

// flight is a probe in flight.
type flight struct {
	call   store.Call
	target *target
	due    time.Duration
	number int
}

const (
	mostInFlight = 2000 // probes of one store
	mostStores   = 1<<16 - 1
)

// Check tells whether these can be kept: an interval, a deadline, and after how long a write is given up. prefix is what the names of their
// flags begin with.
func Check(prefix string, interval, deadline, giveUp time.Duration) error {
	switch {
	case interval < 10*time.Millisecond || interval > time.Minute:
		return fmt.Errorf("%sinterval %v: want 10ms to 1m", prefix, interval)
	case deadline < time.Millisecond || deadline > giveUp:
		return fmt.Errorf("%sdeadline %v: want 1ms to %v, after which a write is given up (tikv.timeout)", prefix, deadline, giveUp)
	case giveUp > mostInFlight*interval:
		return fmt.Errorf("%sinterval %v: with tikv.timeout=%v there may be more than %d writes in flight to a store: want a shorter tikv.timeout, or %v at least", prefix, interval, giveUp, mostInFlight, giveUp/mostInFlight)
	}
	return nil
}

// New sees where the stores' keys are, and makes such as it takes. Close frees it.
func New(ctx context.Context, c Config) (*Probe, error) {
	p := &Probe{Config: c}
	p.ground = &ground{admin: c.Reader.Admin(), table: c.Table, id: c.ID}
	look, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	stores, err := p.ground.admin.Stores(look)
	if err != nil {
		return nil, err
	}
	if len(stores) == 0 {
		return nil, errors.New("PD lists no store")
	}
	p.ground.slots = min(mostSlots, slotsPerStore*len(stores))
	l, err := p.ground.prepare(ctx, c.Split, c.Say)
	if err != nil {
		return nil, err
	}
	if p.writer, err = c.Writer.Open(0, len(stores)*mostInFlight, c.Clock); err != nil {
		return nil, err
	}
	if p.reader, err = c.Reader.Open(0, readCalls, c.Clock); err != nil {
		return nil, errors.Join(err, p.writer.Close())
	}
	p.begun = c.Clock.Now()
	p.ended, p.over = p.begun, p.begun
	p.assign(l, p.begun)
	for _, t := range p.targets {
		if t.slot < 0 {
			c.Say(fmt.Sprintf("store %d (%s) leads no region that probes can write to: nothing is seen of it until it does", t.ID, t.Address))
		}
	}
	return p, nil
}

// Close frees what New opened. The drivers stay open.
func (p *Probe) Close() error { return errors.Join(p.writer.Close(), p.reader.Close()) }

// Run probes until ended is closed, and waits for what is in flight then. What is in flight when abandon is closed is given up.
func (p *Probe) Run(ended, abandon <-chan struct{}) {
	following, stop := context.WithCancel(context.Background())
	var others sync.WaitGroup
	others.Go(func() { p.ground.follow(following, p.Split, p.Say, p.take) })
	others.Go(func() { // to end a wait
		select {
		case <-ended:
		case <-following.Done():
		}
		p.writer.Wake()
		select {
		case <-abandon:
		case <-following.Done():
		}
		p.writer.Wake()
	})
	defer others.Wait()
	defer stop()

	now := p.Clock.Now()
	for tick := now + time.Second; ; {
		p.reassign(now)
		next := min(p.start(now), tick)
		now = p.turn(now, next)
		if now >= tick {
			p.tick(now)
			tick = max(tick+time.Second, now)
		}
		if closed(ended) {
			break
		}
	}
	p.ended = now
	for given := false; p.busy > 0; {
		now = p.turn(now, now+time.Second)
		if closed(abandon) && !given {
			given = true
			p.writer.Cancel()
		}
	}
	p.over = now
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// turn waits for the next moment, or for answers, and takes these. It returns the time.
func (p *Probe) turn(before, next time.Duration) time.Duration {
	done := p.writer.Wait(next)
	now := p.Clock.Now()
	if late := now - max(before, next); late > p.Interval {
		p.held(now, late)
	}
	for _, c := range done {
		p.complete(c)
	}
	return now
}

// held notes that the prober did not run until now, for so long.
func (p *Probe) held(now, long time.Duration) {
	for _, t := range p.targets {
		skipped := int64(0)
		if t.slot >= 0 {
			for ; now-t.next > p.Interval; t.next += p.Interval {
				skipped++
			}
		}
		t.tally.Held(long, skipped)
	}
}

// start begins the probes that are due now, and returns when the next one is.
func (p *Probe) start(now time.Duration) (next time.Duration) {
	next = store.Forever
	for i, t := range p.targets {
		if t.slot < 0 {
			continue
		}
		for ; t.next <= now; t.next += p.Interval {
			p.begin(uint16(i), t, now)
		}
		next = min(next, t.next)
	}
	return next
}

// begin begins the probe of a store that is due.
func (p *Probe) begin(i uint16, t *target, now time.Duration) {
	var f *flight
	if last := len(p.free) - 1; last >= 0 {
		f, p.free = p.free[last], p.free[:last]
	} else {
		f = &flight{call: store.Call{Verb: store.Put, Keys: make([][]byte, 1), Values: make([][]byte, 1), Owner: len(p.flights)}}
		p.flights = append(p.flights, f)
	}
	f.target, f.due, f.number = t, t.next, len(p.writes)
	p.writes = append(p.writes, write{target: i, slot: uint8(t.slot)})
	f.call.Keys[0], f.call.Values[0] = p.key(f.number), p.value(f.number)
	f.call.Start = now
	t.tally.Due(f.due)
	p.busy++
	p.writer.Submit(&f.call)
}

// complete takes the end of a probe.
func (p *Probe) complete(c *store.Call) {
	f := p.flights[c.Owner]
	p.free = append(p.free, f)
	p.busy--
	t := f.target
	if c.Class == store.OK {
		w := &p.writes[f.number]
		w.end, w.fate = c.End, acknowledged
		t.worst = max(t.worst, c.End-f.due)
		t.tally.Acknowledged(f.due, c.End)
	} else {
		t.failed++
		t.tally.Failed(f.due, c.End, c.Class.String())
	}
	if p.Ends != nil {
		p.Ends(Ended{Store: t.Address, Due: f.due, End: c.End, Class: c.Class})
	}
}

// tick tells how the stores are.
func (p *Probe) tick(now time.Duration) {
	var all []Snapshot
	for _, t := range p.targets {
		all = append(all, Snapshot{Member: t.Member, Probed: t.slot >= 0, Worst: t.worst, Failed: t.failed, Stall: t.tally.Stall(now)})
		t.worst, t.failed = 0, 0
	}
	if p.Tick != nil {
		p.Tick(now-p.begun, all)
	}
}

// take hands what was found to the one who runs.
func (p *Probe) take(l *layout) {
	p.mu.Lock()
	p.found = l
	p.mu.Unlock()
	p.writer.Wake()
}

// reassign follows what was found since the last time.
func (p *Probe) reassign(now time.Duration) {
	p.mu.Lock()
	l := p.found
	p.found = nil
	p.mu.Unlock()
	if l != nil {
		p.assign(l, now)
	}
}

// assign gives each store a slot that it leads. A slot whose writes are not acknowledged at present is
// kept, wherever it is led: until it is acknowledged again its users wait, and they wait for the store that it was on.
func (p *Probe) assign(l *layout, now time.Duration) {
	for _, m := range l.stores {
		if !slices.ContainsFunc(p.targets, func(t *target) bool { return t.ID == m.ID }) && len(p.targets) < mostStores {
			p.targets = append(p.targets, &target{Member: m, tally: availability.New(p.Interval, p.Deadline), slot: -1})
		}
	}
	used := make(map[int]bool)
	for _, t := range p.targets {
		if t.slot >= 0 && (l.leaders[t.slot] == t.ID || !t.tally.Quiet(now)) {
			used[t.slot] = true
			continue
		}
		before := t.slot
		t.slot = -1
		for slot, leader := range l.leaders {
			if leader == t.ID && !used[slot] {
				t.slot = slot
				break
			}
		}
		if t.slot < 0 {
			continue
		}
		used[t.slot] = true
		if before < 0 { // the stores' probes are spread over the interval
			i := slices.Index(p.targets, t)
			t.next = now + p.Interval*time.Duration(i)/time.Duration(len(p.targets))
		}
	}
	p.ground.use(used)
}
