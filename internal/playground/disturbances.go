// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Disturbance is something that a user can do to a running cluster. The table of them is what the admin endpoint serves, and what
// the help of a command line is made from.
type Disturbance struct {
	Name   string // also the path of the admin endpoint
	Doc    string
	Params []Param

	do func(*Cluster, *arguments) (string, error)
}

// Param is a parameter of a disturbance.
type Param struct {
	Name     string
	Doc      string
	Default  string // of an optional one
	Required bool
}

var (
	paramStore    = Param{Name: "id", Doc: "store id", Required: true}
	paramShare    = Param{Name: "share", Doc: "share of the commands, 0 to 1; 0 ends it", Required: true}
	paramKey      = Param{Name: "key", Doc: "a client's key", Required: true}
	paramKeyspace = Param{Name: "keyspace", Doc: "the key's keyspace, under API V2 (default DEFAULT)"}
)

var disturbances = []Disturbance{
	{
		Name: "split", Doc: "split a region so that one starts at a key", Params: []Param{paramKey, paramKeyspace},
		do: func(c *Cluster, a *arguments) (string, error) {
			key := a.key(c)
			return a.done("new region %d", func() (any, error) { return c.SplitRegion(key) })
		},
	},
	{
		Name: "merge", Doc: "merge the region that holds a key into its right neighbour", Params: []Param{paramKey, paramKeyspace},
		do: func(c *Cluster, a *arguments) (string, error) {
			key := a.key(c)
			return a.done("merged into region %d", func() (any, error) { return c.MergeRegion(key) })
		},
	},
	{
		Name: "move-leaders", Doc: "give regions another leader, at random",
		Params: []Param{{Name: "region", Doc: "only this region", Default: "0"}, {Name: "to", Doc: "to this store; needs region", Default: "0"}},
		do: func(c *Cluster, a *arguments) (string, error) {
			region, to := a.number("region"), a.number("to")
			if region == 0 && to != 0 {
				return "", errors.New("to needs region")
			}
			return a.done("leaders moved: %d", func() (any, error) {
				if region == 0 {
					return c.MoveLeaders()
				}
				return 1, c.MoveLeader(region, to)
			})
		},
	},
	{
		Name: "stop-store", Doc: "end a store as a crash would", Params: []Param{paramStore},
		do: func(c *Cluster, a *arguments) (string, error) {
			id := a.number("id")
			return a.done("store %d is down", func() (any, error) { return id, c.StopStore(id) })
		},
	},
	{
		Name: "drain-store", Doc: "move a store's leaders away and end it, as SIGTERM does", Params: []Param{paramStore},
		do: func(c *Cluster, a *arguments) (string, error) {
			id := a.number("id")
			return a.done(fmt.Sprintf("store %d is down, leaders moved before: %%d", id), func() (any, error) { return c.DrainStore(id) })
		},
	},
	{
		Name: "start-store", Doc: "start a stopped store", Params: []Param{paramStore},
		do: func(c *Cluster, a *arguments) (string, error) {
			id := a.number("id")
			return a.done("store %d is up", func() (any, error) { return id, c.StartStore(id) })
		},
	},
	{
		Name: "stall", Doc: "let a store answer nothing for a time",
		Params: []Param{paramStore, {Name: "for", Doc: "how long, as in 1.5s; 0s ends it", Required: true}},
		do: func(c *Cluster, a *arguments) (string, error) {
			id, d := a.number("id"), a.duration("for")
			return a.done("store stalled for %v", func() (any, error) { return d, c.StallStore(id, d) })
		},
	},
	{
		Name: "slow", Doc: "serve commands of a store later",
		Params: []Param{
			paramStore,
			{Name: "by", Doc: "how much, as in 20ms; 0s ends it", Required: true},
			{Name: "share", Doc: "share of the commands, 0 to 1", Default: "1"},
		},
		do: func(c *Cluster, a *arguments) (string, error) {
			id, by, share := a.number("id"), a.duration("by"), a.share("share")
			return a.done("store slower by %v", func() (any, error) { return by, c.SlowStore(id, by, share) })
		},
	},
	{
		Name: "queue", Doc: "serve commands of a store by so many servers, so that its capacity is known",
		Params: []Param{
			paramStore,
			{Name: "service-time", Doc: "that a command takes of a server, as in 2ms; 0s ends it", Required: true},
			{Name: "servers", Doc: "how many commands are served at once", Default: "1"},
			{Name: "service-spread", Doc: "of the service time: constant or exponential", Default: "constant"},
		},
		do: func(c *Cluster, a *arguments) (string, error) {
			id := a.number("id")
			s := Service{Time: a.duration("service-time"), Servers: int(min(a.number("servers"), maxServers+1)), Spread: Spread(a.text("service-spread"))}
			if a.err == nil && s.Servers == 0 {
				return "", errors.New("0 servers serve nothing: want 1 or more; --service-time 0s ends the queue")
			}
			return a.done("%s", func() (any, error) { return s, c.SetService(id, s) })
		},
	},
	{
		Name: "busy", Doc: "answer commands of a store with ServerIsBusy", Params: []Param{paramStore, paramShare},
		do: func(c *Cluster, a *arguments) (string, error) {
			id, share := a.number("id"), a.share("share")
			return a.done("share of commands refused as busy: %v", func() (any, error) { return share, c.SetBusy(id, share) })
		},
	},
	{
		Name: "raw-error", Doc: "answer commands of a store with a final error",
		Params: []Param{paramStore, paramShare, {Name: "text", Doc: "text of the error", Default: "injected by the playground"}},
		do: func(c *Cluster, a *arguments) (string, error) {
			id, share, text := a.number("id"), a.share("share"), a.text("text")
			return a.done("share of commands failed: %v", func() (any, error) { return share, c.SetRawError(id, share, text) })
		},
	},
	silentDisturbance(Lose, "acknowledge writes to a store and do not make them", "writes"),
	silentDisturbance(Repeat, "make writes to a store again, right after the next one of their key", "writes"),
	silentDisturbance(Swap, "make writes to a store to the key that it was asked to write before", "writes"),
	silentDisturbance(Swallow, "leave rows out of a store's scans", "rows"),
	{
		Name: "reset", Doc: "reset all connections to a store", Params: []Param{paramStore},
		do: func(c *Cluster, a *arguments) (string, error) {
			id := a.number("id")
			return a.done("connections reset: %d", func() (any, error) { return c.ResetConnections(id) })
		},
	},
	{
		Name: "stop-pd", Doc: "end PD as a crash would",
		do: func(c *Cluster, a *arguments) (string, error) {
			return a.done("%s is down", func() (any, error) { return "PD", c.StopPD() })
		},
	},
	{
		Name: "start-pd", Doc: "start PD again",
		do: func(c *Cluster, a *arguments) (string, error) {
			return a.done("%s is up", func() (any, error) { return "PD", c.StartPD() })
		},
	},
	{
		Name: "restore", Doc: "end all disturbances; splits and merges stay",
		do: func(c *Cluster, a *arguments) (string, error) {
			return a.done("%s", func() (any, error) { return "all is well", c.Restore() })
		},
	},
}

