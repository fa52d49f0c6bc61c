// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// TestNothingIsLostUnderDisturbance writes and reads back growing numbers while regions split and merge, leaders move, connections
// are reset and stores slow down, stall, stop and start.
func TestNothingIsLostUnderDisturbance(t *testing.T) {
	t.Parallel()
	c, client := warm(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watchdog := time.AfterFunc(60*time.Second, cancel) // not a deadline: client-go takes one for a broken store
	defer watchdog.Stop()
	stop := make(chan struct{})
	var workers sync.WaitGroup
	for w := range 8 {
		workers.Go(func() {
			k := append(key(w), "counter"...)
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				want := fmt.Sprint(n)
				if err := client.Put(ctx, k, []byte(want)); err != nil {
					t.Errorf("Put(%s): %v", k, err)
					return
				}
				if v, err := client.Get(ctx, k); string(v) != want || err != nil {
					t.Errorf("Get(%s) = %q, %v; want %s", k, v, err, want)
					return
				}
			}
		})
	}
	shake(t, c, 2*time.Second)
	close(stop)
	workers.Wait()
	if err := client.DeleteRange(ctx, []byte("k"), []byte("l")); err != nil {
		t.Error(err)
	}
	if keys, _, err := client.Scan(ctx, nil, nil, 100); err != nil || len(keys) != 0 {
		t.Errorf("Scan after DeleteRange over all regions = %q, %v", keys, err)
	}
}

// shake disturbs a cluster for a time: regions split and merge, leaders move, connections are reset, stores are slow, stall, stop and
// start. It ends with a cluster that is well.
func shake(t *testing.T, c *Cluster, d time.Duration) {
	t.Helper()
	random := rand.New(rand.NewPCG(3, 4))
	down := uint64(0)
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		id := 1 + random.Uint64N(3)
		k, err := c.Key("", append(key(random.IntN(10)), byte(random.IntN(256))))
		if err != nil {
			t.Fatal(err)
		}
		switch random.IntN(8) {
		case 0, 1:
			if _, err = c.SplitRegion(k); err != nil {
				err = nil // there is a border already
			}
		case 2:
			if len(c.State().Regions) > 3 {
				_, err = c.MergeRegion(nil)
			}
		case 3:
			_, err = c.MoveLeaders()
		case 4:
			_, err = c.ResetConnections(id)
		case 5:
			err = c.SlowStore(id, 5*time.Millisecond, 0.1)
		case 6:
			err = c.StallStore(id, 20*time.Millisecond)
		case 7: // one at a time, so that a majority is always up
			if down != 0 {
				err, down = c.StartStore(down), 0
			} else if random.IntN(4) == 0 {
				err, down = c.StopStore(id), id
			}
		}
		if err != nil {
			t.Error(err)
		}
	}
	if err := c.Restore(); err != nil {
		t.Error(err)
	}
}
