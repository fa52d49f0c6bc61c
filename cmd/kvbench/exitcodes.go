// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/coordinator"
)

// The exit codes, so that scripts need not read reports.
const (
	exitValid       = 0
	exitInternal    = 1
	exitUsage       = 2
	exitUnreachable = 3
	exitDegraded    = 4
	exitTarget      = 5
	exitWrong       = 6
	exitSLO         = 7
	exitInterrupted = 130
)

var exitCodes = []struct {
	code int
	text string
}{
	{exitValid, "the run is valid"},
	{exitInternal, "kvbench itself failed"},
	{exitUsage, "bad flags or properties; nothing was started"},
	{exitUnreachable, "the fleet or the cluster could not be reached; nothing is left running"},
	{exitDegraded, "degraded: a worker was lost, or there were errors above the limit"},
	{exitTarget, "the target rate was not reached"},
	{exitWrong, "verification found a wrong or lost value"},
	{exitSLO, "a service level objective was missed"},
	{exitInterrupted, "interrupted; what was measured is kept and reported"},
}

func exitCodesCommand() *cobra.Command {
	var b strings.Builder
	b.WriteString("kvbench's exit codes:\n\n")
	for _, e := range exitCodes {
		fmt.Fprintf(&b, "  %3d  %s\n", e.code, e.text)
	}
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: strings.TrimRight(b.String(), "\n")}
}

// exitError ends the process with a code. Its err may be nil, when all has been said.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exit returns an error that ends the process with the code. It returns nil for a
// nil error.
func exit(code int, err error) error {
	if err == nil {
		return nil
	}
	return &exitError{code, err}
}

// failed returns err with the code that it carries, of whatever package.
func failed(err error) error {
	var e *exitError
	if errors.As(err, &e) {
		return err
	}
	return exit(coordinator.ExitCode(err), err)
}

func usage(err error) error { return exit(exitUsage, err) }
