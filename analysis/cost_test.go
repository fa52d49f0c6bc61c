// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/prices"
)

func TestCost(t *testing.T) {
	t.Parallel()
	is := func(v *float64, want float64) bool { return v != nil && math.Abs(*v-want) < 1e-9 }
	paid := &prices.Prices{Currency: "USD", HoursPerMonth: 730, Cluster: 3.6, Clients: 0.36}
	run := func(change func(p *Report)) *Cost {
		p := &Report{Phase: "run", OpsPerS: 20_000, Limit: Limit{By: ByServer}}
		change(p)
		return newCost(p, paid)
	}
	// 3.6 an hour is 0.001 a second, in which there are 20,000 operations: a million are 50 seconds.
	c := run(func(*Report) {})
	if !is(c.ClusterPerMillion, 0.05) || !is(c.ClientsPerMillion, 0.005) || c.AtMost || c.Why != "" || math.Abs(c.ClusterPerMonth-2628) > 1e-9 {
		t.Errorf("%+v", c)
	}
	if want := "cluster USD 2,628 a month, USD 0.05 for a million operations; clients USD 263 a month, USD 0.005 for a million operations"; c.Text() != want {
		t.Errorf("%s\nwant %s", c.Text(), want)
	}
	for by, want := range map[string]string{ByTarget: "asked for no more", ByClient: "the client was the limit", ByOthers: "the client was the limit", ByUnknown: "not known"} {
		c := run(func(p *Report) { p.Limit.By = by })
		if !is(c.ClusterPerMillion, 0.05) || !c.AtMost || !strings.Contains(c.Why, want) || !strings.Contains(c.Text(), ", at most USD") || !strings.Contains(c.Text(), "may do more for the same: "+c.Why) {
			t.Errorf("limited by %s: %+v: %s", by, c, c.Text())
		}
	}
	for want, change := range map[string]func(*Report){
		"not a valid result":     func(p *Report) { p.Verdict.Code = exitcode.Degraded },
		"a verification":         func(p *Report) { p.Phase = "verify" },
		"most operations failed": func(p *Report) { p.Limit.By = ByErrors },
		"nothing was answered":   func(p *Report) { p.OpsPerS = 0 },
	} {
		if c := run(change); c.ClusterPerMillion != nil || c.ClientsPerMillion != nil || !strings.Contains(c.Text(), "unknown: ") || !strings.Contains(c.Why, want) || c.ClusterPerHour != 3.6 {
			t.Errorf("%s: %+v: %s", want, c, c.Text())
		}
	}
	if newCost(&Report{}, nil) != nil {
		t.Error("a cost without prices")
	}
}

// A run that is loaded has the cost of its prices, and none without.
func TestPrice(t *testing.T) {
	t.Parallel()
	r, err := Load((&fixture{window: 2 * time.Second, target: 1000}).write(t))
	if err != nil {
		t.Fatal(err)
	}
	if r.Report().Cost != nil {
		t.Error("a cost without prices")
	}
	r.Price(&prices.Prices{Currency: "USD", HoursPerMonth: 730, Cluster: 3.6})
	p := r.Report()
	if c := p.Cost; c == nil || c.ClusterPerMillion == nil || math.Abs(*c.ClusterPerMillion-1) > 0.01 || !c.AtMost {
		t.Errorf("%+v of %v/s", p.Cost, p.OpsPerS)
	}
	if v := Compare([]*Run{r}, []*Run{r}, DefaultSpread).Value; v == nil || v.Change != 0 || v.Judged != Unknown {
		t.Errorf("compared with itself, paced: %+v", v)
	}
}

