// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"compress/flate"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"testing"
)

// newRow makes the row of a record.
func newRow(g *Generator, key []byte, n int64) []byte {
	r := newRandom(5, n)
	return g.values.row(nil, &r, key, &g.fields)
}

func TestRowSizes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		pairs []string
		size  int
	}{
		{nil, 1050}, // go-ycsb's maintainers: 1083 with a key of 33
		{[]string{"fieldcount", "1", "fieldlength", "10"}, 14},
		{[]string{"fieldcount", "100", "fieldlength", "8"}, 100*(4+8) + 36}, // numbers from 64 on take two bytes
		{[]string{"valueformat", "raw"}, 1000},
		{[]string{"valueformat", "ycsb"}, 10 * (4 + 6 + 4 + 100)},
	}
	for _, test := range tests {
		for _, integrity := range []string{"false", "true"} {
			g := generator(t, append(test.pairs, "dataintegrity", integrity)...)
			if row := newRow(g, []byte("k"), 1); len(row) != test.size || g.RowBytes() != int64(test.size) {
				t.Errorf("%v: %d bytes, RowBytes says %d, want %d", test.pairs, len(row), g.RowBytes(), test.size)
			}
		}
	}
}

// The bytes are those of go-ycsb's row codec for fields of known content.
func TestRowEncoding(t *testing.T) {
	t.Parallel()
	codec := generator(t).values.codec
	row := codec.header(nil, 0, 3)
	row = append(row, "abc"...)
	row = codec.header(row, 70, 100)
	if got, want := hex.EncodeToString(row), "08000206616263088c0102c801"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	named := generator(t, "valueformat", "ycsb", "fieldnameprefix", "f").values.codec
	if got, want := hex.EncodeToString(named.header(nil, 3, 258)), "00000002663300000102"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestContentIsLettersOfBothCases(t *testing.T) {
	t.Parallel()
	g := generator(t, "fieldcount", "1", "fieldlength", "100003", "valueformat", "raw")
	var count [256]int
	const rows = 10
	for n := range int64(rows) {
		for _, b := range newRow(g, []byte("k"), n) {
			count[b]++
		}
	}
	total, chi := rows*100003, 0.0
	for b, n := range count {
		isLetter := 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
		if !isLetter {
			if n > 0 {
				t.Fatalf("byte %#x", b)
			}
			continue
		}
		expected := float64(total) / 52
		chi += (float64(n) - expected) * (float64(n) - expected) / expected
	}
	// Cuts of one slab are not independent, so that this is far looser than for independent letters.
	if chi > 1000 {
		t.Errorf("letters are uneven: chi-square %.0f", chi)
	}
}

// Values must compress as fresh random letters do (5.7 of 8 bits), also many
// together, and as much further as compressibility says.
func TestCompressibility(t *testing.T) {
	t.Parallel()
	for _, c := range []float64{0, 0.25, 0.5, 0.9} {
		g := generator(t, "compressibility", fmt.Sprint(c))
		var out bytes.Buffer
		w, err := flate.NewWriter(&out, flate.BestCompression)
		if err != nil {
			t.Fatal(err)
		}
		total := 0
		for n := range int64(2000) {
			row := newRow(g, []byte("k"), n)
			total += len(row)
			if _, err := w.Write(row); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		got, want := float64(out.Len())/float64(total), (1-c)*math.Log2(52)/8
		if math.Abs(got-want) > 0.06 {
			t.Errorf("compressibility %v: compresses to %.3f, want about %.3f", c, got, want)
		}
	}
}

func TestValuesDiffer(t *testing.T) {
	t.Parallel()
	g := generator(t, "fieldcount", "1")
	seen := make(map[string]bool)
	for n := range int64(10_000) {
		seen[string(newRow(g, []byte("k"), n))] = true
	}
	if len(seen) != 10_000 {
		t.Errorf("%d different values of 10000", len(seen))
	}
}

var integrityShapes = [][]string{
	{},
	{"valueformat", "ycsb"},
	{"valueformat", "raw"},
	{"fieldcount", "1", "fieldlength", "10"},
	{"fieldcount", "1", "fieldlength", "3"},
	{"fieldcount", "1", "fieldlength", "3", "valueformat", "raw"},
	{"fieldcount", "70", "fieldlength", "20"},
	{"fieldlengthdistribution", "uniform"},
	{"fieldlengthdistribution", "zipfian", "fieldcount", "1", "valueformat", "raw"},
	{"integrityformat", "go-ycsb"},
	{"integrityformat", "go-ycsb", "fieldlength", "12"},
	{"compressibility", "0.5"},
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, shape := range integrityShapes {
		t.Run(strings.Join(shape, " "), func(t *testing.T) {
			g := generator(t, append(shape, "dataintegrity", "true")...)
			var undetected, flips int
			for n := range int64(20) {
				key := g.Key(nil, n)
				row := newRow(g, key, n)
				if err := g.Check(key, row); err != nil {
					t.Fatal(err)
				}
				if len(row) > 60 {
					if err := g.Check(g.Key(nil, n+1), row); err == nil {
						t.Error("the row of another key passes")
					}
				}
				for i := range row {
					flips++
					row[i] ^= 1 << (i % 7)
					if g.Check(key, row) == nil {
						undetected++
					}
					row[i] ^= 1 << (i % 7)
				}
				// What is left of a cut raw field may be too short to tell.
				for cut := sumSize; cut < len(row); cut++ {
					if err := g.Check(key, row[:cut]); err == nil {
						t.Errorf("a row cut from %d to %d bytes passes", len(row), cut)
					}
				}
			}
			if undetected*100 > flips {
				t.Errorf("%d of %d changes were not noticed", undetected, flips)
			}
		})
	}
}

// go-ycsb's dataintegrity values, as its algorithm makes them: key, field and FNV-1a
// hashes of all before.
func TestCheckTakesGoYCSBsValues(t *testing.T) {
	t.Parallel()
	writer := generator(t, "dataintegrity", "true", "integrityformat", "go-ycsb")
	reader := generator(t, "dataintegrity", "true")
	key := writer.Key(nil, 0)
	row := newRow(writer, key, 0)
	c, err := writer.values.codec.cell(row, 0)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(row[c.content:c.end]); !strings.HasPrefix(text, "user6284781860667377211:field0:") || len(text) != 100 {
		t.Errorf("%s", text)
	}
	if err := reader.Check(key, row); err != nil {
		t.Error(err)
	}
	row[len(row)-1] ^= 1
	if err := reader.Check(key, row); err == nil || !strings.Contains(err.Error(), "field9") {
		t.Errorf("error %v", err)
	}
}

func TestWrongValuesAreNamed(t *testing.T) {
	t.Parallel()
	g := generator(t, "dataintegrity", "true")
	key := g.Key(nil, 0)
	row := newRow(g, key, 0)
	swapped := bytes.Clone(row)
	copy(swapped[105:], row[210:315]) // field 2 in the place of field 1, with its number
	swapped[106] = 2
	tests := []struct {
		row  []byte
		want string
	}{
		{nil, "is empty"},
		{[]byte{0}, "lacks field0: 0 of 10"},
		{row[:1049], "cut off"},
		{row[:945], "lacks field9: 9 of 10"},
		{[]byte("hello, world"), "begins with 0x08"},
		{append(bytes.Clone(row), row[:105]...), "has field0 twice"},
		{append(append(bytes.Clone(row[:105]), row[210:315]...), row[105:210]...), "lacks field3: 3 of 10"},
	}
	for _, test := range tests {
		err := g.Check(key, test.row)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), string(key)) {
			t.Errorf("error %v, want %q", err, test.want)
		}
	}
	row[50] ^= 0x20
	if err := g.Check(key, row); err == nil || !strings.Contains(err.Error(), "field0: its checksum") {
		t.Errorf("error %v", err)
	}
}

