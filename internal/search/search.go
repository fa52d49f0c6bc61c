// SPDX-License-Identifier: Apache-2.0

// Package search finds the highest rate that a system holds: rates and lengths out, kept or broken in, until the rate is known well
// enough. It knows nothing of what runs at these rates ([Runner]).
//
// The rate doubles until it is not held, or halves until it is. From then on it is bisected as a measurement with noise has to be:
// what is known of the threshold is a distribution (see belief), the next cell runs at its median, and the answer is an interval with nearly
// all of it. A cell that contradicts others so moves the interval a little, and cells near the edge are repeated until they agree.
// The lower end of the interval is verified by a longer run before it is given as the answer. If that does not hold what the shorter
// ones did, these were too short to show it: they no longer count near there, and all runs from then on are long.
package search

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/kvbench/kvbench/internal/clock"
)

// State is what a cell showed.
type State string

// The states.
const (
	Kept    State = "kept"    // the rate was held
	Broken  State = "broken"  // it was not
	Unknown State = "unknown" // it cannot be told
	Client  State = "client"  // it was not, or cannot be told, because of the client and not of what is measured
)

// Outcome is what became of a cell.
type Outcome struct {
	State State
	Why   string // it was not held, or is unknown
	Run   string // what the runner calls it
}

// Runner runs a cell: so many operations a second for a length. It ends early when ctx does. An error ends the search.
type Runner interface {
	Run(ctx context.Context, rate float64, length time.Duration) (Outcome, error)
}

// Config says what to search, and for how long. Rates are operations a second.
type Config struct {
	Start     float64       // the first rate
	Min       float64       // no rate is lower …
	Max       float64       // … or higher
	Precision float64       // how far apart the rates may be that are all but known to be held and not, as a share of the lower
	Cell      time.Duration // length of a cell
	Verify    time.Duration // length of the run that verifies
	Budget    time.Duration // of time, for all
	Overhead  time.Duration // what a run takes beside its length, before that has been seen

	Clock clock.Clock
	Seen  func(*Result) error // is called after each cell, and ends the search by an error; nil: nobody looks
}

// The bounds of what can be searched.
const (
	MinRate      = 0.01
	MaxRate      = 1e9
	MinPrecision = 0.005
	MaxPrecision = 0.5
)

// Check refuses what cannot be searched.
func (c *Config) Check() error {
	rate := func(v float64) bool { return v >= MinRate && v <= MaxRate }
	switch {
	case !rate(c.Min) || !rate(c.Max) || c.Min > c.Max:
		return fmt.Errorf("rates from %v/s to %v/s: want bounds from %v/s to %v/s, the lower one first", c.Min, c.Max, MinRate, MaxRate)
	case !(c.Start >= c.Min && c.Start <= c.Max):
		return fmt.Errorf("start at %v/s: want a rate within the bounds, %v/s to %v/s", c.Start, c.Min, c.Max)
	case !(c.Precision >= MinPrecision && c.Precision <= MaxPrecision):
		return fmt.Errorf("precision of %v %%: want %v %% to %v %%", c.Precision*100, MinPrecision*100, MaxPrecision*100)
	case c.Cell <= 0 || c.Verify < c.Cell:
		return fmt.Errorf("cells of %v, verified for %v: want a length above 0s, and to verify for as long or longer", c.Cell, c.Verify)
	case c.Budget < c.Cell+c.Verify+2*c.Overhead:
		return fmt.Errorf("a budget of %v: want %v or more, for one cell and for what verifies it, with what each takes besides", c.Budget, c.Cell+c.Verify+2*c.Overhead)
	}
	return nil
}

// Cell is one run at a rate.
type Cell struct {
	Rate   float64
	Length time.Duration
	Took   time.Duration // with all that belongs to it
	Outcome
}

// Reason is why a search ended.
type Reason string

// The reasons.
const (
	Found       Reason = "found"       // as precisely as asked for, and verified
	AtMax       Reason = "at-max"      // the highest rate is held, and verified
	BelowMin    Reason = "below-min"   // the lowest is not
	ByClient    Reason = "client"      // the client cannot make higher rates
	ByBudget    Reason = "budget"      // the time is over
	ByUnknown   Reason = "unknown"     // one cell after another showed nothing
	Interrupted Reason = "interrupted" // by its user
	Failed      Reason = "failed"      // a cell could not be run
)

// Result is what is known.
type Result struct {
	Cells []Cell
	// The threshold lies between Low and High, with a probability of 95 % or more where both are known. Low 0: nothing was held; High 0: nothing
	// was not held.
	Low, High float64
	Verified  float64 // the highest rate that was held for the long run; 0: none
	Reason    Reason  // empty: it goes on
	Why       string  // what the reason does not say
}

