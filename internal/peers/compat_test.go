// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tikv/client-go/v2/config"
	"github.com/tikv/client-go/v2/rawkv"
	"github.com/tikv/client-go/v2/txnkv"

	"github.com/kvbench/kvbench/internal/playground"
)

// What both tools load here: go-ycsb's dataintegrity fixes every byte of a row.
const (
	compatRecords     = 2000
	compatFields      = 10
	compatFieldLength = 100
	compatCell        = 5 + compatFieldLength // a field's flag, number, flag and length come before it
)

var compatProperties = []string{
	"-p", fmt.Sprint("recordcount=", compatRecords), "-p", "threadcount=8",
	"-p", fmt.Sprint("fieldcount=", compatFields), "-p", fmt.Sprint("fieldlength=", compatFieldLength),
	"-p", "dataintegrity=true", "-p", "tikv.conncount=2",
}

// compat is both programs, and the API that they use.
type compat struct {
	t               *testing.T
	goycsb, kvbench string
	api             playground.API
}

func buildBoth(t *testing.T) compat {
	t.Helper()
	if testing.Short() {
		t.Skip("builds go-ycsb")
	}
	dir := t.TempDir()
	c := compat{t, filepath.Join(dir, "go-ycsb"), filepath.Join(dir, "kvbench"), playground.RawAPI}
	source := exec.Command("go", "list", "-deps", "github.com/pingcap/go-ycsb/cmd/go-ycsb")
	source.Dir = "goycsb"
	if out, err := source.CombinedOutput(); err != nil {
		t.Skipf("go-ycsb's source is not to be had here: %v\n%s", err, out)
	}
	c.run("go", "build", "-C", "goycsb", "-o", c.goycsb, "github.com/pingcap/go-ycsb/cmd/go-ycsb")
	c.run("go", "build", "-o", c.kvbench, "github.com/kvbench/kvbench/cmd/kvbench")
	return c
}

func (c compat) run(name string, args ...string) string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (c compat) goYCSB(verb string, b *base, args ...string) string {
	c.t.Helper()
	args = append(args, "-p", "tikv.pd="+b.PDAddr(), "-p", "tikv.type="+string(c.api), "-p", "debug.pprof=127.0.0.1:0", "-p", "silence=false")
	return c.run(c.goycsb, slices.Concat([]string{verb, "tikv"}, compatProperties, args)...)
}

func (c compat) kvBench(verb string, b *base, args ...string) string {
	c.t.Helper()
	args = append(args, "--pd", b.PDAddr(), "--out", c.t.TempDir(), "--local", "2", "-p", "integrityformat=go-ycsb", "--api", string(c.api))
	return c.run(c.kvbench, slices.Concat([]string{verb}, compatProperties, args)...)
}

// base is a database, looked at with the client library.
type base struct {
	*playground.Cluster
	scan func() (keys, values [][]byte, err error) // the whole table
}

func newBase(t *testing.T, api playground.API) *base {
	t.Helper()
	c, err := playground.Start(t.Context(), playground.Options{API: api})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if api == playground.TxnAPI {
		return &base{c, scanTransactional(t, c)}
	}
	client, err := rawkv.NewClient(t.Context(), []string{c.PDAddr()}, config.Security{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return &base{c, func() (keys, values [][]byte, err error) {
		return client.Scan(t.Context(), tableStart, tableEnd, compatRecords+1)
	}}
}

var tableStart, tableEnd = []byte("usertable:"), []byte("usertable;")

// scanTransactional scans the table in a snapshot.
func scanTransactional(t *testing.T, c *playground.Cluster) func() (keys, values [][]byte, err error) {
	t.Helper()
	client, err := txnkv.NewClient([]string{c.PDAddr()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return func() (keys, values [][]byte, err error) {
		ts, err := client.GetTimestamp(t.Context())
		if err != nil {
			return nil, nil, err
		}
		it, err := client.GetSnapshot(ts).Iter(tableStart, tableEnd)
		for ; err == nil && it.Valid(); err = it.Next() {
			keys, values = append(keys, it.Key()), append(values, it.Value())
		}
		return keys, values, err
	}
}

// rows returns the whole table. go-ycsb writes the fields of a row in any order;
// here they are in one.
func (b *base) rows(t *testing.T) map[string]string {
	t.Helper()
	keys, values, err := b.scan()
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]string)
	for i, key := range keys {
		cells := slices.SortedFunc(slices.Chunk(values[i], compatCell), bytes.Compare)
		rows[string(key)] = string(bytes.Join(cells, nil))
	}
	return rows
}

// TestGoYCSB: what go-ycsb has loaded, kvbench verifies row by row, and changes so that
// it stays right; and the other way round. Both load the same, to the byte.
func TestGoYCSB(t *testing.T) {
	c := buildBoth(t)
	for _, api := range []playground.API{playground.RawAPI, playground.TxnAPI} {
		t.Run(string(api), func(t *testing.T) { testGoYCSB(compat{t, c.goycsb, c.kvbench, api}) })
	}
}

func testGoYCSB(c compat) {
	t := c.t
	theirs, ours := newBase(t, c.api), newBase(t, c.api)
	c.goYCSB("load", theirs)
	c.kvBench("load", ours)
	a, b := theirs.rows(t), ours.rows(t)
	if len(a) != compatRecords || len(b) != compatRecords {
		t.Fatalf("go-ycsb has loaded %d rows, kvbench %d, want %d", len(a), len(b), compatRecords)
	}
	for key, row := range a {
		if b[key] != row {
			t.Fatalf("key %q: go-ycsb has loaded\n%q\nkvbench\n%q", key, row, b[key])
		}
	}

	c.kvBench("verify", theirs)
	c.kvBench("run", theirs, "-p", "readproportion=0.4", "-p", "updateproportion=0.3", "-p", "readmodifywriteproportion=0.3", "--operations", "4000")
	c.kvBench("run", theirs, "-p", "readproportion=0.5", "-p", "updateproportion=0.5", "--operations", "4000", "--batch", "10")

	c.kvBench("verify", ours)
	// In one thread: go-ycsb does not try again what has lost a conflict.
	out := c.goYCSB("run", ours, "-p", "threadcount=1", "-p", "operationcount=4000", "-p", "readproportion=0.4", "-p", "updateproportion=0.3",
		"-p", "readmodifywriteproportion=0.2", "-p", "scanproportion=0.1", "-p", "maxscanlength=10")
	if !strings.Contains(out, "READ") || strings.Contains(out, "ERROR") {
		t.Errorf("go-ycsb says:\n%s", out)
	}

	// Whoever has changed the rows: each is what it was, because its key decides it.
	for name, base := range map[string]*base{"kvbench": theirs, "go-ycsb": ours} {
		c.kvBench("verify", base)
		for key, row := range base.rows(t) {
			if a[key] != row {
				t.Fatalf("after updates by %s, key %q holds\n%q\nand not\n%q", name, key, row, a[key])
			}
		}
	}
}
