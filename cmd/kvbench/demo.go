// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/exitcode"
)

func (a *app) demoCommand() *cobra.Command {
	d := &demo{app: a}
	cmd := &cobra.Command{
		Use:     "demo",
		GroupID: "load",
		Short:   "Playground, 3 workers, load, run and report, on this machine, in about a minute",
		Long: `Show the main job on this machine: start a playground of 3 stores and 3 workers, each a
process of its own, load records, run a mixed workload at a target rate and then as fast as
it goes, and print the reports. Every command is shown before it runs, so that it can be
repeated by hand. Nothing is left running.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return d.run() },
	}
	f := cmd.Flags()
	f.StringVar(&d.out, "out", "results", "`folder` for the results")
	f.IntVar(&d.workers, "workers", 3, "number of workers")
	f.IntVar(&d.records, "records", 100_000, "records to load")
	f.IntVar(&d.target, "target", 5000, "operations a second of the paced run")
	f.DurationVar(&d.duration, "duration", 10*time.Second, "length of each run")
	return cmd
}

// demo runs kvbench as its users do: by its command line, in processes of their own.
type demo struct {
	app     *app
	out     string
	workers int
	records int
	target  int

	duration time.Duration
	self     string // this program
	servers  []*server
}

// server is a process that runs until it is told to end.
type server struct {
	*exec.Cmd
	drained chan struct{} // closed when its output has ended
}

func (d *demo) run() (err error) {
	if d.workers < 1 || d.records < 1 || d.target < 1 || d.duration < time.Second {
		return usage(errors.New("demo: workers, records and target must be at least 1, duration at least 1s"))
	}
	if d.self, err = os.Executable(); err != nil {
		return err
	}
	data, err := os.MkdirTemp("", "kvbench-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(data)
	first, _, release := d.app.interruptible()
	defer release()
	defer d.stop()

	pd, err := d.serve(first, "PD ", "ready", "playground", "--stores", "3", "--pd", "127.0.0.1:0", "--store-port", "0", "--admin", "")
	if err != nil {
		return err
	}
	var workers []string
	for i := range d.workers {
		name := "worker-" + strconv.Itoa(i)
		address, err := d.serve(first, `"worker ready" address=`, "worker ready", "worker", "--listen", "127.0.0.1:0", "--name", name, "--data", filepath.Join(data, name))
		if err != nil {
			return err
		}
		workers = append(workers, address)
	}
	fleet := []string{"--workers", strings.Join(workers, ","), "--pd", pd, "--out", d.out}
	seconds := d.duration.String()
	for _, args := range [][]string{
		{"load", "-w", "mixed", "-p", "recordcount=" + strconv.Itoa(d.records), "--threads", "32"},
		{"run", "-w", "mixed", "-p", "recordcount=" + strconv.Itoa(d.records), "--threads", "32", "--target", strconv.Itoa(d.target), "--warmup", "2s", "--duration", seconds},
		{"run", "-w", "mixed", "-p", "recordcount=" + strconv.Itoa(d.records), "--threads", "32", "--duration", seconds},
	} {
		err := d.do(first, append(args, fleet...))
		if e := (*exitcode.Error)(nil); errors.As(err, &e) && e.Code == exitcode.Target {
			fmt.Fprintln(d.app.stdout, "\nThis machine is too slow or too busy for that target; the report says so, and the demo goes on.")
			err = nil
		}
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(d.app.stdout, "\nThe results lie in %s; look at one again, as a page, with:\n  %s analyze --format html -o report.html %s/RUN\n", d.out, filepath.Base(d.self), d.out)
	return nil
}

// serve starts a server of ours, waits for the line that says that it is ready, and
// returns what it has said of its address: the word after a label.
func (d *demo) serve(ctx context.Context, label, ready string, args ...string) (address string, err error) {
	d.say(args)
	out, in, err := os.Pipe()
	if err != nil {
		return "", err
	}
	s := &server{Cmd: exec.Command(d.self, args...), drained: make(chan struct{})}
	s.Stdout, s.Stderr, s.SysProcAttr = in, in, ownGroup()
	err = errors.Join(s.Start(), in.Close())
	if err != nil {
		return "", errors.Join(err, out.Close())
	}
	d.servers = append(d.servers, s)
	var said strings.Builder
	up := make(chan bool, 2)
	go func() { // until the process has ended
		defer close(s.drained)
		defer out.Close()
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			fmt.Fprintln(&said, lines.Text())
			if strings.Contains(lines.Text(), ready) {
				up <- true
				break
			}
		}
		up <- false
		_, _ = io.Copy(io.Discard, out)
	}()
	select {
	case ok := <-up:
		if !ok {
			return "", fmt.Errorf("kvbench %s: %s", strings.Join(args, " "), strings.TrimSpace(said.String()))
		}
		_, after, _ := strings.Cut(said.String(), label)
		address, _, _ = strings.Cut(strings.TrimSpace(after), "\n")
		address, _, _ = strings.Cut(address, " ")
		return address, nil
	case <-ctx.Done():
		return "", exitcode.With(exitcode.Interrupted, errors.New("interrupted"))
	case <-time.After(20 * time.Second):
		return "", fmt.Errorf("kvbench %s: not ready after 20 s", strings.Join(args, " "))
	}
}

// do runs a verb that ends by itself. An interrupt is passed on to it.
func (d *demo) do(ctx context.Context, args []string) error {
	d.say(args)
	cmd := exec.CommandContext(ctx, d.self, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stdout, cmd.Stderr = d.app.stdout, d.app.console
	cmd.SysProcAttr = ownGroup()
	err := cmd.Run()
	var ended *exec.ExitError
	if errors.As(err, &ended) && ended.ExitCode() > 0 {
		return &exitcode.Error{Code: ended.ExitCode()}
	}
	return err
}

func (d *demo) say(args []string) {
	fmt.Fprintf(d.app.stdout, "\n$ kvbench %s\n", strings.Join(args, " "))
}

// stop ends the servers, the last one first, and waits for them.
func (d *demo) stop() {
	for i := len(d.servers) - 1; i >= 0; i-- {
		s := d.servers[i]
		_ = s.Process.Signal(os.Interrupt) // it may have ended by itself
		late := time.AfterFunc(20*time.Second, func() { _ = s.Process.Kill() })
		<-s.drained
		_ = s.Wait()
		late.Stop()
	}
}
