// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/playground"
)

// The playground's usual ports: PD's and TiKV's own, and one beside them.
const (
	playgroundPD    = "127.0.0.1:2379"
	playgroundAdmin = "127.0.0.1:2378"
	playgroundStore = 20160
)

func (a *app) playgroundCommand() *cobra.Command {
	var (
		o          = playground.Options{OwnProcess: true}
		apiVersion string
		splitKeys  []string
		verbose    bool
	)
	cmd := &cobra.Command{
		Use:     "playground",
		GroupID: "serve",
		Short:   "Run a TiKV-compatible development cluster in this process",
		Long: `Run PD and N stores in this process, each on a port of its own. TiKV's
clients, raw and transactional, cannot tell it from a small real cluster. It is for
development: nothing is replicated, and without --data nothing is kept. Old
versions of what transactions wrote stay.

Under API V1 both APIs share one range of keys, so that one cluster is for one of
them. --api txn splits the regions where transactions need it.

With --service-time, every store has a queue: --servers commands are served at once, each for
that time, and others wait. So its capacity is known: servers ÷ service time.`,
		Example: `  kvbench playground
  kvbench playground --stores 5 --regions 40 --data /tmp/playground
  kvbench playground --api txn
  kvbench playground --api-version V2 --keyspace bench
  kvbench playground --stores 1 --service-time 2ms --servers 2      1,000 commands a second, and no more
  kvbench playground ctl stall --id 1 --for 2s`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.APIVersion, err = playground.ParseAPIVersion(apiVersion); err != nil {
				return usage(err)
			}
			if o.Service.Servers == 0 {
				return usage(errors.New("--servers 0: want 1 or more; without --service-time there is no queue"))
			}
			if o.Service.Time == 0 && (cmd.Flags().Changed("servers") || cmd.Flags().Changed("service-spread")) {
				return usage(errors.New("--servers and --service-spread are of a queue: give it a --service-time, as in 2ms"))
			}
			for _, k := range splitKeys {
				o.SplitKeys = append(o.SplitKeys, []byte(k))
			}
			level := slog.LevelWarn
			if verbose {
				level = slog.LevelInfo
			}
			o.Logger = slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level}))
			return a.playground(o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.PDAddr, "pd", playgroundPD, "`address` of PD")
	f.IntVar(&o.Stores, "stores", 3, "number of stores")
	f.StringVar(&o.StoreHost, "store-host", "127.0.0.1", "`host` that stores listen on")
	f.IntVar(&o.StorePort, "store-port", playgroundStore, "`port` of the first store; the others follow; 0 takes free ones")
	f.IntVar(&o.StatusPort, "status-port", 0, "`port` of the first store's metrics and configuration over HTTP, as TiKV has at 20180; the others follow; 0 takes free ones")
	f.StringVar(&o.AdvertiseHost, "advertise-host", "", "`host` that clients are sent to (default: the one listened on)")
	f.StringVar(&o.AdminAddr, "admin", playgroundAdmin, "`address` of the admin endpoint that ctl speaks to; empty for none")
	f.StringVar(&o.DataDir, "data", "", "`folder` that keeps data and regions (default: in memory)")
	f.StringVar((*string)(&o.API), "api", string(playground.RawAPI), "raw or txn: whose keys the regions are split at")
	f.StringVar(&apiVersion, "api-version", "V1", "V1, V1TTL or V2")
	f.StringSliceVar(&o.Keyspaces, "keyspace", nil, "keyspaces of API V2, besides DEFAULT")
	f.IntVar(&o.Regions, "regions", 0, "regions at the start, split evenly over go-ycsb's keys (default 4 per store)")
	f.StringSliceVar(&splitKeys, "split-key", nil, "`key`s to split at instead")
	f.Var((*electionDelay)(&o.ElectionDelay), "election-delay", "from the loss of a leader to the next one (default 1s); real: 12s, as TiKV's stock timing has it at the least")
	f.DurationVar(&o.Service.Time, "service-time", 0, "that a command takes of one of its store's servers, as in 2ms; others wait; 0: no queue")
	f.IntVar(&o.Service.Servers, "servers", 1, "commands that a store serves at once, with --service-time")
	f.StringVar((*string)(&o.Service.Spread), "service-spread", string(playground.Constant), "of the service time: constant or exponential")
	f.StringVar(&o.TLS.CA, "tls-ca", "", "PEM `file` of the CA; clients must show a certificate signed by it")
	f.StringVar(&o.TLS.Cert, "tls-cert", "", "PEM `file` of the certificate")
	f.StringVar(&o.TLS.Key, "tls-key", "", "PEM `file` of its key")
	f.BoolVar(&verbose, "verbose", false, "log what happens")
	cmd.AddCommand(a.ctlCommand())
	return cmd
}

