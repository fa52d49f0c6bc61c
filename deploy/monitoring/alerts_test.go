// SPDX-License-Identifier: Apache-2.0

package monitoring_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"
)

// alertTests is for promtool: what a fleet of two workers with a target of 1,000
// operations a second shows for five minutes, and what should be said about it.
// One worker keeps its share; the other does what the test is about.
const alertTests = `
rule_files: [rules.yaml]
evaluation_interval: 10s
tests:
- name: all is well, and the run ends
  interval: 10s
  input_series:
  - {series: 'kvbench_run_active{namespace="n", run_id="r", instance="a"}', values: '1x20 0x10'}
  - {series: 'kvbench_due_operations_total{namespace="n", run_id="r", instance="a"}', values: '0+10000x20 200000x10'}
  - {series: 'kvbench_operations_total{namespace="n", run_id="r", instance="a", kind="READ", outcome="ok"}', values: '0+10000x20 200000x10'}
  - {series: 'kvbench_operations_total{namespace="n", run_id="r", instance="a", kind="READ", outcome="error"}', values: '0+50x20 1000x10'}
  - {series: 'kvbench_lag_seconds_bucket{namespace="n", run_id="r", instance="a", le="0.05"}', values: '0+10000x20'}
  - {series: 'kvbench_lag_seconds_bucket{namespace="n", run_id="r", instance="a", le="+Inf"}', values: '0+10000x20'}
  promql_expr_test:
  - {expr: 'count(ALERTS) or vector(0)', eval_time: 3m, exp_samples: [{labels: '{}', value: 0}]}
  - {expr: 'count(ALERTS) or vector(0)', eval_time: 5m, exp_samples: [{labels: '{}', value: 0}]}
  - {expr: 'kvbench:operations:rate1m{outcome="ok"}', eval_time: 3m, exp_samples: [{labels: 'kvbench:operations:rate1m{namespace="n", run_id="r", kind="READ", outcome="ok"}', value: 1000}]}
  - {expr: 'kvbench:due_operations:rate1m', eval_time: 3m, exp_samples: [{labels: 'kvbench:due_operations:rate1m{namespace="n", run_id="r"}', value: 1000}]}

- name: the target is missed
  interval: 10s
  input_series:
  - {series: 'kvbench_due_operations_total{namespace="n", run_id="r", instance="a"}', values: '0+5000x30'}
  - {series: 'kvbench_due_operations_total{namespace="n", run_id="r", instance="b"}', values: '0+5000x30'}
  - {series: 'kvbench_operations_total{namespace="n", run_id="r", instance="a", kind="READ", outcome="ok"}', values: '0+5000x30'}
  - {series: 'kvbench_operations_total{namespace="n", run_id="r", instance="b", kind="READ", outcome="ok"}', values: '0+4000x30'}
  promql_expr_test:
  - {expr: 'ALERTS{alertstate="firing"}', eval_time: 5m, exp_samples: [{labels: 'ALERTS{alertname="KvbenchTargetMissed", alertstate="firing", severity="warning", namespace="n", run_id="r"}', value: 1}]}
  alert_rule_test:
  - {alertname: KvbenchTargetMissed, eval_time: 5m, exp_alerts: [{exp_labels: {severity: warning, namespace: n, run_id: r}, exp_annotations: {summary: Run r does not reach its target rate., description: '900 operations a second over the last minute, below 95 % of the target.'}}]}

- name: a target that doubles every minute is met, a second late
  interval: 10s
  input_series:
  - {series: 'kvbench_due_operations_total{namespace="n", run_id="r", instance="a"}', values: '0 1060 2250 3586 5085 6767 8656 10776 13156 15827 18825 22191 25969 30209 34968 40311 46307 53038 60593 69074 78593 89277 101270 114732 129843'}
  - {series: 'kvbench_operations_total{namespace="n", run_id="r", instance="a", kind="READ", outcome="ok"}', values: '0 948 2125 3445 4927 6590 8457 10553 12905 15546 18510 21837 25571 29762 34467 39748 45676 52329 59798 68181 77590 88152 100008 113315 128252'}
  promql_expr_test:
  - {expr: 'count(ALERTS{alertstate="firing"}) or vector(0)', eval_time: 2m, exp_samples: [{labels: '{}', value: 0}]}
  - {expr: 'count(ALERTS{alertstate="firing"}) or vector(0)', eval_time: 3m, exp_samples: [{labels: '{}', value: 0}]}
  - {expr: 'count(ALERTS{alertstate="firing"}) or vector(0)', eval_time: 4m, exp_samples: [{labels: '{}', value: 0}]}

- name: there is no target to miss
  interval: 10s
  input_series:
  - {series: 'kvbench_due_operations_total{namespace="n", run_id="r", instance="a"}', values: '0x30'}
  - {series: 'kvbench_operations_total{namespace="n", run_id="r", instance="a", kind="READ", outcome="ok"}', values: '0+1x30'}
  promql_expr_test:
  - {expr: 'count(ALERTS) or vector(0)', eval_time: 5m, exp_samples: [{labels: '{}', value: 0}]}

- name: operations fail
  interval: 10s
  input_series:
  - {series: 'kvbench_operations_total{namespace="n", run_id="r", instance="a", kind="READ", outcome="ok"}', values: '0+9700x30'}
  - {series: 'kvbench_operations_total{namespace="n", run_id="r", instance="a", kind="READ", outcome="not_found"}', values: '0+150x30'}
  - {series: 'kvbench_operations_total{namespace="n", run_id="r", instance="a", kind="READ", outcome="error"}', values: '0+100x30'}
  - {series: 'kvbench_operations_total{namespace="n", run_id="r", instance="a", kind="READ", outcome="wrong"}', values: '0+50x30'}
  promql_expr_test:
  - {expr: 'ALERTS{alertstate="firing"}', eval_time: 5m, exp_samples: [{labels: 'ALERTS{alertname="KvbenchErrors", alertstate="firing", severity="warning", namespace="n", run_id="r"}', value: 1}]}

- name: a worker is behind
  interval: 10s
  input_series:
  - {series: 'kvbench_lag_seconds_bucket{namespace="n", run_id="r", instance="a", le="0.05"}', values: '0+1000x30'}
  - {series: 'kvbench_lag_seconds_bucket{namespace="n", run_id="r", instance="a", le="+Inf"}', values: '0+1000x30'}
  - {series: 'kvbench_lag_seconds_bucket{namespace="n", run_id="r", instance="b", le="0.05"}', values: '0+900x30'}
  - {series: 'kvbench_lag_seconds_bucket{namespace="n", run_id="r", instance="b", le="5"}', values: '0+1000x30'}
  - {series: 'kvbench_lag_seconds_bucket{namespace="n", run_id="r", instance="b", le="+Inf"}', values: '0+1000x30'}
  promql_expr_test:
  - {expr: 'ALERTS{alertstate="firing"}', eval_time: 5m, exp_samples: [{labels: 'ALERTS{alertname="KvbenchWorkerBehind", alertstate="firing", severity="warning", namespace="n", run_id="r", instance="b"}', value: 1}]}

- name: a worker vanishes
  interval: 10s
  input_series:
  - {series: 'kvbench_run_active{namespace="n", run_id="r", instance="kvbench-0"}', values: '1x50'}
  - {series: 'kvbench_run_active{namespace="n", run_id="r", instance="kvbench-1"}', values: '1x10 stale'}
  promql_expr_test:
  - {expr: 'count(ALERTS{alertstate="firing"}) or vector(0)', eval_time: 130s, exp_samples: [{labels: '{}', value: 0}]}
  - {expr: 'count(ALERTS{alertstate="firing"}) or vector(0)', eval_time: 8m, exp_samples: [{labels: '{}', value: 0}]}
  alert_rule_test:
  - {alertname: KvbenchWorkerLost, eval_time: 150s, exp_alerts: [{exp_labels: {severity: warning, namespace: n, run_id: r, instance: kvbench-1}, exp_annotations: {summary: Worker kvbench-1 vanished during run r., description: 'Nothing was heard of it for 30 s, or it was restarted. Its results up to the last second are in its journal, if its volume is still there.'}}]}

- name: one scrape of a worker is missed
  interval: 10s
  input_series:
  - {series: 'kvbench_run_active{namespace="n", run_id="r", instance="kvbench-1"}', values: '1x10 stale 1x18'}
  promql_expr_test:
  - {expr: 'count_over_time(ALERTS{alertstate="pending"}[5m])', eval_time: 5m, exp_samples: [{labels: '{alertname="KvbenchWorkerLost", alertstate="pending", severity="warning", namespace="n", run_id="r", instance="kvbench-1"}', value: 1}]}
  - {expr: 'count(count_over_time(ALERTS{alertstate="firing"}[5m])) or vector(0)', eval_time: 5m, exp_samples: [{labels: '{}', value: 0}]}

- name: the worker is there again, and knows nothing of the run
  interval: 10s
  input_series:
  - {series: 'kvbench_run_active{namespace="n", run_id="r", instance="kvbench-1"}', values: '1x10 stale'}
  - {series: 'kvbench_build_info{namespace="n", instance="kvbench-1"}', values: '1x10 stale 1x20'}
  promql_expr_test:
  - {expr: 'count(ALERTS{alertname="KvbenchWorkerLost", alertstate="firing"}) or vector(0)', eval_time: 160s, exp_samples: [{labels: '{}', value: 1}]}
`

func TestAlerts(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("SKIPPED: there is no promtool on this machine (Debian's package \"prometheus\" has it), so the alerts are not tested")
	}
	dir := t.TempDir()
	writeRules(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "tests.yaml"), []byte(alertTests), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("promtool", "test", "rules", "tests.yaml")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

// writeRules writes the rules as Prometheus itself reads them to dir/rules.yaml.
func writeRules(t *testing.T, dir string) {
	t.Helper()
	content, err := os.ReadFile("rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var resource struct{ Spec any }
	if err := yaml.Unmarshal(content, &resource); err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(resource.Spec)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "rules.yaml"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
