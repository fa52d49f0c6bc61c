// SPDX-License-Identifier: Apache-2.0

// Package plan says how large a TiKV cluster has to be for some data and a rate, from what was measured on another. It is
// pure: numbers in, numbers out. Where an input is a range the results are, from the least to the most that it allows. docs/plan.md
// has the formulas and where they are from.
package plan

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/kvbench/kvbench/internal/units"
)

// Of TiKV; docs/plan.md names the sources.
const (
	keyPrefix    = 1    // bytes that TiKV puts before a key: z
	entryTrailer = 8    // bytes that RocksDB puts behind one: a sequence number and a type
	growth       = 1.5  // a region grows to so many times the size that it is split into
	keysPerMiB   = 10e3 // a region of so many keys for each MiB of its size is split as well
	mib          = 1 << 20
	raftLog      = 10 << 30 // bytes of a store's Raft log
	reserveShare = 0.05     // of a store's size, is kept free, and
	leastReserve = 5 << 30  // bytes at least;
	placeholder  = 0.2      // of that a file takes

	maxStores = 1_000_000 // nobody has so many
)

// Input is what is asked. All ranges lie above 0.
type Input struct {
	Records       Range   `json:"records"`
	Key           Range   `json:"key_bytes"` // as clients write it
	Value         Range   `json:"value_bytes"`
	Replicas      int     `json:"replicas"`
	Compression   Range   `json:"compression"`   // bytes before it by bytes behind it
	Amplification Range   `json:"amplification"` // of space: files by the data in them
	RegionSize    Range   `json:"region_bytes"`  // that regions are split into
	StoreSize     float64 `json:"store_bytes"`
	Fill          float64 `json:"fill"`                 // share of a store's size that may be used
	Rate          *Range  `json:"rate_per_s,omitempty"` // operations; nil: nobody asks
}

// Measured is a run on a cluster.
type Measured struct {
	Run       string  `json:"run_id"`
	Load      bool    `json:"load"` // of records
	Mix       string  `json:"mix,omitempty"`
	OpsPerS   float64 `json:"ops_per_s"`
	Stores    int     `json:"stores"`
	Saturated bool    `json:"saturated"`             // the servers were the limit
	Records   float64 `json:"records,omitempty"`     // in the table; 0: not known
	Value     float64 `json:"value_bytes,omitempty"` // 0: not known
	Replicas  int     `json:"replicas,omitempty"`    // 0: not known
}

func (m *Measured) perStore() float64 { return m.OpsPerS / float64(m.Stores) }

// Stores is how many there have to be.
type Stores struct {
	Least *int64 `json:"least,omitempty"` // nil: not known
	Most  *int64 `json:"most,omitempty"`
}

// Plan is what follows.
type Plan struct {
	Version  int        `json:"version"`
	Input    Input      `json:"input"`
	Measured []Measured `json:"measured"`

	Raw        Range   `json:"raw_bytes"` // keys and values
	Replicated Range   `json:"replicated_bytes"`
	Disk       Range   `json:"disk_bytes"`   // over all stores
	Regions    Range   `json:"regions"`      // whole numbers
	Usable     float64 `json:"usable_bytes"` // of a store
	ForSpace   Stores  `json:"stores_for_space"`
	// RateOfStore is what a store does, in operations a second: Low was held, High is what it did where it was the limit. Either is 0 if
	// that is not known.
	RateOfStore Range  `json:"rate_of_store_per_s"`
	ForRate     Stores `json:"stores_for_rate"`
	Stores      Stores `json:"stores"`           // for both
	LoadS       *Range `json:"load_s,omitempty"` // on so many stores; nil: not known

	Assumed []string `json:"assumed"`
	Notes   []string `json:"notes"`
}

