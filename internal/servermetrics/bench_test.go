// SPDX-License-Identifier: Apache-2.0

//go:build unix

package servermetrics

import (
	"io"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/store"
)

// BenchmarkScrape reads a page of a real store's size over HTTP, as a worker does every few seconds. Its figure is the CPU time of
// both sides, since the server is in the same process.
func BenchmarkScrape(b *testing.B) {
	whole := wholePage(b)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/config" {
			_, _ = io.WriteString(w, recordedConfig)
			return
		}
		_, _ = w.Write(whole)
	}))
	defer s.Close()
	w := New(store.Servers{Stores: []store.Server{{Store: "a:1", Status: s.Listener.Addr().String()}}}, clock.Since(time.Now()))
	defer w.Close()
	r := &reader{Watcher: w, server: w.servers[0]}
	b.SetBytes(int64(len(whole)))
	before := cpu(b)
	for b.Loop() {
		if s := r.read(b.Context(), time.Minute); s.Figures == nil {
			b.Fatal(s.Missing)
		}
	}
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
}

// cpu is what the process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
