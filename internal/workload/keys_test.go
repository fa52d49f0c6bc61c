// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"math/big"
	"slices"
	"strings"
	"testing"
)

// The numbers are those that go-ycsb and YCSB print.
func TestKeys(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		pairs  []string
		record int64
		want   string
	}{
		{"go-ycsb 0", nil, 0, "usertable:user6284781860667377211"},
		{"go-ycsb 1", nil, 1, "usertable:user6284782960179005422"},
		{"go-ycsb 1000", nil, 1000, "usertable:user6283728528527740298"},
		{"ycsb 0", []string{"keyhash", "ycsb"}, 0, "usertable:user6284781860667377211"},
		{"ycsb 1", []string{"keyhash", "ycsb"}, 1, "usertable:user8517097267634966620"},
		{"ycsb 1000", []string{"keyhash", "ycsb"}, 1000, "usertable:user5952875239596136740"},
		{"ordered", []string{"insertorder", "ordered"}, 42, "usertable:user42"},
		{"ordered, padded", []string{"insertorder", "ordered", "zeropadding", "8"}, 42, "usertable:user00000042"},
		{"ordered, fixed length", []string{"insertorder", "ordered", "keylength", "12"}, 42, "usertable:user00000042"},
		{"hashed, padded", []string{"zeropadding", "20"}, 0, "usertable:user06284781860667377211"},
		{"names", []string{"table", "t", "keyprefix", "", "insertorder", "ordered"}, 7, "t:7"},
		{"tikvbench", []string{"keyprefix", "k", "keyformat", "hex", "keylength", "17"}, 1, "usertable:k573808cdd7e5c7ee"},
		{"hex, wider", []string{"keyprefix", "k", "keyformat", "hex", "keylength", "20", "insertorder", "ordered"}, 255, "usertable:k00000000000000000ff"},
		{"ten billion", []string{"insertorder", "ordered"}, 10_000_000_000, "usertable:user10000000000"},
	}
	for _, test := range tests {
		g := generator(t, test.pairs...)
		if got := string(g.Key(nil, test.record)); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
		if got := len(g.Key(nil, test.record)); got > g.KeyBytes() {
			t.Errorf("%s: %d bytes, KeyBytes says %d", test.name, got, g.KeyBytes())
		}
	}
}

// Consecutive records must reach most of the key space, or else a load is a moving
// hotspot. Throwing 1,000 balls into 1,000 bins fills 632 of them.
func TestMixSpreadsConsecutiveRecords(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"hex", "decimal"} {
		for _, first := range []int64{0, 1000, 1 << 20, 10_000_000_000} {
			g := generator(t, "keyhash", "mix", "keyformat", format)
			seen := make(map[int64]bool)
			previous := ""
			for i := range int64(1000) {
				key := string(g.Key(nil, first+i))
				if len(key) != len(previous) && previous != "" {
					t.Fatal("keys differ in length, so that their order is not that of numbers")
				}
				previous = key
				seen[slice(t, strings.TrimPrefix(key, "usertable:user"), format)] = true
			}
			if len(seen) < 600 {
				t.Errorf("%s: 1000 records from %d on lie in %d of 1000 slices", format, first, len(seen))
			}
		}
	}
}

// slice returns in which thousandth of the 64-bit numbers a key's number lies.
func slice(t *testing.T, digits, format string) int64 {
	t.Helper()
	base := 10
	if format == "hex" {
		base = 16
	}
	n, ok := new(big.Int).SetString(digits, base)
	if !ok {
		t.Fatal(digits)
	}
	n.Mul(n, big.NewInt(1000))
	return n.Rsh(n, 64).Int64()
}

func TestKeysAreDistinct(t *testing.T) {
	t.Parallel()
	for _, hash := range []string{"go-ycsb", "ycsb", "mix"} {
		g := generator(t, "keyhash", hash)
		const n = 200_000
		numbers := make([]uint64, n)
		for i := range numbers {
			numbers[i] = g.keys.hash(int64(i))
		}
		slices.Sort(numbers)
		if distinct := len(slices.Compact(numbers)); distinct != n {
			t.Errorf("%s: %d distinct numbers of %d", hash, distinct, n)
		}
	}
}

func TestKeyRangeHoldsTheTableOnly(t *testing.T) {
	t.Parallel()
	g := generator(t, "table", "tab")
	first, end := g.KeyRange()
	if string(first) != "tab:" || string(end) != "tab;" {
		t.Errorf("%q to %q", first, end)
	}
}
