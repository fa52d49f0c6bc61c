// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/playground"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/store/cluster"
	"github.com/kvbench/kvbench/internal/store/rawkv"
	"github.com/kvbench/kvbench/internal/store/stream"
)

// serve is set in the environment of the process that serves the playground, so
// that its cost is not counted with the client's.
const serve = "KVBENCH_TEST_SERVE_PLAYGROUND"

func TestMain(m *testing.M) {
	if os.Getenv(serve) != "" {
		pg, err := playground.Start(context.Background(), playground.Options{})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(pg.PDAddr())
		io.Copy(io.Discard, os.Stdin) // until the parent closes it
		pg.Close()
		return
	}
	os.Exit(m.Run())
}

func startPlayground(b *testing.B) (pd string) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serve+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close(); cmd.Wait() })
	pd, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(pd)
}

const records = 100_000

// key returns the key of a record, in buf.
func key(buf []byte, i int) []byte {
	return strconv.AppendInt(append(buf[:0], "usertable:user"...), int64(i), 10)
}

func cpu() time.Duration {
	var ru syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &ru)
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

// drivers are what is measured.
var drivers = []struct {
	name string
	open opener
}{
	{"rawkv", func(ctx context.Context, pd string) (store.Driver, error) {
		return rawkv.Open(ctx, perfConfig(pd), 10*time.Second)
	}},
	{"stream", func(ctx context.Context, pd string) (store.Driver, error) {
		return stream.Open(ctx, perfConfig(pd), stream.Config{Timeout: 10 * time.Second})
	}},
}

// BenchmarkUnpaced measures what a point read costs the client, in user and system
// time of its whole process. The playground has a process of its own.
func BenchmarkUnpaced(b *testing.B) {
	pd := startPlayground(b)
	load(b, pd)
	program := filepath.Join(b.TempDir(), "bare")
	if out, err := exec.Command("go", "build", "-o", program, "./bare").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	for _, threads := range []int{64, 800} {
		b.Run(fmt.Sprintf("bare/%d", threads), func(b *testing.B) { bare(b, program, pd, threads) })
		for _, d := range drivers {
			b.Run(fmt.Sprintf("%s/%d", d.name, threads), func(b *testing.B) { unpaced(b, pd, d.open, threads) })
		}
	}
	b.Run("stream/10000", func(b *testing.B) { unpaced(b, pd, drivers[1].open, 10_000) })
}

// BenchmarkPaced starts 5,000 point reads a second from one lane, and reports
// how late they started.
func BenchmarkPaced(b *testing.B) {
	pd := startPlayground(b)
	load(b, pd)
	for _, d := range drivers {
		b.Run(d.name, func(b *testing.B) { paced(b, pd, d.open) })
	}
}

func perfConfig(pd string) cluster.Config { return cluster.Config{PD: []string{pd}} }

func load(b *testing.B, pd string) {
	d, err := rawkv.Open(b.Context(), perfConfig(pd), 0)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	s, err := d.Open(0, 1, clock.Since(time.Now()))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	c := &store.Call{Verb: store.Put}
	for i := 0; i < records; i += 1000 {
		c.Keys, c.Values = nil, nil
		for j := range 1000 {
			c.Keys = append(c.Keys, key(nil, i+j))
			c.Values = append(c.Values, []byte("a value of twenty-eight byte"))
		}
		s.Submit(c)
		if s.Wait(store.Forever); c.Err != nil {
			b.Fatal(c.Err)
		}
	}
}

// bare runs the loop to compare with.
func bare(b *testing.B, program, pd string, threads int) {
	out, err := exec.Command(program, "-pd", pd, "-threads", strconv.Itoa(threads), "-operations", strconv.Itoa(b.N)).CombinedOutput()
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	var used, rate float64
	if _, err := fmt.Sscanf(string(out), "%f cpu-µs/op %f ops/s", &used, &rate); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	b.ReportMetric(used, "cpu-µs/op")
	b.ReportMetric(rate, "ops/s")
	b.ReportMetric(0, "ns/op")
}

// gcPercent is for a process that has little memory in use and makes much garbage.
const gcPercent = 400

