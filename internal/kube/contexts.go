// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"k8s.io/client-go/tools/clientcmd"
)

// Contexts returns the names of the contexts of a kubeconfig, sorted; of the usual one, if file is empty.
func Contexts(file string) ([]string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = file
	if err := plain(rules); err != nil {
		return nil, err
	}
	config, err := rules.Load()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return slices.Sorted(maps.Keys(config.Contexts)), nil
}

// maxKubeconfig is more bytes than any kubeconfig has.
const maxKubeconfig = 16 << 20

// plain refuses files that client-go would read without end.
func plain(rules *clientcmd.ClientConfigLoadingRules) error {
	for _, file := range rules.GetLoadingPrecedence() {
		info, err := os.Stat(file)
		switch {
		case err != nil: // client-go says it, if it matters
		case info.Mode()&os.ModeDevice != 0:
			return fmt.Errorf("kubeconfig: %s is a device, and must be a file", file)
		case info.Size() > maxKubeconfig:
			return fmt.Errorf("kubeconfig: %s has more than %d bytes: is it the file that was meant?", file, maxKubeconfig)
		}
	}
	return nil
}
