// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/analysis/internal/golden"
)

// studied is a study as JSON has it: two variants along threads, of which a run failed.
const studied = `{"version":1,"id":"threads-20260102-150405-abcdef","name":"threads","varied":["threadcount"],"runs_planned":12,"runs_left":1,"runs_skipped":1,"ended":"3 runs failed in a row",
"cells":[
 {"variant":"A","values":["1"],"runs":[{"run_id":"r1","repeat":1,"code":0,"text":"valid","ops_per_s":1000,"limit_by":"unknown"},{"run_id":"r2","repeat":2,"code":5,"text":"missed","ops_per_s":1100,"limit_by":"client"}],
  "ops_per_s":{"median":1050,"min":1000,"max":1100},"in_flight":{"median":1,"min":1,"max":1},"client_cpu_share":{"median":0.1,"min":0.05,"max":0.15},"client_limit":1,
  "cost":{"currency":"U<b>","cluster_per_month":2628,"clients_per_month":262.8,"cluster_per_million_ops":{"median":0.95,"min":0.9,"max":1},"clients_per_million_ops":{"median":0.095,"min":0.09,"max":0.1},"at_most":true,"why":"the client was the limit"},
  "service_us":{"p50":{"value":500,"min":400,"max":600},"p99":{"value":2000,"min":1500,"max":2500},"p99_9":{"value":9000,"min":8000,"max":10000,"too_few":true}}},
 {"variant":"B","values":["1"],"runs":[],"failed":[{"run_id":"r3","repeat":1,"code":4,"text":"a <b>worker</b> was lost\u001b[31m"}],"skipped":[{"repeat":2,"broken_by_run_id":"r9","text":"at B threadcount=0 READ <b>p99</b> is 9 ms, above 5 ms"}]},
 {"variant":"A","values":["2"],"runs":[{"run_id":"r4","repeat":1,"code":0,"text":"valid","ops_per_s":2000,"limit_by":"server"}],
  "ops_per_s":{"median":2000,"min":2000,"max":2000},"in_flight":{"median":2,"min":2,"max":2},"client_cpu_share":{"median":0.2,"min":0.2,"max":0.2},"client_limit":0,
  "cost":{"currency":"USD","cluster_per_month":2628,"clients_per_month":0,"cluster_per_million_ops":{"median":0.5,"min":0.5,"max":0.5},"clients_per_million_ops":{"median":0,"min":0,"max":0},"at_most":false},
  "service_us":{"p50":{"value":500,"min":500,"max":500},"p99":{"value":2000,"min":2000,"max":2000},"p99_9":{"value":3.6e9,"min":3.6e9,"max":3.6e9,"at_least":true}}},
 {"variant":"A","values":["4"],"runs":[{"run_id":"r5","repeat":1,"code":0,"text":"valid","ops_per_s":2050,"limit_by":"server"}],
  "ops_per_s":{"median":2050,"min":2050,"max":2050},"in_flight":{"median":4,"min":4,"max":4},"client_cpu_share":{"median":0.2,"min":0.2,"max":0.2},"client_limit":0}
],
"sweep":{"key":"threadcount","curves":[{"title":"A","at":[1,2,4],"cells":[0,2,3],"knee":{"rule":"95 % of the highest rate","at":2,"above":1,"up_to":2,"text":"from threadcount=2 on more does not help"}},{"title":"B","at":[1],"cells":[1]}]},
"versus":[{"a":"A","b":"B","values":["2"],"text":"B answers 11.2 % ± 3.0 % more than A","comparison":{"price_for_performance":{"currency":"USD","a_ops":1000,"b_ops":1112,"change":0.112,"noise":0.03,"judged":"better"},"deltas":[
 {"kind":"TOTAL","metric":"ops_per_s","change":0.112,"noise":0.03,"p":0.01,"judged":"better"},
 {"kind":"TOTAL","metric":"service_us_p50","change":-0.01,"noise":0.03,"p":1,"judged":"within noise"},
 {"kind":"TOTAL","metric":"service_us_p99","judged":"unknown","why":"too few"},
 {"kind":"TOTAL","metric":"service_us_mean","judged":"not judged"}]}}]}`

func TestStudy(t *testing.T) {
	t.Parallel()
	var s analysis.Study
	if err := json.Unmarshal([]byte(studied), &s); err != nil {
		t.Fatal(err)
	}
	s.Cells[0].Runs[0].Page = "threads/r1/report.html"
	for _, f := range Studies {
		var b bytes.Buffer
		if err := Study(&b, &s, f, Style{}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "\x1b") || f == HTML && strings.Contains(b.String(), "<b>") {
			t.Errorf("%s shows what comes from elsewhere as it is", f)
		}
		switch f {
		case JSON:
			var again analysis.Study
			if err := json.Unmarshal(b.Bytes(), &again); err != nil || len(again.Cells) != len(s.Cells) || again.Sweep.Curves[0].Knee.Text != s.Sweep.Curves[0].Knee.Text {
				t.Errorf("read again: %+v, %v", again, err)
			}
			continue
		case CSV:
			rows, err := csv.NewReader(&b).ReadAll() // all have as many fields as the head
			if err != nil || len(rows) != 5 {
				t.Fatalf("%d rows, %v", len(rows), err)
			}
			at := func(row int, name string) string {
				for i, head := range rows[0] {
					if head == name {
						return rows[row][i]
					}
				}
				t.Fatalf("no column %s", name)
				return ""
			}
			if at(1, "ops_per_s_max") != "1100" || at(1, "service_us_p99_min") != "1500" || at(1, "service_us_p99_9") != "" || at(2, "failed") != "1" || at(2, "skipped") != "1" || at(1, "cluster_per_million_ops_min") != "0.9" || at(1, "cost_at_most") != "true" || at(3, "cost_at_most") != "false" || at(2, "currency") != "" || at(2, "ops_per_s") != "" || at(3, "threadcount") != "2" {
				t.Errorf("%v", rows)
			}
			continue
		}
		golden.Check(t, "study."+string(f), b.Bytes())
	}
}
