// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// living returns the pods that have not run to their end, in order of their ordinals.
func living(pods []corev1.Pod) []corev1.Pod {
	pods = slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})
	slices.SortFunc(pods, byOrdinal)
	return pods
}

// choose returns the pods to work with: all of them when count is 0, else the first
// count that are ready. The error says what is missing.
func choose(pods []corev1.Pod, count int) ([]corev1.Pod, error) {
	var ready []corev1.Pod
	var waiting []error
	for _, pod := range pods {
		if why := unready(&pod); why != "" {
			waiting = append(waiting, fmt.Errorf("%s: %s", pod.Name, why))
		} else {
			ready = append(ready, pod)
		}
	}
	switch {
	case count > 0 && len(ready) >= count:
		return ready[:count], nil
	case len(pods) < count:
		return nil, errors.Join(append(waiting, fmt.Errorf("%d workers are wanted (--clients, NUM_CLIENTS), %d are there; kubectl scale statefulset adds some", count, len(pods)))...)
	case len(waiting) > 0:
		return nil, fmt.Errorf("%d of %d are ready; not ready: %w", len(ready), len(pods), errors.Join(waiting...))
	default:
		return ready, nil
	}
}

// unready says in a few words why a pod cannot be used yet; empty: it can.
func unready(pod *corev1.Pod) string {
	if pod.DeletionTimestamp != nil {
		return "is being deleted"
	}
	for _, c := range pod.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil && w.Reason != "" {
			return join(w.Reason, w.Message)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status != corev1.ConditionTrue {
			return join(c.Reason, c.Message)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			if c.Status == corev1.ConditionTrue {
				return ""
			}
			return join(cmp.Or(c.Reason, "not ready"), c.Message)
		}
	}
	return cmp.Or(string(pod.Status.Phase), "not started")
}

func join(reason, message string) string {
	if message == "" {
		return reason
	}
	return reason + " (" + message + ")"
}

// byOrdinal orders kvbench-2 before kvbench-10, and names without a number as text.
func byOrdinal(a, b corev1.Pod) int {
	baseA, numA := ordinal(a.Name)
	baseB, numB := ordinal(b.Name)
	return cmp.Or(strings.Compare(baseA, baseB), cmp.Compare(numA, numB), strings.Compare(a.Name, b.Name))
}

func ordinal(name string) (base string, n int) {
	i := strings.LastIndexByte(name, '-')
	n, err := strconv.Atoi(name[i+1:])
	if i < 0 || err != nil {
		return name, -1
	}
	return name[:i], n
}

// controlPort returns the pod's control port: port, or when that is 0 the
// container port named [ControlPort].
func controlPort(pod *corev1.Pod, port int) (int, error) {
	if port != 0 {
		return port, nil
	}
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == ControlPort {
				return int(p.ContainerPort), nil
			}
		}
	}
	return 0, fmt.Errorf("pod %s has no container port named %q; is it a kvbench worker?", pod.Name, ControlPort)
}
