// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"context"
	"fmt"
	"net"
	"testing"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// handshakes tells of what type the connections are that gRPC has made.
type handshakes struct {
	credentials.TransportCredentials
	types chan string
}

func (h handshakes) ClientHandshake(ctx context.Context, authority string, c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	h.types <- fmt.Sprintf("%T", c)
	return h.TransportCredentials.ClientHandshake(ctx, authority, c)
}

func (h handshakes) Clone() credentials.TransportCredentials { return h }

// gRPC speaks through the connections that were made for it, and not through its own.
func TestConnectionsAreQuiet(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h := handshakes{insecure.NewCredentials(), make(chan string, 100)}
	conn, err := dial(l.Addr().String(), h)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.Connect()
	if got := <-h.types; got != "*quiet.conn" {
		t.Errorf("gRPC uses a %s", got)
	}
}
