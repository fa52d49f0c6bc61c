// SPDX-License-Identifier: Apache-2.0

// Command bare is what drivers are measured against: a loop of point reads in as
// many goroutines as there are threads, over rawkv with its default settings. It is a program of its own because
// the drivers change gRPC's codec for their whole process.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/pingcap/log"
	"github.com/tikv/client-go/v2/config"
	"github.com/tikv/client-go/v2/rawkv"
	"go.uber.org/zap"
)

func main() {
	pd := flag.String("pd", "127.0.0.1:2379", "address of PD")
	threads := flag.Int("threads", 64, "goroutines")
	operations := flag.Int("operations", 300_000, "reads to measure, after a tenth as many")
	records := flag.Int("records", 100_000, "keys usertable:user0, …")
	flag.Parse()
	if err := run(*pd, *threads, *operations, *records); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(pd string, threads, operations, records int) error {
	log.ReplaceGlobals(zap.NewNop(), &log.ZapProperties{Level: zap.NewAtomicLevel()})
	client, err := rawkv.NewClient(context.Background(), []string{pd}, config.Security{})
	if err != nil {
		return err
	}
	defer client.Close()
	if err := read(client, threads, operations/10, records); err != nil {
		return err
	}
	start, used := time.Now(), cpu()
	if err := read(client, threads, operations, records); err != nil {
		return err
	}
	n := float64(operations / threads * threads)
	fmt.Printf("%.2f cpu-µs/op %.0f ops/s\n", float64(cpu()-used)/1e3/n, n/time.Since(start).Seconds())
	return nil
}

func read(client *rawkv.Client, threads, operations, records int) error {
	errs := make([]error, threads)
	var wg sync.WaitGroup
	for t := range threads {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(t)))
			for range operations / threads {
				key := strconv.AppendInt([]byte("usertable:user"), int64(rng.IntN(records)), 10)
				value, err := client.Get(context.Background(), key)
				if err != nil || value == nil {
					errs[t] = fmt.Errorf("%s: %q, %v", key, value, err)
					return
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func cpu() time.Duration {
	var ru syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &ru)
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}
