// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/kvbench/kvbench/internal/spec"
)

func TestFastLoad(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		properties string
		want       string // name=value of what is taken
		said       string
	}{
		{"", "threadcount=32 batch.size=100", "threadcount and batch.size are not set: a load takes 32 calls in flight per worker, 100 records in a call"},
		{"threadcount=1", "batch.size=100", "batch.size is not set: a load takes 100 records in a call"},
		{"batch.size=1", "threadcount=32", "threadcount is not set: a load takes 32 calls in flight per worker"},
		{"batch.size=1 threadcount=1", "", ""},
		{"target=500", "threadcount=32", "threadcount is not set: a load takes 32 calls in flight per worker"},
		{"fieldcount=1 fieldlength=262144 threadcount=5", "batch.size=4", "batch.size is not set: a load takes 4 records in a call"},
		{"fieldcount=1 fieldlength=4000000 threadcount=5", "batch.size=1", "batch.size is not set: a load takes 1 records in a call"},
		{"fieldcount=1 fieldlength=0 threadcount=5", "batch.size=100", "batch.size is not set: a load takes 100 records in a call"},
		{"dotransactions=true operationcount=1", "", ""},
	} {
		written := map[string]string{"dotransactions": "false"}
		for _, p := range strings.Fields(c.properties) {
			name, value, _ := strings.Cut(p, "=")
			written[name] = value
		}
		s, err := spec.ParseMap(written)
		if err != nil {
			t.Fatal(err)
		}
		pairs, said := fastLoad(s)
		var got []string
		for _, p := range pairs {
			got = append(got, p.Key+"="+p.Value)
		}
		if strings.Join(got, " ") != c.want || said != c.said {
			t.Errorf("%q: %s, %q; want %s, %q", c.properties, got, said, c.want, c.said)
		}
	}
}
