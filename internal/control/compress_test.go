// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bytes"
	"testing"
)

func FuzzDecompress(f *testing.F) {
	const most = 1 << 16
	packed, err := Compress(bytes.Repeat([]byte("worker"), 1000))
	if err != nil {
		f.Fatal(err)
	}
	long, err := Compress(make([]byte, most+1))
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range [][]byte{nil, packed, packed[:len(packed)/2], long} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, packed []byte) {
		data, err := Decompress(packed, most)
		if len(data) > most || err != nil && data != nil {
			t.Fatalf("%d bytes, %v", len(data), err)
		}
	})
}

func TestCompress(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 100_000} {
		data := bytes.Repeat([]byte("x"), size)
		packed, err := Compress(data)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decompress(packed, int64(size))
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes: %d come back, %v", size, len(got), err)
		}
		if _, err := Decompress(packed, int64(size)-1); err == nil {
			t.Errorf("%d bytes are not refused where %d are allowed", size, size-1)
		}
	}
}
