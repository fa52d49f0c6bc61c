// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/kvbench/kvbench/internal/results"
)

// Servers is what the stores said of themselves over the window. What a store does not say is nil, and not 0.
type Servers struct {
	Stores   []ServerRow     `json:"stores"`
	PD       *PDRow          `json:"pd,omitempty"`      // nil: it was not asked
	Counted  *Counted        `json:"counted,omitempty"` // nil: there are too few readings
	Findings []ServerFinding `json:"findings"`
}

// ServerRow is one store between the first and the last of its readings in the window.
type ServerRow struct {
	Store    string  `json:"store"`
	FromS    float64 `json:"from_s"`
	ToS      float64 `json:"to_s"`
	Readings int     `json:"readings"`
	Failed   int     `json:"readings_failed"`
	Why      string  `json:"failed_why,omitempty"` // of the first

	Requests   *float64    `json:"requests_per_s,omitempty"` // of clients, of all kinds
	ServiceUS  *float64    `json:"request_mean_us,omitempty"`
	Kinds      []ServedRow `json:"kinds"`
	CPU        *float64    `json:"cpu_cores,omitempty"` // in use, on average
	Cores      *float64    `json:"cores,omitempty"`     // that it may use
	Pools      []PoolRow   `json:"pools"`
	GRPC       []float64   `json:"grpc_threads,omitempty"` // share of a core that each used, falling
	WriteUS    *float64    `json:"write_mean_us,omitempty"`
	AppendUS   *float64    `json:"append_mean_us,omitempty"`
	ApplyUS    *float64    `json:"apply_mean_us,omitempty"`
	StallS     *float64    `json:"write_stall_s,omitempty"`
	TooBusy    *float64    `json:"too_busy,omitempty"`
	CacheHits  *float64    `json:"cache_hit_share,omitempty"`
	Memory     *float64    `json:"memory_bytes,omitempty"` // at the end, as those below
	Stored     *float64    `json:"stored_bytes,omitempty"`
	Pending    *float64    `json:"pending_compaction_bytes,omitempty"`
	PendingWas *float64    `json:"pending_compaction_bytes_before,omitempty"`
	Leaders    *float64    `json:"leaders,omitempty"`
	Regions    *float64    `json:"regions,omitempty"`

	Series []ServerPoint `json:"series"`
}

// ServedRow is one kind of request, under TiKV's name.
type ServedRow struct {
	Kind   string  `json:"kind"`
	PerS   float64 `json:"per_s"`
	MeanUS float64 `json:"mean_us"` // 0: none
}

// PoolRow is one of the store's thread pools.
type PoolRow struct {
	Pool    string  `json:"pool"`
	Threads float64 `json:"threads"` // as configured, or else as many as there are
	CPU     float64 `json:"cpu_cores"`
	Share   float64 `json:"share"` // of its threads, in use
}

// ServerPoint is a store between two readings, or at the second. Where a reading failed, it says nothing.
type ServerPoint struct {
	S         float64            `json:"s"` // of the second
	Requests  *float64           `json:"requests_per_s,omitempty"`
	ServiceUS *float64           `json:"request_mean_us,omitempty"`
	Kinds     map[string]float64 `json:"kinds,omitempty"` // requests per second
	CPU       *float64           `json:"cpu_cores,omitempty"`
	Pools     map[string]float64 `json:"pools,omitempty"`        // share of their threads
	GRPC      *float64           `json:"grpc_busiest,omitempty"` // share of a core
	Stall     *float64           `json:"write_stall_share,omitempty"`
	CacheHits *float64           `json:"cache_hit_share,omitempty"`
	Memory    *float64           `json:"memory_bytes,omitempty"`
	Stored    *float64           `json:"stored_bytes,omitempty"`
	Pending   *float64           `json:"pending_compaction_bytes,omitempty"`
	Leaders   *float64           `json:"leaders,omitempty"`
	Regions   *float64           `json:"regions,omitempty"`
}

// maxServerPoints bounds a store's series. Of more readings some are left out: rates are means over longer stretches.
const maxServerPoints = 300