// Make makes a plan, or says why the input makes none.
func Make(in Input, measured []Measured) (*Plan, error) {
	p := &Plan{Version: 1, Input: in, Measured: append([]Measured{}, measured...), Notes: []string{}}
	p.space()
	reserve := max(reserveShare*in.StoreSize, leastReserve)
	if in.StoreSize*in.Fill > in.StoreSize-reserve {
		return nil, fmt.Errorf("a store that is filled to %.0f %% has less free than TiKV reserves, %.3g bytes: want less", 100*in.Fill, reserve)
	}
	if p.Usable = in.StoreSize*in.Fill - raftLog - placeholder*reserve; p.Usable <= 0 {
		return nil, fmt.Errorf("a store of %.3g bytes, filled to %.0f %%, has no room beside its Raft log of %d GiB", in.StoreSize, 100*in.Fill, raftLog>>30)
	}
	p.ForSpace = Stores{p.stores(p.Disk.Low / p.Usable), p.stores(p.Disk.High / p.Usable)}
	if err := p.sameMix(); err != nil {
		return nil, err
	}
	p.rate()
	for _, n := range []*int64{p.ForSpace.Most, p.ForRate.Most} {
		if n != nil && *n > maxStores {
			return nil, fmt.Errorf("this takes more than %d stores: want less", maxStores)
		}
	}
	p.Stores = p.both()
	p.load()
	p.assume()
	p.note()
	return p, nil
}

// space is how many bytes and regions there are.
func (p *Plan) space() {
	in := &p.Input
	replicas := float64(in.Replicas)
	with := func(more float64) Range { // all records, with so many bytes more each
		return Range{in.Records.Low * (in.Key.Low + in.Value.Low + more), in.Records.High * (in.Key.High + in.Value.High + more)}
	}
	p.Raw = with(0)
	p.Replicated = Range{p.Raw.Low * replicas, p.Raw.High * replicas}
	entries := with(keyPrefix + entryTrailer)
	p.Disk = Range{entries.Low * replicas * in.Amplification.Low / in.Compression.High, entries.High * replicas * in.Amplification.High / in.Compression.Low}
	inRegions := with(keyPrefix)
	regions := func(bytes, records, size float64) float64 {
		return math.Ceil(max(bytes/size, records/(size/mib*keysPerMiB)))
	}
	p.Regions = Range{regions(inRegions.Low, in.Records.Low, growth*in.RegionSize.High), regions(inRegions.High, in.Records.High, in.RegionSize.Low)}
}

// stores is a whole number of stores, on which all replicas of a region have one of their own.
func (p *Plan) stores(n float64) *int64 {
	whole := int64(min(max(math.Ceil(n), float64(p.Input.Replicas)), maxStores+1))
	return &whole
}

// sameMix refuses runs that cannot be asked together how much a store does.
func (p *Plan) sameMix() error {
	first := -1
	for i := range p.Measured {
		switch m := &p.Measured[i]; {
		case m.Load:
		case first < 0:
			first = i
		case m.Mix != p.Measured[first].Mix:
			return fmt.Errorf("the measured runs are of different operations, and say nothing together: %s (%s) and %s (%s)", p.Measured[first].Mix, p.Measured[first].Run, m.Mix, m.Run)
		}
	}
	return nil
}

// rate is how much a store does, and how many do what is asked for. What a cluster held that was asked for no more, or by a client that could no
// more, a store does at least. At most it does what the fastest did that was the limit.
func (p *Plan) rate() {
	var held, saturated Range
	for i := range p.Measured {
		switch m := &p.Measured[i]; {
		case m.Load:
		case m.Saturated:
			saturated.add(m.perStore())
		default:
			held.add(m.perStore())
		}
	}
	p.RateOfStore = Range{held.High, saturated.High}
	if p.RateOfStore.Low == 0 {
		p.RateOfStore.Low = saturated.Low
	}
	if saturated.High > 0 {
		p.RateOfStore.High = max(saturated.High, held.High)
	}
	if p.Input.Rate == nil {
		return
	}
	if p.RateOfStore.High > 0 {
		p.ForRate.Least = p.stores(p.Input.Rate.Low / p.RateOfStore.High)
	}
	if p.RateOfStore.Low > 0 {
		p.ForRate.Most = p.stores(p.Input.Rate.High / p.RateOfStore.Low)
	}
}

// add widens a range, which is empty if it is 0, to a value above 0.
func (r *Range) add(v float64) {
	if r.Low == 0 {
		*r = Exactly(v)
	}
	*r = Range{min(r.Low, v), max(r.High, v)}
}

