// SPDX-License-Identifier: Apache-2.0

package servermetrics

import (
	"math"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// Figures are what a store says of itself, by name. What it does not say is not there. The names and
// what they mean are in docs/cluster.md: those of totals since the store's start end in _total.
type Figures map[string]float64

// source says how a metric of TiKV becomes figures.
type source struct {
	// only are label values that a series must have.
	only map[string]string
	// name makes a figure's name of a series' labels; "" leaves it out. Series of one name add up.
	name  func(labels map[string]string) string
	scale float64 // 0 is 1
}

func named(name string) func(map[string]string) string {
	return func(map[string]string) string { return name }
}

// sources are the metrics that are kept, by the name that stands in a line of the page.
var sources = map[string][]source{
	"tikv_grpc_msg_duration_seconds_count": {{name: request("requests_total.")}},
	"tikv_grpc_msg_duration_seconds_sum":   {{name: request("request_seconds_total.")}},

	"process_cpu_seconds_total":     {{name: named("cpu_seconds_total")}},
	"process_resident_memory_bytes": {{name: named("memory_bytes")}},
	"process_start_time_seconds":    {{name: named("start_time_seconds")}},
	"tikv_server_cpu_cores_quota":   {{name: named("cores")}},
	"tikv_thread_cpu_seconds_total": {{name: pool("pool_cpu_seconds_total.")}, {name: pool("pool_threads."), scale: counts}, {name: grpcThread}},

	"tikv_yatp_pool_schedule_wait_duration_sum":   {{name: pool("pool_wait_seconds_total.")}},
	"tikv_yatp_pool_schedule_wait_duration_count": {{name: pool("pool_waits_total.")}},

	"tikv_storage_engine_async_request_duration_seconds_sum":   {{only: map[string]string{"type": "write"}, name: named("write_seconds_total")}},
	"tikv_storage_engine_async_request_duration_seconds_count": {{only: map[string]string{"type": "write"}, name: named("writes_total")}},
	"tikv_raftstore_append_log_duration_seconds_sum":           {{name: named("append_seconds_total")}},
	"tikv_raftstore_append_log_duration_seconds_count":         {{name: named("appends_total")}},
	"tikv_raftstore_apply_log_duration_seconds_sum":            {{name: named("apply_seconds_total")}},
	"tikv_raftstore_apply_log_duration_seconds_count":          {{name: named("applies_total")}},

	"tikv_engine_pending_compaction_bytes": {{only: map[string]string{"db": "kv"}, name: named("pending_compaction_bytes")}},
	"tikv_engine_num_running_compactions":  {{only: map[string]string{"db": "kv"}, name: named("compactions")}},
	"tikv_engine_stall_micro_seconds":      {{only: map[string]string{"db": "kv"}, name: named("stall_seconds_total"), scale: 1e-6}},
	"tikv_engine_cache_efficiency": {
		{only: map[string]string{"db": "kv", "type": "block_cache_hit"}, name: named("cache_hits_total")},
		{only: map[string]string{"db": "kv", "type": "block_cache_miss"}, name: named("cache_misses_total")},
	},
	"tikv_scheduler_too_busy_total": {{name: named("too_busy_total")}},
	"tikv_scheduler_discard_ratio":  {{name: named("discard_ratio"), scale: 1e-7}},

	"tikv_store_size_bytes": {
		{only: map[string]string{"type": "used"}, name: named("stored_bytes")},
		{only: map[string]string{"type": "available"}, name: named("available_bytes")},
	},
	"tikv_raftstore_region_count": {
		{only: map[string]string{"type": "leader"}, name: named("leaders")},
		{only: map[string]string{"type": "region"}, name: named("regions")},
	},
	"pd_cluster_status": {
		{only: map[string]string{"type": "store_up_count"}, name: named("stores_up")},
		{only: map[string]string{"type": "store_disconnected_count"}, name: named("stores_disconnected")},
		{only: map[string]string{"type": "store_down_count"}, name: named("stores_down")},
		{only: map[string]string{"type": "region_count"}, name: named("regions")},
	},
	"pd_schedule_operators_count": {{only: map[string]string{"event": "finish"}, name: func(labels map[string]string) string { return "operators_total." + labels["type"] }}},

	"tikv_raftstore_slow_score": {{only: map[string]string{"type": "raft"}, name: named("slow_score")}},
}

// counts makes a source count series instead of adding their values up.
const counts = -1

// request keeps what clients ask for, and not what stores say to each other. Reads of several keys
// that came in one message are counted as raw_batch_get_command besides, so that is left out.
func request(prefix string) func(map[string]string) string {
	return func(labels map[string]string) string {
		kind := labels["type"]
		if kind == "raw_batch_get_command" || kind == "kv_batch_get_command" {
			return ""
		}
		for _, client := range []string{"raw_", "kv_", "coprocessor"} {
			if strings.HasPrefix(kind, client) {
				return prefix + kind
			}
		}
		return ""
	}
}

// pools are the thread pools that work for requests. Threads are known by the beginning of
// their names, which the operating system may have cut at 15 characters.
var pools = []struct{ thread, pool string }{
	{"grpc_server", "grpc_server"},
	{"unified_read", "unified_read_pool"},
	{"sched_pool", "sched_pool"},
	{"sched_worker", "sched_pool"},
	{"raftstore", "raftstore"},
	{"store_writer", "store_writer"},
	{"apply", "apply"},
	{"rocksdb:low", "rocksdb_low"},
	{"rocksdb:high", "rocksdb_high"},
	{"background", "background"},
}

func poolOf(thread string) string {
	thread = strings.ReplaceAll(thread, "-", "_")
	for _, p := range pools {
		if strings.HasPrefix(thread, p.thread) {
			return p.pool
		}
	}
	return ""
}

func pool(prefix string) func(map[string]string) string {
	return func(labels map[string]string) string {
		if p := poolOf(labels["name"]); p != "" {
			return prefix + p
		}
		return ""
	}
}

// grpcThread keeps each of the threads that serve connections, since a connection lives on one of them.
func grpcThread(labels map[string]string) string {
	if poolOf(labels["name"]) != "grpc_server" || labels["tid"] == "" {
		return ""
	}
	return "grpc_thread_cpu_seconds_total." + labels["tid"]
}

// add adds a series to the figures that it is a part of.
func (f Figures) add(metric string, m *dto.Metric) {
	value := m.GetUntyped().GetValue()
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return
	}
	labels := make(map[string]string, len(m.Label))
	for _, l := range m.Label {
		labels[l.GetName()] = l.GetValue()
	}
next:
	for _, s := range sources[metric] {
		for label, want := range s.only {
			if labels[label] != want {
				continue next
			}
		}
		name := s.name(labels)
		switch {
		case name == "":
		case s.scale == counts:
			f[name]++
		case s.scale != 0:
			f[name] += s.scale * value
		default:
			f[name] += value
		}
	}
}
