// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/store"
)

// page is what a real store said once, in part.
var page = map[string]float64{
	"cores": 4, "cpu_seconds_total": 307, "start_time_seconds": 1796098316, "memory_bytes": 546729984,
	"requests_total.raw_get": 1331175, "request_seconds_total.raw_get": 1500, "leaders": 30, "regions": 81,
	"pool_cpu_seconds_total.unified_read_pool": 50, "pool_size.unified_read_pool": 4, "pool_threads.unified_read_pool": 4,
	"pool_cpu_seconds_total.rocksdb_low": 70, "pool_threads.rocksdb_low": 2,
	"grpc_thread_cpu_seconds_total.4607": 41.13, "grpc_thread_cpu_seconds_total.4608": 38.57,
	"pending_compaction_bytes": 621550339, "stall_seconds_total": 0, "stored_bytes": 989409783,
}

// tenLater is the page ten seconds later, with some figures grown, and those of a growth of NaN gone.
func tenLater(grown map[string]float64) []results.ServerSample {
	later := maps.Clone(page)
	later["requests_total.raw_get"] += 1000
	first := maps.Clone(page)
	for name, by := range grown {
		later[name] += by
		if math.IsNaN(by) {
			delete(later, name)
			delete(first, name)
		}
	}
	return []results.ServerSample{{S: 2, Store: "a:1", Figures: first}, {S: 12, Store: "a:1", Figures: later}}
}

// Each rule holds for the page on which it is told, and no rule for one that says less, or nothing of it.
func TestRules(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		grown map[string]float64
		rule  string // "": none
		text  string
	}{
		"idle":                  {nil, "", ""},
		"full pool":             {map[string]float64{"pool_cpu_seconds_total.unified_read_pool": 38.8}, "pool", "the unified_read_pool pool of store a:1 at 97 % of its 4 threads"},
		"pool almost full":      {map[string]float64{"pool_cpu_seconds_total.unified_read_pool": 35}, "", ""},
		"busy compaction":       {map[string]float64{"pool_cpu_seconds_total.rocksdb_low": 20}, "", ""},
		"one gRPC thread":       {map[string]float64{"grpc_thread_cpu_seconds_total.4608": 9.8}, "grpc-thread", "one of 2 gRPC threads of store a:1 at 98 %"},
		"both gRPC threads":     {map[string]float64{"grpc_thread_cpu_seconds_total.4608": 9.8, "grpc_thread_cpu_seconds_total.4607": 9.7}, "", ""},
		"stalls":                {map[string]float64{"stall_seconds_total": 8}, "write-stall", "for 8 s"},
		"few stalls":            {map[string]float64{"stall_seconds_total": 0.4}, "", ""},
		"stalls unknown":        {map[string]float64{"stall_seconds_total": math.NaN()}, "", ""},
		"compaction":            {map[string]float64{"pending_compaction_bytes": 12e9}, "pending-compaction", "grew by 12.0 GB"},
		"compaction went down":  {map[string]float64{"pending_compaction_bytes": -5e8}, "", ""},
		"all cores":             {map[string]float64{"cpu_seconds_total": 38}, "cores", "store a:1 used 95 % of its 4 cores"},
		"cores unknown":         {map[string]float64{"cpu_seconds_total": 38, "cores": math.NaN()}, "", ""},
		"CPU unknown":           {map[string]float64{"cpu_seconds_total": math.NaN()}, "", ""},
		"started anew, and low": {map[string]float64{"start_time_seconds": 5, "stall_seconds_total": 8}, "", ""},
	} {
		row := newServerRow("a:1", tenLater(test.grown))
		found := find([]ServerRow{row})
		switch {
		case test.rule == "" && len(found) > 0:
			t.Errorf("%s: %+v", name, found)
		case test.rule != "" && (len(found) != 1 || found[0].Rule != test.rule || !strings.Contains(found[0].Text, test.text)):
			t.Errorf("%s: %+v, want %s with %q", name, found, test.rule, test.text)
		}
	}
	row := func(store string, gets, puts float64) ServerRow {
		return ServerRow{Store: store, ToS: 10, Kinds: []ServedRow{{"raw_get", 100, gets}, {"raw_put", 50, puts}}}
	}
	for name, test := range map[string]struct {
		stores []ServerRow
		want   string
	}{
		"one of three":    {[]ServerRow{row("a", 300, 900), row("b", 5000, 9000), row("c", 250, 800)}, "store b took 5.00 ms for a raw_get in the mean, no other more than 300 µs"},
		"two of three":    {[]ServerRow{row("a", 300, 900), row("b", 5000, 9000), row("c", 5000, 8000)}, ""},
		"a little":        {[]ServerRow{row("a", 30, 90), row("b", 300, 400), row("c", 30, 90)}, ""},
		"one of two":      {[]ServerRow{row("a", 300, 900), row("b", 4000, 9000)}, "store b took 9.00 ms for a raw_put in the mean, no other more than 900 µs"},
		"the only one":    {[]ServerRow{row("b", 4000, 9000), {Store: "a"}}, ""},
		"of few requests": {[]ServerRow{row("a", 300, 900), row("b", 300, 900), row("d", 300, 900), {Store: "c", ToS: 10, Kinds: []ServedRow{{"raw_put", 9, 90_000}}}}, ""},
	} {
		if _, text := slowStore(test.stores); text != test.want {
			t.Errorf("%s: %q, want %q", name, text, test.want)
		}
	}
	all, none := 100.0, 0.0
	if found := find([]ServerRow{{Store: "a", Requests: &all}, {Store: "b", Requests: &none}}); len(found) != 1 || found[0].Rule != "one-store" {
		t.Errorf("all on one store: %+v", found)
	}
	if found := find([]ServerRow{{Store: "a", Requests: &all}, {Store: "b"}}); len(found) > 0 {
		t.Errorf("what one store got is unknown: %+v", found)
	}
}

