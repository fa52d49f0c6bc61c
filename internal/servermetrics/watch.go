// SPDX-License-Identifier: Apache-2.0

// Package servermetrics reads what stores say of themselves at their status addresses, beside a run: a
// small set of figures from each store's page of metrics, every few seconds. It is bounded in bytes and
// in time, and what a store does not say is a gap, never a zero.
package servermetrics

import (
	"context"
	"crypto/tls"
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

	// Prompted is how many commands the store was sent until now so that its threads hand over what they have counted, and all of them have.
	// 0: that is not so.
	Prompted int
}

// Watcher reads the pages of some stores, and of PD.
type Watcher struct {
	servers []store.Server
	pd      store.Server
	clk     clock.Clock
	scheme  string
	tls     *tls.Config // nil: none
	client  http.Client
}

// Watch says when to read.
type Watch struct {
	Every   time.Duration
	Ended   <-chan struct{} // the load is over
	Stopped <-chan struct{} // nobody waits for anything any more; nil: that does not happen

	// Whole is for a load that is long enough to wait a second at its end, so that its beginning and its end have readings with all that was
	// counted until then. Run must be called [HandoverLead] before the load begins.
	Whole bool
	early time.Duration // for machines that are busy: how much earlier the threads are prompted then
}

// New returns a watcher of servers, which are spoken to by TLS if that is not nil. Close frees it.
func New(servers store.Servers, clk clock.Clock) *Watcher {
	w := &Watcher{clk: clk, scheme: "http", tls: servers.TLS, pd: store.Server{Store: servers.PD, Status: servers.PD}}
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

// Run reads the pages of PD and of all stores when the load begins or, if it has begun, now; then after each interval, and once more when it has ended. It hands what
// it has read to put, of which several may be called at a time. A store that answers late holds up none but itself.
func (w *Watcher) Run(watch Watch, put func(Sample)) {
	var stores sync.WaitGroup
	for _, s := range w.servers {
		stores.Go(func() { w.follow(watch, &reader{Watcher: w, server: s}, put) })
	}
	if w.pd.Status != "" {
		stores.Go(func() { w.follow(watch, &reader{Watcher: w, server: w.pd, isPD: true}, put) })
	}
	stores.Wait()
}

func (w *Watcher) follow(watch Watch, reader *reader, put func(Sample)) {
	// What is being read at the end is cut short, but for the last reading.
	running, release := until(watch.Ended)
	defer release()
	timeout := min(watch.Every, maxWait)
	var whole *handover // of what was counted before the load; nil: it has not worked, or nobody wants it
	if watch.Whole && !reader.isPD && w.clk.Now() < 0 {
		if h, err := reader.handover(running, timeout); err == nil {
			defer func() { _ = h.close() }()
			h.last += watch.early
			if sample, ok := h.begin(running, reader, timeout); ok {
				whole = h
				put(sample)
			}
		}
	}
	if now := w.clk.Now(); now < 0 {
		sleepUntil(running, w.clk, 0)
	}
	ticks := time.NewTicker(watch.Every)
	defer ticks.Stop()
	for first := true; ; first = false {
		if !first || whole == nil {
			if sample := reader.read(running, timeout); running.Err() == nil {
				put(sample)
			}
		}
		select {
		case <-ticks.C:
			continue
		case <-watch.Ended:
		}
		put(reader.read(context.Background(), lastWait))
		break
	}
	if whole != nil {
		waiting, release := until(watch.Stopped)
		defer release()
		if sample, ok := whole.end(waiting, reader); ok {
			put(sample)
		}
	}
}

// until returns a context that ends with a channel. Whoever has it releases it.
func until(ended <-chan struct{}) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancel(context.Background())
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		select {
		case <-ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(); <-watching }
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

// configure reads the sizes of the store's pools, if they are not known.
func (r *reader) configure(ctx context.Context) error {
	if r.sizes != nil || r.isPD {
		return nil
	}
	config, err := r.configuration(ctx)
	if err == nil {
		r.sizes = config.sizes()
	}
	return err
}

func (r *reader) figures(ctx context.Context) (Figures, time.Duration, error) {
	if err := r.configure(ctx); err != nil {
		return nil, 0, err
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
