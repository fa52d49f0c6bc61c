// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/store"
)

// Against a model: a deadline for each call.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	const timeout = 50
	rng := rand.New(rand.NewPCG(1, 2))
	d := NewDeadlines(timeout)
	model := make(map[int]time.Duration)
	now := time.Duration(-200) // a run's clock is negative before its start
	looks := 0
	for range 100_000 {
		now += time.Duration(rng.IntN(4))
		call := rng.IntN(30)
		if _, there := model[call]; !there {
			d.Add(call, now)
			model[call] = now + timeout
		} else {
			d.Remove(call)
			d.Remove(call) // again: no harm
			delete(model, call)
		}
		for call, at := range model {
			if d.Next() > at {
				t.Fatalf("Next = %v, but call %d expires at %v", d.Next(), call, at)
			}
		}
		if d.Next() <= now {
			looks++
		}
		for call := d.Expired(now); call >= 0; call = d.Expired(now) {
			if at, there := model[call]; !there || at > now {
				t.Fatalf("at %v call %d has expired, in the model at %v (there: %v)", now, call, at, there)
			}
			delete(model, call)
			if len(model) == 0 { // one more, while they are looked through
				d.Add(call, now)
				model[call] = now + timeout
			}
		}
		for call, at := range model {
			if at <= now {
				t.Fatalf("at %v call %d has not expired, in the model at %v", now, call, at)
			}
		}
		if d.Next() <= now {
			t.Fatalf("Next = %v at %v, though what had expired has been taken", d.Next(), now)
		}
	}
	if looks > 50_000 {
		t.Errorf("one may have expired %d times in 100,000", looks)
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
