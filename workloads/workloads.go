// SPDX-License-Identifier: Apache-2.0

// Package workloads holds the workloads that come with kvbench: YCSB property
// files, embedded in the binary. They are meant to be read, copied and changed.
package workloads

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed *.properties
var files embed.FS

const extension = ".properties"

// List returns the names of the workloads, sorted.
func List() []string {
	names, err := fs.Glob(files, "*"+extension)
	if err != nil {
		panic(err) // the pattern is constant and valid
	}
	for i, name := range names {
		names[i] = strings.TrimSuffix(name, extension)
	}
	return names
}

// Open returns the text of the workload of that name.
func Open(name string) ([]byte, error) {
	data, err := files.ReadFile(name + extension)
	if err != nil {
		return nil, fmt.Errorf("there is no workload named %q; there are %s", name, strings.Join(List(), ", "))
	}
	return data, nil
}

// Title returns the first line of a workload's comment, which says what it is.
func Title(name string) string {
	data, err := Open(name)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		text := strings.TrimSpace(strings.TrimLeft(line, "# "))
		if text != "" && !strings.HasPrefix(text, "SPDX") {
			return text
		}
	}
	return ""
}
