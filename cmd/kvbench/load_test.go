// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tikv/client-go/v2/config"
	"github.com/tikv/client-go/v2/rawkv"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/playground"
	"github.com/kvbench/kvbench/internal/results"
)

// table is a playground, looked at with the client library and nothing of ours.
type table struct {
	cluster *playground.Cluster
	client  *rawkv.Client
	out     string
}

func newTable(t *testing.T) *table {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, err := playground.Start(ctx, playground.Options{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := rawkv.NewClient(ctx, []string{c.PDAddr()}, config.Security{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return &table{c, client, t.TempDir()}
}

// rows scans the whole table.
func (b *table) rows(t *testing.T) map[string][]byte {
	t.Helper()
	all := make(map[string][]byte)
	from := []byte("usertable:")
	for {
		keys, values, err := b.client.Scan(context.Background(), from, []byte("usertable;"), 1000)
		if err != nil {
			t.Fatal(err)
		}
		for i, key := range keys {
			all[string(key)] = values[i]
		}
		if len(keys) < 1000 {
			return all
		}
		from = append(bytes.Clone(keys[len(keys)-1]), 0)
	}
}

// verb is the command line of a verb on this table.
func (b *table) verb(args ...string) []string {
	return append(args, "--pd", b.cluster.PDAddr(), "--out", b.out, "-p", "dataintegrity=true", "-p", "fieldcount=2", "-p", "fieldlength=20")
}

// readDocument reads what a verb has printed as JSON, and looks for what no report may say.
func readDocument(t *testing.T, text string, doc *analysis.Document) error {
	t.Helper()
	if err := json.Unmarshal([]byte(text), doc); err != nil {
		return err
	}
	for _, r := range doc.Runs {
		for _, contradiction := range analysis.Contradictions(r) {
			t.Errorf("run %s: %s", r.RunID, contradiction)
		}
	}
	return nil
}

// report runs a verb that must succeed and returns its report.
func report(t *testing.T, args ...string) *analysis.Report {
	t.Helper()
	var doc analysis.Document
	text := do(t, append(args, "--json")...)
	if err := readDocument(t, text, &doc); err != nil || len(doc.Runs) != 1 {
		t.Fatalf("%v: %v\n%s", args, err, text)
	}
	return doc.Runs[0]
}

// newWorker starts one in a process of its own and returns its address.
func newWorker(t *testing.T) (*process, string) {
	t.Helper()
	w := start(t, "worker", "--listen", "127.0.0.1:0", "--data", t.TempDir())
	return w, strings.Fields(w.until(`"worker ready" address=`))[0]
}

func kill(t *testing.T, p *process) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.done
}

// TestLoadKilled: a load whose worker, coordinator or both are killed at some moment
// is continued by another fleet with other batches, and ends with exactly the records
// that were asked for, of which most are not inserted twice.
func TestLoadKilled(t *testing.T) {
	t.Parallel()
	const records = 9000
	for _, who := range []string{"coordinator", "worker", "both"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && who == "worker" {
				t.Skip("waits for a worker to be declared lost")
			}
			b := newTable(t)
			w0, a0 := newWorker(t)
			_, a1 := newWorker(t)
			load := func(args ...string) []string {
				return append(b.verb("load", "-p", "recordcount="+strconv.Itoa(records)), args...)
			}
			first := start(t, load("--workers", a0+","+a1, "--target", "2000", "--batch", "7", "--threads", "8")...)
			first.until("measuring ")
			deadline := time.Now().Add(30 * time.Second)
			for len(b.rows(t)) < records/4 {
				if time.Now().After(deadline) {
					t.Fatal("the load does not get on")
				}
			}
			switch who {
			case "coordinator":
				kill(t, first)
			case "worker":
				kill(t, w0)
				first.until("is lost") // which takes some seconds; by then the other one is through
				first.interrupt()
				if code := first.code(20 * time.Second); code != exitcode.Interrupted {
					t.Errorf("exit code %d", code)
				}
			case "both":
				kill(t, first)
				kill(t, w0)
			}
			before := len(b.rows(t))
			if before >= records {
				t.Fatalf("%d rows are there already: the test came late", before)
			}
			// The worker that is left may still be at work, until it misses its coordinator.
			second := report(t, load("--local", "3", "--batch", "10", "--threads", "6")...)
			if n := len(b.rows(t)); n != records {
				t.Fatalf("%d rows, want %d", n, records)
			}
			if second.Operations >= records {
				t.Errorf("%d records were inserted again", second.Operations)
			}
			if text := strings.Join(second.Warnings, "\n"); !strings.Contains(text, "goes on where it stood") {
				t.Errorf("the report says %q", text)
			}
			v := report(t, b.verb("verify", "-p", "recordcount="+strconv.Itoa(records), "--local", "2", "--threads", "4")...)
			if v.Verification == nil || v.Verification.Checked != records || v.Verification.Bad() != 0 {
				t.Errorf("verification: %+v", v.Verification)
			}
			third := start(t, load("--local", "1")...)
			if code := third.code(time.Minute); code != 0 {
				t.Errorf("loading what is there: exit code %d", code)
			}
			third.until("nothing to do")
		})
	}
}

// TestVerifyFindsEverything: rows that are gone, changed, or nobody's.
func TestVerifyFindsEverything(t *testing.T) {
	t.Parallel()
	b := newTable(t)
	do(t, b.verb("load", "--verify", "-p", "recordcount=3000", "--local", "2", "--threads", "8", "--quiet")...)
	rows := b.rows(t)
	if len(rows) != 3000 {
		t.Fatalf("%d rows", len(rows))
	}
	ctx := context.Background()
	gone, changed := "", ""
	for key := range rows {
		if gone == "" {
			gone = key
		} else {
			changed = key
			break
		}
	}
	wrong := bytes.Clone(rows[changed])
	wrong[len(wrong)-3] ^= 1
	for _, err := range []error{
		b.client.Delete(ctx, []byte(gone)),
		b.client.Put(ctx, []byte(changed), wrong),
		b.client.Put(ctx, []byte("usertable:intruder"), rows[changed]),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	p := start(t, b.verb("verify", "-p", "recordcount=3000", "--local", "2", "--threads", "8", "--json")...)
	if code := p.code(time.Minute); code != exitcode.Wrong {
		t.Errorf("exit code %d, want %d", code, exitcode.Wrong)
	}
	stdout, stderr := p.said()
	var doc analysis.Document
	if err := readDocument(t, stdout, &doc); err != nil || len(doc.Runs) != 2 {
		t.Fatalf("%v\n%s\n%s", err, stdout, stderr)
	}
	scan, get := doc.Runs[0].Verification, doc.Runs[1].Verification
	if scan.Missing != 1 || scan.Wrong != 1 || scan.Unexpected != 1 {
		t.Errorf("by scan: %+v", scan)
	}
	if get.Missing != 1 || get.Wrong != 1 || get.Unexpected != 0 {
		t.Errorf("by get: %+v", get)
	}
	named := fmt.Sprint(scan.Problems, get.Problems)
	for _, key := range []string{gone, changed, "usertable:intruder"} {
		if !strings.Contains(named, key) {
			t.Errorf("key %s is not named in %s", key, named)
		}
	}
}

// TestRunIsRefused: keys or rows other than those that were loaded, and fewer of them.
func TestRunIsRefused(t *testing.T) {
	t.Parallel()
	b := newTable(t)
	p := start(t, append(b.verb("run", "-w", "read", "-p", "recordcount=500", "--duration", "1s"), "--json")...)
	code := p.code(time.Minute)
	stdout, stderr := p.said()
	var doc analysis.Document
	if err := readDocument(t, stdout, &doc); err != nil || len(doc.Runs) != 1 || code != exitcode.Degraded {
		t.Fatalf("exit code %d, report: %v\n%s", code, err, stderr)
	}
	empty := doc.Runs[0]
	if !strings.Contains(empty.Verdict.Text, "100 % of the operations found no value") {
		t.Errorf("on an empty cluster: %+v", empty.Verdict)
	}
	if text := strings.Join(empty.Warnings, "\n"); !strings.Contains(text, "READS WILL MISS") {
		t.Errorf("on an empty cluster: %q", text)
	}
	do(t, b.verb("load", "-p", "recordcount=500")...)
	for _, test := range []struct{ property, says string }{
		{"fieldcount=3", `fieldcount is "2" there and "3" here`},
		{"insertorder=ordered", "insertorder"},
		{"keyprefix=key", "keyprefix"},
		{"recordcount=600", "holds the records 0-499"},
	} {
		p := start(t, append(b.verb("run", "-w", "read", "-p", "recordcount=500", "--duration", "1s"), "-p", test.property)...)
		if code := p.code(time.Minute); code != exitcode.Usage {
			t.Errorf("%s: exit code %d, want %d", test.property, code, exitcode.Usage)
		}
		if _, stderr := p.said(); !strings.Contains(stderr, test.says) {
			t.Errorf("%s: %s", test.property, stderr)
		}
	}
	if dirs, err := filepath.Glob(filepath.Join(b.out, "*", results.RunFile)); err != nil || len(dirs) != 2 {
		t.Errorf("%d runs have results, want those two that took place", len(dirs))
	}
	fits := report(t, b.verb("run", "-w", "read", "-p", "recordcount=500", "--duration", "1s")...)
	for _, w := range fits.Warnings {
		if strings.Contains(w, "record") {
			t.Errorf("warning %q", w)
		}
	}
}

// TestLostWritesAreFound: writes that the store has acknowledged and does not have
// any more are found by reading them back, and no others.
func TestLostWritesAreFound(t *testing.T) {
	t.Parallel()
	const records = 4000
	b := newTable(t)
	do(t, b.verb("load", "-p", "recordcount="+strconv.Itoa(records), "--threads", "16")...)
	_, a0 := newWorker(t)
	_, a1 := newWorker(t)
	args := func(more ...string) []string {
		return append(b.verb("run", "-w", "update", "-p", "recordcount="+strconv.Itoa(records), "--workers", a0+","+a1,
			"--threads", "4", "--verify-writes", "--json"), more...)
	}
	clean := report(t, args("--operations", "5000", "-p", "requestdistribution=zipfian", "--threads", "32")...)
	if v := clean.Verification; v == nil || v.Of != results.OfWrites || v.Bad() != 0 || v.Undecided != 0 || v.Expected < 500 || v.Expected > records || v.Checked != v.Expected {
		t.Errorf("nothing was lost, and the verification says %+v", v)
	}

	loaded := b.rows(t)
	p := start(t, args("--target", "200", "--duration", "3s")...)
	p.until("measuring 2")
	ctx := context.Background()
	spoilt := map[string]bool{}
	for key, now := range b.rows(t) {
		if bytes.Equal(now, loaded[key]) || len(spoilt) == 40 {
			continue
		}
		// As if the write had never been: the older row, or none.
		err := b.client.Put(ctx, []byte(key), loaded[key])
		if len(spoilt)%2 == 1 {
			err = b.client.Delete(ctx, []byte(key))
		}
		if err != nil {
			t.Fatal(err)
		}
		spoilt[key] = true
	}
	if code := p.code(time.Minute); code != exitcode.Wrong {
		t.Errorf("exit code %d, want %d", code, exitcode.Wrong)
	}
	stdout, stderr := p.said()
	var doc analysis.Document
	if err := readDocument(t, stdout, &doc); err != nil || len(doc.Runs) != 1 {
		t.Fatalf("%v\n%s\n%s", err, stdout, stderr)
	}
	v := doc.Runs[0].Verification
	// A few keys may have been written again since.
	if v == nil || v.Missing < 10 || v.Stale < 10 || v.Bad() > int64(len(spoilt)) || v.Undecided != 0 {
		t.Fatalf("%d writes were lost, and the verification says %+v", len(spoilt), v)
	}
	for _, problem := range v.Problems {
		if !spoilt[problem.Key] || problem.AtS == nil || *problem.AtS < 0 || *problem.AtS > 4 || problem.Worker == "" {
			t.Errorf("problem %+v", problem)
		}
	}
}

// TestEveryLostWriteIsFoundAgain: runs with the same seed write other values each time, so that a lost
// write is not taken for that of an earlier run; what they write is checked like what was loaded.
func TestEveryLostWriteIsFoundAgain(t *testing.T) {
	t.Parallel()
	b := newTable(t)
	args := func(more ...string) []string {
		return append(b.verb(more...), "-p", "recordcount=3000", "--local", "2", "--threads", "8")
	}
	do(t, args("load")...)
	for again := range 3 {
		before := b.silentFaults(playground.Lose)
		b.fault(t, playground.Lose, 0.05, 40)
		// Every record is written once.
		p := start(t, args("run", "-p", "readproportion=0", "-p", "updateproportion=1", "-p", "requestdistribution=sequential",
			"--operations", "3000", "-p", "seed=7", "--verify-writes", "--json")...)
		code := p.code(time.Minute)
		b.fault(t, playground.Lose, 0, 0)
		stdout, stderr := p.said()
		var doc analysis.Document
		if err := readDocument(t, stdout, &doc); err != nil || len(doc.Runs) != 1 || code != exitcode.Wrong {
			t.Fatalf("exit code %d, %v\n%s\n%s", code, err, stdout, stderr)
		}
		lost := int64(b.silentFaults(playground.Lose) - before)
		if v := doc.Runs[0].Verification; lost < 40 || v.Stale != lost || v.Bad() != lost || v.Undecided != 0 || v.Expected != 3000 {
			t.Errorf("run %d: %d writes were lost, and the verification says %+v", again, lost, v)
		}
	}
	do(t, args("verify")...)
}

// fault lets a silent fault fall on every store.
func (b *table) fault(t *testing.T, f playground.SilentFault, share float64, count uint64) {
	t.Helper()
	for _, s := range b.cluster.State().Stores {
		if err := b.cluster.SetSilentFault(s.ID, f, share, count); err != nil {
			t.Fatal(err)
		}
	}
}

// silentFaults is how many writes or rows have fallen to one.
func (b *table) silentFaults(f playground.SilentFault) (n uint64) {
	for _, s := range b.cluster.State().Stores {
		n += s.SilentFaults[f.String()]
	}
	return n
}

// TestNoFalseClaims: whatever becomes of stores and connections, of calls that time
// out and are written nevertheless, and whichever driver is used: what the store has
// kept is not called lost, and a load loses nothing either.
func TestNoFalseClaims(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("disturbs a cluster for some seconds")
	}
	for _, driver := range []string{"rawkv", "stream"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			b := newTable(t)
			_, a0 := newWorker(t)
			_, a1 := newWorker(t)
			verb := func(args ...string) []string {
				return append(b.verb(args...), "-p", "recordcount=2000", "--workers", a0+","+a1, "--driver", driver, "--threads", "16", "-p", "tikv.timeout=400ms")
			}
			do(t, verb("load", "--batch", "3")...)
			p := start(t, verb("run", "-p", "readproportion=0.2", "-p", "updateproportion=0.5", "-p", "insertproportion=0.2", "-p", "deleteproportion=0.1",
				"-p", "requestdistribution=zipfian", "-p", "updatemissing=true", "--duration", "4s", "--verify-writes", "--json")...)
			p.until("p50")
			for i, disturb := range []func() error{
				func() error { return b.cluster.StallStore(1, 700*time.Millisecond) },
				func() error { _, err := b.cluster.MoveLeaders(); return err },
				func() error { _, err := b.cluster.ResetConnections(2); return err },
				func() error { return b.cluster.SlowStore(3, 500*time.Millisecond, 0.2) },
				func() error { return b.cluster.SetBusy(2, 0.3) },
				func() error { return b.cluster.Restore() },
			} {
				if err := disturb(); err != nil {
					t.Fatalf("disturbance %d: %v", i, err)
				}
				time.Sleep(300 * time.Millisecond) // of disturbance
			}
			code := p.code(time.Minute)
			stdout, stderr := p.said()
			var doc analysis.Document
			if err := readDocument(t, stdout, &doc); err != nil || len(doc.Runs) != 1 {
				t.Fatalf("%v\n%s\n%s", err, stdout, stderr)
			}
			r := doc.Runs[0]
			v := r.Verification
			if v == nil || v.Bad() != 0 || v.Expected < 100 || !v.Complete() || code == exitcode.Wrong {
				t.Errorf("exit code %d, verification %+v\n%s", code, v, stderr)
			}
			if len(r.Errors) == 0 {
				t.Log("nothing failed: the disturbances were too light to show anything")
			}
		})
	}
}
