// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// web serves what PD serves over HTTP, as far as there is something to tell: nothing is scheduled here but what is asked for.
func (p *pd) web() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(pdMetrics{p})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /pd/api/v1/schedulers", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, []string{}) })
	mux.HandleFunc("GET /pd/api/v1/config/replicate", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]int{"max-replicas": maxReplicas})
	})
	return mux
}

// pdMetrics collects the cluster's figures under PD's names.
type pdMetrics struct{ *pd }

var statusMetric = prometheus.NewDesc("pd_cluster_status", "Stores by their state, regions and leaders.", []string{"type"}, nil)

// Describe implements [prometheus.Collector].
func (m pdMetrics) Describe(to chan<- *prometheus.Desc) { to <- statusMetric }

// Collect implements [prometheus.Collector].
func (m pdMetrics) Collect(to chan<- prometheus.Metric) {
	up, leaders := 0, 0
	for _, s := range m.cluster.stores {
		if s.server.running() {
			up++
		}
	}
	regions := m.topology.routes.Load().ordered
	for _, r := range regions {
		if r.leader != nil {
			leaders++
		}
	}
	for name, n := range map[string]int{
		"store_up_count": up, "store_down_count": len(m.cluster.stores) - up, "region_count": len(regions), "leader_count": leaders,
	} {
		to <- prometheus.MustNewConstMetric(statusMetric, prometheus.GaugeValue, float64(n), name)
	}
}
