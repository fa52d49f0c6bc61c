// SPDX-License-Identifier: Apache-2.0

package worker

import "github.com/kvbench/kvbench/internal/store"

// traffic looks once in a while at what a driver has counted.
type traffic struct {
	driver store.TrafficCounter // nil: it does not
	last   map[string]store.Traffic
}

// watchTraffic begins now.
func watchTraffic(d store.Driver) *traffic {
	t := &traffic{last: make(map[string]store.Traffic)}
	t.driver, _ = d.(store.TrafficCounter)
	t.sample()
	return t
}

// sample returns what was sent since the last sample.
func (t *traffic) sample() []store.Traffic {
	if t.driver == nil {
		return nil
	}
	now := t.driver.Traffic()
	since := make([]store.Traffic, len(now))
	for i := range now {
		before := t.last[now[i].Store]
		since[i] = now[i].Since(&before)
		t.last[now[i].Store] = now[i]
	}
	return since
}

// connections returns how many a driver has to each store; 0: it does not tell.
func connections(d store.Driver) int {
	if c, ok := d.(store.Connected); ok {
		return c.ConnectionsPerStore()
	}
	return 0
}
