// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/store/memory"
)

// told is a driver that knows nothing but where to ask.
type told struct {
	store.Administered
	servers store.Servers
}

func (d told) Servers() store.Servers { return d.servers }
func (d told) Cluster() store.Cluster {
	return store.Cluster{Stores: make([]string, len(d.servers.Stores))}
}

// serving answers by path, and else with 404.
func serving(t *testing.T, answers map[string]string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text, ok := answers[r.URL.Path]; ok {
			_, _ = io.WriteString(w, text)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// The state before a run says what stores agree in once, where they differ, and what could not be seen; PD's wish for replicas counts
// as far as there are stores.
func TestCondition(t *testing.T) {
	const small, large = `{"coprocessor":{"region-split-size":"96MiB"},"storage":{"api-version":1,"enable-ttl":false}}`,
		`{"coprocessor":{"region-split-size":"256MiB"},"storage":{"api-version":1,"enable-ttl":false}}`
	const page = "tikv_engine_pending_compaction_bytes{db=\"kv\"} 200000000\n"
	driver := told{servers: store.Servers{
		Stores: []store.Server{
			{Store: "a:1", Status: serving(t, map[string]string{"/config": large, "/metrics": page})},
			{Store: "b:1", Status: serving(t, map[string]string{"/config": small, "/metrics": "process_cpu_seconds_total 1\n"})},
			{Store: "c:1", Status: serving(t, nil)},
		},
		PD: serving(t, map[string]string{"/pd/api/v1/schedulers": `["balance-region-scheduler","balance-leader-scheduler"]`, "/pd/api/v1/config/replicate": `{"max-replicas":5}`}),
	}}
	clk := &runClock{}
	clk.set(time.Now())
	c := &condition{details: make(map[string]string), peers: 2}
	c.members(t.Context(), driver, clk)
	for name, want := range map[string]string{
		"API version": "V1", "schedulers": "balance-leader-scheduler, balance-region-scheduler", "replicas wanted": "5",
		"configuration: coprocessor.region-split-size": "256MiB on a:1; 96MiB on b:1", "pending compaction of a:1": "200 MB",
	} {
		if c.details[name] != want {
			t.Errorf("%s: %q, want %q", name, c.details[name], want)
		}
	}
	if got := c.details["configuration of c:1"]; !strings.Contains(got, "unknown: ") || !strings.Contains(got, "404") {
		t.Errorf("of a store that tells nothing: %q", got)
	}
	for _, want := range []string{"200 MB wait for compaction on store a:1", "regions have 2 of 3 replicas"} {
		if !strings.Contains(c.String(), want) {
			t.Errorf("%s: want %s", c, want)
		}
	}
	if len(c.unknown) != 2 || !strings.Contains(c.unknown[0], "b:1, which does not tell") || !strings.Contains(c.unknown[1], "c:1 (") {
		t.Errorf("unknown: %q", c.unknown)
	}

	if size, ok := (&chore{driver: driver}).regionSize(t.Context()); size != 96<<20 || !ok {
		t.Errorf("the smaller region size of two: %d, %v", size, ok)
	}
	driver.servers.Stores = driver.servers.Stores[:1]
	if size, ok := (&chore{driver: driver}).regionSize(t.Context()); size != 256<<20 || !ok {
		t.Errorf("the region size of one: %d, %v", size, ok)
	}
	driver.servers.Stores = []store.Server{{Store: "c:1"}}
	if size, ok := (&chore{driver: driver}).regionSize(t.Context()); size != regionBytes || ok {
		t.Errorf("a region size that nobody tells: %d, %v", size, ok)
	}
}

// tidy is a driver of a table without rows.
type tidy struct{ told }

func (tidy) Admin() store.Admin { return empty{} }
func (tidy) Close() error       { return nil }

// empty is where its keys would be.
type empty struct{ store.Admin }

func (empty) Regions(context.Context, []byte, []byte) ([]store.Region, error) {
	return []store.Region{{ID: 1, Leader: 1, Peers: 1}}, nil
}
func (empty) FirstKey(context.Context, []byte, []byte) ([]byte, error) { return nil, nil }
func (empty) DeleteRange(context.Context, []byte, []byte) error        { return nil }

// answered is a stream that does something with the answer.
type answered struct {
	grpc.ServerStream
	ctx    context.Context
	answer func(*workerpb.TendResponse)
}

func (s answered) Context() context.Context { return s.ctx }
func (s answered) Send(r *workerpb.TendResponse) error {
	s.answer(r)
	return nil
}

// Who has the answer of a chore can go on at once: the worker is free by then.
func TestChoreEndsBeforeItsAnswer(t *testing.T) {
	w := newWorker(t, &memory.DB{}, func(c *Config) {
		c.Open = func(context.Context, *spec.Spec) (store.Driver, error) { return tidy{}, nil }
	})
	done := ""
	err := w.Tend(&workerpb.TendRequest{Properties: map[string]string{"tikv.pd": "127.0.0.1:1"}, Chore: &workerpb.TendRequest_Clean{Clean: &workerpb.Clean{Really: true}}},
		answered{ctx: t.Context(), answer: func(r *workerpb.TendResponse) {
			done = r.GetDone()
			if err := w.beginChore(); err != nil {
				t.Errorf("with the answer: %v", err)
			} else {
				w.endChore()
			}
		}})
	if err != nil || !strings.Contains(done, "is gone: 1 regions cleared") {
		t.Errorf("%q, %v", done, err)
	}
}
