// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newTestInbox(t testing.TB) (*Inbox[int], clock.Clock) {
	clk := clock.Since(time.Now())
	b := NewInbox[int](clk)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b, clk
}

func TestInboxTakesAllInOrder(t *testing.T) {
	t.Parallel()
	b, _ := newTestInbox(t)
	for i := range 5 {
		b.Put(i)
	}
	if got, _ := b.Wait(store.Forever); !slices.Equal(got, []int{0, 1, 2, 3, 4}) {
		t.Fatalf("got %v", got)
	}
	if got, _ := b.Wait(0); len(got) != 0 {
		t.Fatalf("a wait that has ended returned %v", got)
	}
}

func TestInboxWaitEndsInTime(t *testing.T) {
	t.Parallel()
	b, clk := newTestInbox(t)
	for _, d := range []time.Duration{3 * time.Millisecond, 0, 200 * time.Microsecond, -time.Second, 20 * time.Millisecond} {
		until := clk.Now() + d
		if got, _ := b.Wait(until); len(got) != 0 {
			t.Fatalf("got %v", got)
		}
		if now := clk.Now(); now < until {
			t.Fatalf("a wait of %v ended %v early", d, until-now)
		}
	}
	// An alarm set for a later moment must not hide an earlier one.
	b.Put(1)
	b.Wait(store.Forever)
	go func() {
		time.Sleep(time.Millisecond)
		b.Put(2)
	}()
	b.Wait(clk.Now() + time.Hour)
	start := clk.Now()
	b.Wait(start + time.Millisecond)
	if took := clk.Now() - start; took > time.Minute {
		t.Fatalf("the wait took %v", took)
	}
}