type opener func(ctx context.Context, pd string) (store.Driver, error)

func unpaced(b *testing.B, pd string, open opener, threads int) {
	const lanes = 2
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	d, err := open(b.Context(), pd)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	clk := clock.Since(time.Now())
	run := func(n int) {
		var wg sync.WaitGroup
		for lane := range lanes {
			s, err := d.Open(lane, threads/lanes, clk)
			if err != nil {
				b.Fatal(err)
			}
			wg.Go(func() {
				defer s.Close()
				runLane(b, s, clk, uint64(lane), threads/lanes, n/lanes+1)
			})
		}
		wg.Wait()
	}
	run(20_000)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before := m.Mallocs
	b.ResetTimer()
	start := cpu()
	run(b.N)
	report(b, cpu()-start)
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.Sys)/1e6, "MB")
	b.ReportMetric(float64(m.Mallocs-before)/float64(b.N), "mallocs/op")
	if d, ok := d.(*stream.Driver); ok {
		var total store.Traffic
		for _, t := range d.Traffic() {
			total.Add(&t)
		}
		b.ReportMetric(float64(total.Commands)/float64(total.Messages), "commands/message")
	}
}

func paced(b *testing.B, pd string, open opener) {
	const threads, rate = 64, 5000
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	d, err := open(b.Context(), pd)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	clk := clock.Since(time.Now())
	s, err := d.Open(0, threads, clk)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var free []*store.Call
	for range threads {
		free = append(free, &store.Call{Verb: store.Get, Keys: [][]byte{make([]byte, 0, 32)}})
	}
	rng := rand.New(rand.NewPCG(2, 2))
	var lags, services []time.Duration
	run := func(n int) {
		begin := clk.Now()
		for i := 0; i < n || len(free) < threads; {
			due := store.Forever
			if i < n && len(free) > 0 {
				due = begin + time.Duration(i)*time.Second/rate
			}
			for _, c := range s.Wait(due) {
				if c.Err != nil {
					b.Fatal(c.Err)
				}
				services = append(services, c.End-c.Start)
				free = append(free, c)
			}
			for now := clk.Now(); i < n && len(free) > 0; i++ {
				due := begin + time.Duration(i)*time.Second/rate
				if due > now {
					break
				}
				c := free[len(free)-1]
				free = free[:len(free)-1]
				c.Keys[0] = key(c.Keys[0], rng.IntN(records))
				c.Start = now
				lags = append(lags, now-due)
				s.Submit(c)
			}
		}
	}
	run(2000)
	lags, services = lags[:0], services[:0]
	b.ResetTimer()
	start := cpu()
	run(b.N)
	report(b, cpu()-start)
	slices.Sort(lags)
	slices.Sort(services)
	at := func(ds []time.Duration, q float64) float64 { return float64(ds[int(q*float64(len(ds)-1))]) / 1e3 }
	b.ReportMetric(at(lags, .5), "lag-p50-µs")
	b.ReportMetric(at(lags, .99), "lag-p99-µs")
	b.ReportMetric(at(services, .5), "service-p50-µs")
	b.ReportMetric(at(services, .99), "service-p99-µs")
}

func runLane(b *testing.B, s store.Session, clk clock.Clock, seed uint64, threads, n int) {
	rng := rand.New(rand.NewPCG(2, seed))
	next := func(c *store.Call) {
		c.Keys[0] = key(c.Keys[0], rng.IntN(records))
		c.Start = clk.Now()
		s.Submit(c)
		n--
	}
	out := 0
	for range threads {
		next(&store.Call{Verb: store.Get, Keys: [][]byte{make([]byte, 0, 32)}})
		out++
	}
	for out > 0 {
		for _, c := range s.Wait(store.Forever) {
			if c.Err != nil || c.Found[0] == nil {
				b.Errorf("%q: %v", c.Keys, c.Err)
			}
			if n > 0 {
				next(c)
			} else {
				out--
			}
		}
	}
}

func report(b *testing.B, used time.Duration) {
	b.ReportMetric(float64(used)/1e3/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
	b.ReportMetric(0, "ns/op")
}
