// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"math"

	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/prices"
	"github.com/kvbench/kvbench/internal/units"
)

// Cost is what a run's rate costs, in a currency. A month has as many hours as its user says.
type Cost struct {
	Currency        string  `json:"currency"`
	ClusterPerHour  float64 `json:"cluster_per_hour"`
	ClientsPerHour  float64 `json:"clients_per_hour"`
	ClusterPerMonth float64 `json:"cluster_per_month"`
	ClientsPerMonth float64 `json:"clients_per_month"`

	// Of a million answered operations at the run's rate; nil if that says nothing, and Why says why.
	ClusterPerMillion *float64 `json:"cluster_per_million_ops,omitempty"`
	ClientsPerMillion *float64 `json:"clients_per_million_ops,omitempty"`
	// AtMost is that a million operations cost the cluster no more: it was not the limit, and Why says what was.
	AtMost bool   `json:"at_most"`
	Why    string `json:"why,omitempty"`
}

// Price says what the run's cluster and clients cost, for its report and for comparisons.
func (r *Run) Price(p *prices.Prices) { r.prices = p }

// newCost is what a run cost; nil if its prices are not known.
func newCost(p *Report, prices *prices.Prices) *Cost {
	if prices == nil {
		return nil
	}
	c := &Cost{Currency: prices.Currency, ClusterPerHour: prices.Cluster, ClientsPerHour: prices.Clients,
		ClusterPerMonth: prices.Cluster * prices.HoursPerMonth, ClientsPerMonth: prices.Clients * prices.HoursPerMonth}
	if c.Why = rateless(p); c.Why != "" {
		return c
	}
	perMillion := func(hourly float64) *float64 {
		cost := hourly / 3600 / p.OpsPerS * 1e6
		return &cost
	}
	c.ClusterPerMillion, c.ClientsPerMillion = perMillion(prices.Cluster), perMillion(prices.Clients)
	c.AtMost = p.Limit.By != ByServer
	if c.AtMost {
		c.Why = fewer(p)
	}
	return c
}

// rateless says why a run's rate says nothing of what the cluster does; "" if it does.
func rateless(p *Report) string {
	switch {
	case p.Phase == "verify":
		return "a verification is not a load"
	case p.Verdict.Code != exitcode.Valid && p.Verdict.Code != exitcode.Target && p.Verdict.Code != exitcode.SLO:
		return "the run is not a valid result"
	case p.Limit.By == ByErrors:
		return "most operations failed"
	case p.OpsPerS <= 0:
		return "nothing was answered"
	}
	return ""
}

// fewer says why the cluster, which was not the limit, did not do more.
func fewer(p *Report) string {
	switch p.Limit.By {
	case ByTarget:
		return "it was asked for no more"
	case ByClient, ByOthers:
		return "the client was the limit"
	}
	return "what the limit was is not known"
}

// Text says it in words.
func (c *Cost) Text() string {
	money := func(v float64) string { return c.Currency + " " + units.Number(v) }
	part := func(who string, monthly float64, perMillion *float64) string {
		text := who + " " + money(monthly) + " a month"
		if perMillion != nil {
			text += ", "
			if c.AtMost {
				text += "at most "
			}
			text += money(*perMillion) + " for a million operations"
		}
		return text
	}
	text := part("cluster", c.ClusterPerMonth, c.ClusterPerMillion)
	if c.ClientsPerHour > 0 {
		text += "; " + part("clients", c.ClientsPerMonth, c.ClientsPerMillion)
	}
	switch {
	case c.ClusterPerMillion == nil:
		text += "; for a million operations unknown: " + c.Why
	case c.AtMost:
		text += "; the cluster may do more for the same: " + c.Why
	}
	return text
}

// CellCost is what the rates of several runs cost, on one cluster.
type CellCost struct {
	Currency        string  `json:"currency"`
	ClusterPerMonth float64 `json:"cluster_per_month"`
	ClientsPerMonth float64 `json:"clients_per_month"`

	// Of a million answered operations; nil if a run says nothing of that, and Why says why.
	ClusterPerMillion *Spread `json:"cluster_per_million_ops,omitempty"`
	ClientsPerMillion *Spread `json:"clients_per_million_ops,omitempty"`
	// AtMost is that these are upper bounds: in one run at least the cluster was not the limit, and Why says what was.
	AtMost bool   `json:"at_most"`
	Why    string `json:"why,omitempty"`
}

