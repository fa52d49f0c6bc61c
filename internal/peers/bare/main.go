// SPDX-License-Identifier: Apache-2.0

// Command bare is the least that an application can do with client-go's rawkv: a
// loop per goroutine over a client with default settings and kvbench's garbage collector target,
// which counts and measures nothing. It is what kvbench's cost per operation is compared with. With -measure it does
// what a thread of any load generator has to: its calls can be given up, and it records how long each took.
package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"hash/fnv"
	"log"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	pclog "github.com/pingcap/log"
	"github.com/tikv/client-go/v2/config"
	"github.com/tikv/client-go/v2/rawkv"
	"go.uber.org/zap"
)

func main() {
	var (
		pd      = flag.String("pd", "127.0.0.1:2379", "PD addresses")
		kind    = flag.String("kind", "read", "read or update (get, then put)")
		threads = flag.Int("threads", 64, "goroutines")
		batch   = flag.Int("batch", 1, "keys a call")
		records = flag.Int64("records", 100_000, "records in the store")
		count   = flag.Int64("operations", 100_000, "operations (keys) to do")
		measure = flag.Bool("measure", false, "call with a context that can be cancelled, and record latencies")
	)
	flag.Parse()
	log.SetFlags(0)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // as kvbench with the same library
	}
	level := zap.NewAtomicLevelAt(zap.ErrorLevel)
	pclog.ReplaceGlobals(zap.NewNop(), &pclog.ZapProperties{Level: level})

	client, err := rawkv.NewClient(context.Background(), strings.Split(*pd, ","), config.DefaultConfig().Security)
	if err != nil {
		log.Fatal(err)
	}
	var left, failed atomic.Int64
	left.Store(*count)
	latencies := make([]latency, runtime.GOMAXPROCS(0))
	for i := range latencies {
		latencies[i].histogram = hdrhistogram.New(1, time.Hour.Microseconds(), 3)
	}
	start := time.Now()
	var wg sync.WaitGroup
	for i := range *threads {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			ctx, cancel := context.Background(), func() {}
			if *measure {
				ctx, cancel = context.WithCancel(ctx)
			}
			defer cancel()
			for left.Add(-int64(*batch)) >= 0 {
				var began time.Time
				if *measure {
					began = time.Now()
				}
				err := call(ctx, client, rng, *kind, *batch, *records)
				if *measure {
					latencies[i%len(latencies)].add(time.Since(began))
				}
				if err != nil && failed.Add(1) == 1 {
					fmt.Fprintln(os.Stderr, "bare:", err)
				}
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(start)
	fmt.Printf("%d operations in %v, %d calls failed\n", *count, elapsed, failed.Load())
	if failed.Load() > 0 {
		os.Exit(1)
	}
}

// latency counts how long calls took, in microseconds.
type latency struct {
	sync.Mutex
	histogram *hdrhistogram.Histogram
}

func (l *latency) add(d time.Duration) {
	l.Lock()
	defer l.Unlock()
	_ = l.histogram.RecordValue(d.Microseconds()) // fails above an hour
}

func call(ctx context.Context, client *rawkv.Client, rng *rand.Rand, kind string, batch int, records int64) error {
	keys := make([][]byte, batch)
	for i := range keys {
		keys[i] = key(rng.Int64N(records))
	}
	if batch == 1 {
		value, err := client.Get(ctx, keys[0])
		if err != nil || kind == "read" {
			return err
		}
		return client.Put(ctx, keys[0], value)
	}
	values, err := client.BatchGet(ctx, keys)
	if err != nil || kind == "read" {
		return err
	}
	return client.BatchPut(ctx, keys, values)
}

// key is go-ycsb's key of a record.
func key(record int64) []byte {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(record))
	h := fnv.New64a()
	h.Write(b[:])
	n := int64(h.Sum64())
	if n < 0 {
		n = -n
	}
	return strconv.AppendInt([]byte("usertable:user"), n, 10)
}
