// SPDX-License-Identifier: Apache-2.0

package worker

import "github.com/kvbench/kvbench/internal/store"

// Counted is a driver that counts what it sends.
type Counted interface {
	store.Driver
	// Traffic returns what was sent since the driver was opened, by store.
	Traffic() []store.Traffic
}

// traffic looks once in a while at what a driver has counted.
type traffic struct {
	driver Counted // nil: it does not
	last   map[string]store.Traffic
}

// watchTraffic begins now.
func watchTraffic(d store.Driver) *traffic {
	t := &traffic{last: make(map[string]store.Traffic)}
	t.driver, _ = d.(Counted)
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
