// SPDX-License-Identifier: Apache-2.0

//go:build e2e

// Package e2e tests kvbench on a Kubernetes cluster: make e2e-kubernetes says how.
// Everything is done as a user does it, with kubectl and the command line, on a
// copy of the manifests that has another image name and a token of its own. The
// steps build on each other; the last one deletes everything.
package e2e

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	namespace = "kvbench"
	pd        = "playground:2379"
	records   = 20_000
	target    = 1500 // operations a second, which the playground can do on a laptop
)

// fleet are the flags of a coordinator outside of the cluster.
var fleet = []string{"--kube", "-n", namespace}

// load are the flags of every run's load.
var load = []string{"--pd", pd, "-p", "recordcount=" + strconv.Itoa(records), "--threads", "16", "--quiet", "--json"}

func TestKubernetes(t *testing.T) {
	type step struct {
		name string
		run  func(*testing.T, *cluster)
	}
	for group, steps := range map[string][]step{
		"the fleet": {
			{"apply", testApply},
			{"load and run from outside", testRun},
			{"the wrong token is refused", testWrongToken},
			{"the Role is enough", testRole},
			{"a dropped forward is survived", testDroppedForward},
			{"a pod deleted before the start", testDeletedBeforeStart},
			{"a pod deleted while preparing", testDeletedWhilePreparing},
			{"a pod deleted mid-run", testPodDeleted},
			{"a cordoned node", testCordoned},
			{"scaled up and down", testScaled},
			{"the Job reaches the target too", testJob},
			{"fifteen pods start together", testFifteen},
			{"journals on volumes", testVolumes},
			{"a pod deleted while collecting", testDeletedWhileCollecting},
			{"a rolling update", testRollingUpdate},
			{"nothing is left", testCleanUp},
		},
		// In namespaces of their own, and mostly waiting.
		"beside it": {
			{"every manifest is valid", testManifests},
			{"the TiKV scripts", testScripts},
		},
	} {
		c := setUp(t)
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			for _, s := range steps {
				t.Run(s.name, func(t *testing.T) {
					c.t = t
					s.run(t, c)
				})
			}
		})
	}
}

func setUp(t *testing.T) *cluster {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, root: root, dir: t.TempDir()}
	if out, err := c.try("get", "namespace", namespace); err == nil {
		t.Fatalf("there is a namespace %s already; the test would delete it:\n%s", namespace, out)
	}
	for _, dir := range []string{"k8s", "deploy/monitoring"} {
		if err := os.CopyFS(c.path(dir), os.DirFS(filepath.Join(root, dir))); err != nil {
			t.Fatal(err)
		}
	}
	c.write("k8s/kvbench/components/token/token", rand.Text()+"\n")

	image := cmp.Or(os.Getenv("IMAGE"), "kvbench:dev")
	name, tag := image, "latest"
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		name, tag = image[:i], image[i+1:]
	}
	if image != "kvbench:dev" {
		for _, k := range []string{"k8s/kvbench", "k8s/kvbench/overlays/local", "k8s/kvbench/overlays/tikvbench", "k8s/kvbench/overlays/mtls", "k8s/kvbench/overlays/monitoring", "k8s/run-job", "k8s/run-job/overlays/mtls"} {
			c.replace(k+"/kustomization.yaml", "newName: kvbench, newTag: dev", "newName: "+name+", newTag: "+tag)
		}
	}
	// A whole fleet without a TiKV cluster: the playground beside it.
	c.write("k8s/volumes/kustomization.yaml", fmt.Sprintf(`
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: kvbench
resources: [../kvbench]
components: [../kvbench/components/playground]
images: [{name: kvbench, newName: %s, newTag: %s}]
`, name, tag))
	return c
}

func testApply(t *testing.T, c *cluster) {
	c.loadImage(c.root)
	c.apply("k8s/kvbench/overlays/local")
	if got := c.kubectl("get", "namespace", namespace, "-o", `jsonpath={.metadata.labels.pod-security\.kubernetes\.io/enforce}`); got != "restricted" {
		t.Errorf("the namespace enforces %q", got)
	}
	if pods := c.kubectl("-n", namespace, "get", "pods", "-l", "app=kvbench", "-o", "name"); strings.Count(pods, "\n") != 3 {
		t.Errorf("pods:\n%s", pods)
	}
}