// What PD did during the measurement is told; a PD that was not asked, or tells nothing of it, did not do nothing.
func TestPD(t *testing.T) {
	t.Parallel()
	samples := []results.ServerSample{
		{S: 2, Store: "pd:2379", PD: true, Figures: map[string]float64{"cpu_seconds_total": 5, "operators_total.balance-leader": 3, "stores_up": 3}},
		{S: 7, Store: "pd:2379", PD: true, Missing: "no answer"},
		{S: 12, Store: "pd:2379", PD: true, Figures: map[string]float64{"cpu_seconds_total": 6, "operators_total.balance-leader": 10, "operators_total.balance-region": 1, "operators_total.merge-region": 0, "stores_up": 2}},
	}
	row := newPDRow(samples)
	if row.Readings != 2 || row.Failed != 1 || row.Why != "no answer" || *row.CPU != 0.1 || *row.Up != 2 || row.Down != nil ||
		row.moved() != "PD finished 8 operators during the measurement (7 balance-leader, 1 balance-region): regions, or their leaders, were moved" {
		t.Errorf("%+v; %s", row, row.moved())
	}
	if row := newPDRow(samples[:2]); row.moved() != "" || row.CPU != nil || row.Readings != 1 {
		t.Errorf("of one reading: %+v", row)
	}
	if row := newPDRow(nil); row != nil || row.moved() != "" {
		t.Errorf("of none: %+v", row)
	}
}

// What a store does not say is nil.
func TestGapsAreNoZeros(t *testing.T) {
	t.Parallel()
	samples := []results.ServerSample{
		{S: 2, Figures: map[string]float64{"leaders": 3}}, {S: 7, Missing: "no answer"}, {S: 12, Figures: map[string]float64{"leaders": 4}},
	}
	row := newServerRow("a:1", samples)
	if row.Requests != nil || row.CPU != nil || row.StallS != nil || row.Pending != nil || row.Leaders == nil || *row.Leaders != 4 || row.Failed != 1 || row.Readings != 2 || row.Why != "no answer" {
		t.Errorf("%+v", row)
	}
}

