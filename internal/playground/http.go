// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// httpServer is an HTTP server that can be stopped and started again at the same address.
type httpServer struct {
	name    string
	tls     *tls.Config
	log     *slog.Logger
	handler http.Handler

	addr string // fixed by the first start, which happens before anything reads it

	http *http.Server  // nil while it is stopped
	done chan struct{} // closed when Serve has returned
}

const httpTimeout = 10 * time.Second

// start listens and serves. Starting a running server does nothing.
func (s *httpServer) start() error {
	if s.http != nil {
		return nil
	}
	l, err := net.Listen("tcp", s.addr)
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	if addr := l.Addr().String(); addr != s.addr { // only the first time: later others read it
		s.addr = addr
	}
	if s.tls != nil {
		l = tls.NewListener(l, s.tls)
	}
	s.http = &http.Server{
		Handler: s.handler, ReadHeaderTimeout: httpTimeout, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	s.done = make(chan struct{})
	go func(srv *http.Server, done chan<- struct{}) {
		defer close(done)
		_ = srv.Serve(l) // ends when closed
	}(s.http, s.done)
	return nil
}

// drain stops the server when what is being done is done, or has taken too long.
func (s *httpServer) drain() {
	if s.http == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), httpTimeout)
	defer cancel()
	_ = s.http.Shutdown(ctx) // what is left is cut off
	s.stop()
}

// stop closes the listener and all connections at once. Stopping a stopped server does nothing.
func (s *httpServer) stop() {
	if s.http == nil {
		return
	}
	_ = s.http.Close() // of a listener that nobody else uses
	<-s.done
	s.http = nil
}
