// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"math"
	"time"

	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/units"
)

// Counted compares what the run sent with what the stores counted in the same time.
type Counted struct {
	FromS      float64 `json:"from_s"` // of the earliest reading, and of the latest
	ToS        float64 `json:"to_s"`
	Run        float64 `json:"run"`    // commands that the drivers sent
	Stores     float64 `json:"stores"` // requests of clients that the stores counted
	Change     float64 `json:"change"` // stores / run − 1
	Resolution float64 `json:"resolution"`
	Result     string  `json:"result"` // one of the values below
	Text       string  `json:"text"`
}

// Values of Counted.Result.
const (
	CountedEqual   = "equal"
	CountedMore    = "more"
	CountedLess    = "less"
	CountedUnknown = "unknown"
)

const (
	// Threads of a store keep their counts and hand them over with a request that comes a second
	// later: what was counted until a reading may lack all of one second of the run.
	countsLate = 1100 * time.Millisecond
	// settledAfter is from which moment of the run on counts of an earlier load have been handed over.
	settledAfter = 2 * time.Second
	// fewCommands are what connections and probes send beside the load.
	fewCommands = 50
	// fallbacksCounted is up to which share of the commands may have gone through fallbacks, whose
	// retries nobody counts.
	fallbacksCounted = 0.001
	// coarse is from which resolution on a comparison says nothing.
	coarse = 0.5
)

// sentBins are the commands that the fleet sent to each store, in short stretches of the run.
type sentBins struct {
	width  time.Duration
	stores map[string][]float64
	bins   int
	other  float64 // commands that went through fallbacks
}

const maxSentBins = 20_000

func newSentBins(end time.Duration) *sentBins {
	b := &sentBins{width: max(100*time.Millisecond, end/maxSentBins), stores: make(map[string][]float64)}
	b.bins = int(end/b.width) + 1
	return b
}

func (b *sentBins) add(iv *results.Interval) {
	for i := range iv.Traffic {
		t := &iv.Traffic[i]
		for _, n := range t.Fallbacks {
			b.other += float64(n)
		}
		if t.Store == "" || t.Commands == 0 || iv.End <= iv.Start {
			continue
		}
		if b.stores[t.Store] == nil {
			b.stores[t.Store] = make([]float64, b.bins)
		}
		b.spread(b.stores[t.Store], iv.Start, iv.End, float64(t.Commands))
	}
}

// spread adds n, evenly over a stretch.
func (b *sentBins) spread(to []float64, start, end time.Duration, n float64) {
	for i := int(max(0, start) / b.width); i < len(to) && time.Duration(i)*b.width < end; i++ {
		from := time.Duration(i) * b.width
		overlap := min(end, from+b.width) - max(start, from)
		to[i] += n * float64(max(0, overlap)) / float64(end-start)
	}
}

// between is how much was sent to a store in a stretch.
func (b *sentBins) between(store string, start, end time.Duration) (n float64) {
	for i, sent := range b.stores[store] {
		from := time.Duration(i) * b.width
		if overlap := min(end, from+b.width) - max(start, from); overlap > 0 {
			n += sent * float64(overlap) / float64(b.width)
		}
	}
	return n
}

// most is the most that was sent to a store within any stretch of a length.
func (b *sentBins) most(store string, length time.Duration) (most float64) {
	n := int((length + b.width - 1) / b.width)
	sum := 0.0
	for i, sent := range b.stores[store] {
		sum += sent
		if i >= n {
			sum -= b.stores[store][i-n]
		}
		most = max(most, sum)
	}
	return most
}

// counted compares, over stretches inside the window that begin and end with a reading of each store.
func (r *Run) counted() *Counted {
	if r.sent == nil || len(r.sent.stores) == 0 {
		return nil
	}
	c := &Counted{FromS: math.Inf(1), Result: CountedUnknown}
	late, commands := 0.0, 0.0
	from := max(r.window.from, settledAfter)
	for _, address := range r.storesRead() {
		d := stretch(readIn(r.servers[address], from, r.window.to))
		if d == nil || d.requests() == nil {
			if r.sent.between(address, r.window.from, r.window.to) == 0 {
				continue
			}
			return nil // a part of the commands is unaccounted for
		}
		start, end := results.Duration(d.first.S), results.Duration(d.last.S)
		c.Run += r.sent.between(address, start, end)
		c.Stores += *d.requests()
		late += r.sent.most(address, countsLate)
		c.FromS, c.ToS = min(c.FromS, d.first.S), max(c.ToS, d.last.S)
	}
	for address, bins := range r.sent.stores {
		if _, read := r.servers[address]; !read {
			return nil
		}
		for _, n := range bins {
			commands += n
		}
	}
	if c.Run == 0 {
		return nil
	}
	c.Change, c.Resolution = c.Stores/c.Run-1, (late+fewCommands)/c.Run
	c.judge(r.sent.other > fallbacksCounted*commands || len(r.lostAny()) > 0)
	return c
}

// lostAny names the workers of which not all that they sent is known.
func (r *Run) lostAny() (names []string) {
	for _, w := range r.workers {
		if w.lost || len(w.gaps) > 0 {
			names = append(names, w.member.Name)
		}
	}
	return names
}

func (c *Counted) judge(incomplete bool) {
	change := units.Percent(math.Abs(c.Change))
	within := units.Percent(c.Resolution)
	switch {
	case incomplete:
		c.Text = "what was sent is not known exactly (fallbacks, or workers that were lost), so that it is not compared with what the stores counted"
	case c.Resolution > coarse:
		c.Text = fmt.Sprintf("the run is too short to compare what was sent with what the stores counted, which hand it over up to a second late (±%s)", within)
	case c.Change > c.Resolution:
		c.Result = CountedMore
		c.Text = fmt.Sprintf("the stores answered %s more than this run sent (±%s): something else uses this cluster", change, within)
	case c.Change < -c.Resolution:
		c.Result = CountedLess
		c.Text = fmt.Sprintf("the stores counted %s less than this run sent (±%s)", change, within)
	default:
		c.Result = CountedEqual
		c.Text = fmt.Sprintf("the stores counted what this run sent, as far as that can be told: %+.1f %%, of ±%s", 100*c.Change, within)
	}
}

// stretch is what a store's totals grew by from the first of the readings to the last; nil if there are
// less than two, or they began anew on the way.
func stretch(samples []results.ServerSample) *growth {
	var d growth
	var before *results.ServerSample
	for i := range samples {
		s := &samples[i]
		if s.Figures == nil {
			continue
		}
		if before != nil && restarted(before, s) {
			return nil
		}
		if d.first == nil {
			d.first = s
		}
		d.last, before = s, s
	}
	if d.first == nil || d.last == d.first {
		return nil
	}
	return &d
}
