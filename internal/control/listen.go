// SPDX-License-Identifier: Apache-2.0

package control

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
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
// them wait, since then they would keep those out who come after. Nor do connections on
// which nothing was said that a worker takes: beyond a bound the oldest of them makes room.
type boundedListener struct {
	net.Listener
	log *peerLog

	mu     sync.Mutex
	total  int
	peers  map[string]int
	silent []*boundedConn // on which no call has been admitted yet, the oldest first
}

func bound(l net.Listener, log *peerLog) *boundedListener {
	return &boundedListener{Listener: l, log: log, peers: make(map[string]int)}
}

var (
	errTooMany = errors.New("too many connections")
	errSilent  = errors.New("it said nothing, and others wanted to")
)

func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		conn := &boundedConn{Conn: c, listener: l, peer: host(c.RemoteAddr())}
		if l.enter(conn) {
			return conn, nil
		}
		c.Close()
		l.log.refused(c.RemoteAddr(), "connections", errTooMany)
	}
}

// enter counts a connection, if there is room for it or room can be made.
func (l *boundedListener) enter(c *boundedConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.total >= maxConnections || l.peers[c.peer] >= maxConnectionsPerPeer {
		i := slices.IndexFunc(l.silent, func(s *boundedConn) bool {
			return s.peer == c.peer || l.peers[c.peer] < maxConnectionsPerPeer
		})
		if i < 0 {
			return false
		}
		oldest := l.silent[i]
		l.remove(oldest)
		oldest.Conn.Close()
		l.log.refused(oldest.RemoteAddr(), "silent connections", errSilent)
	}
	l.total++
	l.peers[c.peer]++
	l.silent = append(l.silent, c)
	return true
}

// remove counts a connection no more. l.mu is held.
func (l *boundedListener) remove(c *boundedConn) {
	if c.gone {
		return
	}
	c.gone = true
	l.hear(c)
	l.total--
	if l.peers[c.peer]--; l.peers[c.peer] == 0 {
		delete(l.peers, c.peer)
	}
}

// hear notes that a connection is not silent any more. l.mu is held.
func (l *boundedListener) hear(c *boundedConn) {
	if i := slices.Index(l.silent, c); i >= 0 {
		l.silent = slices.Delete(l.silent, i, i+1)
	}
}

type boundedConn struct {
	net.Conn
	listener *boundedListener
	peer     string
	gone     bool // guarded by listener.mu
}

// admitted notes that a call was admitted on the connection, which is not closed from then on to make room.
func (c *boundedConn) admitted() {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.listener.hear(c)
}

func (c *boundedConn) Close() error {
	c.listener.mu.Lock()
	c.listener.remove(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
