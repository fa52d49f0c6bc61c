// SPDX-License-Identifier: Apache-2.0

// Package servermetrics reads what stores say of themselves at their status addresses, beside a run: a
// small set of figures from each store's page of metrics, every few seconds. It is bounded in bytes and
// in time, and what a store does not say is a gap, never a zero.
package servermetrics

import (
	"context"
	"errors"
	"fmt"
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
	Store   string        // address, as that of its traffic; of PD its own
	PD      bool          // it is PD
	At      time.Duration // on the run's clock
	Figures Figures       // nil: there is no answer
	Missing string        // why
}

// Watcher reads the pages of some stores, and of PD.
type Watcher struct {
	servers []store.Server
	pd      store.Server
	clk     clock.Clock
	scheme  string
	client  http.Client
}

// New returns a watcher of servers, which are spoken to by TLS if that is not nil. Close frees it.
func New(servers store.Servers, clk clock.Clock) *Watcher {
	w := &Watcher{clk: clk, scheme: "http", pd: store.Server{Store: servers.PD, Status: servers.PD}}
	for _, s := range servers.Stores {
		w.servers = append(w.servers, store.Server{Store: s.Store, Status: statusAddress(s.Store, s.Status)})
	}
	if servers.TLS != nil {
		w.scheme = "https"
	}
	w.client = http.Client{
		Transport: &http.Transport{
			TLSClientConfig: servers.TLS,
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

// Run reads the pages of PD and of all stores now, after each interval, and once more when ended is closed. It hands what
// it has read to put, of which several may be called at a time. A store that answers late holds up none but itself.
func (w *Watcher) Run(ended <-chan struct{}, every time.Duration, put func(Sample)) {
	var stores sync.WaitGroup
	for _, s := range w.servers {
		stores.Go(func() { w.follow(ended, &reader{Watcher: w, server: s}, every, put) })
	}
	if w.pd.Status != "" {
		stores.Go(func() { w.follow(ended, &reader{Watcher: w, server: w.pd, isPD: true}, every, put) })
	}
	stores.Wait()
}

func (w *Watcher) follow(ended <-chan struct{}, reader *reader, every time.Duration, put func(Sample)) {
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

// reader reads the pages of one store, or of PD.
type reader struct {
	*Watcher
	server store.Server
	isPD   bool
	sizes  Figures // from the configuration; nil: not read yet
}

// read reads a page.
func (r *reader) read(ctx context.Context, timeout time.Duration) Sample {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	sample := Sample{Store: r.server.Store, PD: r.isPD, At: r.clk.Now()}
	figures, at, err := r.figures(ctx)
	if err != nil {
		sample.Missing = r.missing(r.server, err, timeout)
		return sample
	}
	sample.Figures, sample.At = figures, at
	return sample
}

// missing says why there is no answer.
func (w *Watcher) missing(s store.Server, err error, timeout time.Duration) string {
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %v", timeout)
	}
	return fmt.Sprintf("status address %s: %v", s.Status, err)
}

func (r *reader) figures(ctx context.Context) (Figures, time.Duration, error) {
	if r.sizes == nil && !r.isPD {
		config, err := r.configuration(ctx)
		if err != nil {
			return nil, 0, err
		}
		r.sizes = config.sizes()
	}
	asked := r.clk.Now()
	resp, err := r.get(ctx, r.server, "/metrics")
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
func (w *Watcher) get(ctx context.Context, s store.Server, path string) (*http.Response, error) {
	if s.Status == "" {
		return nil, errors.New("PD does not know it")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.scheme+"://"+s.Status+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := w.client.Do(req)
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

// configuration reads the store's configuration, and sees whether this is the store that it should be: a store
// that advertises a loopback address as its status address leads to whatever listens there on this machine.
func (r *reader) configuration(ctx context.Context) (Config, error) {
	resp, err := r.get(ctx, r.server, "/config")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	c, err := ReadConfig(resp.Body)
	if err != nil {
		return nil, err
	}
	if said := c[AdvertisedAddress]; said != "" && said != r.server.Store {
		return nil, fmt.Errorf("the store %s answers there, not %s", said, r.server.Store)
	}
	return c, nil
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
