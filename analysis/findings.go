// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/units"
	"github.com/kvbench/kvbench/internal/workload"
)

// Findings that a verdict names.
const (
	// missShare is how much may be missed where nothing explains it, unless the run has a limit of its own.
	missShare = 0.001
	// failedShare is from which share of failed operations on a rate says nothing of what was the limit.
	failedShare = 0.5
	// shortWindow is below which length the system's accounting is too coarse to tell what was the limit,
	// and a rate and its percentiles mean little.
	shortWindow = 500 * time.Millisecond
	// grpcThreads is how many threads of a store serve connections, unless it is set otherwise
	// (server.grpc-concurrency): each connection is served by one of them.
	grpcThreads = 5
	// clockAhead is from which offset on a worker's clock is worth a word.
	clockAhead = 50 * time.Millisecond
	// clockFar is from which offset on the note says by how much it was corrected.
	clockFar = time.Second
)

// failed counts what failed, and names the classes that it was most of.
func (p *Report) failed() (n int64, most string) {
	named := 0
	for _, e := range p.Errors {
		if e.Class == workload.Wrong.String() || named == 2 {
			continue
		}
		if named++; named > 1 {
			most += ", "
		}
		most += fmt.Sprintf("%s %s %s", units.Count(e.Count), e.Kind, e.Class)
	}
	return p.count(workload.Failed), most
}

// misses counts operations that found no value, of those that look for one.
func (p *Report) misses() (missed, all int64) {
	for _, k := range p.Kinds {
		if k.Kind == workload.Insert.String() || k.Kind == AllKinds {
			continue
		}
		all += k.Operations
		if k.Outcome == workload.NotFound.String() {
			missed += k.Operations
		}
	}
	return missed, all
}

// missedKeys says that more was missed than can be explained, or than is allowed; "" if not.
func missedKeys(p *Report, rec *results.Run) string {
	missed, all := p.misses()
	if missed == 0 || rec.Phase != "run" {
		return ""
	}
	limit, why := missShare, ", though nothing deletes: load the keys first, or allow it with --max-misses"
	switch {
	case rec.Limits.MissShare != nil:
		limit, why = *rec.Limits.MissShare, ""
	case positive(rec.Spec["deleteproportion"]) || positive(rec.Spec["ttl"]):
		return ""
	}
	share := float64(missed) / float64(all)
	if share <= limit {
		return ""
	}
	return fmt.Sprintf("%s of the operations found no value (limit: %s)%s", units.Percent(share), units.Percent(limit), why)
}

// positive tells whether a property is a number above 0.
func positive(value string) bool {
	v, err := strconv.ParseFloat(value, 64)
	return err == nil && v > 0
}

// skewed says that one of several stores got most of the commands; "" if none did, or drivers do not tell.
func skewed(p *Report) string {
	if p.Traffic == nil {
		return ""
	}
	stores, sum := max(len(p.Cluster.Stores), len(p.Traffic.Stores)), 0.0
	var most *StoreRow
	for i := range p.Traffic.Stores {
		s := &p.Traffic.Stores[i]
		sum += s.CommandsPS
		if most == nil || s.CommandsPS > most.CommandsPS {
			most = s
		}
	}
	if stores < 2 || sum == 0 || most.CommandsPS < min(0.9, 2/float64(stores))*sum {
		return ""
	}
	return fmt.Sprintf("%s of the commands went to one of %d stores, %s", units.Percent(most.CommandsPS/sum), stores, most.Store)
}

// idleConnection is up to how many messages a second on its connections to a store leave a store's gRPC thread idle for
// most of the time, even if each takes a fraction of a millisecond of it.
const idleConnection = 1000

// fewConnections says that the fleet has fewer connections to a store than that has threads to serve them; "" if not, if
// that is not known, or if so little goes over them that they cannot be what is slow.
func fewConnections(p *Report) string {
	if p.Connections == 0 || p.Connections >= grpcThreads {
		return ""
	}
	if t := p.Traffic; t != nil {
		busiest := 0.0
		for i := range t.Stores {
			busiest = max(busiest, t.Stores[i].MessagesPS)
		}
		if busiest < idleConnection*float64(p.Connections) {
			return ""
		}
	}
	return fmt.Sprintf("%d %s to each store", p.Connections, units.Plural(int64(p.Connections), "connection", "connections"))
}

// noteClocks says whose clock is far from the coordinator's.
func (p *Report) noteClocks() {
	for i := range p.Workers {
		w := &p.Workers[i]
		if offset := w.ClockOffsetUS; math.Abs(offset) >= max(float64(clockAhead.Microseconds()), 3*w.ClockErrorUS) {
			where := "ahead of"
			if offset < 0 {
				where = "behind"
			}
			by := units.Micros(math.Abs(offset))
			allowed := "The run allowed for that"
			if math.Abs(offset) >= float64(clockFar.Microseconds()) {
				allowed = "Its start and its times were corrected by " + by
			}
			p.Notes = append(p.Notes, fmt.Sprintf("The clock of %s is %s %s the coordinator's. %s, and other logs of that machine do not.", w.Name, by, where, allowed))
		}
	}
}
