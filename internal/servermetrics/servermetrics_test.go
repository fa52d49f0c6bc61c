// SPDX-License-Identifier: Apache-2.0

package servermetrics

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/playground"
	"github.com/kvbench/kvbench/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const recorded = "testdata/tikv-9.0.0-beta.2.txt"

// A page of a real store, as figures.
func TestReadPage(t *testing.T) {
	page, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	f, err := ReadPage(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{
		"requests_total.raw_get":             1331175,
		"requests_total.raw_batch_get":       21758,
		"request_seconds_total.raw_put":      2137.274943782,
		"cpu_seconds_total":                  307,
		"cores":                              2,
		"memory_bytes":                       546729984,
		"pool_cpu_seconds_total.grpc_server": 41.13 + 38.57,
		"pool_threads.grpc_server":           2,
		"grpc_thread_cpu_seconds_total.4607": 41.13,
		"pool_cpu_seconds_total.raftstore":   15.85 + 15.72,
		"pool_threads.unified_read_pool":     4,
		"pool_wait_seconds_total.sched_pool": 433.8994339669994,
		"pool_waits_total.unified_read_pool": 1392699,
		"writes_total":                       206152,
		"append_seconds_total":               107.5353136040026,
		"pending_compaction_bytes":           621550339,
		"stall_seconds_total":                0,
		"cache_hits_total":                   2103534,
		"cache_misses_total":                 47515,
		"stored_bytes":                       989409783,
		"leaders":                            30,
		"regions":                            81,
		"slow_score":                         1,
	} {
		if got, there := f[name]; !there || math.Abs(got-want) > 1e-6 {
			t.Errorf("%s is %v (%v), want %v", name, got, there, want)
		}
	}
	for name := range f {
		if strings.Contains(name, "check_leader") || strings.HasSuffix(name, "_command") || name == "too_busy_total" {
			t.Errorf("%s is kept", name)
		}
	}
}

// large is a page of a store with so many lines of buckets that nobody wants.
func large(page []byte, buckets int) io.Reader {
	line := []byte("tikv_grpc_msg_duration_seconds_bucket{type=\"raw_get\",priority=\"unknown\",le=\"0.0005\"} 123456\n")
	return io.MultiReader(bytes.NewReader(page), io.LimitReader(repeated(line), int64(len(line)*buckets)))
}

type repeater struct {
	line []byte
	at   int
}

func repeated(line []byte) io.Reader { return &repeater{line: line} }

func (r *repeater) Read(b []byte) (n int, err error) {
	for n < len(b) {
		c := copy(b[n:], r.line[r.at:])
		n, r.at = n+c, (r.at+c)%len(r.line)
	}
	return n, nil
}

// Pages that say less than all are no figures at all.
func TestBadPages(t *testing.T) {
	page, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		page io.Reader
		want string
	}{
		"cut in a line":        {bytes.NewReader(page[:len(page)-5]), "cut off"},
		"cut in a skipped one": {strings.NewReader("process_cpu_seconds_total 1\nwhatever{a=\"" + strings.Repeat("x", 2*maxLine)), "cut off"},
		"50 MB":                {large(page, 50<<20/80), "longer than 32 MB"},
		"a long line":          {strings.NewReader("process_cpu_seconds_total{a=\"" + strings.Repeat("x", maxLine) + "\"} 1\n"), "longer than 64 KB"},
		"too much":             {repeated([]byte("process_cpu_seconds_total 1\n")), "more than 1024 KB"},
		"no number":            {strings.NewReader("process_cpu_seconds_total many\n"), "not Prometheus's text format"},
	} {
		if f, err := ReadPage(test.page); err == nil || !strings.Contains(err.Error(), test.want) || f != nil {
			t.Errorf("%s: %v, %v; want an error with %q", name, f, err, test.want)
		}
	}
	if f, err := ReadPage(strings.NewReader(strings.Repeat("x", 3*maxLine) + "\nprocess_cpu_seconds_total 1\n")); err != nil || f["cpu_seconds_total"] != 1 {
		t.Errorf("after a long line that nobody wants: %v, %v", f, err)
	}
	if f, err := ReadPage(strings.NewReader("process_cpu_seconds_total NaN\n")); err != nil || len(f) > 0 {
		t.Errorf("no number is a gap: %v, %v", f, err)
	}
}

func FuzzReadPage(f *testing.F) {
	page, err := os.ReadFile(recorded)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(page)
	f.Add([]byte("tikv_thread_cpu_seconds_total{name=\"apply_0\",tid=\"1\"} 1\n"))
	f.Add([]byte("process_cpu_seconds_total{ 1e999\n"))
	f.Fuzz(func(t *testing.T, page []byte) {
		figures, err := ReadPage(bytes.NewReader(page))
		if err != nil && figures != nil {
			t.Error("figures of a bad page")
		}
		for name, v := range figures {
			if math.IsNaN(v) {
				t.Errorf("%s is no number", name)
			}
		}
	})
}

