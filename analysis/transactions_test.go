// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/workload"
)

const ms = time.Millisecond

// transacted is a read of 8 ms, or an update of 20 ms that was made again once.
func transacted(i int) workload.Result {
	r := okay(i)
	r.Cost = &store.Cost{Transactions: 1, Timestamps: 1}
	r.Cost.Commands[store.TxnGet] = 1
	r.Cost.Phases[store.BeginTimestamp], r.Cost.Phases[store.Reading] = 2*ms, 5*ms
	if workload.Kind(i%2) == workload.Update {
		r.Retries, r.RPCs = 1, 4
		r.Cost.Transactions, r.Cost.Timestamps = 2, 4
		r.Cost.Commands[store.TxnGet], r.Cost.Commands[store.Prewrite] = 2, 2
		r.Cost.Phases = [store.Phases]time.Duration{store.BeginTimestamp: 2 * ms, store.Reading: 3 * ms, store.CommitTimestamp: 4 * ms, store.Prewriting: 7 * ms, store.Backoff: 6 * ms}
	}
	return r
}

// quick is the same in a hundredth of the time.
func quick(i int) workload.Result {
	r := transacted(i)
	for phase := range r.Cost.Phases {
		r.Cost.Phases[phase] /= 100
	}
	return r
}

// transactions is a fixture of such, by several workers.
func transactions(result func(i int) workload.Result) *fixture {
	took := 20 * ms
	return &fixture{workers: 2, window: 2 * time.Second, achieved: 200, result: result, change: func(r *results.Run) { r.Spec["tikv.type"] = spec.TxnAPI },
		took: func(*rand.Rand) time.Duration { took = 28*ms - took; return took },
		sent: []store.Traffic{{Store: "s", Messages: 50, Commands: 250, Kinds: map[string]int64{"kv_get": 150, "kv_prewrite": 100}}}}
}

// What transactions cost is added up over all workers, by kind of operation.
func TestTransactions(t *testing.T) {
	t.Parallel()
	x := report(t, transactions(transacted).write(t)).Transactions
	if x == nil || len(x.Kinds) != 2 {
		t.Fatalf("%+v", x)
	}
	near := func(what string, got *float64, want float64) {
		t.Helper()
		if got == nil || math.Abs(*got-want) > 0.002 { // what histograms cannot tell apart
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	near("all", x.TimestampShare, 8./28)
	if want := "Waiting for timestamps of PD took 28.6 % of the transactions' time (READ 25 %, UPDATE 30 %)."; x.Text != want {
		t.Errorf("%q, want %q", x.Text, want)
	}
	read, update := x.Kinds[0], x.Kinds[1]
	near("of a read", read.TimestampShare, 2./8)
	near("others of a read", read.OtherShare, 1./8)
	near("of an update", update.TimestampShare, 6./20)
	near("others of an update", update.OtherShare, 4./20) // back-off is spent within the other phases
	if read.Batches != 200 || read.Known != 200 || read.Transactions != 200 || read.Retries != 0 || read.Timestamps != 200 || len(read.Phases) != 2 {
		t.Errorf("reads: %+v", read)
	}
	if update.Batches != 200 || update.Transactions != 400 || update.Retries != 200 || update.Timestamps != 800 || len(update.Phases) != 5 {
		t.Errorf("updates: %+v", update)
	}
	if want := []CommandRow{{"kv_get", 400, 1}, {"kv_prewrite", 400, 1}}; !slices.Equal(update.Commands, want) {
		t.Errorf("commands of updates: %+v, want %+v", update.Commands, want)
	}
	phase := update.Phases[2]
	near("commit timestamps", phase.Share, 4./20)
	if phase.Phase != "commit_timestamp" || phase.LatencyUS.Samples != 200 || math.Abs(float64(phase.LatencyUS.P50)-4000) > 4 {
		t.Errorf("phase %+v of %+v", phase, phase.LatencyUS)
	}
	if want := []CommandRow{{"kv_get", 600, 1}, {"kv_prewrite", 400, 2. / 3}}; !slices.Equal(x.Sent, want) {
		t.Errorf("sent: %+v, want %+v", x.Sent, want)
	}
}

// What was not seen is unknown: of all, of some operations of a kind, and of a run of the raw API there is nothing to say.
func TestUnknownTransactions(t *testing.T) {
	t.Parallel()
	x := report(t, transactions(okay).write(t)).Transactions
	if x == nil || x.TimestampShare != nil || !strings.Contains(x.Text, "is unknown") || x.Kinds[0].Known != 0 || x.Kinds[0].TimestampShare != nil || len(x.Sent) != 0 {
		t.Errorf("%+v", x)
	}
	x = report(t, transactions(func(i int) workload.Result {
		if i == 51 {
			return okay(i)
		}
		return transacted(i)
	}).write(t)).Transactions
	if x == nil || x.TimestampShare != nil || x.Kinds[0].TimestampShare == nil || x.Kinds[1].TimestampShare != nil || !strings.Contains(x.Text, "READ 25 %, UPDATE unknown") || len(x.Sent) != 0 {
		t.Errorf("%+v", x)
	}
	if p := report(t, (&fixture{window: time.Second, achieved: 100}).write(t)); p.Transactions != nil {
		t.Errorf("%+v", p.Transactions)
	}
}
