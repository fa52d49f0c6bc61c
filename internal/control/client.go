// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"
)

// Dialer opens a connection to an address; nil is TCP.
type Dialer func(ctx context.Context, address string) (net.Conn, error)

// Dial returns a connection to the worker at address, which it opens when it is
// needed, and again whenever it breaks. name is what the worker's certificate
// must carry unless the security says otherwise: the name by which the user knows it.
func Dial(address, name string, s Security, dial Dialer, log *slog.Logger) (*grpc.ClientConn, error) {
	if err := s.check(false); err != nil {
		return nil, err
	}
	files, err := s.tlsFiles(false, log)
	if err != nil {
		return nil, err
	}
	if s.ServerName != "" {
		name = s.ServerName
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(&transport{tls: files, name: name}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingAfter, Timeout: pingTimeout, PermitWithoutStream: true}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: handshakeTimeout,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxResponse)),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0), // the run decides how long it lasts
	}
	token, err := s.tokenFile(log)
	if err != nil {
		return nil, err
	}
	if token != nil {
		options = append(options, grpc.WithPerRPCCredentials(bearer{token}))
	}
	if dial != nil {
		options = append(options, grpc.WithContextDialer(dial))
	}
	return grpc.NewClient("passthrough:///"+address, options...)
}
