// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/store"
)

// Against a model: a slice in order of start.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	const timeout = 50
	rng := rand.New(rand.NewPCG(1, 2))
	d := NewDeadlines(timeout)
	type entry struct {
		call int
		at   time.Duration
	}
	var model []entry
	now := time.Duration(-200) // a run's clock is negative before its start
	for range 100_000 {
		now += time.Duration(rng.IntN(4))
		call := rng.IntN(30)
		at := slices.IndexFunc(model, func(e entry) bool { return e.call == call })
		if at < 0 {
			d.Add(call, now)
			model = append(model, entry{call, now + timeout})
		} else {
			d.Remove(call)
			d.Remove(call) // again: no harm
			model = slices.Delete(model, at, at+1)
		}
		want := store.Forever
		if len(model) > 0 {
			want = model[0].at
		}
		if got := d.Next(); got != want {
			t.Fatalf("Next = %v, want %v", got, want)
		}
		for len(model) > 0 && model[0].at <= now {
			if got := d.Expired(now); got != model[0].call {
				t.Fatalf("Expired = %d, want %d", got, model[0].call)
			}
			model = model[1:]
		}
		if got := d.Expired(now); got != -1 {
			t.Fatalf("call %d expired too early", got)
		}
	}
}

func TestNoDeadlines(t *testing.T) {
	t.Parallel()
	d := NewDeadlines(0)
	d.Add(3, 1)
	d.Remove(3)
	if d.Next() != store.Forever || d.Expired(store.Forever-1) != -1 {
		t.Error("without a timeout nothing expires")
	}
}