// Disturbances returns the table of what can be done to a running cluster.
func Disturbances() []Disturbance { return slices.Clone(disturbances) }

// Do runs one of the table by its name, and says what has been done. Parameters that it does not have are refused.
func (c *Cluster) Do(name string, params url.Values) (string, error) {
	i := slices.IndexFunc(disturbances, func(d Disturbance) bool { return d.Name == name })
	if i < 0 {
		return "", fmt.Errorf("%w %q: want one of %s", errUnknownDisturbance, name, disturbanceList())
	}
	d := disturbances[i]
	for given, values := range params {
		if !slices.ContainsFunc(d.Params, func(p Param) bool { return p.Name == given }) {
			return "", fmt.Errorf("%s: unknown parameter %q", name, given)
		}
		if len(values) != 1 {
			return "", fmt.Errorf("%s: parameter %q given %d times", name, given, len(values))
		}
	}
	a := &arguments{given: params, params: d.Params}
	done, err := d.do(c, a)
	if err = errors.Join(a.err, err); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	c.log.Info(name, "params", params.Encode(), "result", done)
	return done, nil
}

var errUnknownDisturbance = errors.New("unknown disturbance")

func disturbanceList() string {
	names := make([]string, len(disturbances))
	for i, d := range disturbances {
		names[i] = d.Name
	}
	return strings.Join(names, ", ")
}

// arguments reads the parameters of one command, and keeps the first error.
type arguments struct {
	given  url.Values
	params []Param
	err    error
}

// done runs what a command does, if its arguments are sound, and says so.
func (a *arguments) done(format string, do func() (any, error)) (string, error) {
	if a.err != nil {
		return "", nil
	}
	result, err := do()
	return fmt.Sprintf(format, result), err
}

func (a *arguments) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

func (a *arguments) text(name string) string {
	if a.given.Has(name) {
		return a.given.Get(name)
	}
	i := slices.IndexFunc(a.params, func(p Param) bool { return p.Name == name })
	if a.params[i].Required {
		a.fail(fmt.Errorf("parameter %q (%s) is missing", name, a.params[i].Doc))
	}
	return a.params[i].Default
}

// parsed reads a parameter; a missing one has been reported by text already.
func parsed[T any](a *arguments, name, want string, parse func(string) (T, error)) T {
	text := a.text(name)
	value, err := parse(text)
	if err != nil {
		a.fail(fmt.Errorf("parameter %s=%q: want %s", name, text, want))
	}
	return value
}

func (a *arguments) number(name string) uint64 {
	return parsed(a, name, "a whole number", func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) })
}

func (a *arguments) share(name string) float64 {
	return parsed(a, name, "a number from 0 to 1", func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
}

func (a *arguments) duration(name string) time.Duration {
	return parsed(a, name, "a duration as in 20ms", time.ParseDuration)
}

// key is the key parameter as requests carry it.
func (a *arguments) key(c *Cluster) []byte {
	key, err := c.Key(a.text("keyspace"), []byte(a.text("key")))
	if err != nil {
		a.fail(err)
	}
	return key
}
