// SPDX-License-Identifier: Apache-2.0

//go:build !race

// What an operation costs is not asked of a binary that the race detector is in.

package lane

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/pace"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/store/kit"
	"github.com/kvbench/kvbench/internal/workload"
)

// instant answers every call at once, without allocating: what is measured over
// it is our own code. Its rows are those that the generator wrote.
type instant struct {
	clock  clock.Clock
	found  [][]byte
	calls  []*store.Call
	done   []*store.Call
	served int
	onWait func(served int)
}

func (s *instant) Submit(c *store.Call) {
	c.Class, c.Err, c.RPCs = store.OK, nil, 1
	if c.Verb == store.Get {
		c.Found = s.found[:len(c.Keys)]
	}
	s.calls = append(s.calls, c)
	s.served++
}

func (s *instant) Wait(time.Duration) []*store.Call {
	if s.onWait != nil {
		s.onWait(s.served)
	}
	s.calls, s.done = s.done[:0], s.calls
	now := s.clock.Now()
	for _, c := range s.done {
		c.End = now
	}
	return s.done
}

func (s *instant) Wake()        {}
func (s *instant) Cancel()      {}
func (s *instant) Close() error { return nil }

// costs are the workloads whose cost per operation is held down.
var costs = []struct {
	name       string
	properties map[string]string
}{
	{"read", map[string]string{"readproportion": "1", "updateproportion": "0"}},
	{"update", map[string]string{"readproportion": "0", "updateproportion": "1"}},
	{"insert", map[string]string{"readproportion": "0", "updateproportion": "0", "insertproportion": "1"}},
	{"batch 20 read", map[string]string{"readproportion": "1", "updateproportion": "0", "batch.size": "20"}},
	{"batch 20 update", map[string]string{"readproportion": "0", "updateproportion": "1", "batch.size": "20"}},
}

// row is one as the generator writes it.
var row = []byte{8, 2, 2, 20, 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'}

// generator makes operations of small rows.
func generator(t testing.TB, properties map[string]string) (*spec.Spec, *workload.Generator) {
	p := map[string]string{"recordcount": "1000000", "fieldcount": "1", "fieldlength": "10", "maxexecutiontime": "3600"}
	for k, v := range properties {
		p[k] = v
	}
	s, err := spec.ParseMap(p)
	if err != nil {
		t.Fatal(err)
	}
	g, err := workload.New(s, workload.Place{Workers: 1, Lanes: 1})
	if err != nil {
		t.Fatal(err)
	}
	return s, g
}

// runLane runs a lane of 64 threads until it has done so many calls, and returns how
// many operations that were.
func runLane(t testing.TB, properties map[string]string, calls int) (operations int64) {
	s, g := generator(t, properties)
	clk := clock.Since(time.Now())
	session := &instant{clock: clk}
	for range s.Batch {
		session.found = append(session.found, row)
	}
	collector := measure.NewCollector(measure.Config{Window: time.Hour}, 1)
	l := New(Config{
		Clock: clk, Source: g, Session: session, Recorder: collector.Recorder(0),
		Share: pace.Share{Step: 1}, Threads: 64, End: time.Hour,
	})
	session.onWait = func(served int) {
		if served >= calls {
			l.Stop(0)
		}
	}
	collected := make(chan struct{})
	go func() {
		defer close(collected)
		collector.Run(func(i *measure.Interval) {
			for row := range i.Window.Cells {
				operations += i.Window.Cells[row].Operations
				if texts := i.Window.Cells[row].Texts; len(texts) > 0 {
					t.Error(texts)
				}
			}
		})
	}()
	l.Run()
	<-collected
	return operations
}

// TestOperationsDoNotAllocate: nothing of our own code allocates per operation. What a
// run allocates once is told apart by running twice as much.
func TestOperationsDoNotAllocate(t *testing.T) {
	for _, tt := range costs {
		t.Run(tt.name, func(t *testing.T) {
			const n = 100_000
			once := testing.AllocsPerRun(2, func() { runLane(t, tt.properties, n) })
			twice := testing.AllocsPerRun(2, func() { runLane(t, tt.properties, 2*n) })
			if per := (twice - once) / n; per > 0.001 {
				t.Errorf("%v allocations an operation (%v for %d calls, %v for %d)", per, once, n, twice, 2*n)
			}
		})
	}
}

func BenchmarkLane(b *testing.B) {
	for _, tt := range costs {
		b.Run(tt.name, func(b *testing.B) {
			b.ReportAllocs()
			operations := runLane(b, tt.properties, b.N)
			b.ReportMetric(float64(operations)/b.Elapsed().Seconds(), "operations/s")
		})
	}
}

// yielding answers a read when all other goroutines have had their turn, as a client library does that waits.
type yielding struct{}

func (yielding) Context(ctx context.Context) context.Context { return ctx }

func (yielding) Do(_ context.Context, c *store.Call) {
	runtime.Gosched()
	c.Class, c.Err, c.RPCs = store.OK, nil, 1
	c.Found = append(c.Found[:0], row)
}

// BenchmarkThreads tells what a read costs besides the client library's work, in CPU time: in a lane whose calls
// block a goroutine each, and in a loop that makes a key and counts, as the bare loop of bench-peers does.
func BenchmarkThreads(b *testing.B) {
	for _, threads := range []int{64, 400} {
		b.Run(fmt.Sprintf("lane/%d", threads), func(b *testing.B) {
			_, g := generator(b, map[string]string{"readproportion": "1", "updateproportion": "0", "requestdistribution": "uniform", "operationcount": strconv.Itoa(b.N)})
			clk := clock.Since(time.Now())
			session := kit.NewSession(threads, clk, time.Minute, func(int) kit.Caller { return yielding{} })
			collector := measure.NewCollector(measure.Config{Window: time.Hour}, 1)
			l := New(Config{
				Clock: clk, Source: g, Session: session, Recorder: collector.Recorder(0),
				Share: pace.Share{Step: 1}, Threads: threads, End: time.Hour,
			})
			var collecting sync.WaitGroup
			collecting.Go(func() { collector.Run(func(*measure.Interval) {}) })
			before := processorTime(b)
			l.Run()
			collecting.Wait()
			b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "CPU-ns/op")
			if err := session.Close(); err != nil {
				b.Error(err)
			}
		})
		b.Run(fmt.Sprintf("loop/%d", threads), func(b *testing.B) {
			var left atomic.Int64
			left.Store(int64(b.N))
			var loops sync.WaitGroup
			before := processorTime(b)
			for i := range threads {
				loops.Go(func() {
					rng := rand.New(rand.NewPCG(1, uint64(i)))
					for left.Add(-1) >= 0 {
						key := strconv.AppendUint([]byte("usertable:user"), rng.Uint64(), 10)
						yielding{}.Do(context.Background(), &store.Call{Keys: [][]byte{key}})
					}
				})
			}
			loops.Wait()
			b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "CPU-ns/op")
		})
	}
}

// processorTime is what the process has used so far.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
