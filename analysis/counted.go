// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/units"
)

// Counted compares what the run sent with what the stores counted in the same time.
type Counted struct {
	FromS      float64 `json:"from_s"` // of the earliest reading, and of the latest
	ToS        float64 `json:"to_s"`
	Whole      bool    `json:"whole"`  // it is the whole run, and its threads have handed over all that they counted
	Run        float64 `json:"run"`    // commands that the drivers sent
	Stores     float64 `json:"stores"` // requests of clients that the stores counted
	Change     float64 `json:"change"` // how many more a second the stores counted than the run sent, as a share of these
	Resolution float64 `json:"resolution"`
	Result     string  `json:"result"` // one of the values below
	Text       string  `json:"text"`

	Kinds []CountedKind `json:"kinds"` // none: the run's are not known
}

// Values of Counted.Result.
const (
	CountedEqual   = "equal"
	CountedMore    = "more"
	CountedLess    = "less"
	CountedUnknown = "unknown"
)

const (
	// Threads of a store keep their counts for a second and hand them over with a request that comes
	// later: what was counted until a reading may lack all of one second of the run.
	countsLate = 1100 * time.Millisecond
	countsKept = time.Second
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
	stores map[string]*sentTo
	bins   int
	last   time.Duration // until when commands were sent
	other  float64       // commands that went through fallbacks

	unnamed float64 // commands of intervals whose kinds were not written down, or are none of those that are
}

// sentTo are the commands that one store was sent.
type sentTo struct {
	all   []float64
	kinds map[string][]float64 // under TiKV's names
	named float64              // how many the kinds are
	sum   float64              // how many all are
}

const maxSentBins = 20_000

func newSentBins(end time.Duration) *sentBins {
	b := &sentBins{width: max(100*time.Millisecond, end/maxSentBins), stores: make(map[string]*sentTo)}
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
		to := b.stores[t.Store]
		if to == nil {
			to = &sentTo{all: make([]float64, b.bins), kinds: make(map[string][]float64)}
			b.stores[t.Store] = to
		}
		to.sum += float64(t.Commands)
		b.last = max(b.last, iv.End)
		if len(t.Kinds) == 0 {
			b.unnamed += float64(t.Commands)
		}
		b.spread(to.all, iv.Start, iv.End, float64(t.Commands))
		for kind, n := range t.Kinds {
			b.addKind(to, kind, iv.Start, iv.End, float64(n))
		}
	}
}

// put adds commands of a kind that a store was sent besides.
func (b *sentBins) put(to *sentTo, kind string, start, end time.Duration, n float64) {
	if end <= start {
		return
	}
	to.sum += n
	b.spread(to.all, start, end, n)
	b.addKind(to, kind, start, end, n)
}

func (b *sentBins) addKind(to *sentTo, kind string, start, end time.Duration, n float64) {
	if to.kinds[kind] == nil {
		to.kinds[kind] = make([]float64, b.bins)
	}
	to.named += n
	b.spread(to.kinds[kind], start, end, n)
}

// spread adds n, evenly over a stretch.
func (b *sentBins) spread(to []float64, start, end time.Duration, n float64) {
	for i := int(max(0, start) / b.width); i < len(to) && time.Duration(i)*b.width < end; i++ {
		from := time.Duration(i) * b.width
		overlap := min(end, from+b.width) - max(start, from)
		to[i] += n * float64(max(0, overlap)) / float64(end-start)
	}
}

// between is how much of what is in bins was sent in a stretch.
func (b *sentBins) between(bins []float64, start, end time.Duration) (n float64) {
	for i, sent := range bins {
		from := time.Duration(i) * b.width
		if overlap := min(end, from+b.width) - max(start, from); overlap > 0 {
			n += sent * float64(overlap) / float64(b.width)
		}
	}
	return n
}

// most is the most of what is in bins that was sent within any stretch of a length.
func (b *sentBins) most(bins []float64, length time.Duration) (most float64) {
	n := int((length + b.width - 1) / b.width)
	sum := 0.0
	for i, sent := range bins {
		sum += sent
		if i >= n {
			sum -= bins[i-n]
		}
		most = max(most, sum)
	}
	return most
}

