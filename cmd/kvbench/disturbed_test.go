// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/analysis/dips"
	"github.com/kvbench/kvbench/internal/coordinator"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/playground"
	"github.com/kvbench/kvbench/internal/results"
)

// soak in the environment makes TestSoak run, which takes long: `make soak`.
const soak = "KVBENCH_SOAK"

// disturbance is something that happens to a cluster. do lets it happen until ctx
// is done; what it leaves behind, Restore mends.
type disturbance struct {
	name   string
	do     func(ctx context.Context, c *playground.Cluster, rng *rand.Rand) error
	depth  float64       // the worst second loses more than this share; 0: it may lose nothing
	silent time.Duration // all threads soon wait for it: nothing is answered for so long at least
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
	}, 0, 0},
	{"leaders move", func(ctx context.Context, c *playground.Cluster, _ *rand.Rand) error {
		return every(ctx, 200*time.Millisecond, func() error {
			_, err := c.MoveLeaders()
			return err
		})
	}, 0, 0},
	{"store down", func(ctx context.Context, c *playground.Cluster, _ *rand.Rand) error {
		id := busiest(c)
		if err := c.StopStore(id); err != nil {
			return err
		}
		<-ctx.Done()
		return c.StartStore(id)
	}, 0.2, 0}, // others lead what it led after a second
	{"stall", func(ctx context.Context, c *playground.Cluster, _ *rand.Rand) error {
		if err := c.StallStore(busiest(c), time.Hour); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}, 0.5, time.Second},
	{"busy", func(ctx context.Context, c *playground.Cluster, _ *rand.Rand) error {
		if err := c.SetBusy(3, 0.5); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}, 0, 0},
	{"connections reset", func(ctx context.Context, c *playground.Cluster, rng *rand.Rand) error {
		return every(ctx, 100*time.Millisecond, func() error {
			_, err := c.ResetConnections(uint64(1 + rng.IntN(3)))
			return err
		})
	}, 0, 0},
	{"PD away", func(ctx context.Context, c *playground.Cluster, _ *rand.Rand) error {
		if err := c.StopPD(); err != nil {
			return err
		}
		if _, err := c.MoveLeaders(); err != nil { // so that clients miss it
			return err
		}
		<-ctx.Done()
		return c.StartPD()
	}, 0, 0},
}

// busiest is the store that leads most regions.
func busiest(c *playground.Cluster) uint64 {
	return slices.MaxFunc(c.State().Stores, func(a, b playground.StoreState) int { return cmp.Compare(a.Leaders, b.Leaders) }).ID
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
// or a virtual thread, when it is over, the rate is back within 5 s, and the report's account of it is true. It measures
// rates, so the other tests wait.
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
	const before = 3 * time.Second // so that the second group comes when a dip can be found, which is after ten seconds
	whole := before + time.Duration(len(groups))*(length+calm) + time.Second
	worker := start(t, "worker", "--listen", "127.0.0.1:0", "--data", t.TempDir())
	address := strings.Fields(worker.until(`"worker ready" address=`))[0]
	fleet, err := coordinator.Reach(ctx, []coordinator.Address{{Name: address}}, coordinator.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer fleet.Close()
	args := []string{"--workers", address, "--pd", c.PDAddr(), "--driver", driver, "--out", t.TempDir(), "-p", "recordcount=2000",
		"-p", "keyhash=mix", "-p", "keyformat=hex",
		"-p", "readproportion=0.5", "-p", "updateproportion=0.5", "-p", "fieldcount=1", "-p", "fieldlength=100", "-p", "dataintegrity=true", "--threads", "64"}
	do(t, append([]string{"load", "--verify"}, args...)...)
	run := start(t, append([]string{"run", "--verify-writes", "--target", fmt.Sprint(target),
		"--duration", whole.String(), "-p", "tikv.timeout=3s", "--json"}, args...)...)
	run.until("measuring ")

	rng := rand.New(rand.NewPCG(1, 2))
	var begins, ends []time.Time
	pause(t, before)
	for _, group := range groups {
		if _, now, err := fleet.Clock(t.Context(), ""); err != nil {
			t.Fatal(err)
		} else if _, err := fleet.Annotate(t.Context(), "", now, names(group)); err != nil {
			t.Fatal(err)
		}
		begins = append(begins, time.Now())
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
		told(t, r, groups[i], begins[i].Sub(r.Start).Seconds(), end.Sub(r.Start).Seconds(), allowed)
	}
	failed, accounted := int64(0), int64(0)
	for _, e := range r.Errors {
		failed += e.Count
	}
	for _, d := range r.Disturbances {
		for _, e := range d.Errors {
			accounted += e.Count
		}
	}
	if accounted > failed {
		t.Errorf("disturbances account for %d errors, and there were %d", accounted, failed)
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

// told checks that the report gives an account of what happened between two moments of the run, and that it is true.
func told(t *testing.T, r *analysis.Report, group []disturbance, begin, end, allowed float64) {
	t.Helper()
	i := slices.IndexFunc(r.Disturbances, func(d analysis.Disturbance) bool {
		return slices.ContainsFunc(d.Events, func(e results.Event) bool {
			return e.Kind == results.Annotation && e.Text == names(group) && e.S > begin-2 && e.S < begin
		})
	})
	if i < 0 {
		t.Errorf("there is no account of %s at %.1f s: %+v", names(group), begin, r.Disturbances)
		return
	}
	d := r.Disturbances[i]
	gap := 0.
	if d.NoAnswer != nil {
		gap = d.NoAnswer.S
	}
	t.Logf("%s, %.1f to %.1f s: dip %v from %.1f to %.1f s, depth %.2f, no answer for %.2f s, %d queued, errors %v", names(group), begin, end, d.Dip, d.AtS, d.ToS, d.Depth, gap, d.Queued, d.Errors)
	if d.AtS < begin-2 || d.AtS > begin+10 { // a dip so long after an event is told with it
		t.Errorf("%s was from %.1f to %.1f s, and is told to be from %g s on", names(group), begin, end, d.AtS)
	}
	least, depth := 0., 0.
	for _, one := range group {
		least, depth = max(least, one.silent.Seconds()), max(depth, one.depth)
	}
	most := end - begin + allowed
	if least > 0 {
		most = end - begin + 0.5
	}
	if gap < least || gap > most {
		t.Errorf("%s: nothing was answered for %g s, want %g to %.1f", names(group), gap, least, most)
	}
	if depth == 0 || begin < dips.Least { // before that nothing can be found to be a dip
		return
	}
	switch b, w := d.Before, d.During; {
	case !d.Dip && least == 0: // it is lost in the noise of a machine that has too much to do
	case !d.Dip || d.AtS < begin-1 || d.AtS > begin+1 || d.Depth < depth || d.ToS < end-2 || d.Queued == 0:
		t.Errorf("%s: %+v", names(group), d)
	case b == nil || w == nil || w.FromS > d.AtS || w.ToS < d.ToS || b.ToS > d.AtS || d.After != nil && d.After.FromS < d.ToS:
		t.Errorf("%s: before %+v, during %+v, after %+v", names(group), b, w, d.After)
	case float64(w.ResponseUS.Max) < 1e6*least || w.ResponseUS.P99 < b.ResponseUS.P50:
		t.Errorf("%s: responses took up to %d µs, p99 %d µs, and before p50 was %d µs", names(group), w.ResponseUS.Max, w.ResponseUS.P99, b.ResponseUS.P50)
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
