// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"math"
	"math/rand/v2"
	"time"
)

// Slack is how late a start may be without counting as behind: a slot that is
// later is missed when catch-up is off, and starts up to Slack's worth of slots
// may go out at once when it is on. It is above the timer error of a loaded
// machine and below what a user of a database feels.
const Slack = 10 * time.Millisecond

// Share is one lane's part of the fleet's slots: First, First+Step, First+2·Step, …
type Share struct {
	First, Step int64
}

// Arrivals says how slots are spread over time.
type Arrivals uint8

const (
	// Uniform spaces slots evenly.
	Uniform Arrivals = iota
	// Poisson makes every lane an independent Poisson process; together they
	// are one, with the target as its rate.
	Poisson
)

// Config describes the pacing of one lane.
type Config struct {
	Profile  Profile // of the fleet
	Share    Share
	Batch    int // operations that a slot starts; 0 is 1
	Arrivals Arrivals
	Seed     uint64  // of Poisson arrivals
	CatchUp  float64 // at most so many times the target after a stall; at least 1, or 0: skip what was missed
}

// Pacer says when a lane's next slot may start. It is for one goroutine.
//
// After a stall the slots that are owed start at no more than CatchUp times the
// target: each late start moves the moment before which no other late one may
// start by gap/CatchUp, and that moment lags behind the clock by Slack at most.
type Pacer struct {
	cfg   Config
	batch float64
	rng   *rand.Rand
	index int64         // of the next slot
	unit  float64       // the next slot's place among the fleet's, which Poisson arrivals spread
	due   time.Duration // the next slot's
	gap   time.Duration // to the slot after it
	hold  time.Duration // no start before this while catching up
}

// New returns a pacer at the first slot of its share.
func New(cfg Config) *Pacer {
	p := &Pacer{cfg: cfg, batch: float64(max(1, cfg.Batch)), index: cfg.Share.First, hold: math.MinInt64 / 2}
	if cfg.Arrivals == Poisson {
		p.rng = rand.New(rand.NewPCG(cfg.Seed, uint64(cfg.Share.First)))
		p.unit = p.rng.ExpFloat64() * float64(cfg.Share.Step)
	} else {
		p.unit = float64(p.index)
	}
	p.plan()
	return p
}

// plan computes the moments of the next slot from its place. The target counts operations, of which a
// slot starts a batch: here, and in Behind, one becomes the other.
func (p *Pacer) plan() {
	p.due = p.cfg.Profile.Due(p.unit * p.batch)
	p.gap = p.cfg.Profile.Due((p.unit+float64(p.cfg.Share.Step))*p.batch) - p.due
}

func (p *Pacer) advance() {
	p.index += p.cfg.Share.Step
	if p.rng != nil {
		p.unit += p.rng.ExpFloat64() * float64(p.cfg.Share.Step)
	} else {
		p.unit = float64(p.index)
	}
	p.plan()
}

// Due returns when the next slot is due.
func (p *Pacer) Due() time.Duration { return p.due }

// Gap returns the time from the next slot to the one after it; with Poisson arrivals, its mean.
func (p *Pacer) Gap() time.Duration { return p.gap }

// Ready returns the earliest moment at which the next slot may start: when it is
// due, or later while catching up.
func (p *Pacer) Ready() time.Duration { return max(p.due, p.hold) }

// Miss skips the slots that are more than Slack behind now, if catch-up is off, and
// gives each to skip. Call it before Take, and only when the next slot would start.
func (p *Pacer) Miss(now time.Duration, skip Skip) {
	if p.cfg.CatchUp != 0 {
		return
	}
	for p.due < now-Slack {
		skip(p.due, 1)
		p.advance()
	}
}

// Skip is given slots that never start: how many, and when the last of them was due.
type Skip func(due time.Duration, slots int64)

// Take starts the next slot at now, at or after Ready, and returns its index in the
// fleet and when it was due.
func (p *Pacer) Take(now time.Duration) (index int64, due time.Duration) {
	index, due = p.index, p.due
	if p.cfg.CatchUp != 0 && now-due > Slack {
		p.hold = max(p.hold, now-Slack) + time.Duration(float64(p.gap)/p.cfg.CatchUp)
	}
	p.advance()
	return index, due
}

// owedParts is the most calls that Owed and Behind make, so that it takes no time after long stalls either.
const owedParts = 1024

// Owed gives the slots that were due before end and have not started to skip. With Poisson arrivals it uses the pacer up.
func (p *Pacer) Owed(end time.Duration, skip Skip) {
	if p.rng != nil {
		for ; p.due < end; p.advance() {
			skip(p.due, 1)
		}
		return
	}
	p.Behind(end, skip)
}

// Behind gives the slots that are due before now and have not started to give; of Poisson arrivals, as many as are due in the mean
// after the next slot. They stay as they are.
func (p *Pacer) Behind(now time.Duration, give Skip) {
	step := float64(p.cfg.Share.Step)
	owed := int64(max(0, math.Ceil((p.cfg.Profile.Count(now)/p.batch-p.unit)/step)))
	part := owed/owedParts + 1
	last := p.unit - step // of those that were given
	for given := int64(0); given < owed; given += part {
		n := min(part, owed-given)
		last += float64(n) * step
		give(p.cfg.Profile.Due(last*p.batch), n)
	}
}

// Retarget changes the profile. Slots that have started stay as they were.
func (p *Pacer) Retarget(profile Profile) {
	p.cfg.Profile = profile
	p.plan()
}
