// SPDX-License-Identifier: Apache-2.0

// Command bare is the least that an application can do with client-go's rawkv: a
// loop per goroutine over a client with default settings and kvbench's garbage collector target,
// which counts and measures nothing. It is what kvbench's cost per operation is compared with.
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
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

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
	start := time.Now()
	var wg sync.WaitGroup
	for i := range *threads {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			for left.Add(-int64(*batch)) >= 0 {
				if err := call(client, rng, *kind, *batch, *records); err != nil && failed.Add(1) == 1 {
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

func call(client *rawkv.Client, rng *rand.Rand, kind string, batch int, records int64) error {
	ctx := context.Background()
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
