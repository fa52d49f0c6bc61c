// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// proxy stands between a coordinator and the API server, to cut its connections.
type proxy struct {
	kubeconfig string // that leads through it

	mu    sync.Mutex
	conns []net.Conn
	tasks sync.WaitGroup
}

func newProxy(t *testing.T, c *cluster) *proxy {
	t.Helper()
	config := c.readKubeconfig()
	server := config["clusters"].([]any)[0].(map[string]any)["cluster"].(map[string]any)
	upstream, err := url.Parse(server["server"].(string))
	if err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server["server"] = "https://" + lis.Addr().String()
	if _, set := server["tls-server-name"]; !set {
		server["tls-server-name"] = upstream.Hostname()
	}
	p := &proxy{kubeconfig: c.writeKubeconfig("through-proxy", config)}
	host := upstream.Host
	if upstream.Port() == "" {
		host = net.JoinHostPort(upstream.Hostname(), "443")
	}
	p.tasks.Go(func() { p.serve(lis, host) })
	t.Cleanup(func() {
		lis.Close()
		p.cut()
		p.tasks.Wait()
	})
	return p
}

func (p *proxy) serve(lis net.Listener, upstream string) {
	for {
		near, err := lis.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", upstream)
		if err != nil {
			near.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, near, far)
		p.mu.Unlock()
		for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
			p.tasks.Go(func() {
				io.Copy(way[0], way[1])
				near.Close()
				far.Close()
			})
		}
	}
}

// cut breaks every connection there is, and returns how many.
func (p *proxy) cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.conns) / 2
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
	return n
}
