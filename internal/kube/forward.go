// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	tunnel "k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/transport/websocket"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"
	spdystream "k8s.io/streaming/pkg/httpstream/spdy"
)

// forward connects to a port of a pod through the API server.
func (a *api) forward(ctx context.Context, pod string, port int) (net.Conn, error) {
	link, err := a.upgrade(ctx, a.forwardURL(pod))
	if err != nil {
		return nil, fmt.Errorf("forwarding to pod %s/%s: %w", a.namespace, pod, err)
	}
	c, err := newConn(link, pod, port)
	if err != nil {
		link.Close()
		return nil, fmt.Errorf("forwarding to port %d of pod %s/%s: %w", port, a.namespace, pod, err)
	}
	return c, nil
}

// upgrade opens the connection that carries the forwarded streams: SPDY inside of
// a WebSocket, which passes every proxy, or with an API server older than
// Kubernetes 1.31 SPDY itself.
func (a *api) upgrade(ctx context.Context, target string) (httpstream.Connection, error) {
	link, err := a.upgradeWebSocket(ctx, target)
	if httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err) {
		return a.upgradeSPDY(ctx, target)
	}
	return link, err
}

func (a *api) upgradeWebSocket(ctx context.Context, target string) (httpstream.Connection, error) {
	transport, holder, err := websocket.RoundTripperFor(a.config)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	ws, err := websocket.Negotiate(transport, holder, req, tunnel.WebsocketsSPDYTunnelingPrefix+portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, err
	}
	return spdystream.NewClientConnectionWithPings(
		portforward.NewTunnelingConnectionWithLogger(klog.FromContext(ctx), ws), portforward.PingPeriod)
}

func (a *api) upgradeSPDY(ctx context.Context, target string) (httpstream.Connection, error) {
	transport, upgrader, err := spdy.RoundTripperFor(a.config)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, nil)
	if err != nil {
		return nil, err
	}
	link, _, err := spdy.NegotiateStreaming(upgrader, &http.Client{Transport: transport}, req, portforward.PortForwardProtocolV1Name)
	return link, err
}

// conn is a forwarded connection. The user's end is one half of a net.Pipe, which
// has the deadlines that a forwarded stream lacks; two goroutines copy between
// the other half and the stream. Close waits for both.
type conn struct {
	net.Conn // the user's half of the pipe

	link   httpstream.Connection
	inside net.Conn // the other half
	remote addr
	cause  atomic.Pointer[error] // why the forward ended, when the node said so
	tasks  sync.WaitGroup
	stop   sync.Once
}

func newConn(link httpstream.Connection, pod string, port int) (*conn, error) {
	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(port))
	headers.Set(corev1.PortForwardRequestIDHeader, "0") // one request per connection

	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	failures, err := link.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	if err := failures.Close(); err != nil { // nothing is written to it
		return nil, err
	}
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := link.CreateStream(headers)
	if err != nil {
		return nil, err
	}

	c := &conn{link: link, remote: addr(net.JoinHostPort(pod, strconv.Itoa(port)))}
	c.Conn, c.inside = net.Pipe()
	c.tasks.Go(func() {
		defer c.shut()
		io.Copy(c.inside, data)
		text, _ := io.ReadAll(io.LimitReader(failures, 4096))
		if len(text) > 0 {
			err := fmt.Errorf("forwarding to %s: %s", c.remote, strings.TrimSpace(string(text)))
			c.cause.Store(&err)
		}
	})
	c.tasks.Go(func() { io.Copy(data, c.inside) }) // ends with the other, which knows why
	return c, nil
}

// shut ends the forward; every goroutine of it then returns.
func (c *conn) shut() {
	c.stop.Do(func() {
		c.inside.Close()
		c.link.Close()
	})
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.shut()
	c.tasks.Wait()
	return err
}

// Read implements [net.Conn]. The end of the stream is reported with its cause.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return n, c.explain(err)
}

// Write implements [net.Conn].
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return n, c.explain(err)
}

func (c *conn) explain(err error) error {
	if cause := c.cause.Load(); err != nil && cause != nil {
		return *cause
	}
	return err
}

// RemoteAddr implements [net.Conn]: the pod's name and port.
func (c *conn) RemoteAddr() net.Addr { return c.remote }

type addr string

func (addr) Network() string  { return "kube" }
func (a addr) String() string { return string(a) }
