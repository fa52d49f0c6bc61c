// SPDX-License-Identifier: Apache-2.0

// Package quiet makes the connections that drivers speak to stores by: TCP, with
// reads and writes of which the Go scheduler is not told.
//
// A system call through package net is announced to the scheduler, since it might
// block, so that others could have its core meanwhile. On sockets it never does: they are
// non-blocking, and waiting is the runtime poller's. But if all was idle just before,
// the announcement wakes the runtime's monitoring thread, which finds nothing to do and goes back
// to sleep: two context switches for each message of a client that is not busy, and
// some CPU for each of one that is (docs/performance.md has the figures).
package quiet

import (
	"context"
	"net"
	"time"
)

// Dialer returns a function that connects to a host:port, for gRPC. Data that the other side
// does not acknowledge within timeout ends a connection (TCP_USER_TIMEOUT, where the
// system has it), which gRPC takes care of only for connections that it has made itself.
func Dialer(timeout time.Duration) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		quiet, err := newConn(c.(*net.TCPConn), timeout)
		if err != nil {
			c.Close()
			return nil, err
		}
		return quiet, nil
	}
}
