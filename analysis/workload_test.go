// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"maps"
	"testing"

	"github.com/kvbench/kvbench/internal/results"
)

func TestWorkloadInALine(t *testing.T) {
	t.Parallel()
	none := map[string]string{"readproportion": "0", "updateproportion": "0", "insertproportion": "0", "deleteproportion": "0", "scanproportion": "0", "readmodifywriteproportion": "0"}
	with := func(more map[string]string) map[string]string {
		all := maps.Clone(none)
		maps.Copy(all, more)
		return all
	}
	for _, c := range []struct {
		run  results.Run
		want string
	}{
		{results.Run{Phase: "run"}, ""},
		{results.Run{Phase: "run", Spec: map[string]string{"readproportion": "0.5"}}, ""}, // what the others were is not known
		{results.Run{Phase: "run", Spec: with(map[string]string{"readproportion": "1", "updateproportion": "3"})}, "UPDATE 75 %, READ 25 %"},
		{results.Run{Phase: "run", Spec: with(map[string]string{"readmodifywriteproportion": "0.2", "recordcount": "2000", "fieldcount": "10", "fieldlength": "100", "requestdistribution": "zipfian"})},
			"READ_MODIFY_WRITE · 2,000 records · 10 × 100 B · zipfian"},
		{results.Run{Phase: "load", Plan: results.Plan{Records: 1}, Spec: with(map[string]string{"readproportion": "1", "fieldcount": "1", "fieldlength": "9", "fieldlengthdistribution": "uniform", "requestdistribution": "zipfian"})},
			"1 record · 1 × 9 B at most (uniform)"},
		{results.Run{Phase: "run", Spec: with(map[string]string{"readproportion": "Inf"})}, ""},
	} {
		if got := workloadOf(&c.run); got != c.want {
			t.Errorf("%v: %q, want %q", c.run.Spec, got, c.want)
		}
	}
}

func TestParsePercentiles(t *testing.T) {
	t.Parallel()
	if got, err := ParsePercentiles("99.9, p50,50,75"); err != nil || len(got) != 3 || got[0] != 50 || got[2] != 99.9 {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "50,", "0", "100", "-1", "NaN", "p", "many", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21"} {
		if got, err := ParsePercentiles(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}