// run does a run from outside, and returns its report.
func (c *cluster) run(args ...string) (report, result) {
	c.t.Helper()
	r := c.kvbench(c.flags("run", args...)...)
	return parse(c.t, r), r
}

func (c *cluster) flags(verb string, args ...string) []string {
	flags := append([]string{verb, "--out", c.path("results")}, fleet...)
	return append(append(flags, load...), args...)
}

// paced are the flags of a run at the target for some time.
func paced(duration string) []string {
	return []string{"-p", "readproportion=0.5", "-p", "updateproportion=0.5", "--target", strconv.Itoa(target), "--duration", duration}
}

func (c *cluster) checkTarget(r report) {
	c.t.Helper()
	if math.Abs(r.OpsPerS-target) > target*0.02 {
		c.t.Errorf("%.0f operations a second, want %d", r.OpsPerS, target)
	}
}

func testRun(t *testing.T, c *cluster) {
	loaded := c.kvbench(c.flags("load", "--batch", "20")...)
	if r := parse(t, loaded); loaded.code != 0 || r.operations("INSERT", "ok") != records {
		t.Fatalf("load: exit code %d, %d of %d records\n%s", loaded.code, r.operations("INSERT", "ok"), records, loaded.stderr)
	}
	r, ran := c.run(paced("10s")...)
	if ran.code != 0 || r.WorkersExpected != 3 || r.WorkersFinished != 3 || len(r.WorkersLost) != 0 {
		t.Errorf("exit code %d, %+v\n%s", ran.code, r, ran.stderr)
	}
	c.checkTarget(r)
	if missing := r.operations("READ", "not_found"); missing != 0 {
		t.Errorf("%d keys were not found", missing)
	}
	for i := range 3 {
		if _, err := os.Stat(c.path("results", r.RunID, "kvbench-"+strconv.Itoa(i), "hist.hlog")); err != nil {
			t.Error(err)
		}
	}
	again := parse(t, c.kvbench("analyze", "--format", "json", c.path("results", r.RunID)))
	if again.OpsPerS != r.OpsPerS {
		t.Errorf("analysed again: %v operations a second, before: %v", again.OpsPerS, r.OpsPerS)
	}
}

func testWrongToken(t *testing.T, c *cluster) {
	c.write("wrong", rand.Text())
	r := c.kvbench(append([]string{"status", "--token-file", c.path("wrong")}, fleet...)...)
	if r.code != 3 || !strings.Contains(r.stderr, "token") {
		t.Errorf("exit code %d, %s", r.code, r.stderr)
	}
}

// Who has the Role of the manifests may lead runs; who has nothing is told what it takes.
func testRole(t *testing.T, c *cluster) {
	const user = "e2e-coordinator"
	config := c.readKubeconfig()
	config["users"].([]any)[0].(map[string]any)["user"].(map[string]any)["as"] = user
	status := append([]string{"status", "--kubeconfig", c.writeKubeconfig("as-coordinator", config)}, fleet...)
	if r := c.kvbench(status...); r.code != 3 || !strings.Contains(r.stderr, "create pods/portforward") {
		t.Errorf("without rights: exit code %d\n%s", r.code, r.stderr)
	}
	c.kubectl("-n", namespace, "create", "rolebinding", user, "--role=kvbench-coordinator", "--user="+user)
	if r := c.kvbench(status...); r.code != 0 || strings.Count(r.stdout, "kvbench-") < 3 {
		t.Errorf("with the Role: exit code %d\n%s\n%s", r.code, r.stdout, r.stderr)
	}
}

func testDroppedForward(t *testing.T, c *cluster) {
	p := newProxy(t, c)
	wait := c.begin(nil, append(c.flags("run", paced("10s")...), "--kubeconfig", p.kubeconfig)...)
	dropped := 0
	for i := range 3 {
		c.measured(2 + 2*i)
		dropped += p.cut()
	}
	r := wait()
	if dropped < 6 {
		t.Errorf("only %d connections were there to be dropped", dropped)
	}
	if report := parse(t, r); r.code != 0 || report.WorkersFinished != 3 {
		t.Errorf("exit code %d, %+v\n%s", r.code, report, r.stderr)
	}
}

