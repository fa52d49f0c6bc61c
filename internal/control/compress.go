// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

// Compress makes what goes to every worker of a fleet small.
func Compress(data []byte) ([]byte, error) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// Decompress is the inverse of [Compress]. More than so many bytes are refused.
func Decompress(packed []byte, most int64) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("it has more than %d bytes", most)
	}
	if err != nil {
		return nil, err
	}
	return data, r.Close()
}
