// SPDX-License-Identifier: Apache-2.0

// Command kvbench puts a known load on a TiKV cluster from many machines at once
// and reports what the cluster did with it.
//
// One file per verb. The files here hold flags, wiring and exit codes; what a verb
// does is in the packages below internal.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/printable"
)

func main() { os.Exit(kvbench()) }

// kvbench runs the command line of this process and returns its exit code.
func kvbench() int {
	a := &app{
		stdin:   os.Stdin,
		stdout:  os.Stdout,
		console: os.Stderr,
		env:     os.LookupEnv,
	}
	var closed func()
	a.stderr, closed = messages(os.Stderr)
	defer closed()
	a.interrupts = make(chan os.Signal, 2)
	signal.Notify(a.interrupts, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup asks for
		signal.Notify(a.interrupts, syscall.SIGHUP)
	}
	defer signal.Stop(a.interrupts)
	return a.run(os.Args[1:])
}

// app is everything outside the process that a verb may touch.
type app struct {
	stdin, stdout *os.File
	stderr        io.Writer // for messages
	console       *os.File  // what they are written to, where runs are shown
	env           func(string) (string, bool)
	args          []string // the command line, without the program's name
	interrupts    chan os.Signal
}

// terminal tells whether f is one.
func terminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// columns is how wide the terminal is that f is; 0 if it is none.
func columns(f *os.File) int {
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// colour tells whether f may be coloured; NO_COLOR (no-color.org) says no.
func (a *app) colour(f *os.File) bool {
	_, no := a.env("NO_COLOR")
	return !no && terminal(f)
}

func (a *app) run(args []string) int {
	a.args = args
	root := &cobra.Command{
		Use:   "kvbench",
		Short: "Distributed YCSB-style load for TiKV's raw key-value API",
		Long: `kvbench puts a known load on a TiKV cluster from many machines at once and says
truthfully what the cluster did with it.`,
		Example: `  kvbench demo                                        see it all on this machine, in a minute
  kvbench playground                                  a TiKV-compatible cluster to try it on
  kvbench worker --listen 127.0.0.1:7070              a worker; start as many as you like
  kvbench load -w read -p recordcount=100000 --workers 127.0.0.1:7070
  kvbench run -w mixed --target 20000 --duration 60s --workers 127.0.0.1:7070
  kvbench analyze results/<run>`,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetArgs(args)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if hint := singleDash(cmd.Flags(), err); hint != "" {
			err = fmt.Errorf("%w: %s", err, hint)
		}
		return usage(fmt.Errorf("%w\nsee: %s --help", err, cmd.CommandPath()))
	})
	root.AddGroup(
		&cobra.Group{ID: "load", Title: "Put load on a cluster:"},
		&cobra.Group{ID: "results", Title: "Read results:"},
		&cobra.Group{ID: "run", Title: "While a run goes on:"},
		&cobra.Group{ID: "serve", Title: "Serve:"},
	)
	root.AddCommand(
		a.loadCommand(), a.runCommand(), a.searchCommand(), a.studyCommand(), a.verifyCommand(), a.settleCommand(), a.probeCommand(), a.cleanCommand(), a.demoCommand(), a.workloadsCommand(),
		a.analyzeCommand(), a.compareCommand(), a.planCommand(), a.resultsCommand(), a.collectCommand(),
		a.statusCommand(), a.attachCommand(), a.stopCommand(), a.targetCommand(), a.annotateCommand(),
		a.workerCommand(), a.playgroundCommand(), a.certsCommand(),
		exitCodesCommand(), pricesCommand(), a.versionCommand(), manCommand(),
	)
	complete(root)
	started := false
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		started = true
		return usage(cmd.ValidateRequiredFlags())
	}
	err := root.Execute()
	if !started {
		err = usage(err) // what was found before a verb began: unknown verbs, missing arguments
	}
	var said *exitcode.Error
	if err != nil && !(errors.As(err, &said) && said.Err == nil) {
		fmt.Fprintln(a.stderr, "kvbench: "+printable.Text(strings.TrimSpace(err.Error())))
	}
	return exitcode.Of(err)
}

// secondInterrupt is how long after the first an interrupt counts as a second one:
// timeout(1) signals a process and its group, which is two at once.
const secondInterrupt = time.Second

// interruptible returns a context that the first interrupt cancels, and one that the
// second cancels, if it comes at least a second later.
func (a *app) interruptible() (first, second context.Context, release func()) {
	first, cancelFirst := context.WithCancel(context.Background())
	second, cancelSecond := context.WithCancel(context.Background())
	done, finished := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		var asked time.Time
		for {
			select {
			case <-a.interrupts:
			case <-done:
				return
			}
			switch {
			case asked.IsZero():
				asked = time.Now()
				cancelFirst()
			case time.Since(asked) >= secondInterrupt:
				cancelSecond()
			}
		}
	}()
	return first, second, func() {
		close(done)
		<-finished
		cancelFirst()
		cancelSecond()
	}
}
