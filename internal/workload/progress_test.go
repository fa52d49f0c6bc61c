// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestDoneAgainstASet(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	for range 200 {
		var d Done
		set := make(map[int64]bool)
		for range r.IntN(60) {
			from := int64(r.IntN(100))
			to := from + int64(r.IntN(6)) - 1
			d.AddRange(from, to)
			for n := from; n < to; n++ {
				set[n] = true
			}
		}
		text, err := d.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var again Done
		if err := again.UnmarshalText(text); err != nil {
			t.Fatal(err)
		}
		all := slices.Collect(maps.Keys(set))
		for _, d := range []*Done{&d, &again} {
			if from, to := d.Bounds(); len(set) == 0 && to != 0 || len(set) > 0 && (from != slices.Min(all) || to != slices.Max(all)+1) {
				t.Fatalf("%s: from %d to %d", text, from, to)
			}
			if d.Len() != int64(len(set)) {
				t.Fatalf("%s: length %d, want %d", text, d.Len(), len(set))
			}
			for n := range int64(110) {
				if d.Contains(n) != set[n] {
					t.Fatalf("%s: Contains(%d) is %v", text, n, d.Contains(n))
				}
				next := n
				for set[next] {
					next++
				}
				if d.Next(n) != next {
					t.Fatalf("%s: Next(%d) is %d, want %d", text, n, d.Next(n), next)
				}
			}
		}
		for i := 1; i < len(d.later); i++ {
			if d.later[i].from <= d.later[i-1].to {
				t.Fatalf("spans touch: %s", text)
			}
		}
	}
}

func TestDoneText(t *testing.T) {
	t.Parallel()
	var d Done
	for _, n := range []int64{0, 1, 2, 5, 7, 8} {
		d.Add(n)
	}
	if text, _ := d.MarshalText(); string(text) != "0-2,5,7-8" {
		t.Errorf("%s", text)
	}
	for _, bad := range []string{"x", "3-1", "5,4", "0-5,5", "-1", "1-", "0-9223372036854775807", "1,,2"} {
		if err := d.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// A load that is killed at any moment and continued by other fleets with other batch sizes ends with
// exactly its records, and begins no batch again that was done by the same fleet.
func TestLoadContinues(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(9, 10))
	for range 40 {
		records := 1 + r.IntN(2000)
		m := newMemory()
		var journal []LaneProgress
		again := 0
		for attempt := range 6 {
			workers, lanes, batch := 1+r.IntN(3), 1+r.IntN(3), 1+r.IntN(30)
			s := parse(t, "dotransactions", "false", "insertorder", "ordered", "fieldcount", "1",
				"recordcount", fmt.Sprint(records), "batch.size", fmt.Sprint(batch))
			progress, err := NewProgress(journal...)
			if err != nil {
				t.Fatal(err)
			}
			last := attempt == 5
			for w := range workers {
				for l := range lanes {
					place := Place{w, workers, l, lanes}
					g := laneOf(t, s, place)
					report := LaneProgress{Worker: w, Workers: workers, Lane: l, Lanes: lanes, Batch: int64(batch)}
					var op Operation
					kill := r.Int64N(40)
					for j := int64(0); last || j < kill; j++ {
						index := place.Index(j)
						if !g.Begin(&op, index) {
							break
						}
						if progress.Loaded(index*int64(batch), min((index+1)*int64(batch), int64(records))) {
							continue
						}
						if !last && r.IntN(5) == 0 {
							continue // still in flight when it was killed
						}
						for _, key := range op.Call.Keys {
							if m.rows[string(key)] != nil {
								again++
							}
						}
						m.run(g, &op, index)
						report.Done.Add(j)
					}
					data, err := json.Marshal(report)
					if err != nil {
						t.Fatal(err)
					}
					var back LaneProgress
					if err := json.Unmarshal(data, &back); err != nil {
						t.Fatal(err)
					}
					journal = append(journal, back)
				}
			}
		}
		if len(m.rows) != records {
			t.Fatalf("%d rows of %d", len(m.rows), records)
		}
		// Only batches of another size that overlap a gap are written again in part.
		if again > records*6 {
			t.Errorf("%d of %d records were written again", again, records)
		}
		done, err := NewProgress(journal...)
		if err != nil {
			t.Fatal(err)
		}
		if !done.Loaded(0, int64(records)) {
			t.Error("the journal says that the load is not complete")
		}
	}
}

func TestProgressRefusesNonsense(t *testing.T) {
	t.Parallel()
	for _, l := range []LaneProgress{
		{},
		{Workers: 1, Lanes: 1},
		{Workers: 1 << 30, Lanes: 1 << 30, Batch: 1},
		{Worker: 3, Workers: 3, Lanes: 1, Batch: 1},
	} {
		if _, err := NewProgress(l); err == nil {
			t.Errorf("%+v is taken", l)
		}
	}
}

func FuzzDone(f *testing.F) {
	f.Add("0-99,105,107-120")
	f.Add("")
	f.Add("0-4611686018427387903")
	f.Fuzz(func(t *testing.T, text string) {
		var d Done
		if d.UnmarshalText([]byte(text)) != nil {
			return
		}
		out, err := d.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var again Done
		if err := again.UnmarshalText(out); err != nil || again.Len() != d.Len() {
			t.Fatalf("%q becomes %q: %v", text, out, err)
		}
	})
}