// growth is by how much the rate is raised while it is held, and lowered while it is not.
const growth = 2

// Whatever is seen once may be chance.
const (
	mostUnknown = 3   // so many cells in a row that show nothing end a search
	walls       = 2   // so many at one rate, in a row, whose limit is the client are its limit
	nearby      = 1.1 // between rates that are taken to be close to each other
	reach       = 4   // how far beyond the rates that were held and not a threshold is looked for, unless it seems to lie there
)

// Run searches until an answer is found, there is none, the budget is used up or ctx ends. The configuration must be checked. The error is
// the runner's, or that of Seen; what was seen before is in the result.
func Run(ctx context.Context, c Config, r Runner) (*Result, error) {
	s := &search{Config: c, short: c.Cell, begun: c.Clock.Now(), overhead: c.Overhead}
	limited, cancel := context.WithTimeout(ctx, c.Budget)
	defer cancel()
	for {
		rate, length, end := s.next()
		if end != "" {
			s.result.Reason, s.result.Why = end, s.why(end)
			return &s.result, nil
		}
		cell := Cell{Rate: rate, Length: length}
		before := c.Clock.Now()
		outcome, err := r.Run(limited, rate, length)
		cell.Took, cell.Outcome = c.Clock.Now()-before, outcome
		switch {
		case ctx.Err() != nil:
			s.result.Reason = Interrupted
		case limited.Err() != nil:
			s.result.Reason, s.result.Why = ByBudget, fmt.Sprintf("the cell at %v/s took longer than those before it", rate)
		case err != nil:
			s.result.Reason, s.result.Why = Failed, err.Error()
		default:
			s.see(cell)
			if c.Seen != nil {
				err = c.Seen(&s.result)
			}
			if err == nil {
				continue
			}
			s.result.Reason, s.result.Why = Failed, err.Error()
			return &s.result, err
		}
		if cell.Run != "" { // it was broken off: what it shows counts for nothing
			cell.State = Unknown
			s.result.Cells = append(s.result.Cells, cell)
		}
		if s.result.Reason != Failed {
			err = nil
		}
		return &s.result, err
	}
}

type search struct {
	Config
	begun    time.Duration
	overhead time.Duration // the most that a run took beside its length
	belief   *belief       // nil: no rate was held, or none was not
	counting []Cell        // those that it is made of
	from, to float64       // that it spans
	short    time.Duration // the length of a cell at the beginning
	result   Result

	kept, broken float64 // the highest rate that was held and the lowest that was not; 0: none
	low, high    float64 // when this is narrow, it is enough
	belowMin     int     // cells that broke at the lowest rate, less those that were held
	wall         float64 // the client's limit; 0: none was met
	limit        string  // and what it is
	hits         int     // cells of the last rate whose limit was the client
	unknown      int     // cells in a row that showed nothing
}

// see takes note of a cell.
func (s *search) see(c Cell) {
	r := &s.result
	r.Cells = append(r.Cells, c)
	s.overhead = max(s.overhead, c.Took-c.Length)
	switch c.State {
	case Client:
		if s.hits++; s.hits >= walls {
			s.wall, s.hits, s.unknown = c.Rate, 0, 0
			s.limit = c.Why
			return
		}
		s.unknown++
		return
	case Unknown:
		s.hits = 0
		s.unknown++
		return
	}
	s.hits, s.unknown = 0, 0
	held := c.State == Kept
	if !held && c.Length >= s.Verify && s.Config.Cell < s.Verify {
		s.Config.Cell = s.Verify
		s.counting = slices.DeleteFunc(s.counting, func(o Cell) bool {
			return o.Length < s.Verify && o.Rate > c.Rate/nearby && (o.State == Kept || o.Rate < c.Rate*nearby)
		})
		s.belief = nil
	}
	s.counting = append(s.counting, c)
	s.kept, s.broken = 0, 0
	for _, c := range s.counting {
		if c.State == Kept {
			s.kept = max(s.kept, c.Rate)
		} else if s.broken == 0 || c.Rate < s.broken {
			s.broken = c.Rate
		}
	}
	if c.Rate == s.Min {
		if s.belowMin++; held {
			s.belowMin -= 2
		}
	}
	median := c.Rate
	switch {
	case s.kept == 0:
		r.Low, r.High = 0, s.broken
	case s.broken == 0:
		r.Low, r.High = s.kept, 0
		s.low = s.kept
	default:
		s.believe(c)
		r.Low, r.High = s.belief.interval(outer)
		r.Low, r.High = s.within(r.Low), s.within(r.High)
		s.low, s.high = s.belief.interval(inner)
		median = s.belief.quantile(0.5)
	}
	switch {
	case c.Length < s.Verify:
	case held && c.Rate <= median:
		r.Verified = max(r.Verified, c.Rate)
	case !held && c.Rate <= r.Verified:
		r.Verified = 0
	}
}

