// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// linked is the version that the linker was told (make build, the image, releases).
var linked string

// version is what this kvbench calls itself, to its users and to other kvbenches.
var version = thisBuild().Version

// build is what a binary knows of how it was made. What it was not told is empty.
type build struct {
	Version  string `json:"version"` // "dev": a build that was told none
	Commit   string `json:"commit"`
	Modified bool   `json:"modified"` // the commit is not all: files were changed
	Date     string `json:"date"`     // of the commit, RFC 3339
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisBuild() build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return newBuild(linked, info)
}

// newBuild prefers the version of the linker to that of the module, which go install and
// builds in a checkout have.
func newBuild(linked string, info *debug.BuildInfo) build {
	b := build{
		Version:  cmp.Or(linked, strings.Trim(info.Main.Version, "()"), "dev"),
		Go:       cmp.Or(info.GoVersion, runtime.Version()),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if b.Version == "devel" {
		b.Version = "dev"
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (a *app) versionCommand() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Which kvbench this is: version, commit, Go, platform",
		Example: "  kvbench version\n  kvbench version --json | jq -r .version",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			if asJSON {
				return writeJSON(a.stdout, b)
			}
			commit := cmp.Or(b.Commit, "unknown: built outside of a checkout")
			if b.Modified {
				commit += ", with changes"
			}
			w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintf(w, "kvbench\t%s\ncommit\t%s\ndate\t%s\nGo\t%s\nplatform\t%s\n", b.Version, commit, cmp.Or(b.Date, "unknown"), b.Go, b.Platform)
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}
