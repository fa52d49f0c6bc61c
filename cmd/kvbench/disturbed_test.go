// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/playground"
)

// soak in the environment makes TestSoak run, which takes long: `make soak`.
const soak = "KVBENCH_SOAK"

// disturbance is something that happens to a cluster. do lets it happen until ctx
// is done; what it leaves behind, Restore mends.
type disturbance struct {
	name string
	do   func(ctx context.Context, c *playground.Cluster, rng *rand.Rand) error
}

var disturbances = []disturbance{
	{"splits and merges", func(ctx context.Context, c *playground.Cluster, rng *rand.Rand) error {
		return every(ctx, 20*time.Millisecond, func() error {
			if rng.IntN(5) < 3 { // the more frequent, so that regions do not become few
				_, _ = c.SplitRegion(randomKey(rng)) // where a region starts already, it cannot
			} else {
				_, _ = c.MergeRegion(randomKey(rng)) // the last one has no neighbour
			}
			return nil
		})
	}},
	{"leaders move", func(ctx context.Context, c *playground.Cluster, _ *rand.Rand) error {
		return every(ctx, 200*time.Millisecond, func() error {
			_, err := c.MoveLeaders()
			return err
		})
	}},
	{"store down", func(ctx context.Context, c *playground.Cluster, _ *rand.Rand) error {
		if err := c.StopStore(1); err != nil {
			return err
		}
		<-ctx.Done()
		return c.StartStore(1)
	}},
	{"stall", func(ctx context.Context, c *playground.Cluster, _ *rand.Rand) error {
		if err := c.StallStore(2, time.Hour); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}},
	{"busy", func(ctx context.Context, c *playground.Cluster, _ *rand.Rand) error {
		if err := c.SetBusy(3, 0.5); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}},
	{"connections reset", func(ctx context.Context, c *playground.Cluster, rng *rand.Rand) error {
		return every(ctx, 100*time.Millisecond, func() error {
			_, err := c.ResetConnections(uint64(1 + rng.IntN(3)))
			return err
		})
	}},
	{"PD away", func(ctx context.Context, c *playground.Cluster, _ *rand.Rand) error {
		if err := c.StopPD(); err != nil {
			return err
		}
		if _, err := c.MoveLeaders(); err != nil { // so that clients miss it
			return err
		}
		<-ctx.Done()
		return c.StartPD()
	}},
}

func every(ctx context.Context, interval time.Duration, do func() error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := do(); err != nil {
				return err
			}
		}
	}
}

func randomKey(rng *rand.Rand) []byte { return fmt.Appendf(nil, "usertable:user%016x", rng.Uint64()) }

// TestDisturbed: whatever happens to the cluster, no driver returns a wrong value, loses an acknowledged write
// or a virtual thread, and when it is over, the rate is back within 5 s. It measures rates, so the other tests wait.
func TestDisturbed(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	// Two or three at a time, so that it does not take longer.
	all := disturbances
	groups := [][]disturbance{{all[0], all[1]}, {all[2]}, {all[3], all[4]}, {all[5], all[6]}}
	for _, driver := range []string{"rawkv", "stream"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			disturbed(t, driver, 2*time.Second, 5*time.Second, groups...)
		})
	}
}

// TestSoak disturbs a run of a minute with each disturbance, and with all of them at once.
func TestSoak(t *testing.T) {
	if os.Getenv(soak) == "" {
		t.Skipf("it takes a quarter of an hour: set %s, or run make soak", soak)
	}
	for _, driver := range []string{"rawkv", "stream"} {
		for _, d := range disturbances {
			t.Run(driver+"/"+d.name, func(t *testing.T) {
				t.Parallel()
				disturbed(t, driver, 45*time.Second, 10*time.Second, []disturbance{d})
			})
		}
		t.Run(driver+"/all", func(t *testing.T) {
			t.Parallel()
			disturbed(t, driver, 4*time.Second, 10*time.Second, []disturbance{disturbances[0], disturbances[1], disturbances[5]}, disturbances[2:4], disturbances, disturbances)
		})
	}
}