// A store's series tells what it did from one reading to the next: nothing across one that failed or a new start, and
// of very many readings means over longer stretches.
func TestServerSeries(t *testing.T) {
	t.Parallel()
	at := func(s, gets, cpu float64) results.ServerSample {
		return results.ServerSample{S: s, Figures: map[string]float64{"requests_total.raw_get": gets, "requests_total.raw_put": 7, "requests_total.raw_scan": 0, "cpu_seconds_total": cpu,
			"pool_cpu_seconds_total.apply": cpu / 2, "pool_size.apply": 2, "stall_seconds_total": cpu / 10, "leaders": s}}
	}
	series := serverSeries([]results.ServerSample{{S: 0, Missing: "refused"}, at(5, 100, 10), at(10, 600, 20), {S: 15, Missing: "refused"}, {S: 20, Missing: "refused"}, at(25, 900, 30), at(30, 5, 1), at(30, 5, 1), at(35, 15, 6)})
	var got []string
	for _, p := range series {
		text := fmt.Sprintf("%g:", p.S)
		for _, v := range []*float64{p.Leaders, p.Requests, p.CPU, p.Stall, valueOf(p.Pools, "apply"), valueOf(p.Kinds, "raw_get"), valueOf(p.Kinds, "raw_put"), valueOf(p.Kinds, "raw_scan")} {
			if v == nil {
				text += " –"
			} else {
				text += fmt.Sprintf(" %.3g", *v)
			}
		}
		got = append(got, text)
	}
	want := []string{"0: – – – – – – – –", "5: 5 – – – – – – –", "10: 10 100 2 0.2 0.5 100 0 –", "15: – – – – – – – –", "25: 25 – – – – – – –",
		"30: 30 – – – – – – –", "30: 30 – – – – – – –", "35: 35 2 1 0.1 0.25 2 0 –"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	var many []results.ServerSample
	for i := range 10 * maxServerPoints {
		many = append(many, at(float64(i), float64(i*i), float64(i)))
	}
	series = serverSeries(many)
	if last := series[len(series)-1]; len(series) > maxServerPoints || math.Abs(*last.Requests-(2*last.S-10)) > 1e-6 {
		t.Errorf("%d points, at %g s %g/s", len(series), last.S, *last.Requests)
	}
}

func valueOf(m map[string]float64, name string) *float64 {
	if v, there := m[name]; there {
		return &v
	}
	return nil
}

// lateStore is a store whose threads keep their counts, and hand them over with the first request that comes a second
// after the last time.
type lateStore struct {
	kept   []map[string]float64
	handed []float64 // when
	told   map[string]float64
}

func (l *lateStore) serve(at float64, thread int, kind string) {
	l.kept[thread][kind]++
	if at-l.handed[thread] < 1 {
		return
	}
	for kind, n := range l.kept[thread] {
		l.told["requests_total."+kind] += n
	}
	clear(l.kept[thread])
	l.handed[thread] = at
}

// lateRun is a run on a late store, and what is beside it: another client that sends kinds of its own, or an earlier load.
type lateRun struct {
	*rand.Rand
	seconds int
	rate    func(second int) int
	other   float64 // the other client's share of that, from before the run to after it
	others  []string
	prompts int // before and after the run, so that all is handed over; 0: none
}

// counted plays the run: two thirds are gets, the rest puts.
func (m lateRun) counted() *Counted {
	end := time.Duration(m.seconds) * time.Second
	run := &Run{window: window{from: 0, to: end}, sent: newSentBins(end), servers: map[string][]results.ServerSample{}}
	l := &lateStore{kept: make([]map[string]float64, 5), handed: make([]float64, 5), told: map[string]float64{"requests_total.raw_scan": 0}}
	for i := range l.handed {
		l.handed[i], l.kept[i] = -3-m.Float64(), map[string]float64{"raw_put": float64(m.IntN(1000))} // of an earlier load
	}
	foreign := func(at float64) { l.serve(at, m.IntN(5), m.others[m.IntN(len(m.others))]) }
	read := func(at float64, prompted int64) {
		run.servers["a:1"] = append(run.servers["a:1"], results.ServerSample{S: at, Store: "a:1", Figures: maps.Clone(l.told), Prompted: prompted})
	}
	prompt := func(at float64) {
		for i := range m.prompts {
			l.serve(at, i%5, "raw_get")
		}
	}
	// beside plays what is there when the run is not.
	beside := func(from, to float64) {
		if n := float64(m.rate(0)) * m.other; n > 0 {
			for at := from; at < to; at += 1 / n {
				foreign(at)
			}
		}
	}
	if m.prompts > 0 {
		beside(-2.5, -1.5)
		prompt(-1.5)
		beside(-1.5, -0.2)
		prompt(-0.2)
		read(0, int64(2*m.prompts))
		beside(-0.2, 0)
	}
	reading := 0.5
	for second := range m.seconds {
		n, sent := m.rate(second), map[string]int64{}
		all := int(math.Round(float64(n) * (1 + m.other)))
		for i := range all {
			at := float64(second) + float64(i)/float64(all)
			for reading <= at {
				read(reading, 0)
				reading += 1 + 4*m.Float64()
			}
			if (i+1)*n/all == i*n/all { // the other client's
				foreign(at)
				continue
			}
			kind := []string{"raw_get", "raw_get", "raw_put"}[m.IntN(3)]
			sent[kind]++
			l.serve(at, m.IntN(5), kind)
		}
		run.sent.add(&results.Interval{Second: results.Second{Start: time.Duration(second) * time.Second, End: time.Duration(second+1) * time.Second},
			Traffic: []store.Traffic{{Store: "a:1", Commands: int64(n), Messages: int64(n), Kinds: sent}}})
	}
	if m.prompts > 0 {
		after := float64(m.seconds) + 1.1
		beside(float64(m.seconds), after)
		prompt(after)
		read(after+0.02, int64(3*m.prompts))
	}
	return run.counted()
}

// A cluster that nobody else uses is never said to be used by others, however late its counts are.
func TestQuietClusterIsNotAccused(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		base, swing := 20+r.IntN(2000), r.Float64()
		rate := func(int) int { return int(float64(base) * (1 - swing*r.Float64())) }
		if seed%3 == 0 { // a load that all but stops, and comes back
			rate = func(second int) int {
				if second/4%2 == 0 {
					return base
				}
				return base / 50
			}
		}
		m := lateRun{Rand: r, seconds: 5 + r.IntN(40), rate: rate, prompts: 20 * int(seed%2)}
		c := m.counted()
		if c != nil && (c.Result == CountedMore || c.Result == CountedLess) {
			t.Errorf("seed %d: %+v", seed, c)
		}
		if m.prompts > 0 && (c == nil || !c.Whole || math.Abs(c.Stores-c.Run) > float64(m.prompts)) {
			t.Errorf("seed %d, over the whole run: %+v", seed, c)
		}
	}
}

