// SPDX-License-Identifier: Apache-2.0

package results

import (
	"fmt"
	"path/filepath"

	"github.com/kvbench/kvbench/analysis/availability"
	"github.com/kvbench/kvbench/internal/plainfile"
)

// WriteProbe writes what a probe has seen into a run's directory.
func WriteProbe(dir string, p *availability.Probe) error {
	if err := writeJSON(filepath.Join(dir, ProbeFile), p); err != nil {
		return fmt.Errorf("write %s: %w", ProbeFile, err)
	}
	return nil
}

// ReadProbe reads and checks what a probe has seen.
func ReadProbe(dir string) (*availability.Probe, error) {
	text, err := plainfile.ReadIn(dir, ProbeFile, availability.MaxBytes)
	if err != nil {
		return nil, err
	}
	p, err := availability.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, ProbeFile), err)
	}
	return p, nil
}
