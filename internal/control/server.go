// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/kvbench/kvbench/internal/control/workerpb"
)

// Server serves a worker's side of the conversation.
type Server struct {
	grpc     *grpc.Server
	token    *reloaded[string] // nil: none
	log      *slog.Logger
	refusals *peerLog
	stall    time.Duration
	streams  sync.WaitGroup
}

// NewServer returns a server of svc, which it does not start.
func NewServer(svc workerpb.WorkerServer, sec Security, log *slog.Logger) (*Server, error) {
	if err := sec.check(true); err != nil {
		return nil, err
	}
	s := &Server{log: log, refusals: newPeerLog(log), stall: stallTimeout}
	var err error
	if s.token, err = sec.tokenFile(log); err != nil {
		return nil, err
	}
	files, err := sec.tlsFiles(true, log)
	if err != nil {
		return nil, err
	}
	s.grpc = grpc.NewServer(
		grpc.Creds(&transport{tls: files, log: s.refusals}),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.MaxRecvMsgSize(MaxRequest),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleTimeout, Time: pingAfter, Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingAfter / 2, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
		grpc.InTapHandle(s.admit),
		grpc.StatsHandler(malformed{s.refusals}),
		grpc.UnaryInterceptor(s.unary),
		grpc.StreamInterceptor(s.stream),
	)
	workerpb.RegisterWorkerServer(s.grpc, svc)
	return s, nil
}

// Serve accepts connections until Close, which may come first.
func (s *Server) Serve(l net.Listener) error {
	if err := s.grpc.Serve(l); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// Close ends all connections and waits for the calls in progress.
func (s *Server) Close() {
	s.grpc.Stop()
	s.streams.Wait()
}

// admit checks the token when a call's headers are there, before its message is
// read: a stranger's bytes are never decoded.
func (s *Server) admit(ctx context.Context, call *tap.Info) (context.Context, error) {
	if s.token == nil {
		admitted(ctx)
		return ctx, nil
	}
	var reason, hint string
	switch v := call.Header.Get(tokenHeader); {
	case len(v) == 0:
		reason, hint = "no token", "this worker asks for one, give its file"
	case len(v) != 1 || !strings.HasPrefix(v[0], tokenScheme) || !sameToken(v[0][len(tokenScheme):], s.token.get()):
		reason, hint = "wrong token", "the file must hold the same as the worker's"
	default:
		admitted(ctx)
		return ctx, nil
	}
	err := status.Errorf(codes.Unauthenticated, "%s: %s", reason, hint)
	s.refusals.refused(remote(ctx), reason, err)
	return nil, err
}

// admitted tells a call's connection that it may stay.
func admitted(ctx context.Context) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return
	}
	if s, ok := p.AuthInfo.(session); ok && s.conn != nil {
		s.conn.admitted()
	}
}

func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (_ any, err error) {
	defer s.recovered(info.FullMethod, &err)
	return handle(ctx, req)
}

// stream ends a stream whose reader takes nothing for a while, so that it does
// not hold what it was given forever.
func (s *Server) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	moving := &movingStream{ServerStream: ss, sent: make(chan struct{}, 1)}
	done := make(chan error, 1)
	s.streams.Go(func() {
		var err error
		defer func() { done <- err }()
		defer s.recovered(info.FullMethod, &err)
		err = handle(srv, moving)
	})
	stalled := time.NewTimer(s.stall)
	defer stalled.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-moving.sent:
			stalled.Reset(s.stall)
		case <-stalled.C:
			err := status.Errorf(codes.DeadlineExceeded, "the reader took nothing for %v", s.stall)
			s.refusals.refused(remote(ss.Context()), "slow reader", err)
			return err // which also ends the Send that the handler waits in
		}
	}
}

type movingStream struct {
	grpc.ServerStream
	sent chan struct{}
}

func (m *movingStream) SendMsg(msg any) error {
	err := m.ServerStream.SendMsg(msg)
	select {
	case m.sent <- struct{}{}:
	default:
	}
	return err
}

// recovered turns a panic of a call into its error: a run goes on.
func (s *Server) recovered(method string, err *error) {
	if p := recover(); p != nil {
		s.log.Error("control: a call has panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
		*err = status.Errorf(codes.Internal, "the worker has panicked in %s: %v (its log has the stack)", method, p)
	}
}

func remote(ctx context.Context) net.Addr {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr
	}
	return nil
}

// malformed logs who sends messages that are too large or cannot be decoded.
type malformed struct{ log *peerLog }

func (m malformed) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (m malformed) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (m malformed) HandleConn(context.Context, stats.ConnStats)                       {}
func (m malformed) HandleRPC(ctx context.Context, s stats.RPCStats) {
	end, ok := s.(*stats.End)
	if !ok {
		return
	}
	switch code := status.Code(end.Error); code {
	case codes.ResourceExhausted, codes.Internal:
		m.log.refused(remote(ctx), fmt.Sprint("message: ", code), end.Error)
	}
}
