// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/exitcode"
)

func exitCodesCommand() *cobra.Command {
	var b strings.Builder
	b.WriteString("kvbench's exit codes:\n\n")
	for _, m := range exitcode.Meanings() {
		fmt.Fprintf(&b, "  %3d  %s\n", m.Code, m.Text)
	}
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: strings.TrimRight(b.String(), "\n")}
}

// usage marks an error as one of its user's: nothing has been started.
func usage(err error) error { return exitcode.With(exitcode.Usage, err) }