// counted compares over the whole run, if it can and if that agrees with what is seen inside the window; else over that.
func (r *Run) counted() *Counted {
	if r.sent == nil || len(r.sent.stores) == 0 {
		return nil
	}
	inside, whole := r.compare(r.inside), r.compare(r.whole)
	if whole == nil || whole.Result == CountedLess {
		return inside // not every thread was reached
	}
	if inside != nil && inside.Result != CountedUnknown && math.Abs(inside.Change-whole.Change) > inside.Resolution+whole.Resolution {
		return inside
	}
	return whole
}

// counting is the time that a store's counts are compared over.
type counting struct {
	growth
	whole bool
}

// inside is between two readings of a store inside the window.
func (r *Run) inside(address string) (s counting, ok bool) {
	d := stretch(readIn(r.servers[address], max(r.window.from, settledAfter), r.window.to))
	if d == nil {
		return s, false
	}
	return counting{growth: *d}, true
}

// whole is from a reading before the run to one after it, at both of which the store had handed over all that it had counted.
// A probe begins before the run and reads after it.
func (r *Run) whole(address string) (s counting, ok bool) {
	if r.probe != nil {
		return s, false
	}
	first, last := -1, -1
	all := r.servers[address]
	for i := range all {
		if all[i].Prompted > 0 {
			if last = i; first < 0 {
				first = i
			}
		}
	}
	if first == last || all[last].S < (r.sent.last+countsKept).Seconds() {
		return s, false
	}
	d := stretch(all[first : last+1])
	if d == nil {
		return s, false
	}
	return counting{growth: *d, whole: true}, true
}

// compare compares over a stretch of each store.
func (r *Run) compare(over func(address string) (s counting, ok bool)) *Counted {
	c := &Counted{FromS: math.Inf(1), Result: CountedUnknown, Kinds: []CountedKind{}}
	all := CountedKind{}
	kinds := make(map[string]*CountedKind)
	of := func(kind string) *CountedKind {
		if kinds[kind] == nil {
			kinds[kind] = &CountedKind{Kind: kind}
		}
		return kinds[kind]
	}
	commands, named := 0.0, 0.0
	for _, address := range r.storesRead() {
		to := r.sent.stores[address]
		if to == nil {
			to = &sentTo{}
		}
		d, ok := over(address)
		if !ok || d.requests() == nil {
			if r.sent.between(to.all, r.window.from, r.window.to) == 0 {
				continue
			}
			return nil // a part of the commands is unaccounted for
		}
		c.FromS, c.ToS, c.Whole = min(c.FromS, d.first.S), max(c.ToS, d.last.S), d.whole
		all.add(r.sent, to.all, *d.requests(), &d)
		for name := range d.last.Figures {
			if kind, ok := strings.CutPrefix(name, "requests_total."); ok {
				of(kind).add(r.sent, to.kinds[kind], *d.since(name), &d)
			}
		}
		for kind, bins := range to.kinds {
			if _, told := d.last.Figures["requests_total."+kind]; !told {
				of(kind).add(r.sent, bins, 0, &d)
			}
		}
		commands, named = commands+to.sum, named+to.named
	}
	for address := range r.sent.stores {
		if _, read := r.servers[address]; !read {
			return nil
		}
	}
	if all.Run == 0 {
		return nil
	}
	all.compare()
	c.Run, c.Stores, c.Change, c.Resolution = all.Run, all.Stores, *all.Change, *all.Resolution
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		k := kinds[kind]
		// Commands of other kinds than are written down may be of any other kind.
		if k.Run == 0 && k.Stores <= k.late || r.sent.unnamed > fewCommands || !written(kind) && commands-named > fewCommands {
			continue
		}
		k.compare()
		c.Kinds = append(c.Kinds, *k)
	}
	c.judge(r.sent.other > fallbacksCounted*commands || len(r.lostAny()) > 0)
	return c
}

// written tells whether drivers write down how many commands of a kind they send.
func written(kind string) bool {
	for c := range store.CommandKinds {
		if store.Command(c).String() == kind {
			return true
		}
	}
	return false
}

// CountedKind is one kind of request as both sides count it.
type CountedKind struct {
	Kind       string   `json:"kind"` // under TiKV's name
	Run        float64  `json:"run"`
	Stores     float64  `json:"stores"`
	Change     *float64 `json:"change,omitempty"` // nil, as the next: the run sent none
	Resolution *float64 `json:"resolution,omitempty"`
	Result     string   `json:"result"`

	late    float64 // that the stores may hand over after a reading
	whole   bool
	sending float64 // for how many seconds the run sent what it sent
	counted float64 // and for how many the stores counted
}

