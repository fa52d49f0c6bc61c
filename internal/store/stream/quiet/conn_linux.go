// SPDX-License-Identifier: Apache-2.0

package quiet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// longest bounds what one system call copies: the runtime cannot stop a thread that is in
// a call that it has not been told of.
const longest = 64 << 10

// conn is a TCP connection. Its methods may be called from any goroutine, as those of any
// [net.Conn].
type conn struct {
	net.Conn
	raw     syscall.RawConn
	in, out transfer
}

// transfer is one direction of a connection: the state of the call that is under way,
// kept here since a function that captured it anew for each call would be garbage.
type transfer struct {
	mu   sync.Mutex
	data []byte // to be filled, or to be sent
	n    int    // bytes moved
	err  syscall.Errno
	move func(fd uintptr) bool // moves data; false: the poller must wait for the socket
}

func newConn(c *net.TCPConn, timeout time.Duration) (net.Conn, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		failed = os.NewSyscallError("setsockopt", unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(timeout.Milliseconds())))
	}); err != nil {
		return nil, err
	}
	if failed != nil {
		return nil, failed
	}
	q := &conn{Conn: c, raw: raw}
	q.in.move, q.out.move = q.in.receive, q.out.send
	return q, nil
}

// Read implements [net.Conn].
func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return c.Conn.Read(p)
	}
	t := &c.in
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data, t.n, t.err = p[:min(len(p), longest)], 0, 0
	err := c.raw.Read(t.move)
	t.data = nil
	switch {
	case err != nil:
		return 0, err
	case t.err != 0:
		return 0, c.failure("read", t.err)
	case t.n == 0:
		return 0, io.EOF
	}
	return t.n, nil
}

// Write implements [net.Conn].
func (c *conn) Write(p []byte) (int, error) {
	t := &c.out
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data, t.n, t.err = p, 0, 0
	err := c.raw.Write(t.move)
	t.data = nil
	if err == nil && t.err != 0 {
		err = c.failure("write", t.err)
	}
	return t.n, err
}

// failure is an error as package net would put it.
func (c *conn) failure(call string, errno syscall.Errno) error {
	return &net.OpError{Op: call, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError(call, errno)}
}

// receive reads once, what there is.
func (t *transfer) receive(fd uintptr) bool {
	t.n, t.err = call(unix.SYS_READ, fd, t.data)
	return t.err != syscall.EAGAIN
}

// send writes until all is sent.
func (t *transfer) send(fd uintptr) bool {
	for t.n < len(t.data) {
		rest := t.data[t.n:]
		n, err := call(unix.SYS_WRITE, fd, rest[:min(len(rest), longest)])
		if t.err = err; err != 0 {
			return err != syscall.EAGAIN
		}
		t.n += n
	}
	return true
}

// call reads or writes without a word to the scheduler. data is not empty.
func call(number, fd uintptr, data []byte) (int, syscall.Errno) {
	for {
		n, _, err := syscall.RawSyscall(number, fd, uintptr(unsafe.Pointer(&data[0])), uintptr(len(data)))
		switch err {
		case 0:
			return int(n), 0
		case syscall.EINTR:
		default:
			return 0, err
		}
	}
}
