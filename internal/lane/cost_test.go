// SPDX-License-Identifier: Apache-2.0

//go:build !race

// What an operation costs is not asked of a binary that the race detector is in.

package lane

import (
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/pace"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/workload"
)

// instant answers every call at once, without allocating: what is measured over
// it is our own code. Its rows are those that the generator wrote.
type instant struct {
	clock  clock.Clock
	row    []byte
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

// runLane runs a lane of 64 threads until it has done so many calls, and returns how
// many operations that were.
func runLane(t testing.TB, properties map[string]string, calls int) (operations int64) {
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
	clk := clock.Since(time.Now())
	session := &instant{clock: clk, row: []byte{8, 2, 2, 20, 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'}}
	for range s.Batch {
		session.found = append(session.found, session.row)
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
