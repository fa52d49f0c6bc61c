// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"bytes"
	"fmt"
	"hash/crc64"
	"strings"
	"testing"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/tikv/client-go/v2/config"
	"github.com/tikv/client-go/v2/rawkv"
)

// TestOperations runs every operation of the real client, whose keys spread over several regions, in all API versions, through
// BatchCommands and as unary calls.
func TestOperations(t *testing.T) {
	splits := [][]byte{[]byte("k02"), []byte("k05"), []byte("k08")}
	for _, tt := range []struct {
		name      string
		opts      Options
		client    []rawkv.ClientOpt
		batchSize uint
		prefix    []byte // before keys in checksums
	}{
		{"V1", Options{SplitKeys: splits}, nil, 128, nil},
		{"V1 unary", Options{SplitKeys: splits}, nil, 0, nil},
		{"V1TTL", Options{SplitKeys: splits, APIVersion: V1TTL}, []rawkv.ClientOpt{rawkv.WithAPIVersion(kvrpcpb.APIVersion_V1TTL)}, 128, nil},
		{"V2", Options{SplitKeys: splits, APIVersion: V2}, []rawkv.ClientOpt{rawkv.WithAPIVersion(kvrpcpb.APIVersion_V2)}, 128, []byte("r\x00\x00\x00")},
		{
			"V2 keyspace", Options{SplitKeys: splits, APIVersion: V2, Keyspaces: []string{"a", "b"}},
			[]rawkv.ClientOpt{rawkv.WithAPIVersion(kvrpcpb.APIVersion_V2), rawkv.WithKeyspace("b")}, 128, []byte("r\x00\x00\x02"),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Cleanup(config.UpdateGlobal(func(conf *config.Config) { conf.TiKVClient.MaxBatchSize = tt.batchSize }))
			c := start(t, tt.opts)
			client := connect(t, c, tt.client...)
			testPoints(t, client)
			testBatches(t, client)
			testScans(t, client, tt.prefix)
			testCompareAndSwap(t, client)
			if tt.opts.APIVersion != "" {
				testTTL(t, client)
			}
			batched := false
			for _, s := range c.State().Stores {
				batched = batched || s.Messages > 0
				if len(s.RegionErrors) > 0 {
					t.Errorf("store %d gave region errors to a client that is not stale: %v", s.ID, s.RegionErrors)
				}
			}
			if batched != (tt.batchSize > 0) {
				t.Errorf("client used BatchCommands: %v", batched)
			}
		})
	}
}

func key(i int) []byte   { return fmt.Appendf(nil, "k%02d", i) }
func value(i int) []byte { return fmt.Appendf(nil, "value %d", i) }

