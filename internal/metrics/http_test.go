// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// serve starts a server on every address of this machine and returns its port.
func serve(t *testing.T, h Handler) (port int) {
	t.Helper()
	lis, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var tasks sync.WaitGroup
	tasks.Go(func() {
		if err := h.Serve(ctx, lis); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); tasks.Wait() })
	return lis.Addr().(*net.TCPAddr).Port
}

func get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// outside returns an address of this machine that is not loopback.
func outside(t *testing.T) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			return ip.IP.String()
		}
	}
	t.Skip("this machine has no address beyond loopback")
	return ""
}

func TestServe(t *testing.T) {
	ready := errors.New("starting up")
	var mu sync.Mutex
	m := New("v9")
	m.Begin(Info{RunID: "r1"})
	port := serve(t, Handler{Metrics: m, Ready: func() error {
		mu.Lock()
		defer mu.Unlock()
		return ready
	}})
	base := fmt.Sprintf("http://127.0.0.1:%d", port)
	if code, _ := get(t, base+"/healthz"); code != http.StatusOK {
		t.Errorf("healthz: %d", code)
	}
	if code, body := get(t, base+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "starting up") {
		t.Errorf("readyz while starting: %d %s", code, body)
	}
	mu.Lock()
	ready = nil
	mu.Unlock()
	if code, _ := get(t, base+"/readyz"); code != http.StatusOK {
		t.Errorf("readyz: %d", code)
	}
	_, body := get(t, base+"/metrics")
	for _, want := range []string{
		`kvbench_run_info{driver="",phase="",run_id="r1"} 1`, `kvbench_build_info{`, "go_goroutines", "process_cpu_seconds_total",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if code, _ := get(t, base+"/"); code != http.StatusNotFound {
		t.Errorf("/: %d", code)
	}
}

func TestPprof(t *testing.T) {
	host := outside(t)
	for _, asked := range []bool{false, true} {
		port := serve(t, Handler{Metrics: New(""), Pprof: asked})
		outside, loopback := http.StatusNotFound, http.StatusNotFound
		if asked {
			outside, loopback = http.StatusForbidden, http.StatusOK
		}
		for _, path := range []string{"/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=1"} {
			if code, _ := get(t, fmt.Sprintf("http://%s:%d%s", host, port, path)); code != outside {
				t.Errorf("%s from outside, asked for: %v: %d", path, asked, code)
			}
			if code, _ := get(t, fmt.Sprintf("http://127.0.0.1:%d%s", port, path)); code != loopback {
				t.Errorf("%s on loopback, asked for: %v: %d", path, asked, code)
			}
		}
	}
}

func TestServeFails(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	lis.Close()
	if err := (Handler{Metrics: New("")}).Serve(t.Context(), lis); err == nil {
		t.Error("serving on a closed listener succeeded")
	}
}