// The first wait of an inbox may be over before the alarm's goroutine has begun.
func TestInboxFirstWait(t *testing.T) {
	t.Parallel()
	clk := clock.Since(time.Now())
	for range 3000 {
		b := NewInbox[int](clk)
		stuck := time.AfterFunc(5*time.Second, func() {
			t.Error("the alarm did not ring")
			b.Wake()
		})
		b.Wait(clk.Now() + 5*time.Microsecond)
		stuck.Stop()
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestInboxWake(t *testing.T) {
	t.Parallel()
	b, clk := newTestInbox(t)
	b.Wake() // before the wait: it must not be lost
	b.Put(1)
	if items, woken := b.Wait(store.Forever); len(items) != 1 || !woken {
		t.Errorf("got %v, woken %v", items, woken)
	}
	if _, woken := b.Wait(0); woken {
		t.Error("woken twice by one call")
	}
	woke := make(chan struct{})
	go func() {
		b.Wait(clk.Now() + time.Hour)
		close(woke)
	}()
	b.Wake()
	<-woke
}

// So many goroutines put so many items each.
const putters, each = 8, 5000

// putAll has them put p·each to p·each+each-1, in order, and wake the lane now and then.
func putAll(b *Inbox[int], wg *sync.WaitGroup) {
	for p := range putters {
		wg.Go(func() {
			for i := range each {
				b.Put(p*each + i)
				if i%64 == 0 {
					b.Wake()
					runtime.Gosched()
				}
			}
		})
	}
}

// Nothing is lost and nobody sleeps for ever, whatever happens at once.
func TestInboxUnderFire(t *testing.T) {
	t.Parallel()
	b, clk := newTestInbox(t)
	var wg sync.WaitGroup
	putAll(b, &wg)
	last := make([]int, putters)
	for i := range last {
		last[i] = -1
	}
	for total := 0; total < putters*each; {
		items, _ := b.Wait(clk.Now() + 50*time.Microsecond)
		for _, v := range items {
			if p := v / each; v%each != last[p]+1 {
				t.Fatalf("putter %d: %d came after %d", p, v%each, last[p])
			} else {
				last[p] = v % each
			}
			total++
		}
	}
	wg.Wait()
}

// idle waits until nobody takes turns.
func idle(b *Inbox[int]) {
	for {
		b.mu.Lock()
		asleep := b.asleep
		b.mu.Unlock()
		if asleep {
			return
		}
		runtime.Gosched()
	}
}

// Who puts an item takes the lane's turn: it has been taken when Put returns, and nobody was woken.
func TestInboxRun(t *testing.T) {
	t.Parallel()
	b, _ := newTestInbox(t)
	var taken []int
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.Run(func(items []int) (time.Duration, bool) {
			taken = append(taken, items...)
			return store.Forever, len(taken) < 100
		})
	}()
	for i := range 100 {
		idle(b)
		b.Put(i)
		if len(taken) != i+1 || taken[i] != i {
			t.Fatalf("after item %d: %v", i, taken)
		}
	}
	<-ended
	b.Put(100) // afterwards it is an inbox to wait for again
	if got, _ := b.Wait(store.Forever); !slices.Equal(got, []int{100}) {
		t.Fatalf("got %v", got)
	}
}

// A turn comes at the moment that the one before has named, and after Wake, without an item.
func TestInboxRunInTime(t *testing.T) {
	t.Parallel()
	b, clk := newTestInbox(t)
	waits := []time.Duration{3 * time.Millisecond, 0, 200 * time.Microsecond, -time.Second, 5 * time.Millisecond}
	var until time.Duration
	b.Run(func([]int) (time.Duration, bool) {
		if now := clk.Now(); now < until {
			t.Errorf("a turn came %v early", until-now)
		}
		if len(waits) == 0 {
			return 0, false
		}
		until, waits = clk.Now()+waits[0], waits[1:]
		return until, true
	})

	turns, ended := 0, make(chan struct{})
	go func() {
		defer close(ended)
		b.Run(func([]int) (time.Duration, bool) {
			turns++
			return store.Forever, turns < 3
		})
	}()
	for range 2 {
		idle(b)
		b.Wake()
	}
	<-ended
}

// Turns are taken one at a time, and nothing is lost, whatever happens at once.
func TestInboxRunUnderFire(t *testing.T) {
	t.Parallel()
	b, clk := newTestInbox(t)
	var wg sync.WaitGroup
	putAll(b, &wg)
	var last [putters]int
	total := 0
	b.Run(func(items []int) (time.Duration, bool) {
		for _, v := range items {
			if p := v / each; v%each != last[p] {
				t.Errorf("putter %d: %d came when it was %d's turn", p, v%each, last[p])
			} else {
				last[p]++
			}
			total++
		}
		return clk.Now() + 50*time.Microsecond, total < putters*each
	})
	wg.Wait()
}

// A panic in a turn that another goroutine takes is Run's, with the stack of where it happened.
func TestInboxRunPanics(t *testing.T) {
	t.Parallel()
	b, _ := newTestInbox(t)
	caught := make(chan any)
	go func() {
		defer func() { caught <- recover() }()
		b.Run(func(items []int) (time.Duration, bool) {
			return store.Forever, burst(items)
		})
	}()
	idle(b)
	b.Put(1)
	p, ok := (<-caught).(store.Panic)
	if !ok || p.Error() != "burst" || !strings.Contains(string(p.Stack), "kit.burst") {
		t.Errorf("caught %v\n%s", p, p.Stack)
	}
	b.Put(2) // nobody takes it
}

func burst(items []int) bool {
	if len(items) > 0 {
		panic("burst")
	}
	return true
}

func TestInboxAllocatesNothing(t *testing.T) {
	b, clk := newTestInbox(t)
	turn := func() {
		for i := range 100 {
			b.Put(i)
		}
		b.Wait(store.Forever)
		b.Wait(clk.Now() + 10*time.Microsecond)
	}
	turn()
	turn() // both halves have their memory now
	if n := testing.AllocsPerRun(100, turn); n > 0 {
		t.Errorf("%v allocations per turn", n)
	}
}

// BenchmarkInboxBusy is the cost per item when items flow in bursts.
func BenchmarkInboxBusy(b *testing.B) {
	for _, burst := range []int{1, 16, 256} {
		b.Run(fmt.Sprint(burst), func(b *testing.B) {
			in, clk := newTestInbox(b)
			until := clk.Now() + time.Hour
			for i := 0; b.Loop(); i++ {
				in.Put(i)
				if i%burst == burst-1 {
					in.Wait(until)
				}
			}
		})
	}
}

// BenchmarkInboxRun is the cost per item when who puts it takes the turn.
func BenchmarkInboxRun(b *testing.B) {
	in, _ := newTestInbox(b)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		in.Run(func(items []int) (time.Duration, bool) { return store.Forever, len(items) == 0 || items[0] >= 0 })
	}()
	for i := 0; b.Loop(); i++ {
		in.Put(i)
	}
	in.Put(-1)
	<-ended
}

// BenchmarkInboxHandOff is the round trip to a goroutine that answers each item
// alone: the worst case, in which the lane sleeps before every item.
func BenchmarkInboxHandOff(b *testing.B) {
	in, clk := newTestInbox(b)
	until := clk.Now() + time.Hour
	work := make(chan int)
	go func() {
		for v := range work {
			in.Put(v)
		}
	}()
	for i := 0; b.Loop(); i++ {
		work <- i
		in.Wait(until)
	}
	close(work)
}

// BenchmarkInboxLag waits for 5,000 moments a second, as a paced lane does, and reports how
// late it woke, in µs.
func BenchmarkInboxLag(b *testing.B) {
	in, clk := newTestInbox(b)
	var lags []time.Duration
	start := clk.Now()
	for i := 0; b.Loop(); i++ {
		due := start + time.Duration(i)*200*time.Microsecond
		in.Wait(due)
		lags = append(lags, clk.Now()-due)
	}
	slices.Sort(lags)
	for _, q := range []struct {
		name string
		at   float64
	}{{"p50-µs", .5}, {"p99-µs", .99}, {"p99.9-µs", .999}} {
		b.ReportMetric(float64(lags[int(q.at*float64(len(lags)-1))])/1e3, q.name)
	}
}
