// SPDX-License-Identifier: Apache-2.0

package k8s_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"
)

// The chart and the kustomizations are two ways to the same objects.

const chart = "../deploy/helm/kvbench"

// helm is the command line of a helm that has been built: that takes minutes the first
// time, and calls at the same time would each do it.
func helm(t *testing.T, args ...string) []string {
	t.Helper()
	if testing.Short() {
		t.Skip("helm takes minutes to be built")
	}
	path, err := builtHelm()
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{path}, args...)
}

var builtHelm = sync.OnceValues(func() (path string, err error) {
	out, err := exec.Command("go", "tool", "-n", "-modfile=../internal/tools/go.mod", "helm").Output()
	return strings.TrimSpace(string(out)), err
})

func TestChart(t *testing.T) {
	t.Parallel()
	const custom = `
namespace: kvbench
resources: [../kvbench]
components: [../kvbench/components/tikv-tls]
images: [{name: kvbench, newName: registry.example.com/kvbench, digest: "sha256:` + digest + `"}]
patches:
- target: {kind: StatefulSet}
  patch: |
    - {op: add, path: /spec/template/spec/tolerations, value: [{key: dedicated, operator: Exists}]}
    - {op: add, path: /spec/template/spec/imagePullSecrets, value: [{name: pull}]}
    - {op: add, path: /spec/template/spec/containers/0/resources, value: {requests: {cpu: "14"}, limits: {memory: 40Gi}}}
`
	for name, test := range map[string]struct {
		kustomization string
		content       string // of a kustomization that is not there
		values        string
		without       []string // objects that the chart expects to be there
	}{
		"default":    {kustomization: "kvbench"},
		"no volumes": {kustomization: "no-volumes", content: "resources: [../kvbench]\ncomponents: [../kvbench/components/emptydir]\n", values: "storage: {enabled: false}"},
		"tikvbench":  {kustomization: "kvbench/overlays/tikvbench", values: `{replicas: 15, nodeSelector: {node-role.kubernetes.io/benchmark-client: "true"}, storage: {className: ssd-storage, size: 100Gi}}`},
		"mutual TLS": {kustomization: "kvbench/overlays/mtls", values: "tls: {enabled: true}", without: []string{"Secret kvbench-server-tls", "Secret kvbench-client-tls"}},
		"monitoring": {kustomization: "kvbench/overlays/monitoring", values: "monitoring: {enabled: true}"},
		"the rest": {kustomization: "custom", content: custom, values: `
image: {repository: registry.example.com/kvbench, digest: "sha256:` + digest + `", pullSecrets: [{name: pull}]}
tolerations: [{key: dedicated, operator: Exists}]
resources: {requests: {cpu: "14", memory: null}, limits: {memory: 40Gi}}
tikvTLS: {secret: kvbench-tikv-tls}
`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.content != "" {
				write(t, filepath.Join("k8s", test.kustomization, "kustomization.yaml"), test.content)
			}
			values := filepath.Join(t.TempDir(), "values.yaml")
			if err := os.WriteFile(values, []byte(test.values), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := command(helm(t, "lint", "--strict", "--namespace", "kvbench", "--values", values, chart)).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			want := build(t, test.kustomization)
			got := objects(t, helm(t, "template", "kvbench", chart, "--namespace", "kvbench", "--values", values)...)
			for _, id := range append(test.without, "Namespace kvbench") { // helm install --create-namespace makes it
				delete(want, id)
			}
			for id, w := range want {
				g, ok := got[id]
				if !ok {
					t.Errorf("the chart lacks %s", id)
					continue
				}
				delete(got, id)
				if a, b := content(t, g), content(t, w); !reflect.DeepEqual(a, b) {
					t.Errorf("%s differs: chart\n%s\nkustomization\n%s", id, text(t, a), text(t, b))
				}
			}
			for id := range got {
				t.Errorf("only the chart has %s", id)
			}
		})
	}
}

const digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// Values that cannot be meant are refused, with their name.
func TestChartRefuses(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{
		"replica=3":              "replica",
		"replicas=0":             "replicas",
		"image.digest=latest":    "digest",
		"storage.size=10GB":      "size",
		"tls.serverSecret=":      "serverSecret",
		"monitoring.enabled=yes": "enabled",
	} {
		out, err := command(helm(t, "template", "kvbench", chart, "--set", set)).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v\n%s", set, err, out)
		}
	}
}

func command(line []string) *exec.Cmd { return exec.Command(line[0], line[1:]...) }

// content is what the object says, without the token: the chart makes one.
func content(t *testing.T, o object) (all map[string]any) {
	t.Helper()
	if err := yaml.Unmarshal(o.text, &all); err != nil {
		t.Fatal(err)
	}
	if data, ok := all["data"].(map[string]any); ok && o.Kind == "Secret" {
		for key, value := range data {
			if value == "" {
				t.Errorf("%s of Secret %s is empty", key, o.Metadata.Name)
			}
			data[key] = "secret"
		}
	}
	return all
}

func text(t *testing.T, v any) string {
	t.Helper()
	text, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// write adds a file to the tree.
func write(t *testing.T, name, text string) {
	t.Helper()
	dir, err := tree()
	if err == nil {
		name = filepath.Join(dir, name)
		err = os.MkdirAll(filepath.Dir(name), 0o755)
	}
	if err == nil {
		err = os.WriteFile(name, []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