func FuzzRow(f *testing.F) {
	f.Add([]byte{}, uint8(0))
	f.Add([]byte{0}, uint8(0))
	f.Add([]byte{8, 0, 2, 6, 'a', 'b', 'c'}, uint8(0))
	f.Add([]byte{8, 0, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, uint8(0))
	f.Add([]byte{0, 0, 0, 6, 'f', 'i', 'e', 'l', 'd', '0', 0, 0, 0, 1, 'x'}, uint8(1))
	f.Add(bytes.Repeat([]byte{255}, 40), uint8(2))
	var generators []*Generator
	for _, shape := range integrityShapes {
		generators = append(generators, generator(f, append(shape, "dataintegrity", "true")...))
	}
	f.Add([]byte("00001000"), uint8(0))
	balances := generator(f, bank()...)
	f.Fuzz(func(t *testing.T, row []byte, which uint8) {
		if balance, err := balances.values.balanceOf([]byte("k"), row); err == nil && !bytes.Equal(balances.values.appendBalance(nil, balance), row) {
			t.Errorf("%q is read as %d", row, balance)
		}
		g := generators[int(which)%len(generators)]
		key := []byte("usertable:user1")
		before := bytes.Clone(row)
		checked := g.values.check(key, row, noFields)
		_ = g.Check(key, row)
		r := newRandom(1, 1)
		changed, err := g.values.replace(nil, row, &r, key, 0, &g.fields)
		if !bytes.Equal(row, before) {
			t.Fatal("the row that was read has been changed")
		}
		if checked == nil && err != nil {
			t.Errorf("a row of good shape cannot be changed: %v", err)
		}
		if checked == nil && g.values.check(key, changed, 0) != nil {
			t.Errorf("the changed field of %x is wrong: %v", changed, g.values.check(key, changed, 0))
		}
	})
}
