// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
)

func fetch(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", errors.New(resp.Status)
	}
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// A store's status address is what PD says, and serves what the store did, under TiKV's names.
func TestStatusAddress(t *testing.T) {
	c := start(t, Options{Regions: 1, Stores: 1})
	stores := c.stores
	address := stores[0].meta().StatusAddress
	if address == "" || address != c.StatusAddrs()[0] {
		t.Fatalf("PD says %q, the cluster %q", address, c.StatusAddrs())
	}
	page := func() string {
		t.Helper()
		text, err := fetch(t.Context(), "http://"+address+"/metrics")
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if text := page(); strings.Contains(text, "raw_get") || strings.Contains(text, "too_busy") {
		t.Errorf("figures of what has not happened:\n%s", text)
	}
	counted := func() (n int) {
		t.Helper()
		_, text, _ := strings.Cut(page(), `tikv_grpc_msg_duration_seconds_count{priority="unknown",type="raw_get"} `)
		_, _ = fmt.Sscan(text, &n)
		return n
	}
	for range grpcThreads { // each is served by another thread, whose first answer is counted at once
		client := tikvpb.NewTikvClient(dial(t, c.StoreAddrs()[0]))
		for range 2 {
			if _, err := client.RawGet(t.Context(), &kvrpcpb.RawGetRequest{Context: contextOf(c, nil), Key: []byte("a")}); err != nil {
				t.Fatal(err)
			}
		}
	}
	began := time.Now()
	if n := counted(); n != grpcThreads {
		t.Errorf("%d answers are counted, want %d", n, grpcThreads)
	}
	send, receive := talk(t, c, "")
	sent := grpcThreads + 1                                  // another one of that thread
	for id := uint64(0); counted() == grpcThreads; id += 2 { // what comes later, when a second is over
		if time.Since(began) > 10*countsKept {
			t.Fatal("the thread keeps its counts")
		}
		send([]uint64{id, id + 1}, get(contextOf(c, nil), "a"), get(contextOf(c, nil), "b"))
		receive()
		sent += 2
	}
	if took := time.Since(began); took < countsKept/2 {
		t.Errorf("counts were handed over after %v", took)
	}
	for _, want := range []string{
		fmt.Sprintf(`tikv_grpc_msg_duration_seconds_count{priority="unknown",type="raw_get"} %d`, sent),
		`tikv_raftstore_region_count{type="leader"} 1`,
		`tikv_raftstore_region_count{type="region"} 1`,
		`tikv_server_info{hash="playground",version="v` + serverVersion + `"}`,
	} {
		if text := page(); !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}

	var config struct {
		Storage struct {
			APIVersion int `json:"api-version"`
		}
	}
	text, err := fetch(t.Context(), "http://"+address+"/config")
	if err := errors.Join(err, json.Unmarshal([]byte(text), &config)); err != nil || config.Storage.APIVersion != 1 {
		t.Errorf("configuration %q: %v", text, err)
	}
	if _, err := fetch(t.Context(), "http://"+address+"/status"); err != nil {
		t.Error(err)
	}

	// A stalled store answers when the stall is over, a dead one not at all, one that is back at the same address.
	if err := c.StallStore(1, time.Hour); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := fetch(short, "http://"+address+"/metrics"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a stalled store: %v", err)
	}
	if err := c.StopStore(1); err != nil {
		t.Fatal(err)
	}
	if _, err := fetch(t.Context(), "http://"+address+"/metrics"); err == nil {
		t.Error("a dead store answers")
	}
	if err := c.Restore(); err != nil {
		t.Fatal(err)
	}
	page()
}

func TestSnakeCase(t *testing.T) {
	for name, want := range map[string]string{"RawGet": "raw_get", "RawGetKeyTTL": "raw_get_key_ttl", "RawCompareAndSwap": "raw_compare_and_swap"} {
		if got := snakeCase(name); got != want {
			t.Errorf("%s became %s, want %s", name, got, want)
		}
	}
}

// CPU and memory are those of the process, and told where that is one store and nothing else.
func TestOwnProcess(t *testing.T) {
	for _, o := range []Options{{Stores: 1, OwnProcess: true}, {Stores: 1}, {Stores: 2, OwnProcess: true}} {
		c := start(t, o)
		page, err := fetch(t.Context(), "http://"+c.StatusAddrs()[0]+"/metrics")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"\nprocess_cpu_seconds_total ", "\nprocess_resident_memory_bytes ", "\nprocess_start_time_seconds "} {
			if want := o.OwnProcess && o.Stores == 1 && runtime.GOOS == "linux"; strings.Contains(page, name) != want {
				t.Errorf("%+v: %q is there: %v, want %v", o, name, !want, want)
			}
		}
	}
}