// killed starts a run, deletes a pod in the middle, and returns the report, which
// must say so.
func (c *cluster) killed(how ...string) report {
	c.t.Helper()
	wait := c.begin(nil, c.flags("run", paced("15s")...)...)
	c.measured(4)
	c.delete("kvbench-1", how...)
	ran := wait()
	r := parse(c.t, ran)
	if ran.code != 4 || len(r.WorkersLost) != 1 || r.WorkersLost[0].Name != "kvbench-1" || r.WorkersFinished != 2 {
		c.t.Errorf("exit code %d, %+v\n%s", ran.code, r, ran.stderr)
	}
	c.ready()
	return r
}

// journalled returns the last moment of a worker's journal in the results.
func (c *cluster) journalled(run, worker string) float64 {
	c.t.Helper()
	content, err := os.ReadFile(c.path("results", run, worker, "seconds.csv"))
	if err != nil {
		c.t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	fields := strings.Split(lines[len(lines)-1], ",")
	end, err := strconv.ParseFloat(fields[1], 64)
	if err != nil {
		c.t.Fatalf("%s: %v", lines[len(lines)-1], err)
	}
	return end
}

func testPodDeleted(t *testing.T, c *cluster) {
	r := c.killed(atOnce...)
	// Its disk went with it: what is there has been copied while it ran.
	if end := c.journalled(r.RunID, "kvbench-1"); end < 3 {
		t.Errorf("the journal of the lost worker ends %v s after the start", end)
	}
}

func testJob(t *testing.T, c *cluster) {
	c.write("k8s/run-job/base/run.env", fmt.Sprintf("VERB=run\nPD=%s\nBENCH_TYPE=mixed\nTOTAL_KEYS=%d\nTARGET_IOPS=%d\nNUM_THREADS=16\nNUM_CLIENTS=3\nRUNTIME=10s\nFORMAT=json\n", pd, records, target))
	c.replace("k8s/run-job/base/job.yaml", "- --out=/results", "- --out=/results\n        - --quiet")
	c.kubectl("apply", "-k", c.path("k8s/run-job"))
	c.kubectl("-n", namespace, "wait", "job/kvbench-run", "--for=condition=complete", "--timeout=120s")
	log := c.kubectl("-n", namespace, "logs", "job/kvbench-run")
	if code := c.jobExitCode(); code != "0" {
		t.Errorf("exit code %s\n%s", code, log)
	}
	inside := parse(t, result{stdout: log})
	c.checkTarget(inside)
	// A run that cannot be is a Job that failed, with the run's exit code.
	c.kubectl("-n", namespace, "delete", "job", "kvbench-run")
	c.replace("k8s/run-job/base/run.env", "NUM_CLIENTS=3", "NUM_CLIENTS=99")
	c.kubectl("apply", "-k", c.path("k8s/run-job"))
	c.kubectl("-n", namespace, "wait", "job/kvbench-run", "--for=condition=failed", "--timeout=120s")
	if code := c.jobExitCode(); code != "3" {
		t.Errorf("with too few workers: exit code %s", code)
	}
	c.kubectl("delete", "-k", c.path("k8s/run-job"))
}

func (c *cluster) jobExitCode() string {
	c.t.Helper()
	return c.kubectl("-n", namespace, "get", "pods", "-l", "job-name=kvbench-run", "-o", "jsonpath={.items[0].status.containerStatuses[0].state.terminated.exitCode}")
}

func testFifteen(t *testing.T, c *cluster) {
	c.kubectl("-n", namespace, "scale", "statefulset/kvbench", "--replicas=15")
	c.ready()
	r, ran := c.run("--target", strconv.Itoa(target), "--duration", "5s", "--clients", "15")
	if ran.code != 0 || r.WorkersFinished != 15 {
		t.Errorf("exit code %d, %+v\n%s", ran.code, r, ran.stderr)
	}
	if barrier := r.Start.Sub(ran.began); barrier > 15*time.Second {
		t.Errorf("from the command to the start: %v", barrier)
	} else {
		t.Logf("from the command to the start: %v; start skew %.0f µs", barrier, r.MaxStartSkewUS)
	}
	c.kubectl("-n", namespace, "scale", "statefulset/kvbench", "--replicas=3")
	c.kubectl("-n", namespace, "wait", "--for=delete", "pod/kvbench-14", "--timeout=60s")
}

// remake replaces the fleet by another one; the playground and its data go too.
func (c *cluster) remake(kustomization string) {
	c.t.Helper()
	c.kubectl("-n", namespace, "delete", "statefulset", "kvbench", "playground")
	c.kubectl("-n", namespace, "wait", "--for=delete", "pod", "-l", "app=kvbench", "--timeout=60s")
	c.apply(kustomization)
	if loaded := c.kvbench(c.flags("load", "--batch", "20")...); loaded.code != 0 {
		c.t.Fatalf("load: exit code %d\n%s", loaded.code, loaded.stderr)
	}
}

// Pods with volumes come back with their journals.
func testVolumes(t *testing.T, c *cluster) {
	if classes := c.kubectl("get", "storageclass", "-o", `jsonpath={.items[*].metadata.annotations.storageclass\.kubernetes\.io/is-default-class}`); !strings.Contains(classes, "true") {
		t.Skip("SKIPPED: the cluster has no default storage class")
	}
	c.remake("k8s/volumes")
	r := c.killed(atOnce...)
	if end, lost := c.journalled(r.RunID, "kvbench-1"), r.WorkersLost[0].AtS; end < lost-6 {
		t.Errorf("the journal ends at %v s, the worker was lost at %v s", end, lost)
	}
}

// A rolling update waits for nothing, and nothing that was measured is lost: not
// of runs before it, and not of one that it ends.
func testRollingUpdate(t *testing.T, c *cluster) {
	before, ranBefore := c.run(paced("5s")...)
	wait := c.begin(nil, c.flags("run", paced("60s")...)...)
	c.measured(4)
	began := time.Now()
	c.kubectl("-n", namespace, "rollout", "restart", "statefulset/kvbench")
	ran := wait()
	c.ready()
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v", took)
	} else {
		t.Logf("it took %v", took)
	}
	during := parse(t, ran)
	if ran.code != 4 || len(during.WorkersLost) != 3 {
		t.Errorf("the run that it ended: exit code %d, %+v\n%s", ran.code, during, ran.stderr)
	}
	if c.kubectl("-n", namespace, "get", "pvc", "-o", "name") == "" {
		t.Skip("SKIPPED: the workers have no volumes, so their journals went with them")
	}
	for _, lost := range during.WorkersLost {
		if end := c.journalled(during.RunID, lost.Name); end < lost.AtS-1 { // an interval is a second
			t.Errorf("the journal of %s ends at %v s, it was heard of until %v s", lost.Name, end, lost.AtS)
		}
	}
	// Of the run before it, the workers still have everything.
	journals, err := filepath.Glob(c.path("results", before.RunID, "kvbench-*"))
	if err != nil || len(journals) != 3 {
		t.Fatalf("journals %v, %v", journals, err)
	}
	for _, j := range journals {
		if err := os.RemoveAll(j); err != nil {
			t.Fatal(err)
		}
	}
	r := c.kvbench(append([]string{"collect", before.RunID, "--json", "--out", c.path("results")}, fleet...)...)
	if after := parse(t, r); r.code != ranBefore.code || after.WorkersFinished != 3 || after.OpsPerS != before.OpsPerS {
		t.Errorf("the run before it, collected afterwards: exit code %d, %+v, want %+v\n%s", r.code, after, before, r.stderr)
	}
}

