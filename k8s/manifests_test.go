// SPDX-License-Identifier: Apache-2.0

// Package k8s_test checks that the manifests and the code that looks for the pods
// agree. Whether Kubernetes accepts them is tested in deploy/e2e.
package k8s_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kvbench/kvbench/internal/kube"
)

// object is any object of Kubernetes.
type object struct {
	Kind     string
	Metadata struct {
		Name, Namespace string
		Labels          map[string]string
	}
	Spec struct {
		Template *struct {
			Metadata struct{ Labels map[string]string }
		}
	}
	text []byte
}

// into reads the object as a type of its API.
func (o object) into(t *testing.T, typed any) {
	t.Helper()
	if err := yaml.UnmarshalStrict(o.text, typed); err != nil {
		t.Fatalf("%s %s: %v", o.Kind, o.Metadata.Name, err)
	}
}

// tree is a copy of this folder and of deploy/monitoring, with the files that Git
// ignores and users make.
var tree = sync.OnceValues(func() (dir string, err error) {
	dir, err = os.MkdirTemp("", "kvbench-manifests-")
	if err != nil {
		return "", err
	}
	for from, to := range map[string]string{".": "k8s", "../deploy/monitoring": "deploy/monitoring"} {
		err = errors.Join(err, os.CopyFS(filepath.Join(dir, to), os.DirFS(from)))
	}
	for _, file := range []string{"token/token", "mtls/ca.crt", "mtls/server.crt", "mtls/server.key", "mtls/client.crt", "mtls/client.key"} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, "k8s/kvbench/components", file), []byte("made by a user"), 0o600))
	}
	return dir, err
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := tree(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// build returns the objects of a kustomization by kind and name.
func build(t *testing.T, kustomization string) map[string]object {
	t.Helper()
	dir, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, "go", "tool", "-modfile=../internal/tools/go.mod", "kustomize", "build", filepath.Join(dir, "k8s", kustomization))
}

// objects runs a command that prints objects.
func objects(t *testing.T, command ...string) map[string]object {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, stderr.String())
	}
	all := make(map[string]object)
	for _, text := range bytes.Split(out, []byte("\n---\n")) {
		o := object{text: text}
		if err := yaml.Unmarshal(text, &o); err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		if o.Kind != "" {
			all[o.Kind+" "+o.Metadata.Name] = o
		}
	}
	return all
}

var kustomizations = []string{
	"kvbench", "kvbench/overlays/local", "kvbench/overlays/tikvbench", "kvbench/overlays/mtls", "kvbench/overlays/monitoring",
	"run-job", "run-job/overlays/mtls", "tikv", "tikv/overlays/tls", "tikv/overlays/v1", "tikv/overlays/v1-tls",
}

// Everything is in a namespace, whatever that of the user's context is.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	for _, k := range kustomizations {
		for id, o := range build(t, k) {
			if o.Metadata.Namespace == "" && o.Kind != "Namespace" {
				t.Errorf("%s: %s has no namespace", k, id)
			}
		}
	}
}

// Everything carries the labels that Kubernetes recommends, and what runs says which part it is.
func TestLabels(t *testing.T) {
	t.Parallel()
	for _, k := range kustomizations {
		for id, o := range build(t, k) {
			labels := []map[string]string{o.Metadata.Labels}
			want := []string{"app.kubernetes.io/name", "app.kubernetes.io/part-of"}
			if o.Spec.Template != nil && (o.Kind == "StatefulSet" || o.Kind == "Job") {
				labels = append(labels, o.Spec.Template.Metadata.Labels)
				want = append(want, "app.kubernetes.io/component")
			}
			for _, has := range labels {
				for _, label := range want {
					if has[label] == "" {
						t.Errorf("%s: %s has no label %s: %v", k, id, label, has)
					}
				}
			}
		}
	}
}

func TestWorkersAreFound(t *testing.T) {
	t.Parallel()
	all := build(t, "kvbench")
	var set appsv1.StatefulSet
	all["StatefulSet kvbench"].into(t, &set)
	var service corev1.Service
	all["Service kvbench"].into(t, &service)

	label, value, _ := strings.Cut(kube.DefaultLabel, "=")
	if got := set.Spec.Template.Labels[label]; got != value {
		t.Errorf("the pods' label %s is %q, want %q", label, got, value)
	}
	worker := set.Spec.Template.Spec.Containers[0]
	port := slices.IndexFunc(worker.Ports, func(p corev1.ContainerPort) bool { return p.Name == kube.ControlPort })
	if port < 0 || worker.Ports[port].ContainerPort != service.Spec.Ports[0].Port || service.Spec.Ports[0].Name != kube.ControlPort {
		t.Errorf("ports of the pod %v and of the Service %v", worker.Ports, service.Spec.Ports)
	}
	if set.Spec.ServiceName != service.Name {
		t.Errorf("the pods get their names from %q, the Service is %q", set.Spec.ServiceName, service.Name)
	}
	volume := slices.IndexFunc(set.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == kube.TokenVolume })
	if volume < 0 || set.Spec.Template.Spec.Volumes[volume].Secret == nil || all["Secret "+set.Spec.Template.Spec.Volumes[volume].Secret.SecretName].Kind == "" {
		t.Errorf("no volume %q holds a Secret that is there", kube.TokenVolume)
	}
	if env := worker.Env[0]; env.Name != "GOMEMLIMIT" || env.ValueFrom.ResourceFieldRef.Resource != "limits.memory" {
		t.Errorf("the worker does not know its memory limit: %v", env)
	}

	withTLS := build(t, "kvbench/overlays/mtls")
	withTLS["StatefulSet kvbench"].into(t, &set)
	if secret := set.Spec.Template.Annotations[kube.ClientTLS]; withTLS["Secret "+secret].Kind == "" {
		t.Errorf("the coordinators' certificate should be in Secret %q", secret)
	}
	if withTLS["Secret kvbench-token"].Kind != "" || strings.Contains(string(withTLS["StatefulSet kvbench"].text), "token-file") {
		t.Error("there is a token beside the certificates")
	}
	var job batchv1.Job
	build(t, "run-job")["Job kvbench-run"].into(t, &job)
	term := job.Spec.Template.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm
	if term.LabelSelector.MatchLabels[label] != value || job.Spec.TTLSecondsAfterFinished == nil {
		t.Errorf("the Job should keep off the workers' nodes, and go some day: %v, %v", term, job.Spec.TTLSecondsAfterFinished)
	}
}

func TestLicence(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		content, err := os.ReadFile(path)
		if err == nil && !strings.HasPrefix(string(content), "# SPDX-License-Identifier: Apache-2.0\n") {
			t.Errorf("%s does not begin with its licence", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
