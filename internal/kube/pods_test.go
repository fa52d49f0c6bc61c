// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pod makes a ready pod and lets the test spoil it.
func pod(name string, spoil ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
		{Type: corev1.PodReady, Status: corev1.ConditionTrue},
	}
	p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "metrics", ContainerPort: 7071}, {Name: ControlPort, ContainerPort: 7070}}}}
	for _, f := range spoil {
		f(&p)
	}
	return p
}

func terminating(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} }
func failed(p *corev1.Pod)      { p.Status.Phase = corev1.PodFailed }
func pullError(p *corev1.Pod) {
	p.Status.Conditions[1].Status = corev1.ConditionFalse
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}}}}
}
func unscheduled(p *corev1.Pod) {
	p.Status.Phase = corev1.PodPending
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes are available"}}
}
func probing(p *corev1.Pod) {
	p.Status.Conditions[1] = corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady"}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pods  []corev1.Pod
		count int
		want  string // names, or
		err   string // part of the error's text
	}{
		"ordinals are numbers":      {pods: []corev1.Pod{pod("w-10"), pod("w-2"), pod("w-0")}, want: "w-0 w-2 w-10"},
		"names without ordinals":    {pods: []corev1.Pod{pod("b"), pod("a")}, want: "a b"},
		"the first ones":            {pods: []corev1.Pod{pod("w-2"), pod("w-1"), pod("w-0")}, count: 2, want: "w-0 w-1"},
		"enough without the broken": {pods: []corev1.Pod{pod("w-0", pullError), pod("w-1")}, count: 1, want: "w-1"},
		"only finished ones":        {pods: []corev1.Pod{pod("w-0", failed)}},
		"finished ones are left out": {
			pods: []corev1.Pod{pod("w-0", failed), pod("w-1")}, want: "w-1"},
		"too few":     {pods: []corev1.Pod{pod("w-0")}, count: 2, err: "2 workers are wanted (--clients, NUM_CLIENTS), 1 are there"},
		"terminating": {pods: []corev1.Pod{pod("w-0", terminating), pod("w-1")}, err: "1 of 2 are ready; not ready: w-0: is being deleted"},
		"no image":    {pods: []corev1.Pod{pod("w-0", pullError)}, err: "w-0: ErrImagePull (not found)"},
		"no node":     {pods: []corev1.Pod{pod("w-0", unscheduled)}, err: "w-0: Unschedulable (0/1 nodes are available)"},
		"probe":       {pods: []corev1.Pod{pod("w-0", probing)}, err: "w-0: ContainersNotReady"},
		"just created": {
			pods: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "w-0"}}}, err: "w-0: not started"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := choose(living(test.pods), test.count)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v does not contain %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, p := range got {
				names = append(names, p.Name)
			}
			if s := strings.Join(names, " "); s != test.want {
				t.Errorf("got %q, want %q", s, test.want)
			}
		})
	}
}

func TestControlPort(t *testing.T) {
	t.Parallel()
	p := pod("w-0")
	if port, err := controlPort(&p, 0); port != 7070 || err != nil {
		t.Errorf("the port named %q: got %d, %v", ControlPort, port, err)
	}
	if port, err := controlPort(&p, 9); port != 9 || err != nil {
		t.Errorf("a port given: got %d, %v", port, err)
	}
	p.Spec.Containers[0].Ports = nil
	if _, err := controlPort(&p, 0); err == nil {
		t.Error("a pod without the port was accepted")
	}
}
