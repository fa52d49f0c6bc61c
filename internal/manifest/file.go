// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/kvbench/kvbench/internal/atomicfile"
	"github.com/kvbench/kvbench/internal/plainfile"
)

// FileName is where the manifest of a table lies in a results directory when it
// must not be written into the store.
func FileName(cluster uint64, table string) string {
	return filepath.Join("loads", fmt.Sprintf("%d-%s.json", cluster, url.QueryEscape(table)))
}

// ReadFile reads a manifest, nil if there is none.
func ReadFile(path string) (*Manifest, error) {
	text, err := plainfile.Read(path, plainfile.MaxSmall)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// WriteFile writes a manifest, in one step, and makes its directory.
func WriteFile(path string, m *Manifest) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return atomicfile.Write(path, append(text, '\n'), 0o644)
}