func steady(int) int { return 5000 }

// Another client's tenth is found in a run that is long enough, and sized; so is what it sends.
func TestAnotherClientIsFound(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		m := lateRun{Rand: rand.New(rand.NewPCG(seed, 2)), seconds: 60, rate: steady, other: 0.1, others: []string{"raw_get", "raw_put"}}
		c := m.counted()
		if c == nil || c.Result != CountedMore || math.Abs(c.Change-0.1) > c.Resolution || !strings.Contains(c.Text, "something else uses this cluster") {
			t.Errorf("seed %d: %+v", seed, c)
		}
		m.others = []string{"raw_put"}
		c = m.counted()
		if c == nil || c.Result != CountedMore || len(c.Kinds) != 2 || c.Kinds[0].Result != CountedEqual || c.Kinds[1].Result != CountedMore || math.Abs(*c.Kinds[1].Change-0.3) > *c.Kinds[1].Resolution || !strings.Contains(c.Text, " more raw_put (±") {
			t.Errorf("seed %d, of puts: %+v", seed, c)
		}
		// What the run does not send is seen even where it is lost in the sum.
		m.other, m.others = 0.005, []string{"raw_scan", "kv_get"}
		c = m.counted()
		if c == nil || c.Result != CountedMore || c.Change > c.Resolution || !strings.Contains(c.Text, " kv_get that this run did not send, ") || !strings.Contains(c.Text, " raw_scan that this run did not send: something else") {
			t.Errorf("seed %d, of scans: %+v", seed, c)
		}
	}
	m := lateRun{Rand: rand.New(rand.NewPCG(1, 2)), seconds: 5, rate: steady, other: 0.1, others: []string{"raw_get"}}
	if c := m.counted(); c != nil && c.Result != CountedUnknown && c.Result != CountedEqual {
		t.Errorf("in a short run: %+v", c)
	}
}

// Where the stores were made to hand over what they had counted, another client's load is sized within 1 %.
func TestAnotherClientIsSized(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 5))
		m := lateRun{Rand: r, seconds: 15 + r.IntN(30), rate: steady, other: 0.1, others: []string{"raw_get"}, prompts: 20}
		c := m.counted()
		if c == nil || c.Result != CountedMore || !c.Whole || c.Resolution > 0.01 || math.Abs(c.Change-0.1) > c.Resolution {
			t.Errorf("seed %d, %d s: %+v", seed, m.seconds, c)
		}
		m.other = 0.01 // which is not seen over a part of the run
		if c = m.counted(); c == nil || c.Result != CountedMore || !c.Whole || math.Abs(c.Change-0.01) > c.Resolution || c.Resolution > 0.005 {
			t.Errorf("seed %d, %d s: %+v", seed, m.seconds, c)
		}
	}
}