// Every kustomization passes the API server's strict validation.
func testManifests(t *testing.T, c *cluster) {
	needs := map[string]string{ // resource types that a cluster may lack
		"kvbench/overlays/monitoring": "podmonitors.monitoring.coreos.com",
		"tikv":                        "tikvgroups.core.pingcap.com",
		"tikv/overlays/tls":           "tikvgroups.core.pingcap.com",
		"tikv/overlays/v1":            "tidbclusters.pingcap.com",
		"tikv/overlays/v1-tls":        "tidbclusters.pingcap.com",
	}
	// In a namespace of their own, since the fleet that runs is of another variant.
	const empty = "kvbench-validation"
	c.kubectl("create", "namespace", empty)
	defer c.kubectl("delete", "namespace", empty)
	if r := c.kvbench("certs", "--out", c.path("k8s/kvbench/components/mtls"), "--host", "kvbench"); r.code != 0 {
		t.Fatalf("certs: exit code %d\n%s", r.code, r.stderr)
	}
	c.write("k8s/with-tikv-tls/kustomization.yaml", "resources: [../kvbench]\ncomponents: [../kvbench/components/tikv-tls]\n")
	for _, k := range []string{
		"with-tikv-tls", "kvbench", "kvbench/overlays/local", "kvbench/overlays/tikvbench", "kvbench/overlays/mtls", "kvbench/overlays/monitoring",
		"run-job", "run-job/overlays/mtls", "tikv", "tikv/overlays/tls", "tikv/overlays/v1", "tikv/overlays/v1-tls",
	} {
		t.Run(k, func(t *testing.T) {
			c := &cluster{t: t, dir: c.dir, root: c.root}
			if crd := needs[k]; crd != "" {
				if _, err := c.try("get", "crd", crd); err != nil {
					t.Skipf("SKIPPED: the cluster does not know %s", crd)
				}
			}
			c.write("k8s/validation/kustomization.yaml", "namespace: "+empty+"\nresources: [../"+k+"]\n")
			c.kubectl("apply", "--server-side", "--dry-run=server", "--validate=strict", "-k", c.path("k8s/validation"))
		})
	}
}