// PDRow is what PD's leader, as it was when the run was prepared, told between the first and the last of its readings in the window.
type PDRow struct {
	Address   string        `json:"address"`
	FromS     float64       `json:"from_s"`
	ToS       float64       `json:"to_s"`
	Readings  int           `json:"readings"`
	Failed    int           `json:"readings_failed"`
	Why       string        `json:"failed_why,omitempty"` // of the first
	CPU       *float64      `json:"cpu_cores,omitempty"`
	Memory    *float64      `json:"memory_bytes,omitempty"`        // at the end, as those below
	Up        *float64      `json:"stores_up,omitempty"`           // stores, by what PD holds of them
	Gone      *float64      `json:"stores_disconnected,omitempty"` // for a short time
	Down      *float64      `json:"stores_down,omitempty"`
	Regions   *float64      `json:"regions,omitempty"`
	Operators []OperatorRow `json:"operators"`
}

// OperatorRow is one kind of PD's operators, under PD's name.
type OperatorRow struct {
	Kind     string `json:"kind"`
	Finished int64  `json:"finished"`
}

// newPDRow is what PD told; nil if it was not asked.
func newPDRow(samples []results.ServerSample) *PDRow {
	if len(samples) == 0 {
		return nil
	}
	row := &PDRow{Address: samples[0].Store, Operators: []OperatorRow{}}
	row.Readings, row.Failed, row.Why = readings(samples)
	d := stretch(samples)
	if d == nil {
		return row
	}
	row.FromS, row.ToS = d.first.S, d.last.S
	row.CPU, row.Memory = d.rate(d.of("cpu_seconds_total")), figure(d.last, "memory_bytes")
	row.Up, row.Gone, row.Down = figure(d.last, "stores_up"), figure(d.last, "stores_disconnected"), figure(d.last, "stores_down")
	row.Regions = figure(d.last, "regions")
	for name := range d.last.Figures {
		if kind, ok := strings.CutPrefix(name, "operators_total."); ok {
			if n := d.since(name); *n > 0 {
				row.Operators = append(row.Operators, OperatorRow{kind, int64(*n)})
			}
		}
	}
	slices.SortFunc(row.Operators, func(a, b OperatorRow) int {
		return cmp.Or(cmp.Compare(b.Finished, a.Finished), strings.Compare(a.Kind, b.Kind))
	})
	return row
}

// maxSamples bounds what a report reads of the stores' figures: 25 stores for an hour at the usual interval.
const maxSamples = 20_000

// readServers reads what the stores said to any of the workers, by store and in the order of time.
func (r *Run) readServers() {
	n := 0
	for _, w := range r.workers {
		if n == maxSamples {
			break
		}
		for s, err := range results.Servers(w.dir) {
			var line *results.LineError
			switch {
			case err == nil && s.PD:
				r.pd = append(r.pd, s)
				n++
			case err == nil:
				if r.servers == nil {
					r.servers = make(map[string][]results.ServerSample)
				}
				r.servers[s.Store] = append(r.servers[s.Store], s)
				n++
			case errors.Is(err, fs.ErrNotExist):
				if w.info.Bytes[results.ServersFile] > 0 {
					r.lacks(w.member.Name, results.ServersFile+" is not there")
				}
			case errors.As(err, &line):
				r.damaged(w, err)
			default:
				r.warn(w.member.Name, err)
			}
			if n == maxSamples {
				r.warn(w.member.Name, fmt.Errorf("%s: only the first %d readings are looked at", results.ServersFile, n))
				break
			}
		}
	}
	byTime := func(a, b results.ServerSample) int { return cmp.Compare(a.S, b.S) }
	for _, s := range r.servers {
		slices.SortStableFunc(s, byTime)
	}
	slices.SortStableFunc(r.pd, byTime)
}

// serversReport says what the stores said of themselves; nil if nobody asked them.
func (r *Run) serversReport() *Servers {
	if len(r.servers) == 0 {
		return nil
	}
	s := &Servers{PD: newPDRow(readIn(r.pd, r.window.from, r.window.to)), Findings: []ServerFinding{}}
	for _, address := range r.storesRead() {
		row := newServerRow(address, readIn(r.servers[address], r.window.from, r.window.to))
		row.Series = serverSeries(r.servers[address])
		s.Stores = append(s.Stores, row)
	}
	s.Counted = r.counted()
	s.Findings = append(s.Findings, find(s.Stores)...)
	if text := s.PD.moved(); text != "" {
		s.Findings = append(s.Findings, ServerFinding{Rule: "pd-operators", Store: s.PD.Address, Text: text})
	}
	return s
}

