// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/store/memory"
)

func TestDo(t *testing.T) {
	t.Parallel()
	db := &memory.DB{Delay: time.Millisecond, Refuse: func(key []byte) bool { return string(key) == "bad" }}
	driver, err := db.Open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	clk := clock.Since(time.Now())
	session, err := driver.Open(0, 3, &clk)
	if err != nil {
		t.Fatal(err)
	}
	put := func(key string) *store.Call {
		return &store.Call{Verb: store.Put, Keys: [][]byte{[]byte(key)}, Values: [][]byte{[]byte("v")}}
	}
	if err := store.Do(session, put("a"), &clk, time.Minute); err != nil {
		t.Error(err)
	}
	calls := []*store.Call{put("b"), put("bad"), put("c")}
	if err := store.DoAll(session, calls, &clk, time.Minute); err == nil || !strings.Contains(err.Error(), "Put: refused") {
		t.Errorf("error %v", err)
	}
	if calls[0].Class != store.OK || calls[1].Class != store.RawError || calls[2].Class != store.OK {
		t.Errorf("classes %v, %v, %v", calls[0].Class, calls[1].Class, calls[2].Class)
	}
	get := &store.Call{Verb: store.Get, Keys: [][]byte{[]byte("c"), []byte("bad")}}
	if err := store.Do(session, get, &clk, time.Minute); err != nil || string(get.Found[0]) != "v" || get.Found[1] != nil {
		t.Errorf("found %q, %v", get.Found, err)
	}
	db.Stalled.Store(true)
	began := time.Now()
	if err := store.Do(session, get, &clk, 50*time.Millisecond); err == nil || !strings.Contains(err.Error(), "no answer within 50ms") {
		t.Errorf("error %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
}

// TestInsist: a few errors of a store are survived; what it always refuses is its last error, with the number of tries; one that
// does not answer takes no longer than it may in all.
func TestInsist(t *testing.T) {
	t.Parallel()
	refused, most := 0, 3
	db := &memory.DB{Refuse: func([]byte) bool { refused++; return refused <= most }}
	driver, err := db.Open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	clk := clock.Since(time.Now())
	session, err := driver.Open(0, 1, &clk)
	if err != nil {
		t.Fatal(err)
	}
	put := &store.Call{Verb: store.Put, Keys: [][]byte{[]byte("a")}, Values: [][]byte{[]byte("v")}}
	if err := store.Insist(session, put, &clk, time.Minute); err != nil || refused != most+1 {
		t.Errorf("after %d tries: %v", refused, err)
	}
	refused, most = 0, 1000
	if err := store.Insist(session, put, &clk, time.Minute); err == nil || err.Error() != "Put: refused on purpose (after 10 tries)" || refused != 10 {
		t.Errorf("after %d tries: %v", refused, err)
	}
	refused = 0
	if err := store.Insist(session, put, &clk, 15*time.Millisecond); err == nil || refused >= 10 {
		t.Errorf("after %d tries, in 15 ms: %v", refused, err)
	}
	if err := store.Insist(session, &store.Call{Verb: store.CompareAndSwap, Keys: put.Keys}, &clk, time.Minute); err == nil || strings.Contains(err.Error(), "tries") {
		t.Errorf("of what cannot be done: %v", err)
	}
	db.Stalled.Store(true)
	if err := store.Insist(session, put, &clk, 50*time.Millisecond); err == nil || !strings.Contains(err.Error(), "no answer within") {
		t.Errorf("error %v", err)
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
}