// believe takes note of the last cell that counts. The belief spans more and more, as long as the threshold seems to lie at its end.
func (s *search) believe(c Cell) {
	if s.belief != nil {
		s.note(c)
	} else {
		s.span(min(s.kept, s.broken)/reach, max(s.kept, s.broken)*reach)
	}
	for {
		median := s.belief.quantile(0.5)
		switch {
		case s.from > s.Min && median < s.from*nearby:
			s.span(s.from/reach, s.to)
		case s.to < s.Max && median > s.to/nearby:
			s.span(s.from, s.to*reach)
		default:
			return
		}
	}
}

// span makes a belief between two rates of all cells that count.
func (s *search) span(low, high float64) {
	s.from, s.to = s.within(low), s.within(high)
	s.belief = newBelief(s.from, s.to, s.Precision)
	for _, c := range s.counting {
		s.note(c)
	}
}

func (s *search) note(c Cell) {
	s.belief.see(c.Rate, c.State == Kept, math.Sqrt(s.short.Seconds()/c.Length.Seconds()))
}

// why is what a reason does not say.
func (s *search) why(end Reason) string {
	switch end {
	case ByClient:
		return s.limit
	case ByUnknown:
		return s.result.Cells[len(s.result.Cells)-1].Why
	}
	return ""
}

// next is what to run next, or why nothing.
func (s *search) next() (rate float64, length time.Duration, end Reason) {
	r := &s.result
	rate, end = s.explore()
	switch {
	case end == ByClient || end == BelowMin || end == ByUnknown:
		return 0, 0, end
	case end == "" && s.fits(s.Config.Cell+s.overhead, s.Config.Verify+s.overhead):
		return rate, s.Config.Cell, ""
	case end == "":
		end = ByBudget
	}
	// There is nothing more to explore, or no time. Is it verified?
	low := s.within(floor4(s.low))
	switch {
	case r.Low == 0:
		return 0, 0, end
	case r.Verified >= low/(1+s.Precision) && r.Verified > 0 && (r.High == 0 || r.Verified <= r.High):
		return 0, 0, end
	case low == s.Min && s.belowMin >= 2:
		return 0, 0, BelowMin
	case !s.fits(s.Config.Verify+s.overhead, 0):
		return 0, 0, ByBudget
	}
	return low, s.Config.Verify, ""
}

// explore is the rate of the next cell, or the reason why there is none: nothing more has to be found, or can be.
func (s *search) explore() (rate float64, end Reason) {
	r := &s.result
	switch {
	case s.unknown >= mostUnknown:
		return 0, ByUnknown
	case s.hits > 0 || s.unknown > 0: // once more
		if last := r.Cells[len(r.Cells)-1]; last.Length < s.Verify || s.Verify == s.Config.Cell {
			return last.Rate, ""
		}
	}
	switch {
	case len(r.Cells) == 0:
		return s.Start, ""
	case s.kept == 0 && s.broken == 0: // only the client's limit
		if s.wall <= s.Min {
			return 0, ByClient
		}
		return s.within(s.wall / growth), ""
	case s.kept == 0:
		if s.belowMin >= 2 {
			return 0, BelowMin
		}
		return s.within(s.broken / growth), ""
	case s.broken == 0 && s.wall > 0:
		if s.wall/s.kept <= nearby {
			return 0, ByClient
		}
		return s.within(round4(math.Sqrt(s.wall * s.kept))), ""
	case s.broken == 0 && s.kept == s.Max:
		return 0, AtMax
	case s.broken == 0:
		return s.within(s.kept * growth), ""
	}
	if s.high/s.low <= 1+s.Precision {
		return 0, Found
	}
	median := s.within(round4(s.belief.quantile(0.5)))
	if s.wall > 0 && median >= s.wall {
		return 0, ByClient
	}
	return median, ""
}

// fits tells whether there is time for both.
func (s *search) fits(run, reserve time.Duration) bool {
	return s.Clock.Now()-s.begun+run+reserve <= s.Budget
}

func (s *search) within(rate float64) float64 { return min(max(rate, s.Min), s.Max) }

// round4 rounds to four significant digits, with which a rate is written.
func round4(rate float64) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(rate, 'g', 4, 64), 64)
	if err != nil {
		return rate // of what was just formatted
	}
	return rounded
}

// floor4 is round4, down.
func floor4(rate float64) float64 {
	rounded := round4(rate)
	if rounded <= rate {
		return rounded
	}
	return round4(rounded - math.Pow(10, math.Floor(math.Log10(rate))-3))
}