// electionDelay is the value of --election-delay.
type electionDelay time.Duration

// realElectionDelay is about what a killed store's regions are without a leader on TiKV with stock timing: 10 to 20 s.
const realElectionDelay = 12 * time.Second

func (d *electionDelay) Type() string { return "duration" }

func (d *electionDelay) String() string { return time.Duration(*d).String() }

func (d *electionDelay) Set(text string) error {
	if text == "real" {
		*d = electionDelay(realElectionDelay)
		return nil
	}
	parsed, err := time.ParseDuration(text)
	*d = electionDelay(parsed)
	return err
}

func (a *app) playground(o playground.Options) error {
	fmt.Fprintln(a.stdout, playground.Banner)
	first, _, release := a.interruptible()
	defer release()
	c, err := playground.Start(first, o)
	if err != nil {
		return usage(err)
	}
	fmt.Fprintf(a.stdout, "PD      %s\nstores  %s\nstatus  %s\n", c.PDAddr(), strings.Join(c.StoreAddrs(), " "), strings.Join(c.StatusAddrs(), " "))
	if c.AdminAddr() != "" {
		fmt.Fprintf(a.stdout, "admin   %s   (kvbench playground ctl --help)\n", c.AdminAddr())
	}
	fmt.Fprintln(a.stdout, "ready; Ctrl-C ends it")
	<-first.Done()
	return exitcode.With(exitcode.Internal, c.Close())
}

// ctlCommand disturbs a playground that runs. Its verbs are the playground's own table.
func (a *app) ctlCommand() *cobra.Command {
	var (
		admin string
		tls   playground.TLS
	)
	cmd := &cobra.Command{
		Use:   "ctl",
		Short: "Look at a running playground, and disturb it",
		Example: `  kvbench playground ctl state
  kvbench playground ctl stop-store --id 2
  kvbench playground ctl busy --id 1 --share 0.1
  kvbench playground ctl restore`,
		Args: cobra.NoArgs,
	}
	f := cmd.PersistentFlags()
	f.StringVar(&admin, "admin", playgroundAdmin, "`address` of the playground's admin endpoint")
	f.StringVar(&tls.CA, "tls-ca", "", "PEM `file` of the CA, if the playground speaks TLS")
	f.StringVar(&tls.Cert, "tls-cert", "", "PEM `file` of a certificate")
	f.StringVar(&tls.Key, "tls-key", "", "PEM `file` of its key")
	control := func(do func(*playground.Controller) error) error {
		c, err := playground.Control(admin, tls)
		if err != nil {
			return usage(err)
		}
		return exitcode.With(exitcode.Unreachable, do(c))
	}
	cmd.AddCommand(&cobra.Command{
		Use: "state", Short: "print stores, regions, leaders and counters as JSON", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return control(func(c *playground.Controller) error {
				s, err := c.State(cmd.Context())
				if err != nil {
					return err
				}
				return writeJSON(a.stdout, s)
			})
		},
	})
	for _, d := range playground.Disturbances() {
		sub := &cobra.Command{
			Use: d.Name, Short: d.Doc, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				params := url.Values{}
				for _, p := range d.Params {
					if flag := cmd.Flags().Lookup(p.Name); flag.Changed {
						params.Set(p.Name, flag.Value.String())
					}
				}
				return control(func(c *playground.Controller) error {
					done, err := c.Do(cmd.Context(), d.Name, params)
					if err == nil {
						fmt.Fprintln(a.stdout, done)
					}
					return err
				})
			},
		}
		for _, p := range d.Params {
			sub.Flags().String(p.Name, p.Default, p.Doc)
			if p.Required {
				_ = sub.MarkFlagRequired(p.Name) // fails only for a flag that is not there
			}
		}
		cmd.AddCommand(sub)
	}
	return cmd
}