func (r *Run) storesRead() (all []string) {
	for address := range r.servers {
		all = append(all, address)
	}
	slices.Sort(all)
	return all
}

func readIn(all []results.ServerSample, from, to time.Duration) (in []results.ServerSample) {
	for _, s := range all {
		if s.S >= from.Seconds() && s.S <= to.Seconds() {
			in = append(in, s)
		}
	}
	return in
}

// readings counts those that told something and those that failed, and says why the first one of these did.
func readings(samples []results.ServerSample) (told, failed int, why string) {
	for i := range samples {
		if samples[i].Figures != nil {
			told++
			continue
		}
		failed++
		why = cmp.Or(why, samples[i].Missing)
	}
	return told, failed, why
}

func newServerRow(address string, samples []results.ServerSample) ServerRow {
	row := ServerRow{Store: address, Kinds: []ServedRow{}, Pools: []PoolRow{}, Series: []ServerPoint{}}
	row.Readings, row.Failed, row.Why = readings(samples)
	var read []results.ServerSample
	for _, s := range samples {
		if s.Figures == nil {
			continue
		}
		if n := len(read); n > 0 && restarted(&read[n-1], &s) {
			read = nil // what it counted before is gone
		}
		read = append(read, s)
	}
	if len(read) >= 2 {
		row.between(growth{&read[0], &read[len(read)-1]})
	}
	return row
}

// between sets what a store did from one reading to another.
func (row *ServerRow) between(d growth) {
	last := d.last
	row.FromS, row.ToS = d.first.S, last.S
	row.Requests, row.CPU = d.rate(d.requests()), d.rate(d.of("cpu_seconds_total"))
	row.ServiceUS = d.meanUS(d.sum("request_seconds_total."), d.requests())
	for name := range last.Figures {
		if kind, ok := strings.CutPrefix(name, "requests_total."); ok {
			if n := d.since(name); n != nil && *n > 0 {
				served := ServedRow{Kind: kind, PerS: *n / d.seconds()}
				if mean := d.meanUS(d.since("request_seconds_total."+kind), n); mean != nil {
					served.MeanUS = *mean
				}
				row.Kinds = append(row.Kinds, served)
			}
		}
		if pool, ok := strings.CutPrefix(name, "pool_cpu_seconds_total."); ok {
			threads := cmp.Or(last.Figures["pool_size."+pool], last.Figures["pool_threads."+pool])
			if used := d.rate(d.of(name)); used != nil && threads > 0 {
				row.Pools = append(row.Pools, PoolRow{Pool: pool, Threads: threads, CPU: *used, Share: *used / threads})
			}
		}
		if strings.HasPrefix(name, "grpc_thread_cpu_seconds_total.") {
			if used := d.rate(d.of(name)); used != nil {
				row.GRPC = append(row.GRPC, *used)
			}
		}
	}
	slices.SortFunc(row.Kinds, func(a, b ServedRow) int { return strings.Compare(a.Kind, b.Kind) })
	slices.SortFunc(row.Pools, func(a, b PoolRow) int { return strings.Compare(a.Pool, b.Pool) })
	slices.SortFunc(row.GRPC, func(a, b float64) int { return cmp.Compare(b, a) })
	row.WriteUS = d.meanUS(d.of("write_seconds_total"), d.of("writes_total"))
	row.AppendUS = d.meanUS(d.of("append_seconds_total"), d.of("appends_total"))
	row.ApplyUS = d.meanUS(d.of("apply_seconds_total"), d.of("applies_total"))
	row.StallS, row.TooBusy = d.of("stall_seconds_total"), d.since("too_busy_total")
	if hits, misses := d.of("cache_hits_total"), d.of("cache_misses_total"); hits != nil && misses != nil && *hits+*misses > 0 {
		share := *hits / (*hits + *misses)
		row.CacheHits = &share
	}
	row.Cores, row.Memory, row.Stored = figure(last, "cores"), figure(last, "memory_bytes"), figure(last, "stored_bytes")
	row.Pending, row.PendingWas = figure(last, "pending_compaction_bytes"), figure(d.first, "pending_compaction_bytes")
	row.Leaders, row.Regions = figure(last, "leaders"), figure(last, "regions")
}

