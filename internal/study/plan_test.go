// SPDX-License-Identifier: Apache-2.0

package study

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/internal/spec"
)

// plain resolves without environment and flags.
type plain struct{}

func (plain) Run(workloads []string, pairs []spec.Pair) (*spec.Spec, error) {
	sources := []spec.Source{}
	for _, w := range workloads {
		if strings.ContainsAny(w, "/.") { // tests read no files
			continue
		}
		s, err := spec.FileSource(w)
		if err != nil {
			return nil, err
		}
		sources = append(sources, s)
	}
	return spec.Parse(append(sources, spec.Source{Name: "study", Pairs: pairs})...)
}

func (plain) Load(pairs []spec.Pair) (*spec.Spec, error) {
	return spec.Parse(spec.Source{Name: "study", Pairs: append(pairs, spec.Pair{Key: "dotransactions", Value: "false"})})
}

func planOf(t *testing.T, text string) *Plan {
	t.Helper()
	f, err := Parse("s.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p, err := f.Plan(plain{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPlan(t *testing.T) {
	t.Parallel()
	p := planOf(t, "vary: {threadcount: [1, 2]}\nvariants: {A: {driver: rawkv}, B: {driver: stream}}\nrepeats: 2\nproperties: {maxexecutiontime: 20, warmuptime: 5}")
	var titles []string
	for _, s := range p.Steps {
		titles = append(titles, fmt.Sprint(p.Cells[s.Cell].Title(), " #", s.Repeat))
	}
	want := "A threadcount=1 #1, B threadcount=1 #1, A threadcount=2 #1, B threadcount=2 #1, A threadcount=1 #2, B threadcount=1 #2, A threadcount=2 #2, B threadcount=2 #2"
	if got := strings.Join(titles, ", "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	s, err := p.Cells[3].Spec()
	if err != nil || s.Threads != 2 || s.Driver != spec.Stream || p.Cells[3].Length().Seconds() != 25 {
		t.Errorf("the last cell: %+v, %v", p.Cells[3], err)
	}
	if s.IsDefault("threadcount") || !s.RecordsOpen() {
		t.Error("what nobody wrote has become a property")
	}
}

// Whatever is varied: each combination is there once, is run once in each repeat, all before the next repeat, in an
// order that the seed decides.
func TestPlansAreComplete(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	keys := []string{"threadcount", "batch.size", "fieldlength", "tikv.conncount"}
	for range 60 {
		f := &File{Rules: DefaultRules()}
		f.Rules.Repeats, f.Rules.Seed = 1+random.IntN(4), random.Uint64N(100)
		f.Rules.Order = []string{Interleaved, Random}[random.IntN(2)]
		want := 1
		for _, key := range keys[:1+random.IntN(len(keys))] {
			d := Dimension{Key: key}
			for v := range 1 + random.IntN(4) {
				d.Values = append(d.Values, spec.Pair{Key: key, Value: strconv.Itoa(v + 1)})
			}
			f.Vary = append(f.Vary, d)
			want *= len(d.Values)
		}
		for v := range random.IntN(4) {
			f.Variants = append(f.Variants, Variant{Name: fmt.Sprint("V", v)})
		}
		want *= max(1, len(f.Variants))
		p, err := f.Plan(plain{})
		if err != nil {
			t.Fatal(err)
		}
		titles := make(map[string]bool)
		for i := range p.Cells {
			titles[p.Cells[i].Title()] = true
		}
		if len(p.Cells) != want || len(titles) != want || len(p.Steps) != want*f.Rules.Repeats {
			t.Fatalf("%d cells, %d of them different, and %d steps; want %d cells", len(p.Cells), len(titles), len(p.Steps), want)
		}
		for i, s := range p.Steps {
			if s.Repeat != i/want+1 {
				t.Fatalf("step %d is of repeat %d", i, s.Repeat)
			}
			for _, other := range p.Steps[i/want*want : i] {
				if other.Cell == s.Cell {
					t.Fatalf("cell %d is there twice in repeat %d", s.Cell, s.Repeat)
				}
			}
			if f.Rules.Order == Interleaved && s.Cell != i%want {
				t.Fatalf("step %d is of cell %d", i, s.Cell)
			}
		}
		again, err := f.Plan(plain{})
		if err != nil || !reflect.DeepEqual(p, again) {
			t.Fatalf("the same study makes another plan (%v)", err)
		}
	}
}

// Records of different shapes or numbers get tables of their own, if they are loaded once; those of other clusters need none.
func TestTables(t *testing.T) {
	t.Parallel()
	p := planOf(t, "load: once\nvary: {fieldlength: [10, 20], threadcount: [1, 2], tikv.pd: [\"a:1\", \"b:1\"]}\nproperties: {recordcount: 50, maxexecutiontime: 5, batch.size: 7}\nload-properties: {threadcount: 9}")
	for i := range p.Cells {
		c := &p.Cells[i]
		s, err := c.Spec()
		if err != nil {
			t.Fatal(err)
		}
		load, err := spec.ParseMap(c.LoadProperties)
		if err != nil {
			t.Fatal(err)
		}
		want := map[int]string{10: "usertable", 20: "usertable-2"}[s.Row.FieldLength]
		if s.Key.Table != want || load.Key.Table != want || load.Row.FieldLength != s.Row.FieldLength || load.TiKV.PD[0] != s.TiKV.PD[0] {
			t.Errorf("%s: table %s, loaded %s", c.Title(), s.Key.Table, load.Key.Table)
		}
		if load.Phase != spec.Load || load.Records != 50 || load.Threads != 9 || load.Batch != 1 || load.Duration != 0 {
			t.Errorf("%s: load %+v", c.Title(), load)
		}
		if want := c.Data == p.Cells[0].Data; want != (s.Row.FieldLength == 10 && s.TiKV.PD[0] == "a:1") {
			t.Errorf("%s: data %d", c.Title(), c.Data)
		}
	}
}

func TestPlanFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"repeats: 2": "nothing is varied",
		"vary: {threadcuont: [1, 2]}\nproperties: {fieldlength: -1}":                        "s.yaml:1:22: threadcuont=1: unknown property; did you mean threadcount?",
		"vary: {threadcount: [1, x]}":                                                       "s.yaml:1:25: threadcount=x: ",
		"vary: {threadcount: [1, 2]}\nproperties: {threadcount: 3}":                         "s.yaml:2:14: threadcount is varied (s.yaml:1:22): leave it out here",
		"vary: {threadcount: [1, 2]}\nvariants: {A: {threadcount: 3}}":                      "set by variant A",
		"vary: {threadcount: 1..1000/1000, batch.size: 1..1000/1000}":                       "more than 10000 runs",
		"vary: {workload: [read, nosuch]}":                                                  "there is no workload named nosuch",
		"vary: {threadcount: [1, 2]}\nslo: READ response p99 < 5ms":                         "has no response time",
		"vary: {maxexecutiontime: [1, 20]}\nhooks: {during: {at: 5s, command: x}}":          "lies behind the end of a run of 1s",
		"load: once\nvary: {threadcount: [1, 2]}\nload-properties: {threadcuont: 1}":        "s.yaml:3:19: threadcuont=1",
		"vary: {threadcount: [1, 2]}\nslo: errors < 1%\nstop: {skip-higher: target}":        "s.yaml:3:21: skip-higher target: is not varied: want a property that is (threadcount)",
		"vary: {driver: [rawkv, stream]}\nslo: errors < 1%\nstop: {skip-higher: driver}":    "s.yaml:3:21: skip-higher driver: is varied over rawkv, which is no number",
		"vary: {threadcount: [1, 2]}\nstop: {skip-higher: threadcount}":                     "s.yaml:2:21: skip-higher threadcount: there is no objective",
		"variants: {A: , B: }\nprices: {C: c.yaml}":                                         "s.yaml:2:10: prices of C: there is no such variant",
		"vary: {threadcount: [1, 2]}\nproperties: {readproportion: 0, updateproportion: 0}": "",
	} {
		f, err := Parse("s.yaml", []byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if _, err := f.Plan(plain{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
