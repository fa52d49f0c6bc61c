// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manCommand writes the manual pages, for those who make packages of kvbench.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write a manual page for every verb to a folder",
		Example: "  kvbench man dist/man",
		Args:    cobra.ExactArgs(1),
		Hidden:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return usage(err)
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true // the same kvbench makes the same pages
			date, err := time.Parse(time.RFC3339, thisBuild().Date)
			if err != nil {
				date = time.Unix(0, 0)
			}
			header := &doc.GenManHeader{Section: "1", Manual: "kvbench", Source: fmt.Sprint("kvbench ", version), Date: &date}
			return usage(doc.GenManTree(root, header, args[0]))
		},
	}
}