// both is how many stores there have to be for space and rate. Without a rate that is known there may have to be more than for space.
func (p *Plan) both() Stores {
	if p.Input.Rate == nil {
		return p.ForSpace
	}
	s := Stores{Least: p.ForSpace.Least}
	if n := p.ForRate.Least; n != nil && *n > *s.Least {
		s.Least = n
	}
	if n := p.ForRate.Most; n != nil {
		most := max(*n, *p.ForSpace.Most)
		s.Most = &most
	}
	return s
}

// load is how long it takes to load all records at the rates at which a store was loaded.
func (p *Plan) load() {
	var r Range
	for i := range p.Measured {
		if m := &p.Measured[i]; m.Load {
			r.add(m.perStore())
		}
	}
	most := p.Stores.Most
	if most == nil {
		most = p.ForSpace.Most
	}
	if r.Low > 0 {
		p.LoadS = &Range{p.Input.Records.Low / (r.High * float64(*most)), p.Input.Records.High / (r.Low * float64(*p.Stores.Least))}
	}
}

// assume says what nobody has measured.
func (p *Plan) assume() {
	p.Assumed = []string{
		"keys and regions are spread evenly over the stores, and no other data is on them",
		fmt.Sprintf("of each store's size %.0f %% may be used, beside a Raft log of 10 GiB and TiKV's placeholder", 100*p.Input.Fill),
		"no old versions: what is written again is stored once, but for what compaction has not reached (amplification)",
	}
	if p.Input.Compression == Exactly(1) {
		p.Assumed = append(p.Assumed, "nothing can be compressed (--compression)")
	}
	if p.RateOfStore.Low > 0 && p.Input.Rate != nil || p.LoadS != nil {
		p.Assumed = append(p.Assumed, "each store does as much as one of those measured, of the same machines, however many there are")
	}
	if p.LoadS != nil {
		p.Assumed = append(p.Assumed, "the clients that load grow with the stores")
		if p.Stores.Most == nil {
			p.Assumed = append(p.Assumed, "there are no more stores than space needs, while they are loaded")
		}
	}
}

// note says what the measured runs do not tell.
func (p *Plan) note() {
	add := func(format string, args ...any) { p.Notes = append(p.Notes, fmt.Sprintf(format, args...)) }
	in := &p.Input
	switch {
	case in.Rate == nil:
	case p.RateOfStore.Low == 0:
		add("No run was measured that says how much a store does (--measured): how many the rate needs is not known.")
	case p.RateOfStore.High == 0:
		add("No measured run was limited by its stores: fewer may do for the rate.")
	case p.ForRate.Most != nil && !p.anyHeld():
		add("All measured runs were limited by their stores: at such a rate latencies are those of full stores. Measure with a target that keeps them.")
	}
	planned := in.Records.High * float64(in.Replicas) / float64(*p.Stores.Least)
	runs := make(map[string][]string) // by what they were not
	var unlike []string
	say := func(m *Measured, format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		if runs[text] == nil {
			unlike = append(unlike, text)
		}
		runs[text] = append(runs[text], m.Run)
	}
	for i := range p.Measured {
		m := &p.Measured[i]
		if m.Replicas > 0 && m.Replicas != in.Replicas {
			say(m, "Measured with %d %s, and %d are planned: a write costs as many", m.Replicas, units.Plural(int64(m.Replicas), "replica", "replicas"), in.Replicas)
		}
		if m.Value > 0 && (m.Value < in.Value.Low || m.Value > in.Value.High) {
			say(m, "Measured with values of %s, which is not what is planned", units.Bytes(m.Value))
		}
		const more = 2
		if there := m.Records * float64(cmp.Or(m.Replicas, in.Replicas)) / float64(m.Stores); there > 0 && planned > more*there {
			say(m, "Measured with %s records on a store, and up to %s are planned: less of them fit into caches, and more is read from disk", units.Grouped(there), units.Grouped(planned))
		}
	}
	for _, text := range unlike {
		add("%s (%s).", text, strings.Join(runs[text], ", "))
	}
}

// anyHeld tells whether a run held its rate, or a client was its limit.
func (p *Plan) anyHeld() bool {
	for i := range p.Measured {
		if m := &p.Measured[i]; !m.Load && !m.Saturated {
			return true
		}
	}
	return false
}
