// SPDX-License-Identifier: Apache-2.0

package servermetrics

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Config is what matters to a measurement of a store's configuration, under TiKV's names. What the store
// does not tell is not there.
type Config map[string]string

// kept are the settings that are kept. Others may be secrets, and stay where they are.
var kept = []string{
	"coprocessor.region-max-size",
	"coprocessor.region-split-size",
	"memory-usage-limit",
	"quota.foreground-cpu-time",
	"quota.foreground-read-bandwidth",
	"quota.foreground-write-bandwidth",
	"raft-engine.enable",
	"raftstore.apply-pool-size",
	"raftstore.raft-base-tick-interval",
	"raftstore.raft-election-timeout-ticks",
	"raftstore.store-io-pool-size",
	"raftstore.store-pool-size",
	"readpool.unified.max-thread-count",
	"rocksdb.defaultcf.compression-per-level",
	"rocksdb.defaultcf.write-buffer-size",
	"rocksdb.max-background-jobs",
	"rocksdb.rate-bytes-per-sec",
	"rocksdb.titan.enabled",
	"server.advertise-addr",
	"server.grpc-compression-type",
	"server.grpc-concurrency",
	"storage.api-version",
	"storage.block-cache.capacity",
	"storage.enable-ttl",
	"storage.engine",
	"storage.flow-control.enable",
	"storage.scheduler-worker-pool-size",
}

// The settings that are more than shown.
const (
	AdvertisedAddress = "server.advertise-addr"
	RegionSize        = "coprocessor.region-split-size"
	apiVersion        = "storage.api-version"
	enableTTL         = "storage.enable-ttl"
)

// poolSizes are the settings that say how many threads a pool has.
var poolSizes = map[string]string{
	"grpc_server":       "server.grpc-concurrency",
	"unified_read_pool": "readpool.unified.max-thread-count",
	"sched_pool":        "storage.scheduler-worker-pool-size",
	"raftstore":         "raftstore.store-pool-size",
	"store_writer":      "raftstore.store-io-pool-size",
	"apply":             "raftstore.apply-pool-size",
}

const (
	maxJSON    = 1 << 20 // bytes of an answer in JSON; a store's configuration has 22 KB
	maxSetting = 200     // bytes of a setting's text
)

// ReadConfig reads a store's configuration, which is JSON.
func ReadConfig(r io.Reader) (Config, error) {
	text, err := readAll(r, "the configuration is longer than")
	if err != nil {
		return nil, err
	}
	var all map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&all); err != nil {
		return nil, fmt.Errorf("the configuration cannot be read: %w", err)
	}
	c := make(Config)
	for _, name := range kept {
		if value, ok := setting(all, name); ok {
			c[name] = value
		}
	}
	return c, nil
}

// readAll reads an answer in JSON. The error of one that is too long begins as is said.
func readAll(r io.Reader, tooLong string) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxJSON+1))
	if err == nil && len(text) > maxJSON {
		err = fmt.Errorf("%s %d MB", tooLong, maxJSON>>20)
	}
	return text, err
}

// setting finds a setting by its name, and shows its value; false: there is none, or no short text.
func setting(all map[string]any, name string) (string, bool) {
	var value any = all
	for part := range strings.SplitSeq(name, ".") {
		within, ok := value.(map[string]any)
		if !ok {
			return "", false
		}
		value = within[part]
	}
	text := ""
	switch v := value.(type) {
	case string, json.Number, bool:
		text = fmt.Sprint(v)
	case []any:
		var parts []string
		for _, one := range v {
			parts = append(parts, fmt.Sprint(one))
		}
		text = strings.Join(parts, " ")
	}
	return text, text != "" && len(text) <= maxSetting
}

// sizes are the sizes of the thread pools.
func (c Config) sizes() Figures {
	sizes := make(Figures)
	for pool, name := range poolSizes {
		if size, err := strconv.ParseFloat(c[name], 64); err == nil && size > 0 && !math.IsInf(size, 0) {
			sizes["pool_size."+pool] = size
		}
	}
	return sizes
}

// APIVersion is V1, V1TTL or V2, as a client is told; "" if the store does not tell.
func (c Config) APIVersion() string {
	switch {
	case c[apiVersion] == "1" && c[enableTTL] == "true":
		return "V1TTL"
	case c[apiVersion] != "":
		return "V" + c[apiVersion]
	}
	return ""
}

// Bytes reads a size as TiKV writes it, as in 96MiB; its units are powers of 1024, with or without the i. 0: it is none.
func (c Config) Bytes(name string) int64 {
	text := strings.TrimSpace(c[name])
	digits := strings.TrimRight(text, "BKMGTPEib ")
	factor := 1.0
	if unit := strings.TrimSpace(text[len(digits):]); unit != "" && unit != "B" {
		power := strings.IndexByte("KMGTPE", unit[0]) + 1
		if power == 0 || unit[1:] != "iB" && unit[1:] != "B" && unit[1:] != "" {
			return 0
		}
		factor = math.Pow(1024, float64(power))
	}
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || !(n*factor >= 1 && n*factor < 1<<62) {
		return 0
	}
	return int64(n * factor)
}

// StoreConfig is what a store tells of its configuration.
type StoreConfig struct {
	Store   string
	Config  Config // nil: there is no answer
	Missing string // why
}

// Configs reads all stores' configurations once, in the order of the servers. Each may take so long.
func (w *Watcher) Configs(ctx context.Context, timeout time.Duration) []StoreConfig {
	configs := make([]StoreConfig, len(w.servers))
	var stores sync.WaitGroup
	for i, s := range w.servers {
		stores.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			configs[i] = StoreConfig{Store: s.Store}
			c, err := (&reader{Watcher: w, server: s}).configuration(ctx)
			if err != nil {
				configs[i].Missing = w.missing(s, err, timeout)
				return
			}
			configs[i].Config = c
		})
	}
	stores.Wait()
	return configs
}
