// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/internal/exitcode"
)

// reportOf waits for the end of a run that prints JSON.
func reportOf(t *testing.T, run *process) *analysis.Report {
	t.Helper()
	if code := run.code(2 * time.Minute); code != exitcode.Valid && code != exitcode.Target {
		_, stderr := run.said()
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	stdout, stderr := run.said()
	var doc analysis.Document
	if err := json.Unmarshal([]byte(stdout), &doc); err != nil || len(doc.Runs) != 1 {
		t.Fatalf("report: %v\n%s\n%s", err, stdout, stderr)
	}
	return doc.Runs[0]
}

// TestFrozenServer: a cluster that freezes for a second at 1,000 operations a second shows in the
// response time, and not in the service time, since only as many calls as there are threads saw it.
func TestFrozenServer(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a quarter of a minute")
	}
	t.Parallel()
	f := newFleet(t, 1)
	run := start(t, f.verb("run", "-w", "read", "--target", "1000", "--duration", "12s", "--json")...)
	run.until("measuring ")
	run.until("p50") // the first second with operations
	const freeze = time.Second
	for id := uint64(1); id <= 3; id++ {
		if err := f.cluster.StallStore(id, freeze); err != nil {
			t.Fatal(err)
		}
	}
	p := reportOf(t, run)
	all := p.Kinds[len(p.Kinds)-1]
	response, service := time.Duration(all.ResponseUS.P999)*time.Microsecond, time.Duration(all.ServiceUS.P999)*time.Microsecond
	t.Logf("p99.9: response %v, service %v; %d operations", response, service, p.Operations)
	if response < freeze*8/10 {
		t.Errorf("response p99.9 is %v after a freeze of %v", response, freeze)
	}
	if service > response/2 {
		t.Errorf("service p99.9 is %v, of response %v: want the freeze hidden from it", service, response)
	}
	if p.Operations+p.Skipped != 12_000 {
		t.Errorf("%d operations and %d skipped slots, want all 12,000", p.Operations, p.Skipped)
	}
	if text := do(t, "analyze", f.out+"/"+p.RunID); !strings.Contains(text, "users would have felt the response time") {
		t.Errorf("the report does not explain the gap:\n%s", text)
	}
}

// TestLimitIsJudged: real runs that were limited by the server, by the client, and by their target.
func TestLimitIsJudged(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	f := newFleet(t, 0)
	run := func(env []string, args ...string) *analysis.Report {
		t.Helper()
		return reportOf(t, startIn(t, env, append([]string{"run", "-w", "read", "--pd", f.cluster.PDAddr(), "--out", f.out, "--json", "--quiet",
			"-p", "recordcount=2000", "-p", "fieldcount=1", "-p", "fieldlength=10", "--duration", "4s"}, args...)...))
	}
	check := func(what string, p *analysis.Report, by string, texts ...string) {
		t.Helper()
		t.Logf("%s: %.0f/s, limited by %s: %s", what, p.OpsPerS, p.Limit.By, p.Limit.Why)
		if p.Limit.By != by {
			t.Errorf("%s: limited by %s, because %s; want %s", what, p.Limit.By, p.Limit.Why, by)
		}
		for _, text := range texts {
			if !strings.Contains(p.Limit.Why, text) {
				t.Errorf("%s: %q does not say %q", what, p.Limit.Why, text)
			}
		}
	}
	// A collector that never rests makes the client the dearer side, and one core is soon used up.
	check("no cores", run([]string{"GOMAXPROCS=1"}, "--threads", "256", "--gc-percent", "2"), analysis.ByClient, "--driver stream")
	check("target", run(nil, "--threads", "16", "--target", "200"), analysis.ByTarget, "the schedule was kept")
	for id := uint64(1); id <= 3; id++ {
		if err := f.cluster.SlowStore(id, 30*time.Millisecond, 1); err != nil {
			t.Fatal(err)
		}
	}
	check("slow server", run(nil, "--threads", "8"), analysis.ByServer, "8 threads")
	missed := run(nil, "--threads", "8", "--target", "2000")
	check("target missed", missed, analysis.ByServer)
	if missed.Verdict.Code != exitcode.Target {
		t.Errorf("verdict %+v, want the target to be missed", missed.Verdict)
	}
}
