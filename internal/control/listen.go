// SPDX-License-Identifier: Apache-2.0

package control

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
)

// ErrOpenDoor is why [Listen] refuses an address.
var ErrOpenDoor = errors.New("control: anybody who reaches this address could put load on your database")

// Listen opens a worker's address. Beyond loopback that takes a security by which
// callers are known, or its Insecure said in as many words. The listener bounds
// the number of connections, in all and by peer.
func Listen(address string, s Security, log *slog.Logger) (net.Listener, error) {
	if err := s.check(true); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("control: %w", err)
	}
	// The address as bound, since a name or an empty host says little.
	if tcp, ok := l.Addr().(*net.TCPAddr); !s.authenticates() && !(ok && tcp.IP.IsLoopback()) {
		if !s.Insecure {
			l.Close()
			return nil, fmt.Errorf("%w: %s: give a token file, or a certificate, key and CA file, or listen on 127.0.0.1, or allow it with --insecure", ErrOpenDoor, address)
		}
		log.Warn("control: INSECURE: anybody who reaches this address can start load on your database", "address", l.Addr())
	}
	return bound(l, newPeerLog(log)), nil
}

// boundedListener closes connections beyond its bounds at once. It does not let
// them wait, since then they would keep those out who come after.
type boundedListener struct {
	net.Listener
	log *peerLog

	mu    sync.Mutex
	total int
	peers map[string]int
}

func bound(l net.Listener, log *peerLog) *boundedListener {
	return &boundedListener{Listener: l, log: log, peers: make(map[string]int)}
}

var errTooMany = errors.New("too many connections")

func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer := host(c.RemoteAddr())
		if l.enter(peer) {
			return &boundedConn{Conn: c, leave: sync.OnceFunc(func() { l.leave(peer) })}, nil
		}
		c.Close()
		l.log.refused(c.RemoteAddr(), "connections", errTooMany)
	}
}

func (l *boundedListener) enter(peer string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total >= maxConnections || l.peers[peer] >= maxConnectionsPerPeer {
		return false
	}
	l.total++
	l.peers[peer]++
	return true
}

func (l *boundedListener) leave(peer string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total--
	if l.peers[peer]--; l.peers[peer] == 0 {
		delete(l.peers, peer)
	}
}

type boundedConn struct {
	net.Conn
	leave func()
}

func (c *boundedConn) Close() error {
	c.leave()
	return c.Conn.Close()
}
