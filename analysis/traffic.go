// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/kvbench/kvbench/internal/store"
)

// traffic is what drivers sent to one store during the window.
type traffic struct {
	store.Traffic              // of all intervals that lie in the window at least in totals
	messages, commands float64 // those that count for rates
}

// add counts what was sent in an interval of which this share lies in the window.
func (t *traffic) add(sent *store.Traffic, share float64) {
	t.Add(sent)
	t.messages += share * float64(sent.Messages)
	t.commands += share * float64(sent.Commands)
}

func (t *traffic) merge(o *traffic) {
	t.Add(&o.Traffic)
	t.messages += o.messages
	t.commands += o.commands
}

// addTraffic counts what a worker's driver has sent to a store.
func (t *totals) addTraffic(sent *store.Traffic, share float64) {
	if share > 0 {
		t.trafficTo(sent.Store).add(sent, share)
	}
}

func (t *totals) trafficTo(store string) *traffic {
	if t.traffic == nil {
		t.traffic = make(map[string]*traffic)
	}
	if t.traffic[store] == nil {
		t.traffic[store] = new(traffic)
	}
	return t.traffic[store]
}

// Traffic is what the drivers of a run have sent to the database.
type Traffic struct {
	Sent
	Stores []StoreRow `json:"stores"`
}

// Sent is what was sent to one store, or to all.
type Sent struct {
	MessagesPS float64     `json:"messages_per_s"`
	CommandsPS float64     `json:"commands_per_s"`
	PerMessage *PerMessage `json:"commands_per_message,omitempty"`
	Fallbacks  []Fallback  `json:"fallbacks"`
	Breaks     int64       `json:"stream_breaks"`
}

// PerMessage describes how many commands shared a message.
type PerMessage struct {
	Mean float64 `json:"mean"`
	P50  int64   `json:"p50"`
	P99  int64   `json:"p99"`
	Max  int64   `json:"max"`
}

// Fallback is one cause for which commands took another way than the driver's own.
type Fallback struct {
	Cause string  `json:"cause"`
	Count int64   `json:"count"`
	Share float64 `json:"share"` // of all commands
}

// StoreRow is what was sent to one store.
type StoreRow struct {
	Store string `json:"store"`
	Sent
}

func (t *traffic) sent(rate func(float64) float64) Sent {
	s := Sent{
		MessagesPS: rate(t.messages), CommandsPS: rate(t.commands), PerMessage: perMessage(&t.Traffic),
		Fallbacks: []Fallback{}, Breaks: t.Breaks,
	}
	for cause, n := range t.Fallbacks {
		s.Fallbacks = append(s.Fallbacks, Fallback{Cause: cause, Count: n, Share: min(1, float64(n)/float64(max(t.Commands+t.Unsent, 1)))})
	}
	slices.SortFunc(s.Fallbacks, func(a, b Fallback) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Cause, b.Cause))
	})
	return s
}

func perMessage(t *store.Traffic) *PerMessage {
	if t.Messages == 0 || len(t.Sizes) == 0 {
		return nil
	}
	var messages int64
	sizes := slices.Sorted(maps.Keys(t.Sizes))
	for _, n := range t.Sizes {
		messages += n
	}
	// at returns the size that a share of the messages does not exceed.
	at := func(share float64) int64 {
		var below int64
		for _, size := range sizes {
			if below += t.Sizes[size]; float64(below) >= share*float64(messages) {
				return int64(size)
			}
		}
		return int64(sizes[len(sizes)-1])
	}
	return &PerMessage{Mean: float64(t.Commands) / float64(t.Messages), P50: at(0.50), P99: at(0.99), Max: at(1)}
}

// sent reports what the drivers have sent; nothing if they do not tell.
func (t *totals) sent(rate func(float64) float64) *Traffic {
	if len(t.traffic) == 0 {
		return nil
	}
	var whole traffic
	stores := []StoreRow{}
	for _, address := range slices.Sorted(maps.Keys(t.traffic)) {
		sent := t.traffic[address]
		whole.merge(sent)
		if address != "" {
			stores = append(stores, StoreRow{address, sent.sent(rate)})
		}
	}
	return &Traffic{whole.sent(rate), stores}
}