// wholePage is a page of a real store's size.
func wholePage(b *testing.B) []byte {
	b.Helper()
	page, err := os.ReadFile(recorded)
	if err != nil {
		b.Fatal(err)
	}
	whole, err := io.ReadAll(large(page, 1_700_000/94))
	if err != nil {
		b.Fatal(err)
	}
	return whole
}

// A page of a real store's size costs little, since what nobody wants is skipped.
func BenchmarkReadPage(b *testing.B) {
	whole := wholePage(b)
	b.SetBytes(int64(len(whole)))
	for b.Loop() {
		if _, err := ReadPage(bytes.NewReader(whole)); err != nil {
			b.Fatal(err)
		}
	}
}

// watch reads servers until each has been read readings times at least.
func watch(t *testing.T, servers []store.Server, every time.Duration, readings int) map[string][]Sample {
	t.Helper()
	w := New(store.Servers{Stores: servers}, clock.Since(time.Now()))
	defer w.Close()
	var mu sync.Mutex
	samples := make(map[string][]Sample)
	ended, enough := make(chan struct{}), make(chan struct{})
	go func() { <-enough; close(ended) }()
	var once sync.Once
	w.Run(Watch{Every: every, Ended: ended}, func(s Sample) {
		mu.Lock()
		defer mu.Unlock()
		samples[s.Store] = append(samples[s.Store], s)
		for _, server := range servers {
			if len(samples[server.Store]) < readings {
				return
			}
		}
		once.Do(func() { close(enough) })
	})
	return samples
}

// What goes wrong at a store's status address is told, and leaves the other stores alone.
func TestBadServers(t *testing.T) {
	pg, err := playground.Start(t.Context(), playground.Options{Stores: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Close()
	good := store.Server{Store: pg.StoreAddrs()[0], Status: pg.StatusAddrs()[0]}
	page, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	serve := func(metrics http.HandlerFunc, config string) string {
		mux := http.NewServeMux()
		mux.HandleFunc("/metrics", metrics)
		mux.HandleFunc("/config", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, config) })
		s := httptest.NewServer(mux)
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	release, stop := context.WithCancel(t.Context())
	defer stop()
	servers, want := []store.Server{good}, map[string]string{}
	add := func(name, status, text string) {
		servers = append(servers, store.Server{Store: name, Status: status})
		want[name] = text
	}
	add("late", serve(func(_ http.ResponseWriter, r *http.Request) { // a store that answers after 30 s
		select {
		case <-time.After(30 * time.Second):
		case <-release.Done():
		case <-r.Context().Done():
		}
	}, "{}"), "no answer within 200ms")
	add("cut", serve(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(page)))
		w.Write(page[:bytes.IndexByte(page[len(page)/2:], '\n')+len(page)/2+1]) // at the end of a line
	}, "{}"), "unexpected EOF")
	add("large", serve(func(w http.ResponseWriter, _ *http.Request) { io.Copy(w, large(page, 50<<20/80)) }, "{}"), "")
	add("absent", closed.Addr().String(), "connection refused")
	add("unknown", "", "PD does not know it")
	add("other", good.Status, "answers there, not other")
	add("refused", serve(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, "{}"), "403")
	add("config", serve(func(w http.ResponseWriter, _ *http.Request) { w.Write(page) }, "not JSON"), "configuration cannot be read")
	samples := watch(t, servers, 200*time.Millisecond, 2)
	for _, s := range samples[good.Store] {
		if s.Missing != "" || s.Figures["leaders"] == 0 {
			t.Errorf("beside the others, the good store: %+v", s)
		}
	}
	for name, text := range want {
		for _, s := range samples[name] {
			if s.Figures != nil || s.Missing == "" || !strings.Contains(s.Missing, text) {
				// The last reading has a time of its own.
				if name == "late" && strings.Contains(s.Missing, "no answer within 1s") {
					continue
				}
				t.Errorf("%s: %v, %q; want a gap because of %q", name, s.Figures, s.Missing, text)
			}
		}
	}
}

