// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Handler says what an HTTP server shows.
type Handler struct {
	Metrics *Metrics
	// Ready is nil when the worker can take a run, else what it waits for.
	Ready func() error
	// Pprof shows /debug/pprof, to requests to a loopback address (a forwarded port is one).
	Pprof bool
}

// Serve answers requests on lis until ctx is done:
//
//	/metrics      Prometheus, classic and native histograms
//	/healthz      200: the process answers
//	/readyz       200: the worker can take a run; 503: not yet, with the reason
//	/debug/pprof  profiles, if asked for
func (h Handler) Serve(ctx context.Context, lis net.Listener) error {
	server := &http.Server{
		Handler:           h.routes(),
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	stopped := make(chan struct{})
	unlink := context.AfterFunc(ctx, func() {
		defer close(stopped)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if server.Shutdown(grace) != nil {
			server.Close()
		}
	})
	err := server.Serve(lis)
	if !unlink() {
		<-stopped
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("metrics: %w", err)
}

func (h Handler) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.InstrumentMetricHandler(h.Metrics.registry,
		promhttp.HandlerFor(h.Metrics.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 8})))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := h.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	if !h.Pprof {
		return mux
	}
	for path, handler := range map[string]http.HandlerFunc{
		"/debug/pprof/":        pprof.Index,
		"/debug/pprof/cmdline": pprof.Cmdline,
		"/debug/pprof/profile": pprof.Profile,
		"/debug/pprof/symbol":  pprof.Symbol,
		"/debug/pprof/trace":   pprof.Trace,
	} {
		mux.Handle(path, local(handler))
	}
	return mux
}

// local hides a handler from requests that did not come to a loopback address.
func local(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		if !ok || !addr.IP.IsLoopback() {
			http.Error(w, "profiles are shown on loopback only (kubectl port-forward reaches it)", http.StatusForbidden)
			return
		}
		next(w, r)
	}
}
