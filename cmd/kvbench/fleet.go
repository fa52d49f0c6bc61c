// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/kvbench/kvbench/internal/control"
	"github.com/kvbench/kvbench/internal/coordinator"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/kube"
	"github.com/kvbench/kvbench/internal/localfleet"
	"github.com/kvbench/kvbench/internal/worker"
)

// fleetFlags say which workers to lead.
type fleetFlags struct {
	flags    *pflag.FlagSet
	workers  string
	kube     bool
	pods     kube.Options
	local    int
	tune     tuning // of local workers
	security control.Security
}

// addFleetFlags adds the flags; local says whether workers in this process are of use to the verb.
func addFleetFlags(f *pflag.FlagSet, local bool) *fleetFlags {
	l := &fleetFlags{flags: f}
	f.StringVar(&l.workers, "workers", "", "workers, `host:port`,… or dns:///name:port for all addresses of a name")
	f.BoolVar(&l.kube, "kube", false, "find worker pods through the kubeconfig, and forward a port to each")
	f.StringVarP(&l.pods.Namespace, "namespace", "n", "", "`namespace` of the pods (default: the context's)")
	f.StringVarP(&l.pods.Selector, "selector", "l", kube.DefaultLabel, "label `selector` of the pods")
	f.StringVar(&l.pods.Kubeconfig, "kubeconfig", "", "kubeconfig `file` (default: KUBECONFIG, ~/.kube/config, or the pod's own account)")
	f.StringVar(&l.pods.Context, "context", "", "context of the kubeconfig")
	if local {
		f.IntVar(&l.local, "local", 1, "run so many workers in this process, when none are named")
		l.tune.add(f)
	}
	addSecurityFlags(f, &l.security, false)
	return l
}

// given returns the flags by which a verb reaches the same workers; nothing for local ones.
func (l *fleetFlags) given() string {
	var all []string
	for _, name := range []string{"workers", "kube", "namespace", "selector", "kubeconfig", "context", "token-file", "tls-ca", "tls-cert", "tls-key"} {
		switch f := l.flags.Lookup(name); {
		case f == nil || !f.Changed:
		case f.Value.Type() == "bool":
			all = append(all, "--"+name)
		default:
			all = append(all, "--"+name+" "+quoted(f.Value.String()))
		}
	}
	if l.workers == "" && !l.kube {
		return ""
	}
	return strings.Join(all, " ")
}

// connect finds the workers, or the first so many if a number is expected, and says
// hello to them: all must answer. release ends what it started.
func (l *fleetFlags) connect(ctx context.Context, expected int, log *slog.Logger) (fleet *coordinator.Fleet, release func() error, err error) {
	l.pods.Count, l.pods.Wait = expected, time.Minute
	l.pods.Waiting = func(why error) { log.Warn("waiting up to a minute", "for", why) }
	addresses, options, stop, err := l.find(ctx, log)
	if err != nil {
		return nil, nil, err
	}
	if expected > 0 && len(addresses) > expected {
		addresses = addresses[:expected]
	}
	fleet, err = coordinator.Connect(ctx, addresses, options)
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	return fleet, func() error {
		fleet.Close()
		return stop()
	}, nil
}

// reach finds those workers that answer within seconds. Close ends the fleet.
func (l *fleetFlags) reach(ctx context.Context, log *slog.Logger) (*coordinator.Fleet, error) {
	addresses, options, _, err := l.find(ctx, log)
	if err != nil {
		return nil, err
	}
	return coordinator.Reach(ctx, addresses, options)
}

// find finds the workers, or starts local ones, which release ends.
func (l *fleetFlags) find(ctx context.Context, log *slog.Logger) (addresses []coordinator.Address, options coordinator.Options, release func() error, err error) {
	release = func() error { return nil }
	options = coordinator.Options{Security: l.security, Log: log}
	switch {
	case l.workers == "" && l.flags.Changed("workers"):
		err = usage(errors.New("--workers is empty: name workers as host:port,…, or leave it out (is a variable not set?)"))
	case l.kube && l.workers != "":
		err = usage(errors.New("--kube and --workers exclude each other"))
	case l.kube:
		pods, err := kube.Find(ctx, l.pods)
		if err == nil {
			options.Security, err = credentials(ctx, l.security, pods)
		}
		if err != nil {
			return nil, options, nil, exitcode.With(exitcode.Unreachable, err)
		}
		for _, p := range pods.Workers {
			addresses = append(addresses, coordinator.Address{Name: p.Name, Host: p.Host, Dial: p.DialAddress})
		}
	case l.workers != "":
		addresses, err = coordinator.Addresses(ctx, l.workers)
	case l.local > 0:
		cores, err := l.tune.begin()
		if err != nil {
			return nil, options, nil, err
		}
		workers, err := localfleet.Start(l.local, worker.Config{Version: version, Cores: cores, Tune: l.tune.apply, Open: opener(nil), Log: log})
		if err != nil {
			return nil, options, nil, err
		}
		for _, a := range workers.Addresses {
			addresses = append(addresses, coordinator.Address{Name: a})
		}
		options.Security, release = workers.Security, workers.Close
	default:
		err = usage(errors.New("which workers? give --workers, or --kube"))
	}
	return addresses, options, release, err
}

// credentials are those that the flags give, and otherwise those that the pods name.
func credentials(ctx context.Context, s control.Security, pods *kube.Fleet) (_ control.Security, err error) {
	if s.TokenFile != "" || s.CertFile != "" || s.CAFile != "" {
		return s, nil
	}
	if s.Token, err = pods.Token(ctx); err == nil {
		s.Cert, s.Key, s.CA, err = pods.Certificate(ctx)
	}
	return s, err
}
