// SPDX-License-Identifier: Apache-2.0

package prices

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const example = `
currency: USD
cluster:
  - {kind: tikv, count: 3, per_hour: 1.25}
  - kind: pd
    count: 3
    per_month: 73   # 0.10 an hour
clients:
  - {kind: client, count: 2, per_hour: 0.5}
`

// nodes is a file with one kind of nodes.
func nodes(fields string) string { return "currency: USD\ncluster:\n  - {" + fields + "}\n" }

func TestReadFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "prices.yaml")
	read := func(text string) (*Prices, error) {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		var f Flag
		err := f.Set(path)
		return f.Prices, err
	}
	got, err := read(example)
	if err != nil || got.Currency != "USD" || got.HoursPerMonth != 730 || math.Abs(got.Cluster-4.05) > 1e-9 || got.Clients != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = read("currency: €\nhours_per_month: 500\ncluster: [{kind: all, count: 1, per_month: 1000}]")
	if err != nil || got.Cluster != 2 || got.Clients != 0 || got.Currency != "€" {
		t.Errorf("%+v, %v", got, err)
	}
	for text, want := range map[string]string{
		"":                                       path + ":1:1: there is nothing in it",
		"# none":                                 "there is nothing in it",
		"currency: USD":                          path + ":1:1: there is no price of the cluster",
		"cluster: []":                            "there is no currency",
		"currency: USD\ncost: 5":                 path + `:2:1: "cost" is none of currency, hours_per_month, cluster, clients`,
		"currency: USD\ncluster: 5":              path + ":2:10: want a list",
		"currency: [USD]":                        path + ":1:11: want one plain value",
		"currency: more than eight\ncluster: []": path + ":1:11: want a name of up to 8 bytes",
		"currency: USD\nhours_per_month: 745\ncluster: []":       path + `:2:18: "745": want a number from 0 to 744`,
		"currency: USD\nhours_per_month: 0\ncluster: []":         path + ":2:18: a month has more than 0 hours",
		nodes("count: 3, per_hour: 1"):                           path + ":3:6: there is no kind",
		nodes("kind: tikv, per_hour: 1"):                         path + ":3:6: there is no count",
		nodes("kind: tikv, count: 3"):                            path + ":3:6: want either per_hour or per_month",
		nodes("kind: tikv, count: 3, per_hour: 1, per_month: 2"): path + ":3:6: want either per_hour or per_month",
		nodes("kind: tikv, count: 2.5, per_hour: 1"):             path + ":3:25: want a whole number of nodes",
		nodes("kind: tikv, count: 0, per_hour: 1"):               "want a whole number of nodes, 1 or more",
		nodes("kind: tikv, count: 1, per_hour: -1"):              path + `:3:38: "-1": want a number from 0`,
		nodes("kind: tikv, count: 1, per_hour: .nan"):            path + `:3:38: ".nan": want a number`,
		nodes("kind: tikv, count: 1, per_hour: one"):             path + `:3:38: "one": want a number`,
		nodes("kind: tikv, count: 1, price: 1"):                  path + `:3:28: "price" is none of kind`,
		nodes("kind: tikv, count: 1, per_hour: 0"):               "there is no price of the cluster",
		nodes("kind: tikv, count: *many, per_hour: 0"):           path + ":3:25: ",
		"currency: USD\ncluster:\n  -\n":                         path + ":3:",
		"currency: USD\ncurrency: EUR":                           path + ":2:1: ",
		"currency: USD\n---\ncurrency: EUR":                      path + ":3:",
		"currency: USD\ncluster: [":                              path + ":2:10: ",
		"currency: \"a\\nb\"\ncluster: []":                       path + ":1:11: want one line",
		strings.Repeat("# long\n", 10_000):                       "more than",
	} {
		got, err := read(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %+v, %v, want %q", text, got, err, want)
		}
	}
	if _, err := ReadFile(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there is read")
	}
}

// Whatever stands in a file, it is refused or makes prices that one can divide by.
func FuzzParse(f *testing.F) {
	f.Add([]byte(example))
	f.Add([]byte("currency: €\nhours_per_month: 0x10\ncluster: [{kind: all, count: 1e3, per_month: 1_000}]"))
	f.Add([]byte("currency: &a USD\ncluster:\n  - &b {kind: *a, count: 1, per_hour: 1}\n  - *b\nclients:\n  -"))
	f.Add([]byte("? {currency: USD}\n: !!binary aGk="))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Parse(text)
		if err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Error("an error without a text")
			}
			return
		}
		if !(p.Cluster > 0) || !(p.Clients >= 0) || !(p.HoursPerMonth > 0) || math.IsInf(p.Cluster+p.Clients, 0) || p.Currency == "" {
			t.Errorf("%+v", p)
		}
	})
}
