// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/HdrHistogram/hdrhistogram-go"
	"go.uber.org/goleak"

	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func result(o workload.Outcome, n int32) *workload.Result {
	r := &workload.Result{RPCs: 1}
	r.Count[o] = n
	if o >= workload.Wrong {
		r.Err = errors.New(o.String())
	}
	if o == workload.Failed {
		r.Class = store.Timeout
	}
	return r
}

func TestRows(t *testing.T) {
	t.Parallel()
	seen := make(map[Row]bool)
	for k := range workload.Kind(workload.Kinds) {
		for o := range workload.Outcome(workload.Outcomes) {
			for c := range store.Class(store.Classes) {
				if (o == workload.Failed) != (c != store.OK) {
					continue
				}
				r := RowOf(k, o, c)
				if r.Kind() != k || r.Outcome() != o || r.Class() != c || seen[r] {
					t.Errorf("%v.%v.%v is row %d: %v", k, o, c, r, r)
				}
				if got, ok := ParseRow(r.String()); !ok || got != r {
					t.Errorf("%v comes back as %v", r, got)
				}
				seen[r] = true
			}
		}
	}
	if len(seen) != Rows {
		t.Errorf("%d rows, want %d", len(seen), Rows)
	}
	if r := RowOf(workload.Read, workload.Failed, store.OK); r.Class() != store.Other {
		t.Errorf("a failure without a class is %v", r)
	}
	if r := RowOf(workload.ReadModifyWrite, workload.Failed, 250); int(r) >= Rows || r.Class() != store.Other {
		t.Errorf("a failure of unknown class is %v", r)
	}
}

// The buckets are those of the library, at every value where they could differ.
func TestHistogramIsHDR(t *testing.T) {
	t.Parallel()
	hdr := NewHDR()
	check := func(us int64) {
		if us < 0 || us > Highest {
			return
		}
		i := bucketOf(us)
		low := valueOf(i)
		if i < 0 || i >= buckets || low > us || !hdr.ValuesAreEquivalent(low, us) {
			t.Fatalf("%d µs is in bucket %d, from %d", us, i, low)
		}
		if low > 0 && hdr.ValuesAreEquivalent(low-1, low) {
			t.Fatalf("bucket %d starts below %d", i, low)
		}
	}
	for shift := range 33 {
		for near := int64(-2100); near <= 2100; near++ {
			check(1<<shift + near)
		}
	}
	for range 100_000 {
		check(rand.Int64N(Highest + 1))
	}
	check(Highest)
}

func TestHistogramRecord(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   time.Duration
		us   int64
		fits bool
	}{
		{0, 0, true},
		{1, 1, true}, // some time is never none
		{1499, 1, true},
		{1500, 2, true},
		{900 * time.Microsecond, 900, true},
		{time.Minute, 60_000_000, true},
		{time.Hour, 3_600_000_000, true},
		{time.Hour + 809_983*time.Microsecond, Highest - 1, true},
		{time.Hour + time.Second, Highest, false},
		{1 << 62, Highest, false},
		{-1, 0, false},
		{-1 << 63, 0, false},
	} {
		h := newHistogram()
		if fits := h.record(c.in); fits != c.fits || h.Count() != 1 {
			t.Errorf("%v: fits %v", c.in, fits)
		}
		h.Each(func(us, n int64) {
			if n != 1 || us != valueOf(bucketOf(c.us)) {
				t.Errorf("%v is recorded as %d µs", c.in, us)
			}
		})
	}
}

