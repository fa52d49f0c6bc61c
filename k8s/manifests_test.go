// SPDX-License-Identifier: Apache-2.0

// Package k8s_test checks that the manifests and the code that looks for the pods
// agree. Whether Kubernetes accepts them is tested in deploy/e2e.
package k8s_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kvbench/kvbench/internal/kube"
)

func read(t *testing.T, path string, into any) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(content, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func TestWorkersAreFound(t *testing.T) {
	t.Parallel()
	var set appsv1.StatefulSet
	read(t, "kvbench/base/statefulset.yaml", &set)
	var service corev1.Service
	read(t, "kvbench/base/service.yaml", &service)

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
	if volume < 0 || set.Spec.Template.Spec.Volumes[volume].Secret == nil {
		t.Errorf("no volume %q holds a Secret", kube.TokenVolume)
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
