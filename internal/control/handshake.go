// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// transport is the credentials of a connection on either side. It takes the TLS
// configuration that is in force when the connection is made, and on the
// worker's side tells the log who failed, which gRPC keeps to itself.
type transport struct {
	tls  *reloaded[*tls.Config] // nil: none
	log  *peerLog               // worker only
	name string                 // coordinator only: the name that the certificate must carry
}

var _ credentials.TransportCredentials = (*transport)(nil)

func (t *transport) inner() credentials.TransportCredentials {
	if t.tls == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(t.tls.get())
}

func (t *transport) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if t.name != "" {
		authority = t.name
	}
	return t.inner().ClientHandshake(ctx, authority, conn)
}

// session is what is known of a connection to a worker.
type session struct {
	credentials.AuthInfo
	conn *boundedConn // nil: it did not come through a bounded listener
}

// preface is what every HTTP/2 client sends first (RFC 9113, section 3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

func (t *transport) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	safe, info, err := t.inner().ServerHandshake(conn)
	if err != nil {
		t.log.refused(conn.RemoteAddr(), "no TLS session", err)
		return nil, nil, err
	}
	head := make([]byte, len(preface))
	n, err := io.ReadFull(safe, head)
	switch {
	case string(head) == preface:
		bounded, _ := conn.(*boundedConn)
		return &replayed{Conn: safe, head: head}, session{info, bounded}, nil
	case err == io.EOF: // came and went, as a load balancer's check does
		return nil, nil, err
	case n > 0 && head[0] == tlsHandshakeRecord && t.tls == nil:
		err = errors.New("it speaks TLS, this worker does not")
	case n > 0:
		err = errors.New("what it sends is not HTTP/2")
	}
	t.log.refused(conn.RemoteAddr(), "no HTTP/2 session", err)
	return nil, nil, err
}

const tlsHandshakeRecord = 22 // RFC 8446, section 5.1

func (t *transport) Info() credentials.ProtocolInfo {
	if t.tls == nil {
		return insecure.NewCredentials().Info()
	}
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

func (t *transport) Clone() credentials.TransportCredentials {
	c := *t
	return &c
}

// OverrideServerName implements a part of the interface that gRPC has given up.
func (t *transport) OverrideServerName(name string) error {
	return fmt.Errorf("control: the server name is set when dialling, not to %q", name)
}

// replayed is a connection whose first bytes have been read already.
type replayed struct {
	net.Conn
	head []byte
}

func (c *replayed) Read(b []byte) (int, error) {
	if len(c.head) > 0 {
		n := copy(b, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}