// disturbed lets groups of disturbances, so long each, happen to a paced run, with a calm after each.
func disturbed(t *testing.T, driver string, length, calm time.Duration, groups ...[]disturbance) {
	const target = 1000.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	// The regions share the keys about evenly.
	var splits [][]byte
	for _, digit := range "2468ace" {
		splits = append(splits, fmt.Appendf(nil, "usertable:user%c", digit))
	}
	c, err := playground.Start(ctx, playground.Options{SplitKeys: splits})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	const before = time.Second
	whole := before + time.Duration(len(groups))*(length+calm) + time.Second
	args := []string{"--pd", c.PDAddr(), "--driver", driver, "--out", t.TempDir(), "-p", "recordcount=2000",
		"-p", "keyhash=mix", "-p", "keyformat=hex",
		"-p", "readproportion=0.5", "-p", "updateproportion=0.5", "-p", "fieldcount=1", "-p", "fieldlength=100", "-p", "dataintegrity=true", "--threads", "64"}
	do(t, append([]string{"load", "--verify"}, args...)...)
	run := start(t, append([]string{"run", "--verify-writes", "--target", fmt.Sprint(target),
		"--duration", whole.String(), "-p", "tikv.timeout=3s", "--json"}, args...)...)
	run.until("measuring ")

	rng := rand.New(rand.NewPCG(1, 2))
	var ends []time.Time
	pause(t, before)
	for _, group := range groups {
		happen(t, c, rng, length, group)
		ends = append(ends, time.Now())
		pause(t, calm)
	}
	code := run.code(time.Minute)
	stdout, stderr := run.said()
	var doc analysis.Document
	if err := readDocument(t, stdout, &doc); err != nil || len(doc.Runs) != 1 {
		t.Fatalf("exit code %d, report: %v\n%s", code, err, stderr)
	}
	r := doc.Runs[0]
	t.Logf("%s; %d operations, %d slots skipped", r.Verdict.Text, r.Operations, r.Skipped)
	for _, e := range r.Errors {
		t.Logf("%s %s %d: %s", e.Kind, e.Class, e.Count, e.FirstText)
		switch e.Class {
		case "wrong", "raw_error", "other", "cancelled":
			t.Errorf("%d operations ended as %s: %s", e.Count, e.Class, e.FirstText)
		}
	}
	switch code {
	case exitcode.Valid, exitcode.Degraded, exitcode.Target: // errors, and slots that were missed, are as they should be
	default:
		t.Errorf("exit code %d: %s", code, r.Verdict.Text)
	}
	if v := r.Verification; v == nil || v.Bad() > 0 || v.Checked == 0 || v.Unread > 0 {
		t.Errorf("the writes that were acknowledged: %+v", v)
	}
	for _, k := range r.Kinds {
		if k.Outcome == "not_found" {
			t.Errorf("%d times %s found nothing", k.Operations, k.Kind)
		}
	}
	if r.CutOff > 0 {
		t.Errorf("%d operations were still in flight at the end", r.CutOff)
	}
	if r.Traffic == nil || len(r.Traffic.Stores) != 3 {
		t.Errorf("traffic: %+v", r.Traffic)
	} else {
		t.Logf("%s; %s; %d breaks", sharing(r.Traffic), fallbacks(r.Traffic), r.Traffic.Breaks)
	}
	for i, end := range ends {
		allowed := 5.
		if len(groups[i]) == len(disturbances) {
			allowed += 4 // a store that failed while PD was away: client-go asks for it again every 4 s
		}
		recovered(t, r, names(groups[i]), end.Sub(r.Start).Seconds(), calm.Seconds(), target, allowed)
	}
}

// happen lets disturbances happen at the same time, and mends what they leave behind.
func happen(t *testing.T, c *playground.Cluster, rng *rand.Rand, length time.Duration, group []disturbance) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	ended := make(chan error)
	for _, d := range group {
		own := rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))
		go func() { ended <- d.do(ctx, c, own) }()
	}
	for range group {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if err := c.Restore(); err != nil {
		t.Fatal(err)
	}
}

// recovered checks that so many seconds after the end of a disturbance the rate is back, and
// on average stays until the next one.
func recovered(t *testing.T, r *analysis.Report, what string, end, calm, target, allowed float64) {
	t.Helper()
	const share = 0.95
	back, sum, n := -1., 0., 0.
	var rates []string
	for _, p := range r.Series {
		if p.Phase != "window" || p.S < end || p.S+1 > end+calm { // a point is a second
			continue
		}
		rates = append(rates, fmt.Sprintf("%.0f", p.OpsPerS))
		if back < 0 && p.OpsPerS >= share*target {
			back = p.S
		}
		if back >= 0 {
			sum, n = sum+p.OpsPerS, n+1
		}
	}
	t.Logf("after %s: %s/s", what, strings.Join(rates, " "))
	if back < 0 || back > end+allowed || sum < share*target*n {
		t.Errorf("%s ended at %.1f s; the rate was not back within %g s: %s/s", what, end, allowed, strings.Join(rates, " "))
	}
}

func names(group []disturbance) string {
	var all []string
	for _, d := range group {
		all = append(all, d.name)
	}
	return strings.Join(all, ", ")
}

// pause lets a run go on as it does.
func pause(t *testing.T, d time.Duration) {
	select {
	case <-t.Context().Done():
	case <-time.After(d):
	}
}

func sharing(tr *analysis.Traffic) string {
	if tr.PerMessage == nil {
		return "no messages"
	}
	return fmt.Sprintf("%.2f commands a message", tr.PerMessage.Mean)
}

func fallbacks(tr *analysis.Traffic) string {
	text := "fallbacks:"
	for _, d := range tr.Fallbacks {
		text += fmt.Sprintf(" %d %s", d.Count, d.Cause)
	}
	return text
}
