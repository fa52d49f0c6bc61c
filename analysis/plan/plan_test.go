// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func input() Input {
	return Input{Records: Exactly(1e10), Key: Exactly(26), Value: Exactly(1000), Replicas: 3, Compression: Range{3, 6}, Amplification: Range{1, 1.11},
		RegionSize: Range{96 * mib, 256 * mib}, StoreSize: 4e12, Fill: 0.8}
}

func made(t *testing.T, in Input, measured ...Measured) *Plan {
	t.Helper()
	p, err := Make(in, measured)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }

func number(n *int64) int64 {
	if n == nil {
		return -1
	}
	return *n
}

// By hand: 10 G records of 1,026 B, of 1,035 B in RocksDB, of 1,027 B in regions.
func TestSpace(t *testing.T) {
	t.Parallel()
	p := made(t, input())
	for _, c := range []struct {
		what      string
		got       Range
		low, high float64
	}{
		{"raw", p.Raw, 1.026e13, 1.026e13},
		{"replicated", p.Replicated, 3.078e13, 3.078e13},
		{"on disk", p.Disk, 5.175e12, 1.148_85e13},
		{"regions", p.Regions, math.Ceil(1.027e13 / (384 * mib)), math.Ceil(1.027e13 / (96 * mib))},
	} {
		if !near(c.got.Low, c.low) || !near(c.got.High, c.high) {
			t.Errorf("%s: %v, want %v to %v", c.what, c.got, c.low, c.high)
		}
	}
	// 80 % of 4 TB, less 10 GiB, less a fifth of the 5 % that are reserved: 3.149 TB; 1.6 to 3.7 of them, and 3 for 3 replicas.
	if want := 3.2e12 - 10*1024*mib - 4e10; !near(p.Usable, want) || number(p.ForSpace.Least) != 3 || number(p.ForSpace.Most) != 4 {
		t.Errorf("usable %v, want %v; stores %d to %d", p.Usable, want, number(p.ForSpace.Least), number(p.ForSpace.Most))
	}
	if p.LoadS != nil || p.Stores != p.ForSpace {
		t.Errorf("without a rate and without anything measured: %+v", p)
	}
	small := input()
	small.Key, small.Value = Exactly(8), Exactly(8)
	// Of small records a region has 10,000 for each MiB.
	if p := made(t, small); p.Regions.High != math.Ceil(1e10/960_000) || p.Regions.Low != math.Ceil(1e10/3_840_000) {
		t.Errorf("regions of small records: %v", p.Regions)
	}
}

func TestRate(t *testing.T) {
	t.Parallel()
	held := func(rate float64) Measured { return Measured{Run: "held", Mix: "READ", OpsPerS: rate, Stores: 3} }
	full := func(rate float64) Measured {
		return Measured{Run: "full", Mix: "READ", OpsPerS: rate, Stores: 3, Saturated: true}
	}
	for _, c := range []struct {
		name        string
		measured    []Measured
		least, most int64 // for the rate of 300,000/s; -1: not known
		note        string
	}{
		{"nothing measured", nil, -1, -1, "No run was measured"},
		{"held", []Measured{held(60_000), held(90_000)}, -1, 10, "fewer may do"},
		{"saturated", []Measured{full(90_000), full(180_000)}, 5, 10, "latencies are those of full stores"},
		{"both", []Measured{held(90_000), full(180_000), full(150_000)}, 5, 10, ""},
		{"held more than another when it was full", []Measured{held(180_000), full(90_000)}, 5, 5, ""},
		{"never fewer than replicas", []Measured{held(9e6), full(9e6)}, 3, 3, ""},
		{"a load says nothing of it", []Measured{{Run: "l", Load: true, OpsPerS: 9e6, Stores: 3}}, -1, -1, "No run was measured"},
	} {
		in := input()
		in.Rate = &Range{300_000, 300_000}
		p := made(t, in, c.measured...)
		if number(p.ForRate.Least) != c.least || number(p.ForRate.Most) != c.most {
			t.Errorf("%s: %d to %d stores, want %d to %d", c.name, number(p.ForRate.Least), number(p.ForRate.Most), c.least, c.most)
		}
		if notes := strings.Join(p.Notes, " "); !strings.Contains(notes, c.note) || c.note == "" && notes != "" {
			t.Errorf("%s: notes: %s", c.name, notes)
		}
		if least, most := number(p.Stores.Least), number(p.Stores.Most); least < max(3, c.least) || c.most >= 0 && most != max(4, c.most) || c.most < 0 && most != -1 {
			t.Errorf("%s: %d to %d stores for both", c.name, least, most)
		}
	}
	if _, err := Make(input(), []Measured{held(1), {Run: "other", Mix: "UPDATE", OpsPerS: 1, Stores: 1}}); err == nil || !strings.Contains(err.Error(), "READ (held) and UPDATE (other)") {
		t.Errorf("runs of different operations: %v", err)
	}
}