func testScripts(t *testing.T, c *cluster) {
	script := func(env []string, stdin, name string, args ...string) (string, error) {
		cmd := exec.Command(filepath.Join(c.root, "deploy", name), args...)
		cmd.Env, cmd.Stdin = append(os.Environ(), env...), strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	must := func(env []string, stdin, name string, args ...string) string {
		t.Helper()
		out, err := script(env, stdin, name, args...)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		return out
	}
	const label = "node-role.kubernetes.io/benchmark-client"
	labelled := func() int { return strings.Count(c.kubectl("get", "nodes", "-l", label, "-o", "name"), "\n") }
	if labelled() == 0 {
		one := []string{"CLIENT_NODES=1", "PD_NODES=0", "TIKV_NODES=0"}
		must(one, "", "label-nodes.sh")
		must(one, "", "label-nodes.sh")
		if n := labelled(); n != 1 {
			t.Errorf("%d nodes have the label after two calls", n)
		}
		if out, err := script([]string{"CLIENT_NODES=1", "TIKV_NODES=1000"}, "", "label-nodes.sh"); err == nil || !strings.Contains(out, "are free") {
			t.Errorf("with too few nodes: %v\n%s", err, out)
		}
		must(nil, "", "label-nodes.sh", "--remove")
		if n := labelled(); n != 0 {
			t.Errorf("%d nodes still have the label", n)
		}
	}

	if _, err := c.try("get", "crd", "tikvgroups.core.pingcap.com"); err != nil {
		t.Skip("SKIPPED: the cluster does not know TiDB Operator's types")
	}
	if _, err := c.try("get", "namespace", "tidb-admin"); err == nil {
		t.Skip("SKIPPED: there is a TiDB Operator, which would deploy a real cluster")
	}
	class := "STORAGE_CLASS=" + strings.Fields(c.kubectl("get", "storageclass", "-o", "jsonpath={.items[*].metadata.name}"))[0]
	up := []string{"WAIT=0", "TIKV_REPLICAS=5", "PD_REPLICAS=1", class}
	must(nil, "", "tikv-certs.sh", c.path("tikv-certs"))
	must(up, "", "tikv-up.sh")
	must(up, "", "tikv-up.sh")
	if n := c.kubectl("-n", "tikv-cluster", "get", "tikvgroup", "basic", "-o", "jsonpath={.spec.replicas}"); n != "5" {
		t.Errorf("%s replicas of TiKV", n)
	}
	if out, err := script(nil, "no\n", "tikv-down.sh"); err == nil || !strings.Contains(out, "ALL DATA") {
		t.Errorf("without the right answer: %v\n%s", err, out)
	}
	if _, err := c.try("-n", "tikv-cluster", "get", "tikvgroup", "basic"); err != nil {
		t.Error("the cluster was deleted without the right answer")
	}
	must(nil, "tikv-cluster\n", "tikv-down.sh")
	must(nil, "", "tikv-down.sh", "--yes")
	if _, err := c.try("get", "namespace", "tikv-cluster"); err == nil {
		t.Error("the namespace is still there")
	}
}

func testCleanUp(t *testing.T, c *cluster) {
	c.kubectl("delete", "-k", c.path("k8s/kvbench"), "--ignore-not-found")
	if out, err := c.try("get", "namespace", namespace); err == nil {
		t.Errorf("the namespace is still there:\n%s", out)
	}
	eventually(t, time.Minute, "volumes", func() error {
		left := c.kubectl("get", "pv", "-o", `jsonpath={.items[?(@.spec.claimRef.namespace=="`+namespace+`")].metadata.name}`)
		if left != "" {
			return fmt.Errorf("%s are left", left)
		}
		return nil
	})
}
