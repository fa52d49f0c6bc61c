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

// choose returns the pods to work with, in order of their ordinals: all of them
// when count is 0, else the first count that are ready. The error says what is
// missing.
func choose(pods []corev1.Pod, count int) ([]corev1.Pod, error) {
	var ready []corev1.Pod
	var waiting []error
	pods = slices.Clone(pods)
	slices.SortFunc(pods, byOrdinal)
	for _, pod := range pods {
		switch why := unready(&pod); why {
		case "":
			ready = append(ready, pod)
		case gone:
		default:
			waiting = append(waiting, fmt.Errorf("%s: %s", pod.Name, why))
		}
	}
	switch {
	case count > 0 && len(ready) >= count:
		return ready[:count], nil
	case len(ready)+len(waiting) == 0:
		return nil, errors.New("there are none; kubectl apply -k k8s/kvbench starts them, -n and -l name others")
	case len(ready)+len(waiting) < count:
		return nil, errors.Join(append(waiting, fmt.Errorf("%d workers are wanted and there are %d pods; kubectl scale statefulset adds some", count, len(ready)+len(waiting)))...)
	case len(waiting) > 0:
		return nil, fmt.Errorf("%d of %d are ready; not ready: %w", len(ready), len(ready)+len(waiting), errors.Join(waiting...))
	default:
		return ready, nil
	}
}

// gone is the reason of a pod that has run to its end and will not come back.
const gone = "gone"

// unready says in a few words why a pod cannot be used yet; empty: it can.
func unready(pod *corev1.Pod) string {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return gone
	}
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