// prompt is the kind of command that makes a store hand over its counts.
const prompt = "raw_get"

// add adds what one store was sent and what it counted between two readings.
func (k *CountedKind) add(b *sentBins, bins []float64, counted float64, d *counting) {
	k.counted = max(k.counted, d.seconds())
	if !d.whole {
		k.sending = k.counted
		k.Run += b.between(bins, results.Duration(d.first.S), results.Duration(d.last.S))
		k.Stores += counted
		k.late += b.most(bins, countsLate)
		return
	}
	k.whole, k.sending = true, b.last.Seconds()
	for _, n := range bins {
		k.Run += n
	}
	if k.Kind == "" || k.Kind == prompt { // all kinds, or this one
		prompts := float64(d.last.Prompted - d.first.Prompted)
		counted = max(0, counted-prompts)
		k.late += prompts // which are kept in their turn, before the run as after it
	}
	k.Stores += counted
}

func (k *CountedKind) compare() {
	bound := k.late + fewCommands
	if k.Run > 0 {
		change := (k.Stores - k.Run) / k.Run * k.sending / k.counted
		resolution := bound / k.Run
		if k.whole { // of what others sent, too, threads keep the last second
			resolution += max(0, change) * countsLate.Seconds() / k.counted
		}
		k.Change, k.Resolution = &change, &resolution
	}
	switch {
	case k.Stores-k.Run > bound:
		k.Result = CountedMore
	case k.Run > 0 && bound > coarse*k.Run:
		k.Result = CountedUnknown
	case k.Run-k.Stores > bound:
		k.Result = CountedLess
	default:
		k.Result = CountedEqual
	}
}

// String says how a kind differs.
func (k *CountedKind) String() string {
	switch {
	case k.Change == nil:
		return fmt.Sprintf("%s %s that this run did not send", units.Grouped(k.Stores), k.Kind)
	case *k.Change > 0:
		return fmt.Sprintf("%s more %s (±%s)", units.Percent(*k.Change), k.Kind, units.Percent(*k.Resolution))
	}
	return fmt.Sprintf("%s less %s (±%s)", units.Percent(-*k.Change), k.Kind, units.Percent(*k.Resolution))
}

// differing are the kinds whose result is so.
func (c *Counted) differing(result string) (texts []string) {
	for i := range c.Kinds {
		if c.Kinds[i].Result == result {
			texts = append(texts, c.Kinds[i].String())
		}
	}
	return texts
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
	more, less := c.differing(CountedMore), c.differing(CountedLess)
	switch {
	case incomplete:
		c.Text = "what was sent is not known exactly (fallbacks, or workers that were lost), so that it is not compared with what the stores counted"
	case c.Resolution > coarse:
		c.Text = fmt.Sprintf("the run is too short to compare what was sent with what the stores counted, which hand it over up to a second late (±%s)", within)
	case c.Change > c.Resolution || c.Change >= -c.Resolution && len(more) > 0:
		c.Result = CountedMore
		c.Text = fmt.Sprintf("the stores answered %s%s than this run sent (±%s)%s: something else uses this cluster", change, c.direction(), within, listed(more))
	case c.Change < -c.Resolution || len(less) > 0:
		c.Result = CountedLess
		c.Text = fmt.Sprintf("the stores counted %s%s than this run sent (±%s)%s", change, c.direction(), within, listed(less))
	case c.Whole:
		c.Result = CountedEqual
		c.Text = fmt.Sprintf("the stores counted what this run sent, from its start to its end: %+.2f %% (±%s)", math.Round(1e4*c.Change)/100+0, within) // +0: no negative zero
	default:
		c.Result = CountedEqual
		c.Text = fmt.Sprintf("the stores counted what this run sent, as far as that can be told: %+.1f %%, of ±%s", 100*c.Change, within)
	}
}

func (c *Counted) direction() string {
	if c.Change < 0 {
		return " less"
	}
	return " more"
}

func listed(kinds []string) string {
	if len(kinds) == 0 {
		return ""
	}
	return ", " + strings.Join(kinds, ", ")
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
