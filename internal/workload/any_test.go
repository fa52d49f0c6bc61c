// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"math/rand/v2"
	"testing"

	"github.com/kvbench/kvbench/internal/spec"
)

// Whatever the properties, a load writes its records and a run's operations add up:
// each is counted once, rows stay what they should be, and nothing is ever wrong.
func TestAnyWorkload(t *testing.T) {
	t.Parallel()
	choices := map[string][]string{
		"recordcount":             {"1", "2", "97", "300"},
		"batch.size":              {"1", "3", "20"},
		"fieldcount":              {"1", "3", "70"},
		"fieldlength":             {"1", "6", "7", "40"},
		"fieldlengthdistribution": {"constant", "uniform", "zipfian", "histogram"},
		"fieldlengthhistogram":    {"4:1,0,3"},
		"valueformat":             {"go-ycsb", "ycsb", "raw"},
		"integrityformat":         {"crc32c", "go-ycsb"},
		"compressibility":         {"0", "0.3", "1"},
		"requestdistribution":     {"uniform", "sequential", "zipfian", "latest", "hotspot", "exponential"},
		"hotspotdatafraction":     {"0", "0.2", "1"},
		"zipfian.items":           {"0", "10000000000"},
		"scanlengthdistribution":  {"uniform", "zipfian"},
		"insertorder":             {"hashed", "ordered"},
		"keyhash":                 {"go-ycsb", "ycsb", "mix"},
		"keyformat":               {"decimal", "hex"},
		"keylength":               {"0", "30"},
		"updatemode":              {"read-modify-write", "blind", "compare-and-swap"},
		"updatemissing":           {"true", "false"},
		"readallfields":           {"true", "false"},
		"writeallfields":          {"true", "false"},
		"insertproportion":        {"0", "0.3"},
		"deleteproportion":        {"0", "0.1"},
		"scanproportion":          {"0", "0.1"},
		"updateproportion":        {"0", "0.5"},
	}
	r := rand.New(rand.NewPCG(11, 12))
	tried := 0
	for tried < 100 {
		properties := map[string]string{"dataintegrity": "true"}
		for name, values := range choices {
			properties[name] = values[r.IntN(len(values))]
		}
		run, err := spec.ParseMap(properties)
		if err != nil {
			continue // a combination that is refused
		}
		tried++
		properties["dotransactions"] = "false"
		load, err := spec.ParseMap(properties)
		if err != nil {
			t.Fatal(err)
		}
		m := newMemory()
		g := laneOf(t, load, Place{0, 1, 0, 1})
		var op Operation
		for i := int64(0); m.run(g, &op, i); i++ {
		}
		if int64(len(m.rows)) != run.Records {
			t.Fatalf("%v: %d rows of %d", properties, len(m.rows), run.Records)
		}
		g = laneOf(t, run, Place{0, 1, 0, 1})
		for i := range int64(60) {
			m.run(g, &op, i)
			var sum int32
			for _, n := range op.Result.Count {
				sum += n
			}
			if sum != int32(run.Batch) || op.Result.Count[Wrong]+op.Result.Count[Failed] > 0 {
				t.Fatalf("%v: %v has %+v", properties, op.Kind, op.Result)
			}
		}
		for key, row := range m.rows {
			if err := g.Check([]byte(key), row); err != nil {
				t.Fatalf("%v: %v", properties, err)
			}
			if len(key) > g.KeyBytes() || int64(len(row)) > g.RowBytes() {
				t.Fatalf("%v: key of %d bytes, row of %d", properties, len(key), len(row))
			}
		}
	}
}