// A comparison over the whole run counts only if it can be right: the threads were reached, and nothing was sent after the reading.
func TestWholeRunIsDoubted(t *testing.T) {
	t.Parallel()
	at := func(s, gets float64, prompted int64) results.ServerSample {
		return results.ServerSample{S: s, Figures: map[string]float64{"requests_total.raw_get": gets}, Prompted: prompted}
	}
	inside := []results.ServerSample{at(5, 4_500, 0), at(55, 54_500, 0)}
	for name, test := range map[string]struct {
		first, last results.ServerSample
		whole       bool
		result      string
	}{
		"all of it":                  {at(0, 0, 40), at(61.2, 60_020, 60), true, CountedEqual},
		"a thread was not reached":   {at(0, 0, 40), at(61.2, 59_020, 60), false, CountedEqual},
		"one kept an earlier load's": {at(0, 0, 40), at(61.2, 65_020, 60), false, CountedEqual},
		"others use it":              {at(0, 0, 40), at(61.2, 60_820, 60), true, CountedMore},
		"it was read too early":      {at(0, 0, 40), at(60.5, 60_820, 60), false, CountedEqual},
		"it was not prompted":        {at(0, 0, 40), at(61.2, 60_820, 0), false, CountedEqual},
	} {
		run := &Run{window: window{to: 60 * time.Second}, sent: newSentBins(60 * time.Second),
			servers: map[string][]results.ServerSample{"a:1": slices.Concat([]results.ServerSample{test.first}, inside, []results.ServerSample{test.last})}}
		for second := range 60 {
			start := time.Duration(second) * time.Second
			run.sent.add(&results.Interval{Second: results.Second{Start: start, End: start + time.Second}, Traffic: []store.Traffic{{Store: "a:1", Commands: 1000, Messages: 1, Kinds: map[string]int64{"raw_get": 1000}}}})
		}
		if c := run.counted(); c == nil || c.Whole != test.whole || c.Result != test.result {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// Where the kinds of commands were not written down, nobody is accused for them.
func TestUnknownKindsAreNotCompared(t *testing.T) {
	t.Parallel()
	at := func(s, gets, swaps float64) results.ServerSample {
		return results.ServerSample{S: s, Figures: map[string]float64{"requests_total.raw_get": gets, "requests_total.raw_compare_and_swap": swaps}}
	}
	for name, test := range map[string]struct {
		kinds map[string]int64
		want  int // kinds that are compared
	}{
		"all gets":                {map[string]int64{"raw_get": 1000}, 2},
		"half something else":     {map[string]int64{"raw_get": 500}, 1},
		"of a worker that is old": {nil, 0},
	} {
		run := &Run{window: window{to: 60 * time.Second}, sent: newSentBins(60 * time.Second),
			servers: map[string][]results.ServerSample{"a:1": {at(5, 100, 0), at(55, 25_100, 25_000)}}}
		for second := range 60 {
			start := time.Duration(second) * time.Second
			run.sent.add(&results.Interval{Second: results.Second{Start: start, End: start + time.Second}, Traffic: []store.Traffic{{Store: "a:1", Commands: 1000, Messages: 1, Kinds: test.kinds}}})
		}
		if c := run.counted(); c == nil || len(c.Kinds) != test.want || math.Abs(c.Change) > 1e-9 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// Leaders and regions that move, and stores that fall silent, are events in the order of time.
func TestMoves(t *testing.T) {
	t.Parallel()
	at := func(s, leaders float64) results.ServerSample {
		return results.ServerSample{S: s, Figures: map[string]float64{"leaders": leaders}}
	}
	r := &Run{record: &results.Run{}, servers: map[string][]results.ServerSample{
		"a:1": {at(0, 10), at(5, 10), {S: 10, Missing: "refused"}, {S: 15, Missing: "refused"}, at(20, 0)},
		"b:1": {at(0, 10), at(5, 10), at(10.5, 20), at(15, 20)},
	}}
	var got []string
	for _, e := range r.moves() {
		got = append(got, e.Kind+": "+e.Text)
	}
	want := []string{"store-silent: a:1 does not tell its figures any more: refused", "leaders: b:1 leads 20 regions, 10 before",
		"store-back: a:1 tells its figures again", "leaders: a:1 leads 0 regions, 10 before"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q, want %q", got, want)
	}
}
