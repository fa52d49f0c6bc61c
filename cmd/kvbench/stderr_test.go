// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"strings"
	"testing"
)

// TestDropping writes into a pipe that is read late: the writes in between return, and it is said how many were not shown.
func TestDropping(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	d := newDropping(w)
	for _, text := range []string{"stuck\n", "dropped\n", "dropped too\n"} {
		if n, err := io.WriteString(d, text); n != len(text) || err != nil {
			t.Fatal(n, err)
		}
	}
	read := make(chan string)
	go func() {
		all, _ := io.ReadAll(r)
		read <- string(all)
	}()
	d.took <- <-d.took // the first has been read
	if _, err := io.WriteString(d, "shown\n"); err != nil {
		t.Fatal(err)
	}
	d.close()
	w.Close()
	if got := <-read; got != "stuck\n(2 messages were not shown)\nshown\n" {
		t.Errorf("%q", got)
	}
}

// TestDroppingPassesAll is of a reader that reads.
func TestDroppingPassesAll(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	d := newDropping(&b)
	for range 100 {
		if _, err := io.WriteString(d, "x\n"); err != nil {
			t.Fatal(err)
		}
	}
	d.close()
	if b.String() != strings.Repeat("x\n", 100) {
		t.Errorf("%q", b.String())
	}
}