// cost is that of a cell's runs, of which there is one at least; nil if no prices are known.
func (c *Cell) cost() *CellCost {
	first := c.Runs[0].report.Cost
	if first == nil {
		return nil
	}
	all := &CellCost{Currency: first.Currency, ClusterPerMonth: first.ClusterPerMonth, ClientsPerMonth: first.ClientsPerMonth}
	for _, r := range c.Runs {
		one := r.report.Cost
		if one.ClusterPerMillion == nil {
			all.AtMost, all.Why = false, one.Why
			return all
		}
		if one.AtMost && !all.AtMost {
			all.AtMost, all.Why = true, one.Why
		}
	}
	all.ClusterPerMillion = c.spread(func(p *Report) float64 { return *p.Cost.ClusterPerMillion })
	all.ClientsPerMillion = c.spread(func(p *Report) float64 { return *p.Cost.ClientsPerMillion })
	return all
}

// Value is price for performance: how many operations are answered for one unit of the currency.
type Value struct {
	Currency string  `json:"currency,omitempty"` // of both sides
	A        float64 `json:"a_ops"`              // for one unit of the currency, from the rate in the runs A
	B        float64 `json:"b_ops"`
	Change   float64 `json:"change"` // B/A - 1

	// Noise is as that of the rate, which is all that is uncertain: prices are exact. Absent where that of the rate is.
	Noise  *float64 `json:"noise,omitempty"`
	Judged Judged   `json:"judged"`
	Why    string   `json:"why,omitempty"` // nothing can be said
}

// newValue compares what the sides' rates cost, from the change of the rate; nil if no prices are known.
func newValue(rate *Delta, a, b []*Run, reportsA, reportsB []*Report) *Value {
	pa, pb := a[0].prices, b[0].prices
	switch {
	case pa == nil || pb == nil:
		return nil
	case pa.Currency != pb.Currency:
		return &Value{Judged: Unknown, Why: fmt.Sprintf("the prices are in %s and %s", pa.Currency, pb.Currency)}
	case rate.A <= 0 || rate.B <= 0:
		return &Value{Currency: pa.Currency, Judged: Unknown, Why: "nothing was answered"}
	}
	v := &Value{Currency: pa.Currency, A: rate.A * 3600 / pa.Cluster, B: rate.B * 3600 / pb.Cluster, Noise: rate.Noise}
	v.Change = v.B/v.A - 1
	v.Judged, v.Why = v.judge(rate, pa.Cluster == pb.Cluster, unlimited(reportsA), unlimited(reportsB))
	return v
}

// judge tells whether the change is more than noise. moreA and moreB say, if they are not empty, why a side may do more for its price than
// was measured: what it does is at least that.
func (v *Value) judge(rate *Delta, samePrice bool, moreA, moreB string) (judged Judged, why string) {
	if rate.Noise == nil {
		return Unknown, rate.Why
	}
	judged = Noise
	ratio, factor := 1+v.Change, 1+*v.Noise
	switch {
	case samePrice:
		judged = rate.Judged
	case math.Abs(v.Change) <= resolution:
	case ratio/factor > 1:
		judged = Better
	case ratio*factor < 1:
		judged = Worse
	}
	switch {
	case moreA != "" && moreB != "":
		return Unknown, "both may do more for their price: " + moreA + " (A), " + moreB + " (B)"
	case moreA != "" && judged != Worse:
		return Unknown, "A may do more for its price: " + moreA
	case moreB != "" && judged != Better:
		return Unknown, "B may do more for its price: " + moreB
	}
	return judged, ""
}

// unlimited says why the runs of a side, one of which at least was not limited by the cluster, show less than that does; "" if all were.
func unlimited(reports []*Report) string {
	for _, p := range reports {
		if p.Limit.By != ByServer {
			return fewer(p)
		}
	}
	return ""
}

// Text says it in words.
func (v *Value) Text() string {
	if v.A == 0 {
		return "price for performance unknown: " + v.Why
	}
	text := fmt.Sprintf("for %s 1 A answers %s operations, B %s: %+.1f %%", v.Currency, units.Number(v.A), units.Number(v.B), 100*v.Change)
	if v.Noise != nil {
		text += " (" + noiseText(*v.Noise) + ")"
	}
	text += ", " + string(v.Judged)
	if v.Why != "" {
		text += ": " + v.Why
	}
	return text
}
