// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kvbench/kvbench/internal/units"
)

// ServerFinding is what a rule found in the stores' own figures.
type ServerFinding struct {
	Rule   string `json:"rule"`  // its name in docs/cluster.md
	Store  string `json:"store"` // or PD's address
	Text   string `json:"text"`
	Limits bool   `json:"limits"` // it says why the server was no faster
}

const (
	// poolShare is from which share of its threads on a pool is full.
	poolShare = 0.9
	// coreShare is from which share of its cores on a store has none left.
	coreShare = 0.9
	// One gRPC thread does all the work if it is busy to busyThread, and each other to idleThread at most.
	busyThread, idleThread = 0.9, 0.2
	// Writes were stalled if all that wait for them did for so many seconds, and for that share of the time.
	stallTime, stallShare = 0.5, 0.05
	// Pending compaction has grown if it did by that many bytes, and by half of what was there.
	pendingGrown, pendingShare = 1 << 30, 0.5
	// A store is slow if it took slowTimes as long as any other, and slowerUS longer, in the mean of slowRequests or more.
	slowTimes, slowerUS, slowRequests = 3, 500, 100
	// oneStore is from which share on all requests went to one store.
	oneStore = 0.98
)

// rules are what is concluded from a store's figures, each documented in docs/cluster.md. A figure that a
// store does not say concludes nothing. The first that holds and limits is named in the verdict.
var rules = []struct {
	name   string
	limits bool
	holds  func(s *ServerRow) string // "": it does not
}{
	{"write-stall", true, func(s *ServerRow) string {
		if s.StallS == nil || *s.StallS < max(stallTime, stallShare*(s.ToS-s.FromS)) {
			return ""
		}
		return fmt.Sprintf("write stalls on store %s for %s, all writing threads together", s.Store, units.Seconds(*s.StallS))
	}},
	{"grpc-thread", true, func(s *ServerRow) string {
		if len(s.GRPC) < 2 || s.GRPC[0] < busyThread || s.GRPC[1] > idleThread {
			return ""
		}
		return fmt.Sprintf("one of %d gRPC threads of store %s at %s, the others at %s or less: more connections of the client would use them", len(s.GRPC), s.Store, units.Percent(s.GRPC[0]), units.Percent(s.GRPC[1]))
	}},
	{"pool", true, func(s *ServerRow) string {
		var full *PoolRow
		for i := range s.Pools {
			p := &s.Pools[i]
			if background[p.Pool] || p.Share < poolShare || full != nil && p.Share <= full.Share {
				continue
			}
			full = p
		}
		if full == nil {
			return ""
		}
		threads := int64(full.Threads)
		return fmt.Sprintf("the %s pool of store %s at %s of its %s %s", full.Pool, s.Store, units.Percent(full.Share), units.Count(threads), units.Plural(threads, "thread", "threads"))
	}},
	{"cores", true, func(s *ServerRow) string {
		if s.CPU == nil || s.Cores == nil || *s.CPU < coreShare**s.Cores {
			return ""
		}
		return fmt.Sprintf("store %s used %s of its %s cores", s.Store, units.Percent(*s.CPU / *s.Cores), units.Number(*s.Cores))
	}},
	{"pending-compaction", false, func(s *ServerRow) string {
		if s.Pending == nil || s.PendingWas == nil || *s.Pending-*s.PendingWas < max(pendingGrown, pendingShare**s.PendingWas) {
			return ""
		}
		return fmt.Sprintf("pending compaction of store %s grew by %.1f GB during the run: a longer run will be slower", s.Store, (*s.Pending-*s.PendingWas)/1e9)
	}},
}

// background are the pools that work for no request in particular, and may be full for as long as they like.
var background = map[string]bool{"rocksdb_low": true, "rocksdb_high": true, "background": true}

// find applies the rules to all stores.
func find(stores []ServerRow) (found []ServerFinding) {
	for _, rule := range rules {
		for i := range stores {
			if text := rule.holds(&stores[i]); text != "" {
				found = append(found, ServerFinding{rule.name, stores[i].Store, text, rule.limits})
			}
		}
	}
	if store, text := slowStore(stores); text != "" {
		found = append(found, ServerFinding{"slow-store", store, text, true})
	}
	if store, text := onOneStore(stores); text != "" {
		found = append(found, ServerFinding{"one-store", store, text, false})
	}
	return found
}

// slowStore says that one store takes far longer for the same kind of request than the others: of the kind that takes most of their
// time. "" if not, or if no other tells.
func slowStore(stores []ServerRow) (store, text string) {
	means := make(map[string]map[string]float64) // by kind and store, in µs
	spent := make(map[string]float64)
	for i := range stores {
		for _, k := range stores[i].Kinds {
			if k.PerS*(stores[i].ToS-stores[i].FromS) < slowRequests || k.MeanUS == 0 {
				continue
			}
			if means[k.Kind] == nil {
				means[k.Kind] = make(map[string]float64)
			}
			means[k.Kind][stores[i].Store] = k.MeanUS
			spent[k.Kind] += k.PerS * k.MeanUS
		}
	}
	kind := ""
	for _, k := range slices.Sorted(maps.Keys(spent)) {
		if len(means[k]) > 1 && spent[k] > spent[kind] {
			kind = k
		}
	}
	if kind == "" {
		return "", ""
	}
	all := slices.SortedFunc(maps.Keys(means[kind]), func(a, b string) int { return cmp.Compare(means[kind][a], means[kind][b]) })
	slow, next := all[len(all)-1], all[len(all)-2]
	slowest, others := means[kind][slow], means[kind][next]
	if slowest < slowTimes*others || slowest-others < slowerUS {
		return "", ""
	}
	return slow, fmt.Sprintf("store %s took %s for a %s in the mean, no other more than %s", slow, units.Micros(slowest), kind, units.Micros(others))
}

// onOneStore says that one of several stores answered everything; "" if not, or if one of them does not tell.
func onOneStore(stores []ServerRow) (store, text string) {
	sum, most := 0.0, 0
	for i := range stores {
		if stores[i].Requests == nil {
			return "", ""
		}
		sum += *stores[i].Requests
		if *stores[i].Requests > *stores[most].Requests {
			most = i
		}
	}
	if len(stores) < 2 || sum == 0 || *stores[most].Requests < oneStore*sum {
		return "", ""
	}
	return stores[most].Store, fmt.Sprintf("all of the %s went to one store of %d, %s: a new table is one region, on one store", units.Rate(sum), len(stores), stores[most].Store)
}

// moved says that PD had regions moved during the measurement; "" if it did not, or does not tell.
func (p *PDRow) moved() string {
	if p == nil || len(p.Operators) == 0 {
		return ""
	}
	n := int64(0)
	var kinds []string
	for _, o := range p.Operators {
		n += o.Finished
		kinds = append(kinds, units.Count(o.Finished)+" "+o.Kind)
	}
	return fmt.Sprintf("PD finished %s %s during the measurement (%s): regions, or their leaders, were moved", units.Count(n), units.Plural(n, "operator", "operators"), strings.Join(kinds, ", "))
}

// limits is the first finding that says why the server was no faster; "" if there is none.
func (s *Servers) limits() string {
	if s == nil {
		return ""
	}
	for _, f := range s.Findings {
		if f.Limits {
			return f.Text
		}
	}
	return ""
}
