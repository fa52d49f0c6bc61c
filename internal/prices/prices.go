// SPDX-License-Identifier: Apache-2.0

// Package prices reads what the nodes of a cluster and of its clients cost, from a file of the user's. Prices are
// kept in no results: they are said again with each report.
package prices

import (
	"fmt"
	"math"
	"strconv"

	"github.com/kvbench/kvbench/internal/plainfile"
	"github.com/kvbench/kvbench/internal/plainyaml"
)

// Prices are what was paid for what was measured. All are above 0, but for those of clients, which may be 0.
type Prices struct {
	Currency      string
	HoursPerMonth float64
	Cluster       float64 // an hour, of all its nodes
	Clients       float64 // an hour, of all of theirs
}

// Bounds of a file.
const (
	maxFile     = 64 << 10
	maxCount    = 1_000_000 // nodes of a kind
	maxPrice    = 1e9       // of one, an hour or a month
	maxCurrency = 8         // bytes
	maxKind     = 100       // bytes

	defaultHours = 730 // a month: 8760 hours a year, by 12, as clouds' calculators have it
	maxHours     = 744 // of the longest
)

// Flag is the value of a flag that names a file of prices.
type Flag struct {
	Path   string
	Prices *Prices // nil: the flag was not given
}

func (f *Flag) String() string { return "" }

// Type is what the value is.
func (f *Flag) Type() string { return "file" }

// Set reads the file.
func (f *Flag) Set(path string) (err error) {
	f.Path = path
	f.Prices, err = ReadFile(path)
	return err
}

// ReadFile reads a file of prices. An error names file, line and column, where there is one.
func ReadFile(path string) (*Prices, error) {
	text, err := plainfile.Read(path, maxFile)
	if err != nil {
		return nil, err
	}
	p, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	return p, nil
}

// Parse reads prices in YAML. An error begins with the line and column of what is wrong.
func Parse(text []byte) (*Prices, error) {
	root, err := plainyaml.Parse(text)
	if err != nil {
		return nil, err
	}
	f, err := root.Fields("currency", "hours_per_month", "cluster", "clients")
	if err != nil {
		return nil, err
	}
	p := &Prices{HoursPerMonth: defaultHours}
	if f["currency"] == nil {
		return nil, root.Fail("there is no currency: want one, as in 'currency: USD'")
	}
	if p.Currency, err = name(f["currency"], maxCurrency); err != nil {
		return nil, err
	}
	if hours := f["hours_per_month"]; hours != nil {
		if p.HoursPerMonth, err = number(hours, maxHours); err == nil && p.HoursPerMonth == 0 {
			err = hours.Fail("a month has more than 0 hours")
		}
	}
	for _, side := range []struct {
		nodes *plainyaml.Node
		total *float64
	}{{f["cluster"], &p.Cluster}, {f["clients"], &p.Clients}} {
		if side.nodes != nil && err == nil {
			*side.total, err = sum(side.nodes, p.HoursPerMonth)
		}
	}
	if err == nil && p.Cluster == 0 {
		err = root.Fail("there is no price of the cluster: want its nodes, as in 'cluster: [{kind: tikv, count: 3, per_hour: 1.2}]'")
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// sum is what a list of nodes costs in an hour.
func sum(list *plainyaml.Node, hours float64) (total float64, err error) {
	all, err := list.List()
	for i := 0; i < len(all) && err == nil; i++ {
		var cost float64
		cost, err = ofKind(all[i], hours)
		total += cost
	}
	return total, err
}

// ofKind is what the nodes of one kind cost in an hour.
func ofKind(nodes *plainyaml.Node, hours float64) (float64, error) {
	f, err := nodes.Fields("kind", "count", "per_hour", "per_month")
	if err != nil {
		return 0, err
	}
	for _, needed := range []string{"kind", "count"} {
		if f[needed] == nil {
			return 0, nodes.Fail("there is no %s: want kind, count, and per_hour or per_month", needed)
		}
	}
	if _, err := name(f["kind"], maxKind); err != nil {
		return 0, err
	}
	count, err := number(f["count"], maxCount)
	if err != nil {
		return 0, err
	}
	if count < 1 || count != math.Trunc(count) {
		return 0, f["count"].Fail("want a whole number of nodes, 1 or more")
	}
	hourly, monthly := f["per_hour"], f["per_month"]
	switch {
	case (hourly == nil) == (monthly == nil):
		return 0, nodes.Fail("want either per_hour or per_month")
	case hourly != nil:
		hours = 1
	default:
		hourly = monthly
	}
	price, err := number(hourly, maxPrice)
	return count * price / hours, err
}

// name reads a name of so many bytes at most.
func name(n *plainyaml.Node, most int) (string, error) {
	text, err := n.Text()
	if err == nil && (text == "" || len(text) > most) {
		err = n.Fail("want a name of up to %d bytes", most)
	}
	return text, err
}

// number reads one from 0 to most.
func number(n *plainyaml.Node, most float64) (float64, error) {
	text, err := n.Text()
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= most) {
		return 0, n.Fail("%q: want a number from 0 to %.0f", text, most)
	}
	return v, nil
}