// Merged percentiles are those of the pooled samples, within the precision.
func TestMergedIsPooled(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		merged := NewHDR()
		sum := newHistogram()
		var pooled []int64
		for range 1 + random.IntN(8) {
			h := newHistogram()
			scale := float64(int64(1) << random.IntN(24))
			for range random.IntN(3000) {
				us := min(int64(random.ExpFloat64()*scale)+1, Highest)
				h.record(time.Duration(us) * time.Microsecond)
				pooled = append(pooled, us)
			}
			h.AddTo(merged)
			sum.add(h)
		}
		direct := NewHDR()
		sum.AddTo(direct)
		if !direct.Equals(merged) {
			t.Fatalf("seed %d: two ways to merge differ", seed)
		}
		if len(pooled) == 0 {
			continue
		}
		slices.Sort(pooled)
		l := LatencyOf(merged)
		for q, got := range map[float64]int64{50: l.P50, 90: l.P90, 95: l.P95, 99: l.P99, 99.9: l.P999, 99.99: l.P9999, 100: l.Max} {
			rank := min(len(pooled)-1, max(0, int(q/100*float64(len(pooled))+0.5)-1))
			want := pooled[rank]
			if got < want || float64(got) > float64(want)*1.001+1 {
				t.Errorf("seed %d: p%g is %d, of the pooled samples %d", seed, q, got, want)
			}
		}
	}
}

func TestBoundaries(t *testing.T) {
	t.Parallel()
	cfg := Config{Warmup: 1500 * time.Millisecond, Window: 2200 * time.Millisecond}
	want := []time.Duration{1000, 1500, 2000, 3000, 3700, 4000, 5000}
	at := time.Duration(0)
	for _, ms := range want {
		if at = cfg.boundary(at); at != ms*time.Millisecond {
			t.Errorf("boundary %v, want %v ms", at, int64(ms))
		}
	}
}

// collect runs a collector and returns a summary line per interval.
func collect(c *Collector) (wait func() []string) {
	var lines []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(func(iv *Interval) {
			n, w := int64(0), int64(0)
			for i := range iv.Window.Cells {
				n += iv.Window.Cells[i].Operations
				w += iv.Warmup.Cells[i].Operations
			}
			lines = append(lines, fmt.Sprintf("%v-%v %d+%d", iv.Start, iv.End, w, n))
		})
	}()
	return func() []string { <-done; return lines }
}

// handIn waits until the collector has returned the recorder's other shard, so
// that what the recorder hands in next is an interval of its own.
func handIn(rec *Recorder, handIn func(time.Duration), at time.Duration) {
	for rec.Behind() {
		runtime.Gosched()
	}
	handIn(at)
}

