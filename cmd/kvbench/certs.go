// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvbench/kvbench/internal/control"
)

func (a *app) certsCommand() *cobra.Command {
	var (
		dir   string
		hosts []string
		days  int
	)
	cmd := &cobra.Command{
		Use:     "certs",
		GroupID: "serve",
		Short:   "Make a small CA and certificates for workers and coordinators, or a token",
		Long: `Make a certificate authority, a certificate for the workers and one for coordinators,
for people who have no PKI at hand. Run it again to renew the certificates under the
same authority; running workers take up changed files by themselves.`,
		Example: `  kvbench certs --out certs --host 127.0.0.1
  kvbench worker --listen 0.0.0.0:7070 --tls-ca certs/ca.crt --tls-cert certs/server.crt --tls-key certs/server.key
  kvbench run --workers w1:7070 --tls-ca certs/ca.crt --tls-cert certs/client.crt --tls-key certs/client.key …`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := control.MakeCertificates(dir, hosts, time.Duration(days)*24*time.Hour); err != nil {
				return usage(err)
			}
			fmt.Fprintf(a.stdout, "wrote %[1]s/%[2]s and .key (keep it safe), %[1]s/%[3]s and .key for workers, %[1]s/%[4]s and .key for coordinators\n",
				dir, control.CACertFile, control.ServerCertFile, control.ClientCertFile)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "out", "certs", "`folder` to write to")
	f.StringSliceVar(&hosts, "host", []string{"127.0.0.1", "localhost"}, "names and addresses of the workers, wildcards allowed")
	f.IntVar(&days, "days", 365, "how many `days` the certificates are valid")
	cmd.AddCommand(a.tokenCommand())
	return cmd
}

func (a *app) tokenCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make a token that workers and coordinators share",
		Long: `Write a random secret to a file that only you may read, for --token-file of workers and
coordinators. A file that is there is left alone, since workers know its token.`,
		Example: `  kvbench certs token --out token
  kvbench worker --listen 0.0.0.0:7070 --token-file token`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := control.MakeToken(file); err != nil {
				return usage(err)
			}
			fmt.Fprintf(a.stdout, "wrote %s\n", file)
			return nil
		},
	}
	cmd.Flags().StringVar(&file, "out", "token", "`file` to write")
	return cmd
}

// addSecurityFlags adds the flags of the control connection, the same for both sides.
func addSecurityFlags(f *pflag.FlagSet, s *control.Security, worker bool) {
	own, other := "coordinator's", "workers'"
	if worker {
		own, other = "worker's", "coordinators'"
	}
	f.StringVar(&s.TokenFile, "token-file", "", "`file` with the secret that coordinators and workers share")
	f.StringVar(&s.CAFile, "tls-ca", "", "PEM `file` of the CA of the "+other+" certificates")
	f.StringVar(&s.CertFile, "tls-cert", "", "PEM `file` of the "+own+" certificate")
	f.StringVar(&s.KeyFile, "tls-key", "", "PEM `file` of its key")
}
