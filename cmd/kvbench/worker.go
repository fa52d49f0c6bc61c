// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/control"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/metrics"
	"github.com/kvbench/kvbench/internal/worker"
)

// shutdownGrace is for the calls in flight when a worker is told to terminate. A
// pod has 30 s by default, of which the journal needs little.
const shutdownGrace = 5 * time.Second

func (a *app) workerCommand() *cobra.Command {
	var (
		listen, metricsAddr string
		pprof               bool
		keepMiB             int64
		cfg                 worker.Config
		security            control.Security
		tune                tuning
	)
	cmd := &cobra.Command{
		Use:     "worker",
		GroupID: "serve",
		Short:   "Wait for a coordinator, and run its load",
		Long: `Wait for a coordinator (kvbench load, kvbench run), run the load that it asks for, and keep
what was measured in a journal until it is collected.

It listens on loopback unless it can know its callers: beyond that it takes --token-file,
or --tls-ca with --tls-cert and --tls-key, or --insecure, which lets anybody who reaches the
address put load on your database.`,
		Example: `  kvbench worker
  kvbench worker --listen 127.0.0.1:7071 --name second
  kvbench worker --listen 0.0.0.0:7070 --token-file /etc/kvbench/token --metrics 0.0.0.0:7071 --data /data`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&listen, "listen", "127.0.0.1:7070", "`address` for coordinators")
	f.StringVar(&metricsAddr, "metrics", "127.0.0.1:0", "`address` for /metrics, /healthz and /readyz; port 0 is a free one, empty is none")
	f.BoolVar(&pprof, "pprof", false, "serve /debug/pprof there too, to this machine and forwarded ports")
	f.StringVar(&cfg.Data, "data", "", "`folder` of the journals (default: a temporary one, by address)")
	f.StringVar(&cfg.Name, "name", "", "what the worker is called in results (default: the host's name)")
	f.IntVar(&cfg.Keep.Runs, "keep", 20, "how many finished runs to keep; those that were collected go first, and of others it is said")
	f.DurationVar(&cfg.Keep.Age, "keep-for", 30*24*time.Hour, "for how long to keep them; 0 is without end")
	f.Int64Var(&keepMiB, "keep-size", 8<<10, "how much of them to keep, in `MiB`; 0 is all")
	f.IntVar(&cfg.Lanes, "lanes", 0, "how many lanes a run has at most (default: one per core)")
	tune.add(f)
	addSecurityFlags(f, &security, true)
	f.BoolVar(&security.Insecure, "insecure", false, "listen beyond loopback although anybody there may then start load")
	cmd.RunE = func(*cobra.Command, []string) error {
		if cfg.Keep.Runs < 1 || cfg.Keep.Age < 0 || keepMiB < 0 || keepMiB > 1<<40 {
			return usage(fmt.Errorf("--keep %d --keep-for %v --keep-size %d: want 1 or more runs, and no negative bound", cfg.Keep.Runs, cfg.Keep.Age, keepMiB))
		}
		cfg.Keep.Bytes = keepMiB << 20
		var err error
		if cfg.Cores, err = tune.begin(); err != nil {
			return err
		}
		cfg.Tune = tune.apply
		return a.worker(listen, metricsAddr, pprof, cfg, security)
	}
	return cmd
}

func (a *app) worker(listen, metricsAddr string, pprof bool, cfg worker.Config, security control.Security) error {
	first, second, release := a.interruptible()
	defer release()
	log := slog.New(slog.NewTextHandler(a.stderr, nil))
	l, err := control.Listen(listen, security, log)
	if err != nil {
		return usage(err)
	}
	defer l.Close()
	if cfg.Data == "" {
		cfg.Data = filepath.Join(os.TempDir(), "kvbench-worker-"+portOf(l.Addr()))
	}
	cfg.Version, cfg.Log, cfg.Open = version, log, opener(os.Stderr)
	cfg.Metrics = metrics.New(version)
	w, err := worker.New(cfg)
	if err != nil {
		return usage(err)
	}
	server, err := control.NewServer(w, security, log)
	if err != nil {
		return usage(err)
	}
	serving, stopServing := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	parts := 1
	go func() { ended <- server.Serve(l) }()
	if metricsAddr != "" {
		ml, err := net.Listen("tcp", metricsAddr)
		if err != nil {
			server.Close()
			<-ended
			stopServing()
			return usage(fmt.Errorf("--metrics: %w", err))
		}
		parts++
		h := metrics.Handler{Metrics: cfg.Metrics, Ready: w.Ready, Pprof: pprof}
		go func() { ended <- h.Serve(serving, ml) }()
		log.Info("metrics", "address", ml.Addr())
	}
	log.Info("worker ready", "address", l.Addr(), "data", cfg.Data, "version", version)

	var failed error
	select {
	case <-first.Done():
		log.Info("terminating: what is in flight may still complete", "for", shutdownGrace)
	case failed = <-ended:
		parts--
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		w.Close(shutdownGrace)
	}()
	select {
	case <-closed:
	case <-second.Done():
		w.Close(0)
		<-closed
	}
	stopServing()
	server.Close()
	for ; parts > 0; parts-- {
		failed = errors.Join(failed, <-ended)
	}
	return exitcode.With(exitcode.Internal, failed)
}

func portOf(a net.Addr) string {
	_, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return "0"
	}
	return port
}