func TestPriceForPerformance(t *testing.T) {
	t.Parallel()
	noise := 0.1
	for _, c := range []struct {
		name     string
		a, b     float64 // rates
		pa, pb   float64 // prices
		rate     Judged
		byA, byB string
		change   float64
		want     Judged
	}{
		{"the rate is better for the same money", 1000, 1300, 2, 2, Better, ByServer, ByServer, 0.3, Better},
		{"the rate's judgement is kept, whatever the interval says", 1000, 1099, 2, 2, Better, ByServer, ByServer, 0.099, Better},
		{"half the price", 1000, 1000, 2, 1, Noise, ByServer, ByServer, 1, Better},
		{"a better rate is paid for", 1000, 1300, 2, 2.6, Better, ByServer, ByServer, 0, Noise},
		{"a better rate is paid for too dearly", 1000, 1300, 2, 4, Better, ByServer, ByServer, -0.35, Worse},
		{"within noise", 1000, 1000, 2, 1.9, Noise, ByServer, ByServer, 2/1.9 - 1, Noise},
		{"A may do more, so B is not better", 1000, 1000, 2, 1, Noise, ByTarget, ByServer, 1, Unknown},
		{"A may do more, B is worse all the more", 1000, 1000, 1, 2, Noise, ByTarget, ByServer, -0.5, Worse},
		{"B may do more, so B is not worse", 1000, 1000, 1, 2, Noise, ByServer, ByClient, -0.5, Unknown},
		{"B may do more, and is better", 1000, 1000, 2, 1, Noise, ByServer, ByClient, 1, Better},
		{"within noise, and A may do more", 1000, 1000, 2, 1.9, Noise, ByTarget, ByServer, 2/1.9 - 1, Unknown},
		{"both may do more", 1000, 1000, 2, 1, Noise, ByTarget, ByTarget, 1, Unknown},
	} {
		runs := func(price float64) []*Run { return []*Run{{prices: &prices.Prices{Currency: "USD", Cluster: price}}} }
		rate := &Delta{A: c.a, B: c.b, Noise: &noise, Judged: c.rate}
		v := newValue(rate, runs(c.pa), runs(c.pb), []*Report{{Limit: Limit{By: c.byA}}}, []*Report{{Limit: Limit{By: c.byB}}})
		if math.Abs(v.Change-c.change) > 1e-9 || v.Judged != c.want || (v.Why != "") != (c.want == Unknown) || math.Abs(v.A-c.a*3600/c.pa) > 1e-6 {
			t.Errorf("%s: %+v, want %v, %+v", c.name, v, c.want, c.change)
		}
		if !strings.Contains(v.Text(), string(c.want)) {
			t.Errorf("%s: %s", c.name, v.Text())
		}
	}
	usd, eur := []*Run{{prices: &prices.Prices{Currency: "USD", Cluster: 1}}}, []*Run{{prices: &prices.Prices{Currency: "EUR", Cluster: 1}}}
	served := []*Report{{Limit: Limit{By: ByServer}}}
	if v := newValue(&Delta{A: 1, B: 1, Noise: &noise}, usd, eur, served, served); v.Judged != Unknown || v.A != 0 || !strings.Contains(v.Text(), "USD and EUR") {
		t.Errorf("two currencies: %+v", v)
	}
	if v := newValue(&Delta{A: 1, B: 1, Judged: Unknown, Why: "too short"}, usd, usd, served, served); v.Judged != Unknown || v.Why != "too short" {
		t.Errorf("an unknown rate: %+v", v)
	}
	if newValue(&Delta{A: 1, B: 1}, usd, []*Run{{}}, served, served) != nil {
		t.Error("a value without prices")
	}
}

// What a cell costs is the median over its runs, and an upper bound, or unknown, if that is so of one of them.
func TestCellCost(t *testing.T) {
	t.Parallel()
	paid := &prices.Prices{Currency: "USD", HoursPerMonth: 730, Cluster: 3.6, Clients: 0.36}
	cell := func(paid *prices.Prices, runs ...Report) *Cell {
		c := NewCell("")
		for i := range runs {
			runs[i].Phase = "run"
			runs[i].Cost = newCost(&runs[i], paid)
			c.Runs = append(c.Runs, CellRun{report: &runs[i]})
		}
		return c
	}
	server, target := Limit{By: ByServer}, Limit{By: ByTarget}
	all := cell(paid, Report{OpsPerS: 10_000, Limit: server}, Report{OpsPerS: 40_000, Limit: server}, Report{OpsPerS: 20_000, Limit: server}).cost()
	if s := all.ClusterPerMillion; math.Abs(s.Median-0.05) > 1e-9 || math.Abs(s.Min-0.025) > 1e-9 || math.Abs(s.Max-0.1) > 1e-9 || all.AtMost || all.Why != "" || math.Abs(all.ClientsPerMillion.Median-0.005) > 1e-9 || math.Abs(all.ClusterPerMonth-2628) > 1e-9 {
		t.Errorf("%+v of %+v", s, all)
	}
	if one := cell(paid, Report{OpsPerS: 10_000, Limit: server}, Report{OpsPerS: 10_000, Limit: target}).cost(); !one.AtMost || !strings.Contains(one.Why, "asked for no more") || one.ClusterPerMillion == nil {
		t.Errorf("one run met its target: %+v", one)
	}
	if one := cell(paid, Report{OpsPerS: 10_000, Limit: target}, Report{Limit: server}).cost(); one.AtMost || one.ClusterPerMillion != nil || one.ClientsPerMillion != nil || !strings.Contains(one.Why, "nothing was answered") {
		t.Errorf("one run shows nothing: %+v", one)
	}
	if cell(nil, Report{OpsPerS: 10_000, Limit: server}).cost() != nil {
		t.Error("a cost without prices")
	}
}
