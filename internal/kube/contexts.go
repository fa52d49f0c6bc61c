// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/client-go/tools/clientcmd"
)

// Contexts returns the names of the contexts of a kubeconfig, sorted; of the usual one, if file is empty.
func Contexts(file string) ([]string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = file
	config, err := rules.Load()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return slices.Sorted(maps.Keys(config.Contexts)), nil
}
