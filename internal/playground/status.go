// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"net/http"
	"runtime"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// statusHandler serves what a TiKV server serves at its status address: /metrics, /config and /status.
// A stalled store answers there when the stall is over.
func (s *store) statusHandler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(storeMetrics{s})
	if s.cluster.opts.OwnProcess && s.cluster.opts.Stores == 1 {
		registry.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /config", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, s.config()) })
	mux.HandleFunc("GET /status", func(http.ResponseWriter, *http.Request) {}) // as TiKV: 200, and nothing to read
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.hold(r.Context(), time.Now()) == nil {
			mux.ServeHTTP(w, r)
		}
	})
}

// storeConfig is the part of TiKV's configuration that means something here.
type storeConfig struct {
	Server struct {
		AdvertiseAddr       string `json:"advertise-addr"`
		AdvertiseStatusAddr string `json:"advertise-status-addr"`
	} `json:"server"`
	Storage struct {
		DataDir    string `json:"data-dir"`
		APIVersion int    `json:"api-version"`
		EnableTTL  bool   `json:"enable-ttl"`
	} `json:"storage"`
}

func (s *store) config() (c storeConfig) {
	c.Server.AdvertiseAddr = s.cluster.advertised(s.server.addr)
	c.Server.AdvertiseStatusAddr = s.cluster.advertised(s.status.addr)
	c.Storage.DataDir = s.cluster.opts.DataDir
	c.Storage.APIVersion = 1
	if s.storage.version == V2 {
		c.Storage.APIVersion = 2
	}
	c.Storage.EnableTTL = s.storage.version != V1
	return c
}

// storeMetrics collects a store's figures under TiKV's names. What belongs to the whole process
// (CPU, memory, the database) is no store's own, and so is not there, but for that of a single store in a process of its own.
type storeMetrics struct{ *store }

var (
	infoMetric     = prometheus.NewDesc("tikv_server_info", "Version, and the time of the start in seconds since 1970.", []string{"version", "hash"}, nil)
	coresMetric    = prometheus.NewDesc("tikv_server_cpu_cores_quota", "Cores that the process may use.", nil, nil)
	commandsMetric = prometheus.NewDesc("tikv_grpc_msg_duration_seconds", "From the arrival of a command to its answer.", []string{"type", "priority"}, nil)
	regionsMetric  = prometheus.NewDesc("tikv_raftstore_region_count", "Regions of the store, and those that it leads.", []string{"type"}, nil)
	pendingMetric  = prometheus.NewDesc("tikv_engine_pending_compaction_bytes", "Bytes that wait for compaction: this store's part of those of the database, which all stores share evenly.", []string{"cf", "db"}, nil)
	busyMetric     = prometheus.NewDesc("tikv_scheduler_too_busy_total", "Commands that were refused with ServerIsBusy.", []string{"type"}, nil)
)

// Describe implements [prometheus.Collector].
func (m storeMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{infoMetric, coresMetric, commandsMetric, regionsMetric, pendingMetric, busyMetric} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (m storeMetrics) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(infoMetric, float64(m.cluster.started.Unix()), "v"+serverVersion, "playground")
	gauge(coresMetric, float64(runtime.GOMAXPROCS(0)))
	for cmd := range commandNames {
		n, time := m.stats.served[cmd].load()
		if n > 0 {
			to <- prometheus.MustNewConstHistogram(commandsMetric, n, time.Seconds(), nil, snakeCase(command(cmd).String()), "unknown")
		}
	}
	peers, leaders := 0, 0
	for _, r := range m.topology.routes.Load().ordered {
		if r.peerOn(m.id) != nil {
			peers++
		}
		if r.leader.GetStoreId() == m.id {
			leaders++
		}
	}
	gauge(regionsMetric, float64(peers), "region")
	gauge(regionsMetric, float64(leaders), "leader")
	gauge(pendingMetric, float64(m.storage.db.Metrics().Compact.EstimatedDebt)/float64(len(m.cluster.stores)), "default", "kv")
	if n := m.stats.refusedByType()["ServerIsBusy"]; n > 0 { // as in TiKV, absent until it happens
		to <- prometheus.MustNewConstMetric(busyMetric, prometheus.CounterValue, float64(n), "raw")
	}
}

// snakeCase turns RawGetKeyTTL into raw_get_key_ttl.
func snakeCase(name string) string {
	var b strings.Builder
	lower := false
	for _, r := range name {
		if unicode.IsUpper(r) && lower {
			b.WriteByte('_')
		}
		lower = unicode.IsLower(r)
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
