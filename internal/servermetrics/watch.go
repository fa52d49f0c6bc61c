// SPDX-License-Identifier: Apache-2.0

// Package servermetrics reads what stores say of themselves at their status addresses, beside a run: a
// small set of figures from each store's page of metrics, every few seconds. It is bounded in bytes and
// in time, and what a store does not say is a gap, never a zero.
package servermetrics

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/store"
)

// maxWait is how long a page is waited for, if the next is not due earlier.
const maxWait = 5 * time.Second

// Sample is what a store said at one moment.
type Sample struct {
	Store   string        // address, as that of its traffic
	At      time.Duration // on the run's clock
	Figures Figures       // nil: there is no answer
	Missing string        // why
}

// Watcher reads the pages of some stores.
type Watcher struct {
	servers []store.Server
	clk     clock.Clock
	scheme  string
	client  http.Client
}

// New returns a watcher of servers, whose status addresses are as they were advertised, and which are spoken to by TLS if config is not nil. Close frees it.
func New(servers []store.Server, config *tls.Config, clk clock.Clock) *Watcher {
	w := &Watcher{clk: clk, scheme: "http"}
	for _, s := range servers {
		w.servers = append(w.servers, store.Server{Store: s.Store, Status: statusAddress(s.Store, s.Status)})
	}
	if config != nil {
		w.scheme = "https"
	}
	w.client = http.Client{
		Transport: &http.Transport{
			TLSClientConfig: config,
			// To compress its page costs a store more than to send it.
			DisableCompression: true,
		},
		// A server that sends elsewhere is not the store.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return w
}

// Close closes the connections. Run must have returned.
func (w *Watcher) Close() { w.client.CloseIdleConnections() }

// Run reads all stores' pages now, after each interval, and once more when ended is closed. It hands what
// it has read to put, of which several may be called at a time. A store that answers late holds up none but itself.
func (w *Watcher) Run(ended <-chan struct{}, every time.Duration, put func(Sample)) {
	var stores sync.WaitGroup
	for _, s := range w.servers {
		stores.Go(func() { w.follow(ended, s, every, put) })
	}
	stores.Wait()
}

func (w *Watcher) follow(ended <-chan struct{}, s store.Server, every time.Duration, put func(Sample)) {
	// What is being read at the end is cut short, but for the last reading.
	running, cancel := context.WithCancel(context.Background())
	defer cancel()
	watching := make(chan struct{})
	defer func() { <-watching }()
	go func() {
		defer close(watching)
		<-ended
		cancel()
	}()
	reader := &reader{Watcher: w, server: s}
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		if sample := reader.read(running, min(every, maxWait)); running.Err() == nil {
			put(sample)
		}
		select {
		case <-ticks.C:
		case <-ended:
			put(reader.read(context.Background(), lastWait))
			return
		}
	}
}

// lastWait is how long the end of a run waits for the last reading.
const lastWait = time.Second

// reader reads the pages of one store.
type reader struct {
	*Watcher
	server store.Server
	sizes  Figures // from the configuration; nil: not read yet
}

// read reads a page.
func (r *reader) read(ctx context.Context, timeout time.Duration) Sample {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	sample := Sample{Store: r.server.Store, At: r.clk.Now()}
	figures, at, err := r.figures(ctx)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %v", timeout)
		}
		sample.Missing = fmt.Sprintf("status address %s: %v", r.server.Status, err)
		return sample
	}
	sample.Figures, sample.At = figures, at
	return sample
}

func (r *reader) figures(ctx context.Context) (Figures, time.Duration, error) {
	if r.server.Status == "" {
		return nil, 0, errors.New("PD does not know it")
	}
	if r.sizes == nil {
		sizes, err := r.configuration(ctx)
		if err != nil {
			return nil, 0, err
		}
		r.sizes = sizes
	}
	asked := r.clk.Now()
	resp, err := r.get(ctx, "/metrics")
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	answered := r.clk.Now()
	figures, err := ReadPage(resp.Body)
	if err != nil {
		return nil, 0, err
	}
	maps.Copy(figures, r.sizes)
	return figures, (asked + answered) / 2, nil
}

// get asks for a page; whoever gets it closes it.
func (r *reader) get(ctx context.Context, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.scheme+"://"+r.server.Status+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := r.client.Do(req)
	if err != nil {
		var wrapped *url.Error // which says method and address again
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("%s answers %s", path, resp.Status)
	}
	return resp, nil
}

// configured are the sizes of thread pools in a store's configuration.
type configured struct {
	Server struct {
		AdvertiseAddr   string   `json:"advertise-addr"`
		GRPCConcurrency *float64 `json:"grpc-concurrency"`
	} `json:"server"`
	Readpool struct {
		Unified struct {
			MaxThreadCount *float64 `json:"max-thread-count"`
		} `json:"unified"`
	} `json:"readpool"`
	Storage struct {
		SchedulerWorkerPoolSize *float64 `json:"scheduler-worker-pool-size"`
	} `json:"storage"`
	Raftstore struct {
		StorePoolSize   *float64 `json:"store-pool-size"`
		StoreIOPoolSize *float64 `json:"store-io-pool-size"`
		ApplyPoolSize   *float64 `json:"apply-pool-size"`
	} `json:"raftstore"`
}

// maxConfig bounds a configuration in bytes; a store's is 22 KB.
const maxConfig = 1 << 20

// configuration reads how large the pools are, and sees whether this is the store that it should be: a store
// that advertises a loopback address as its status address leads to whatever listens there on this machine.
func (r *reader) configuration(ctx context.Context) (Figures, error) {
	resp, err := r.get(ctx, "/config")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxConfig+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxConfig {
		return nil, fmt.Errorf("the configuration is longer than %d MB", maxConfig>>20)
	}
	var c configured
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&c); err != nil {
		return nil, fmt.Errorf("the configuration cannot be read: %w", err)
	}
	if said := c.Server.AdvertiseAddr; said != "" && said != r.server.Store {
		return nil, fmt.Errorf("the store %s answers there, not %s", said, r.server.Store)
	}
	sizes := make(Figures)
	for pool, size := range map[string]*float64{
		"grpc_server":       c.Server.GRPCConcurrency,
		"unified_read_pool": c.Readpool.Unified.MaxThreadCount,
		"sched_pool":        c.Storage.SchedulerWorkerPoolSize,
		"raftstore":         c.Raftstore.StorePoolSize,
		"store_writer":      c.Raftstore.StoreIOPoolSize,
		"apply":             c.Raftstore.ApplyPoolSize,
	} {
		if size != nil && *size > 0 {
			sizes["pool_size."+pool] = *size
		}
	}
	return sizes, nil
}

// statusAddress is where a store can be asked: status as it was advertised, or if that
// is no host's address, its port on the store's host.
func statusAddress(address, status string) string {
	host, port, err := net.SplitHostPort(status)
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		if host, _, err = net.SplitHostPort(address); err != nil {
			return ""
		}
	}
	return net.JoinHostPort(host, port)
}
