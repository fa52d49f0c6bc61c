// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
)

// server is a gRPC server that can be stopped and started again at the same address, like a process that is killed and restarted.
type server struct {
	name     string
	tls      *tls.Config
	register func(*grpc.Server)
	web      http.Handler // what is served to HTTP/1 at the same address, as PD does; nil: nothing

	addr string // fixed by the first start, which happens before anything reads it

	mu       sync.Mutex
	grpc     *grpc.Server
	both     *http.Server // around grpc, if there is web
	listener *trackedListener
	done     chan struct{} // closed when Serve has returned
}

// start listens and serves. Starting a running server does nothing.
func (s *server) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grpc != nil {
		return nil
	}
	l, err := net.Listen("tcp", s.addr)
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	if _, port, err := net.SplitHostPort(s.addr); err == nil && port == "0" {
		s.addr = l.Addr().String()
	}
	s.listener = &trackedListener{Listener: l, conns: map[net.Conn]struct{}{}}
	s.grpc = grpc.NewServer(serverOptions(s.tls)...)
	s.register(s.grpc)
	grpc_health_v1.RegisterHealthServer(s.grpc, health.NewServer())
	serve := s.grpc.Serve
	if s.web != nil {
		s.both = both(s.grpc, s.web, s.tls)
		serve = s.both.Serve
		if s.tls != nil {
			serve = func(l net.Listener) error { return s.both.ServeTLS(l, "", "") }
		}
	}
	s.done = make(chan struct{})
	go func(l net.Listener, done chan<- struct{}) {
		defer close(done)
		_ = serve(l) // ends when stopped
	}(s.listener, s.done)
	return nil
}

// both serves gRPC and HTTP at one address.
func both(g *grpc.Server, web http.Handler, config *tls.Config) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		TLSConfig: config.Clone(), Protocols: protocols, ReadHeaderTimeout: httpTimeout, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
				g.ServeHTTP(w, r)
			} else {
				web.ServeHTTP(w, r)
			}
		}),
	}
}

// stop closes the listener and all connections at once, and waits for the handlers. Stopping a stopped server does nothing.
func (s *server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grpc == nil {
		return
	}
	if s.both != nil {
		_ = s.both.Close() // of a listener that nobody else uses
	}
	s.grpc.Stop()
	<-s.done
	s.grpc = nil
}

func (s *server) running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grpc != nil
}

// reset closes all connections and goes on listening. It returns how many they were.
func (s *server) reset() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grpc == nil {
		return 0
	}
	return s.listener.reset()
}

func serverOptions(tlsConfig *tls.Config) []grpc.ServerOption {
	opts := []grpc.ServerOption{
		grpc.ForceServerCodecV2(newWireCodec()),
		grpc.MaxRecvMsgSize(math.MaxInt32),
		grpc.WaitForHandlers(true),
		// TiKV never punishes pings; clients send one after ten idle seconds.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Millisecond, PermitWithoutStream: true}),
		grpc.InitialWindowSize(16 << 20),
		grpc.InitialConnWindowSize(64 << 20),
		grpc.ReadBufferSize(128 << 10),
		grpc.WriteBufferSize(128 << 10),
	}
	if tlsConfig != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(tlsConfig)))
	}
	return opts
}

// trackedListener knows its open connections, so that they can be reset.
type trackedListener struct {
	net.Listener
	mu       sync.Mutex
	conns    map[net.Conn]struct{}
	accepted int // connections so far
}

func (l *trackedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[conn] = struct{}{}
	l.accepted++
	return &trackedConn{Conn: conn, listener: l, remote: turnAddr{conn.RemoteAddr(), l.accepted}}, nil
}

func (l *trackedListener) reset() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.conns)
	for conn := range l.conns {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset, not an orderly end
		}
		_ = conn.Close()
	}
	clear(l.conns)
	return n
}

type trackedConn struct {
	net.Conn
	listener *trackedListener
	remote   turnAddr
}

// turnAddr is a connection's remote address, which gRPC hands to its calls, with the number of the connection.
type turnAddr struct {
	net.Addr
	accepted int
}

func (c *trackedConn) RemoteAddr() net.Addr { return c.remote }

func (c *trackedConn) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.conns, c.Conn)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