func TestIntervals(t *testing.T) {
	t.Parallel()
	c := NewCollector(Config{Warmup: 1500 * time.Millisecond, Window: 1500 * time.Millisecond, Paced: true}, 2)
	wait := collect(c)
	var lanes sync.WaitGroup
	for lane := range 2 {
		lanes.Go(func() {
			rec := c.Recorder(lane)
			// One operation every 100 ms that takes 250 ms; the second lane ends earlier.
			end := 35 - 12*lane
			for i := range end {
				seen := time.Duration(i)*100*time.Millisecond + 250*time.Millisecond
				for rec.Next() <= seen {
					handIn(rec, rec.Tick, rec.Next())
				}
				slot := seen - 250*time.Millisecond
				rec.Record(&Sample{Kind: workload.Read, Result: result(workload.OK, 1), Slot: slot, Start: slot, End: seen, Seen: seen})
			}
			handIn(rec, rec.Finish, time.Duration(end)*100*time.Millisecond+150*time.Millisecond)
		})
	}
	lanes.Wait()
	want := []string{
		"0s-1s 16+0",   // completions at 250…950 ms, twice
		"1s-1.5s 10+0", // 1050…1450
		"1.5s-2s 4+6",  // slots 1.3 and 1.4 are of the warm-up; 1.5, 1.6, 1.7 of the window; both lanes
		"2s-3s 0+15",   // the second lane ends with slot 2.2, at 2.45
		"3s-3.65s 5+2", // slots 2.8, 2.9; from 3.0 on they are out of the window
	}
	if got := wait(); !slices.Equal(got, want) {
		t.Errorf("intervals:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// While the collector is stuck, lanes go on and nothing is lost.
func TestSlowCollector(t *testing.T) {
	t.Parallel()
	const lanes, each = 3, 10_000
	c := NewCollector(Config{}, lanes)
	stuck := make(chan struct{})
	var total, intervals int64
	last := time.Duration(0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(func(iv *Interval) {
			<-stuck
			intervals++
			if iv.Start != last || iv.End <= iv.Start {
				t.Errorf("interval [%v, %v) after %v", iv.Start, iv.End, last)
			}
			last = iv.End
			total += iv.Window.Cells[RowOf(workload.Read, workload.OK, 0)].Operations
		})
	}()
	var running sync.WaitGroup
	for lane := range lanes {
		running.Go(func() {
			rec := c.Recorder(lane)
			s := Sample{Kind: workload.Read, Result: result(workload.OK, 1)}
			for i := range each {
				if i == each/2 && lane == 0 {
					close(stuck)
				}
				s.Slot, s.Start = time.Duration(i)*time.Millisecond, time.Duration(i)*time.Millisecond
				s.End, s.Seen = s.Start, s.Start
				rec.Tick(s.Seen)
				rec.Record(&s)
			}
			rec.Finish(each * time.Millisecond)
		})
	}
	running.Wait()
	<-done
	if total != lanes*each || last != each*time.Millisecond {
		t.Errorf("%d operations up to %v in %d intervals", total, last, intervals)
	}
}

func TestRecordCounts(t *testing.T) {
	t.Parallel()
	c := NewCollector(Config{Paced: true}, 1)
	rec := c.Recorder(0)
	batch := &workload.Result{RPCs: 3, Retries: 2, Cost: &store.Cost{Transactions: 2, Timestamps: 4}, Class: store.ServerBusy, Err: errors.New("busy")}
	batch.Count = [workload.Outcomes]int32{17, 2, 0, 1}
	batch.Cost.Phases[store.Prewriting] = time.Millisecond
	for i := range 10 {
		batch.Err = fmt.Errorf("busy %d %s", i/2, strings.Repeat("é", 400))
		rec.Record(&Sample{Kind: workload.Update, Result: batch, Slot: time.Millisecond, Start: 3 * time.Millisecond, End: 7 * time.Millisecond, Seen: 8 * time.Millisecond})
	}
	rec.Record(&Sample{Kind: workload.Read, Result: result(workload.OK, 1), Slot: 0, Start: 0, End: 2 * time.Hour, Seen: 2 * time.Hour})
	rec.Started(workload.Update, 0, 20)
	rec.Queued(0, 5)
	rec.Skipped(0, time.Second, 7, true)
	rec.CutOff(workload.Update, 0, 0, 2*time.Second, 20)
	rec.Finish(time.Second / 2)
	c.Run(func(iv *Interval) {
		cell := func(o workload.Outcome, class store.Class) *Cell {
			return &iv.Window.Cells[RowOf(workload.Update, o, class)]
		}
		if got := cell(workload.OK, 0); got.Operations != 170 || got.Batches != 0 || got.Service != nil {
			t.Errorf("ok: %+v", got)
		}
		if got := cell(workload.NotFound, 0).Operations; got != 20 {
			t.Errorf("not found: %d", got)
		}
		busy := cell(workload.Failed, store.ServerBusy)
		cost := &iv.Window.Costs[workload.Update]
		if cost.CostCounts != (CostCounts{Batches: 10, Transactions: 20, Timestamps: 40}) || busy.Retries != 20 || cost.Phases[store.Prewriting].Count() != 10 || cost.Phases[store.Reading] != nil {
			t.Errorf("transactions %+v, made again %d", cost.CostCounts, busy.Retries)
		}
		if read := &iv.Window.Costs[workload.Read]; read.Batches != 0 {
			t.Errorf("reads of which nothing is known: %+v", read)
		}
		if busy.Operations != 10 || busy.Batches != 10 || busy.RPCs != 30 || busy.Service.Count() != 10 || busy.Response.Count() != 10 {
			t.Errorf("busy: %+v", busy)
		}
		if len(busy.Texts) != MaxTexts {
			t.Errorf("%d texts, want %d: %q", len(busy.Texts), MaxTexts, busy.Texts)
		}
		for _, text := range busy.Texts {
			if len(text) > MaxTextLen || !utf8.ValidString(text) {
				t.Errorf("text of %d bytes: %q", len(text), text)
			}
		}
		for name, h := range map[string]*Histogram{"4ms": busy.Service, "6ms": busy.Response} {
			h.Each(func(us, _ int64) {
				if want, _ := time.ParseDuration(name); us != valueOf(bucketOf(want.Microseconds())) {
					t.Errorf("recorded %d µs, want %s", us, name)
				}
			})
		}
		w := &iv.Window
		if w.Clamped != 1 || w.Waited[workload.Update].Service.Count() != 1 || w.Waited[workload.Update].Response.Count() != 1 || w.WaitedSlots.Count() != 7 || w.Blocked != 7 || w.Queued != 5 || w.Skipped != 7 || w.CutOff != 20 || w.Started[workload.Update] != 20 || w.Lag.Count() != 11 || w.Lane.Count() != 11 {
			t.Errorf("set: clamped %d, skipped %d, cut off %d", w.Clamped, w.Skipped, w.CutOff)
		}
	})
}

func TestRecordAllocatesNothing(t *testing.T) {
	for _, o := range []workload.Outcome{workload.OK, workload.NotFound, workload.Wrong, workload.Failed} {
		c := NewCollector(Config{Paced: true}, 1)
		rec := c.Recorder(0)
		s := Sample{Kind: workload.Read, Result: result(o, 1)}
		record := func() {
			s.Start, s.End, s.Seen = s.Slot+10, s.Slot+300_000, s.Slot+301_000
			rec.Record(&s)
			rec.Started(workload.Read, s.Slot, 1)
			s.Slot += 1000
		}
		record()
		if n := testing.AllocsPerRun(1000, record); n > 0 && o < workload.Wrong {
			t.Errorf("%v: %g allocations", o, n)
		}
	}
}

// The memory of all histograms is bounded, whatever the number of threads: two
// lanes, every kind of operation, each with hits, misses and every class of error, paced.
func TestMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const lanes = 2
	c := NewCollector(Config{Paced: true}, lanes)
	wait := collect(c)
	for second := range 5 {
		at := time.Duration(second) * time.Second
		for lane := range lanes {
			rec := c.Recorder(lane)
			for row := range Row(Rows) {
				res := result(row.Outcome(), 1)
				if row.Outcome() == workload.Failed {
					res.Class = row.Class()
				}
				rec.Record(&Sample{Kind: row.Kind(), Result: res, Slot: at, Start: at, End: at + time.Millisecond, Seen: at + time.Millisecond})
			}
			handIn(rec, rec.Tick, at+time.Second)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	used := float64(after.HeapAlloc-before.HeapAlloc) / 1e6
	t.Logf("%d rows, %d lanes: %.1f MB", Rows, lanes, used)
	if used > 40 {
		t.Errorf("%.1f MB of histograms, want at most 40", used)
	}
	for lane := range lanes {
		c.Recorder(lane).Finish(5 * time.Second)
	}
	wait()
}

func TestHost(t *testing.T) {
	t.Parallel()
	h := NewHost()
	runtime.GC()
	for begin := time.Now(); time.Since(begin) < 50*time.Millisecond; {
		runtime.Gosched()
	}
	s := h.Sample()
	if s.CPU <= 0 || s.GCs < 1 || s.Cores < 1 || s.Goroutines < 1 || s.HeapBytes <= 0 {
		t.Errorf("sample: %+v", s)
	}
	if runtime.GOOS == "linux" && (s.RSSBytes <= 0 || s.Machine <= 0 || s.Machine > 1) {
		t.Errorf("memory or machine: %+v", s)
	}
}

func BenchmarkRecord(b *testing.B) {
	for _, paced := range []bool{false, true} {
		b.Run(fmt.Sprintf("paced=%v", paced), func(b *testing.B) {
			c := NewCollector(Config{Paced: paced}, 1)
			rec := c.Recorder(0)
			var took [4096]time.Duration
			for i := range took {
				took[i] = time.Duration((200 + rand.ExpFloat64()*300) * 1000)
			}
			s := Sample{Kind: workload.Read, Result: result(workload.OK, 1)}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.Slot = time.Duration(i)
				s.Start = s.Slot + took[(i+7)&4095]/8
				s.End = s.Start + took[i&4095]
				s.Seen = s.End + 2000
				rec.Record(&s)
			}
		})
	}
}

func BenchmarkInterval(b *testing.B) {
	c := NewCollector(Config{Paced: true}, 1)
	wait := collect(c)
	rec := c.Recorder(0)
	s := Sample{Result: result(workload.OK, 1)}
	for b.Loop() {
		for k := range workload.Kind(workload.Kinds) {
			s.Kind, s.End = k, s.Start+time.Millisecond
			rec.Record(&s)
		}
		handIn(rec, rec.Tick, rec.Next())
	}
	rec.Finish(rec.Next() - 1)
	wait()
}

// What took longer than the histograms reach is never shown as if it had been measured.
func TestBeyondTheRange(t *testing.T) {
	t.Parallel()
	for _, older := range []bool{false, true} {
		h, reach := NewHDR(), time.Hour
		if older {
			h, reach = hdrhistogram.New(Lowest, 60_000_000, Digits), time.Minute
		}
		us := reach.Microseconds()
		for range 90 {
			_ = h.RecordValue(1000)
		}
		_ = h.RecordValues(us-us/1000, 5)
		l := LatencyOf(h)
		if l.Beyond != 0 || l.AtLeast != nil || l.Max > us {
			t.Errorf("%v: nothing lies beyond: %+v", reach, l)
		}
		_ = h.RecordValues(min(us*2, h.HighestTrackableValue()), 5)
		l = LatencyOf(h)
		if l.Beyond != 5 || l.Range != us || l.Max != us || l.P99 != us || l.P95 >= us {
			t.Errorf("%v: %+v", reach, l)
		}
		if want := []string{"mean", "p99", "p99_9", "p99_99", "max"}; !slices.Equal(l.AtLeast, want) {
			t.Errorf("%v: at least %v, want %v", reach, l.AtLeast, want)
		}
		if want := (90*1000 + 10*float64(us)) / 100; l.Mean > want || l.Mean < want*0.999 {
			t.Errorf("%v: mean %v, want at least, and close to, %v", reach, l.Mean, want)
		}
	}
}

// Calls in flight are those that were started and have not ended, integrated over time, each interval for itself.
func TestInFlight(t *testing.T) {
	t.Parallel()
	c := NewCollector(Config{}, 1)
	rec := c.Recorder(0)
	oldest := []time.Duration{}
	rec.Observe(func(at time.Duration) Unanswered {
		oldest = append(oldest, at)
		return Unanswered{Calls: 2, Oldest: at - 500*time.Millisecond}
	})
	rec.Submitted(500 * time.Millisecond)
	rec.Submitted(800 * time.Millisecond)
	rec.Tick(time.Second)
	rec.Answered(1250*time.Millisecond, 1500*time.Millisecond) // the lane was late
	rec.Stalled(1400*time.Millisecond, 100*time.Millisecond)
	rec.Stalled(1600*time.Millisecond, 300*time.Millisecond)
	rec.Finish(1800 * time.Millisecond)
	var got []time.Duration
	c.Run(func(iv *Interval) {
		got = append(got, iv.InFlight)
		if iv.Start == 0 && iv.Unanswered != (Unanswered{2, 500 * time.Millisecond}) {
			t.Errorf("unanswered at %v: %+v", iv.End, iv.Unanswered)
		}
		if iv.Start > 0 && iv.Stall != (Stall{400 * time.Millisecond, 300 * time.Millisecond, 1600 * time.Millisecond}) {
			t.Errorf("stalls: %+v", iv.Stall)
		}
	})
	if want := []time.Duration{700 * time.Millisecond, 1050 * time.Millisecond}; !slices.Equal(got, want) {
		t.Errorf("threads were in flight for %v, want %v", got, want)
	}
	if !slices.Equal(oldest, []time.Duration{time.Second}) {
		t.Errorf("asked at %v", oldest)
	}
}