func testPoints(t *testing.T, client *rawkv.Client) {
	t.Helper()
	ctx := t.Context()
	if v, err := client.Get(ctx, key(0)); v != nil || err != nil {
		t.Fatalf("Get of a missing key = %q, %v", v, err)
	}
	for i := range 10 {
		if err := client.Put(ctx, key(i), value(i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		if v, err := client.Get(ctx, key(i)); string(v) != string(value(i)) || err != nil {
			t.Fatalf("Get(%s) = %q, %v", key(i), v, err)
		}
	}
	if err := client.Put(ctx, key(3), []byte("other")); err != nil {
		t.Fatal(err)
	}
	if err := client.Delete(ctx, key(4)); err != nil {
		t.Fatal(err)
	}
	if v, err := client.Get(ctx, key(3)); string(v) != "other" || err != nil {
		t.Fatalf("Get after a second Put = %q, %v", v, err)
	}
	if v, err := client.Get(ctx, key(4)); v != nil || err != nil {
		t.Fatalf("Get after Delete = %q, %v", v, err)
	}
	long := bytes.Repeat([]byte("x"), 9000)
	if err := client.Put(ctx, long, []byte("v")); err == nil || !strings.Contains(err.Error(), "max key size exceeded") {
		t.Fatalf("Put of a key of 9000 bytes: %v", err)
	}
	if v, err := client.Get(ctx, long); v != nil || err != nil {
		t.Fatalf("Get of a key of 9000 bytes = %q, %v", v, err)
	}
}

func testBatches(t *testing.T, client *rawkv.Client) {
	t.Helper()
	ctx := t.Context()
	var keys, values [][]byte
	for i := range 100 {
		keys, values = append(keys, key(i)), append(values, value(i))
	}
	if err := client.BatchPut(ctx, keys, values); err != nil {
		t.Fatal(err)
	}
	if err := client.BatchDelete(ctx, keys[50:60]); err != nil {
		t.Fatal(err)
	}
	got, err := client.BatchGet(ctx, keys)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range got {
		want := string(values[i])
		if i >= 50 && i < 60 {
			want = ""
		}
		if string(v) != want {
			t.Fatalf("BatchGet: %s = %q, want %q", keys[i], v, want)
		}
	}
}

// testScans expects key(0) to key(99) without key(50) to key(59).
func testScans(t *testing.T, client *rawkv.Client, prefix []byte) {
	t.Helper()
	ctx := t.Context()
	numbers := func(from, to, step int) (ns []int) {
		for i := from; i != to; i += step {
			if i < 50 || i >= 60 {
				ns = append(ns, i)
			}
		}
		return ns
	}
	for _, tt := range []struct {
		name       string
		start, end []byte
		limit      int
		reverse    bool
		want       []int
	}{
		{"all", nil, nil, 1000, false, numbers(0, 100, 1)},
		{"over borders", key(1), key(9), 1000, false, numbers(1, 9, 1)},
		{"limit", key(1), nil, 6, false, numbers(1, 7, 1)},
		{"one region", key(2), key(5), 1000, false, numbers(2, 5, 1)},
		{"hole", key(49), key(61), 1000, false, []int{49, 60}},
		{"nothing", key(50), key(60), 1000, false, nil},
		{"reverse, over borders", key(9), key(1), 1000, true, numbers(8, 0, -1)},
		{"reverse, from a border", key(5), key(0), 1000, true, numbers(4, -1, -1)},
		{"reverse, limit", key(99), nil, 45, true, numbers(98, 43, -1)},
		{"reverse, to the beginning", key(12), nil, 1000, true, numbers(11, -1, -1)},
	} {
		scan := client.Scan
		if tt.reverse {
			scan = client.ReverseScan
		}
		keys, values, err := scan(ctx, tt.start, tt.end, tt.limit)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if len(keys) != len(tt.want) {
			t.Fatalf("%s: %d keys, want %d: %q", tt.name, len(keys), len(tt.want), keys)
		}
		for i, n := range tt.want {
			if !bytes.Equal(keys[i], key(n)) || !bytes.Equal(values[i], value(n)) {
				t.Fatalf("%s: %d is %s = %s, want %s", tt.name, i, keys[i], values[i], key(n))
			}
		}
	}
	keys, values, err := client.Scan(ctx, nil, nil, 5, rawkv.ScanKeyOnly())
	if err != nil || len(keys) != 5 || len(bytes.Join(values, nil)) != 0 {
		t.Fatalf("key-only Scan = %q, %q, %v", keys, values, err)
	}

	var want rawkv.RawChecksum
	for _, n := range numbers(1, 100, 1) {
		pair := bytes.Join([][]byte{prefix, key(n), value(n)}, nil)
		want.Crc64Xor ^= crc64.Checksum(pair, crc64.MakeTable(crc64.ECMA))
		want.TotalKvs++
		want.TotalBytes += uint64(len(pair))
	}
	if sum, err := client.Checksum(ctx, key(1), []byte("l")); err != nil || sum != want {
		t.Fatalf("Checksum = %+v, %v; want %+v", sum, err, want)
	}

	if err := client.DeleteRange(ctx, key(1), key(98)); err != nil {
		t.Fatal(err)
	}
	keys, _, err = client.Scan(ctx, nil, nil, 100)
	if err != nil || string(bytes.Join(keys, []byte(" "))) != "k00 k98 k99" {
		t.Fatalf("Scan after DeleteRange = %q, %v", keys, err)
	}
}

func testCompareAndSwap(t *testing.T, client *rawkv.Client) {
	t.Helper()
	client.SetAtomicForCAS(true)
	defer client.SetAtomicForCAS(false)
	k := []byte("k05 cas")
	for i, step := range []struct {
		previous, next, found []byte
		swapped               bool
	}{
		{nil, []byte("1"), nil, true},
		{nil, []byte("2"), []byte("1"), false},
		{[]byte("0"), []byte("2"), []byte("1"), false},
		{[]byte("1"), []byte("2"), []byte("1"), true},
	} {
		found, swapped, err := client.CompareAndSwap(t.Context(), k, step.previous, step.next)
		if err != nil || swapped != step.swapped || !bytes.Equal(found, step.found) {
			t.Fatalf("CompareAndSwap %d = %q, %v, %v", i, found, swapped, err)
		}
	}
	if err := client.Put(t.Context(), k, []byte("3")); err != nil {
		t.Fatal(err)
	}
	if v, err := client.Get(t.Context(), k); string(v) != "3" || err != nil {
		t.Fatalf("Get = %q, %v", v, err)
	}
}

func testTTL(t *testing.T, client *rawkv.Client) {
	t.Helper()
	ctx := t.Context()
	if err := client.PutWithTTL(ctx, []byte("k06 ttl"), []byte("v"), 100); err != nil {
		t.Fatal(err)
	}
	if ttl, err := client.GetKeyTTL(ctx, []byte("k06 ttl")); err != nil || ttl == nil || *ttl < 98 || *ttl > 100 {
		t.Fatalf("GetKeyTTL = %v, %v", ttl, err)
	}
	if err := client.BatchPutWithTTL(ctx, [][]byte{[]byte("k01 ttl"), []byte("k07 ttl")}, [][]byte{[]byte("v"), []byte("w")}, []uint64{0, 50}); err != nil {
		t.Fatal(err)
	}
	if ttl, err := client.GetKeyTTL(ctx, []byte("k01 ttl")); err != nil || ttl == nil || *ttl != 0 {
		t.Fatalf("GetKeyTTL without a TTL = %v, %v", ttl, err)
	}
	if ttl, err := client.GetKeyTTL(ctx, []byte("k07 ttl")); err != nil || ttl == nil || *ttl < 48 {
		t.Fatalf("GetKeyTTL = %v, %v", ttl, err)
	}
	if ttl, err := client.GetKeyTTL(ctx, []byte("k never")); err != nil || ttl != nil {
		t.Fatalf("GetKeyTTL of a missing key = %v, %v", ttl, err)
	}
}

func TestExpiry(t *testing.T) {
	for _, version := range []APIVersion{V1TTL, V2} {
		t.Run(string(version), func(t *testing.T) {
			c := start(t, Options{APIVersion: version})
			api := kvrpcpb.APIVersion_V1TTL
			if version == V2 {
				api = kvrpcpb.APIVersion_V2
			}
			client := connect(t, c, rawkv.WithAPIVersion(api))
			ctx := t.Context()
			for k, ttl := range map[string]uint64{"short": 1, "long": 1000, "ever": 0} {
				if err := client.PutWithTTL(ctx, []byte(k), []byte("v"), ttl); err != nil {
					t.Fatal(err)
				}
			}
			eventually(t, "the short one expires", func() bool {
				v, err := client.Get(ctx, []byte("short"))
				return v == nil && err == nil
			})
			keys, _, err := client.Scan(ctx, nil, nil, 10)
			if err != nil || string(bytes.Join(keys, []byte(" "))) != "ever long" {
				t.Fatalf("Scan = %q, %v", keys, err)
			}
			if ttl, err := client.GetKeyTTL(ctx, []byte("short")); err != nil || ttl != nil {
				t.Fatalf("GetKeyTTL of an expired key = %v, %v", ttl, err)
			}
			sum, err := client.Checksum(ctx, []byte("a"), []byte("z"))
			if err != nil || sum.TotalKvs != 2 {
				t.Fatalf("Checksum = %+v, %v", sum, err)
			}
		})
	}
}

func TestColumnFamilies(t *testing.T) {
	client := connect(t, start(t, Options{}))
	ctx := t.Context()
	for _, cf := range []string{"default", "lock", "write"} {
		if err := client.Put(ctx, []byte("k"), []byte(cf), rawkv.SetColumnFamily(cf)); err != nil {
			t.Fatal(err)
		}
	}
	for _, cf := range []string{"", "default", "lock", "write"} {
		want := cf
		if cf == "" {
			want = "default"
		}
		if v, err := client.Get(ctx, []byte("k"), rawkv.SetColumnFamily(cf)); string(v) != want || err != nil {
			t.Errorf("Get in %q = %q, %v", cf, v, err)
		}
	}
	if err := client.Put(ctx, []byte("k"), nil, rawkv.SetColumnFamily("other")); err == nil || !strings.Contains(err.Error(), "cf") {
		t.Errorf("Put in an unknown column family: %v", err)
	}
}

func TestTTLNeedsIt(t *testing.T) {
	client := connect(t, start(t, Options{}))
	err := client.PutWithTTL(t.Context(), []byte("k"), []byte("v"), 5)
	if err == nil || !strings.Contains(err.Error(), "ttl is not enabled") {
		t.Errorf("PutWithTTL under V1: %v", err)
	}
}

func TestKeyspacesAreApart(t *testing.T) {
	c := start(t, Options{APIVersion: V2, Keyspaces: []string{"a", "b"}})
	ctx := t.Context()
	v2 := rawkv.WithAPIVersion(kvrpcpb.APIVersion_V2)
	a, b := connect(t, c, v2, rawkv.WithKeyspace("a")), connect(t, c, v2, rawkv.WithKeyspace("b"))
	for i := range 20 {
		if err := a.Put(ctx, fmt.Appendf(nil, "usertable:user%d", i), []byte("a")); err != nil {
			t.Fatal(err)
		}
	}
	if keys, _, err := b.Scan(ctx, nil, nil, 100); err != nil || len(keys) != 0 {
		t.Errorf("keyspace b holds %q, %v", keys, err)
	}
	if keys, _, err := a.Scan(ctx, nil, nil, 100); err != nil || len(keys) != 20 {
		t.Errorf("keyspace a holds %d keys, %v", len(keys), err)
	}
}