// 10 G records at 10,000 to 20,000 a second and store, on 3 to 4 stores.
func TestLoad(t *testing.T) {
	t.Parallel()
	p := made(t, input(), Measured{Load: true, OpsPerS: 30_000, Stores: 3}, Measured{Load: true, OpsPerS: 20_000, Stores: 1})
	if l := p.LoadS; l == nil || !near(l.Low, 1e10/80_000) || !near(l.High, 1e10/30_000) {
		t.Errorf("%+v", l)
	}
}

func TestNotes(t *testing.T) {
	t.Parallel()
	p := made(t, input(), Measured{Run: "small", Mix: "READ", OpsPerS: 1000, Stores: 3, Records: 1e6, Value: 100, Replicas: 1})
	for _, want := range []string{"Measured with 1 replica, and 3 are planned: a write costs as many (small).", "values of 100 B", "333,333 records on a store, and up to 10,000,000,000 are planned"} {
		if notes := strings.Join(p.Notes, " "); !strings.Contains(notes, want) {
			t.Errorf("%s\nwant %s", notes, want)
		}
	}
	p = made(t, input(), Measured{Run: "alike", Mix: "READ", OpsPerS: 1000, Stores: 3, Records: 1e10, Value: 1000, Replicas: 3})
	if len(p.Notes) != 0 {
		t.Errorf("of a run of what is planned: %q", p.Notes)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Input){
		"no room beside its Raft log": func(in *Input) { in.StoreSize = 12e9; in.Fill = 0.5 },
		"stores: want less":           func(in *Input) { in.Value = Exactly(1e15) },
		"less free than TiKV":         func(in *Input) { in.Fill = 0.96 },
	} {
		in := input()
		change(&in)
		if _, err := Make(in, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Whatever is asked: no range ends before it begins, what is known exactly lies in what follows from a range with it, and more data never needs less.
func TestProperties(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	logarithmic := func(low, high float64) float64 { return low * math.Pow(high/low, r.Float64()) }
	within := func(of Range) float64 { return of.Low + (of.High-of.Low)*r.Float64() }
	span := func(low, high float64) Range {
		a, b := logarithmic(low, high), logarithmic(low, high)
		return Range{min(a, b), max(a, b)}
	}
	holds := func(wide, narrow Range) bool {
		return wide.Low <= wide.High && narrow.Low >= wide.Low*(1-1e-9) && narrow.High <= wide.High*(1+1e-9)
	}
	for range 2000 {
		rate := span(1, 1e5)
		in := Input{Records: span(1, 1e10), Key: span(1, 200), Value: span(1, 1e4), Replicas: 1 + r.IntN(7), Compression: span(1, 20), Amplification: span(1, 2),
			RegionSize: span(mib, 1<<30), StoreSize: logarithmic(1e11, 1e14), Fill: 0.3 + 0.6*r.Float64(), Rate: &rate}
		var measured []Measured
		for range r.IntN(5) {
			measured = append(measured, Measured{Load: r.IntN(2) == 0, OpsPerS: logarithmic(10, 1e6), Stores: 1 + r.IntN(20), Saturated: r.IntN(2) == 0})
		}
		wide := made(t, in, measured...)
		exactRate := Exactly(within(rate))
		exact := in
		exact.Records, exact.Key, exact.Value, exact.Rate = Exactly(within(in.Records)), Exactly(within(in.Key)), Exactly(within(in.Value)), &exactRate
		exact.Compression, exact.Amplification, exact.RegionSize = Exactly(within(in.Compression)), Exactly(within(in.Amplification)), Exactly(within(in.RegionSize))
		narrow := made(t, exact, measured...)
		for what, both := range map[string][2]Range{"raw": {wide.Raw, narrow.Raw}, "replicated": {wide.Replicated, narrow.Replicated}, "disk": {wide.Disk, narrow.Disk}, "regions": {wide.Regions, narrow.Regions}} {
			if !holds(both[0], both[1]) {
				t.Fatalf("%s: %v is not within %v: %+v", what, both[1], both[0], in)
			}
		}
		if (wide.LoadS == nil) != (narrow.LoadS == nil) || wide.LoadS != nil && !holds(*wide.LoadS, *narrow.LoadS) {
			t.Fatalf("load: %v is not within %v", narrow.LoadS, wide.LoadS)
		}
		for what, both := range map[string][2]Stores{"space": {wide.ForSpace, narrow.ForSpace}, "rate": {wide.ForRate, narrow.ForRate}, "both": {wide.Stores, narrow.Stores}} {
			w, n := both[0], both[1]
			if (w.Least == nil) != (n.Least == nil) || (w.Most == nil) != (n.Most == nil) || w.Least != nil && *n.Least < *w.Least || w.Most != nil && *n.Most > *w.Most ||
				w.Least != nil && (*w.Least < int64(in.Replicas) || w.Most != nil && *w.Least > *w.Most) {
				t.Fatalf("stores for %s: %d to %d, and exactly %d to %d", what, number(w.Least), number(w.Most), number(n.Least), number(n.Most))
			}
		}
		more := in
		more.Records = Range{2 * in.Records.Low, 2 * in.Records.High}
		if p := made(t, more, measured...); *p.ForSpace.Least < *wide.ForSpace.Least || *p.ForSpace.Most < *wide.ForSpace.Most || p.Regions.Low < wide.Regions.Low {
			t.Fatalf("twice as many records need less: %+v", in)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind Kind
		text string
		want Range
	}{
		{Count, "10G", Exactly(1e10)},
		{Count, "300k", Exactly(3e5)},
		{Count, "1.5m .. 2M", Range{1.5e6, 2e6}},
		{Bytes, "26", Exactly(26)},
		{Bytes, "1KB", Exactly(1000)},
		{Bytes, "1 KiB", Exactly(1024)},
		{Bytes, "100B..4TB", Range{100, 4e12}},
		{Bytes, "96MiB..256mi", Range{96 * mib, 256 * mib}},
		{Factor, "3..6", Range{3, 6}},
		{Factor, "1", Exactly(1)},
	} {
		if got, err := c.kind.Parse(c.text); err != nil || got != c.want {
			t.Errorf("%q: %v, %v, want %v", c.text, got, err, c.want)
		}
	}
	for text, want := range map[string]string{"": "want bytes, as in", "KB": "want bytes", "1QB": "want bytes", "4TB..1KB": "ends before it begins", "0": "want 1 to", "-1": "want 1 to",
		"1..": "want bytes", "1_000": "want bytes", "0x10": "want bytes", "1e30": "want 1 to", "NaN": "want bytes", "1..2..3": "want bytes", "1,000": "want bytes"} {
		if got, err := Bytes.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %s", text, got, err, want)
		}
	}
	if _, err := Factor.Parse("0.5"); err == nil {
		t.Error("a factor below 1")
	}
	var to Range
	if err := NewFlag(&to, Bytes, true, "4TB").Set("1..2"); err == nil || to != Exactly(4e12) {
		t.Errorf("a range where one value is wanted: %v, %v", err, to)
	}
}

// What is read lies within the bounds, and in order.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"10G", "1KB..4TB", "96MiB", "3..6", "1e3", ".5", "..", "1.7.3", "9e307k"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, k := range []Kind{Count, Bytes, Factor} {
			if r, err := k.Parse(text); err == nil && !(r.Low >= k.low && r.Low <= r.High && r.High <= k.high) {
				t.Errorf("%q: %v", text, r)
			}
		}
	})
}