// The sizes of the pools are the configured ones.
func TestSizes(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "process_cpu_seconds_total 2\n") })
	mux.HandleFunc("/config", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"server":{"advertise-addr":"a:1","grpc-concurrency":5},"readpool":{"unified":{"max-thread-count":4}},"raftstore":{"store-io-pool-size":0}}`)
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	for _, sample := range watch(t, []store.Server{{Store: "a:1", Status: s.Listener.Addr().String()}}, time.Hour, 1)["a:1"] {
		f := sample.Figures
		if _, there := f["pool_size.store_writer"]; there || f["pool_size.grpc_server"] != 5 || f["pool_size.unified_read_pool"] != 4 || f["cpu_seconds_total"] != 2 {
			t.Errorf("%+v", sample)
		}
	}
}

// recordedConfig is what a store says of its configuration, in part, with a setting that is nobody's business.
const recordedConfig = `{"server":{"advertise-addr":"a:1","grpc-concurrency":5},"readpool":{"unified":{"max-thread-count":4}},
	"raftstore":{"store-io-pool-size":0},"coprocessor":{"region-split-size":"256MiB"},"storage":{"api-version":1,"enable-ttl":true,"block-cache":{"capacity":"1GiB"}},
	"security":{"encryption":{"master-key":{"secret":"xyzzy"}}},"rocksdb":{"defaultcf":{"compression-per-level":["no","lz4"]},"titan":{"enabled":{"odd":1}}}}`

// Of a configuration what matters is kept, and nothing else.
func TestReadConfig(t *testing.T) {
	c, err := ReadConfig(strings.NewReader(recordedConfig))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"server.grpc-concurrency": "5", "storage.enable-ttl": "true", "rocksdb.defaultcf.compression-per-level": "no lz4", "rocksdb.titan.enabled": ""} {
		if c[name] != want {
			t.Errorf("%s: %q, want %q", name, c[name], want)
		}
	}
	if text := fmt.Sprint(c); strings.Contains(text, "xyzzy") || len(c) > len(kept) {
		t.Errorf("a secret is kept: %s", text)
	}
	if c.APIVersion() != "V1TTL" || (Config{apiVersion: "2", enableTTL: "true"}).APIVersion() != "V2" || (Config{apiVersion: "1"}).APIVersion() != "V1" || (Config{}).APIVersion() != "" {
		t.Errorf("API version %s", c.APIVersion())
	}
	if _, err := ReadConfig(io.LimitReader(repeated([]byte(" ")), 2*maxJSON)); err == nil || !strings.Contains(err.Error(), "longer than 1 MB") {
		t.Errorf("of 2 MB: %v", err)
	}
}

func TestConfigBytes(t *testing.T) {
	for text, want := range map[string]int64{"96MiB": 96 << 20, "256MB": 256 << 20, "1.5GiB": 3 << 29, "10 KiB": 10 << 10, "100": 100, "7B": 7, "": 0, "0KiB": 0, "MiB": 0, "1MiBMiB": 0, "-1MiB": 0, "NaN": 0, "1e30GiB": 0, "1iB": 0} {
		if got := (Config{RegionSize: text}).Bytes(RegionSize); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func FuzzReadConfig(f *testing.F) {
	f.Add([]byte(recordedConfig))
	f.Add([]byte(`{"coprocessor":{"region-split-size":"1e9GiB"},"server":[]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ReadConfig(bytes.NewReader(text))
		if err != nil && c != nil {
			t.Error("settings of what cannot be read")
		}
		for name, value := range c {
			if value == "" || len(value) > maxSetting || c.Bytes(name) < 0 {
				t.Errorf("%s: %q", name, value)
			}
		}
		for pool, size := range c.sizes() {
			if !(size > 0) {
				t.Errorf("%s has %g threads", pool, size)
			}
		}
	})
}

// PD is asked over HTTP: of how it places data, and for its own figures, beside those of the stores.
func TestPD(t *testing.T) {
	pg, err := playground.Start(t.Context(), playground.Options{Stores: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Close()
	ask := func(pd string) (*Placement, []Sample, error) {
		w := New(store.Servers{PD: pd}, clock.Since(time.Now()))
		defer w.Close()
		ended := make(chan struct{})
		close(ended)
		var samples []Sample
		w.Run(Watch{Every: time.Hour, Ended: ended}, func(s Sample) { samples = append(samples, s) })
		p, err := w.Placement(t.Context(), 2*time.Second)
		return p, samples, err
	}
	p, samples, err := ask(pg.PDAddr())
	if err != nil || len(p.Schedulers) > 0 || p.Replicas != 3 {
		t.Errorf("%+v, %v", p, err)
	}
	if len(samples) == 0 || !samples[0].PD || samples[0].Figures["stores_up"] != 2 || samples[0].Figures["regions"] != 8 {
		t.Errorf("%+v", samples)
	}
	odd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "pd_cluster_status 1\n") }))
	defer odd.Close()
	if p, _, err := ask(odd.Listener.Addr().String()); p != nil || err == nil || !strings.Contains(err.Error(), "does not answer as PD does") {
		t.Errorf("of what is no PD: %+v, %v", p, err)
	}
	page := `pd_schedule_operators_count{event="finish",type="balance-leader"} 7
pd_schedule_operators_count{event="create",type="balance-leader"} 9
pd_cluster_status{type="store_down_count"} 1
`
	if f, err := ReadPage(strings.NewReader(page)); err != nil || f["operators_total.balance-leader"] != 7 || f["stores_down"] != 1 || len(f) != 2 {
		t.Errorf("%v, %v", f, err)
	}
}

func TestStatusAddress(t *testing.T) {
	for _, test := range [][3]string{
		{"10.0.0.1:20160", "10.0.0.1:20180", "10.0.0.1:20180"},
		{"10.0.0.1:20160", "0.0.0.0:20180", "10.0.0.1:20180"},
		{"10.0.0.1:20160", "[::]:20180", "10.0.0.1:20180"},
		{"tikv-0.tikv:20160", ":20180", "tikv-0.tikv:20180"},
		{"10.0.0.1:20160", "", ""},
	} {
		if got := statusAddress(test[0], test[1]); got != test[2] {
			t.Errorf("%s, %s: %q, want %q", test[0], test[1], got, test[2])
		}
	}
}