// serverSeries is a store over the time of a run. What it did is told from one reading to the next; there is
// nothing to tell across one that failed, or a new start.
func serverSeries(samples []results.ServerSample) []ServerPoint {
	series := []ServerPoint{}
	each := (len(samples) + maxServerPoints - 1) / maxServerPoints
	var before *results.ServerSample
	skipped := 0
	for i := range samples {
		s := &samples[i]
		switch {
		case s.Prompted > 0 && i > 0: // after the end
			continue
		case s.Figures == nil:
			if before != nil || len(series) == 0 {
				series = append(series, ServerPoint{S: s.S})
			}
			before, skipped = nil, 0
			continue
		case before != nil && restarted(before, s):
			before = nil
		case before != nil && skipped+1 < each:
			skipped++
			continue
		}
		series = append(series, serverPoint(before, s))
		before, skipped = s, 0
	}
	return series
}

// serverPoint is what a store said, and what it did since another reading, if there is one.
func serverPoint(before, s *results.ServerSample) ServerPoint {
	p := ServerPoint{S: s.S, Memory: figure(s, "memory_bytes"), Stored: figure(s, "stored_bytes"), Pending: figure(s, "pending_compaction_bytes"),
		Leaders: figure(s, "leaders"), Regions: figure(s, "regions")}
	if before == nil {
		return p
	}
	var row ServerRow
	d := growth{before, s}
	row.between(d)
	p.Requests, p.ServiceUS, p.CPU, p.CacheHits = row.Requests, row.ServiceUS, row.CPU, row.CacheHits
	p.Stall = d.rate(row.StallS)
	if len(row.GRPC) > 0 {
		p.GRPC = &row.GRPC[0]
	}
	for name, total := range s.Figures {
		kind, ok := strings.CutPrefix(name, "requests_total.")
		if perS := d.rate(d.since(name)); ok && total > 0 && perS != nil {
			p.Kinds = set(p.Kinds, kind, *perS)
		}
	}
	for _, pool := range row.Pools {
		p.Pools = set(p.Pools, pool.Pool, pool.Share)
	}
	return p
}

func set(m map[string]float64, name string, v float64) map[string]float64 {
	if m == nil {
		m = make(map[string]float64)
	}
	m[name] = v
	return m
}

func figure(s *results.ServerSample, name string) *float64 {
	if v, there := s.Figures[name]; there {
		return &v
	}
	return nil
}

// restarted tells whether totals began anew between two readings. Those of threads may fall when one ends.
func restarted(before, after *results.ServerSample) bool {
	for name, was := range before.Figures {
		if now, there := after.Figures[name]; there && strings.HasPrefix(name, "requests_total.") && now < was {
			return true
		}
	}
	return before.Figures["start_time_seconds"] != after.Figures["start_time_seconds"]
}

// growth is what totals grew by between two readings of one process.
type growth struct{ first, last *results.ServerSample }

func (d growth) seconds() float64 { return d.last.S - d.first.S }

// of returns by how much a total grew; nil if one of the readings lacks it.
func (d growth) of(name string) *float64 {
	was, there := d.first.Figures[name]
	now, still := d.last.Figures[name]
	if !there || !still {
		return nil
	}
	grew := max(0, now-was)
	return &grew
}

// since is of, for totals that are absent until the first time.
func (d growth) since(name string) *float64 {
	now, there := d.last.Figures[name]
	if !there {
		return nil
	}
	grew := max(0, now-d.first.Figures[name])
	return &grew
}

// sum adds up the totals whose names begin so; nil if there are none.
func (d growth) sum(prefix string) (sum *float64) {
	for name := range d.last.Figures {
		if strings.HasPrefix(name, prefix) {
			if sum == nil {
				sum = new(float64)
			}
			*sum += *d.since(name)
		}
	}
	return sum
}

// requests is how many requests of clients were answered.
func (d growth) requests() *float64 { return d.sum("requests_total.") }

func (d growth) rate(grew *float64) *float64 {
	if grew == nil || d.seconds() <= 0 {
		return nil
	}
	rate := *grew / d.seconds()
	return &rate
}

func (d growth) meanUS(seconds, count *float64) *float64 {
	if seconds == nil || count == nil || *count == 0 {
		return nil
	}
	mean := *seconds / *count * 1e6
	return &mean
}
