// SPDX-License-Identifier: Apache-2.0

package tikv

import (
	"errors"
	"io"
	"sync"

	"github.com/pingcap/log"
	"github.com/tikv/client-go/v2/config"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// client-go keeps its settings, and its logger, per process: connections read
// them when they are made, and its health checks read the TLS files there. So
// clusters that are open at the same time must agree on them. The settings are
// written here and nowhere else, and only while no cluster is open.
var global struct {
	sync.Mutex
	users int
	is    settings
}

type settings struct {
	client config.TiKVClient
	ca     string
	cert   string
	key    string
	log    io.Writer
}

// storesRefresh is how often, in seconds, client-go asks PD for the stores' addresses. When a store has
// failed while PD was away, it takes the store for down until it has asked again, however
// well the store is by then; by default that may take half a minute. Below 4 it
// panics, because it divides this by 4 for another interval.
const storesRefresh = 4

// acquire makes the settings of c those of the process. Each success must be followed by one release.
func acquire(c *Config) error {
	want := settings{client: config.DefaultTiKVClient(), ca: c.CA, cert: c.Cert, key: c.Key, log: c.Log}
	set(&want.client.GrpcConnectionCount, c.GrpcConnectionCount)
	set(&want.client.MaxBatchWaitTime, c.MaxBatchWaitTime)
	set(&want.client.BatchWaitSize, c.BatchWaitSize)
	set(&want.client.OverloadThreshold, c.OverloadThreshold)
	if c.MaxBatchSize < 0 {
		want.client.MaxBatchSize = 0
	} else {
		set(&want.client.MaxBatchSize, uint(c.MaxBatchSize))
	}

	global.Lock()
	defer global.Unlock()
	if global.users > 0 && want != global.is {
		return errors.New("another connection of this process uses client-go with other settings (connections, batches, TLS files or log); close it first")
	}
	if global.users == 0 {
		config.UpdateGlobal(func(conf *config.Config) {
			conf.TiKVClient = want.client
			conf.Security = c.security()
			conf.StoresRefreshInterval = storesRefresh
		})
		replaceLog(c.Log)
		global.is = want
	}
	global.users++
	return nil
}

func release() {
	global.Lock()
	defer global.Unlock()
	global.users--
}

// set sets *to unless v is zero.
func set[T comparable](to *T, v T) {
	var zero T
	if v != zero {
		*to = v
	}
}

// replaceLog leads the log of client-go and the PD client, which would go to stdout, to w.
func replaceLog(w io.Writer) {
	level := zap.NewAtomicLevelAt(zap.WarnLevel)
	core := zapcore.NewNopCore()
	sink := zapcore.AddSync(io.Discard)
	if w != nil {
		sink = zapcore.Lock(zapcore.AddSync(w))
		enc := zap.NewProductionEncoderConfig()
		enc.EncodeTime = zapcore.RFC3339NanoTimeEncoder
		core = zapcore.NewCore(zapcore.NewJSONEncoder(enc), sink, level)
	}
	log.ReplaceGlobals(zap.New(core), &log.ZapProperties{Core: core, Syncer: sink, Level: level})
}
