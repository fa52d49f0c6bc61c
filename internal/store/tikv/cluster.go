// SPDX-License-Identifier: Apache-2.0

// Package tikv is what TiKV alone takes: connecting to a cluster through client-go, for the
// drivers that use it. It knows client-go's settings and traps in one place: what is set per
// process, what must be checked before the library is let loose, what it does
// not tell its caller, and what its errors mean.
package tikv

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tikv/client-go/v2/rawkv"
	"github.com/tikv/client-go/v2/tikv"
	pd "github.com/tikv/pd/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"

	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/store"
)

// connection is what connections to a cluster have in common, whichever of its APIs they are for.
type connection struct {
	info  Info
	creds credentials.TransportCredentials
	tls   *tls.Config // nil: none
	sent  messages
	pd    pd.Client // of the first instance of client-go
}

// Cluster is an open connection to a cluster, for the raw API. Its methods may be called from any goroutine.
type Cluster struct {
	connection
	cf      string
	clients []*Client
}

// Client is one instance of client-go's raw client.
type Client struct {
	*rawkv.Client
	// Atomic is the same client, in the mode in which compare-and-swap works:
	// its writes are atomic with respect to each other, and cost the store more.
	Atomic *rawkv.Client
	// Regions is what the client knows about regions and their leaders.
	Regions *tikv.RegionCache
	// Codec adds and removes the prefix of a keyspace.
	Codec tikv.Codec
}

// Connect opens a connection to the cluster. It takes at most 10 s, and leaves nothing running when it fails.
// An error of the configuration has the code [exitcode.Usage].
func Connect(ctx context.Context, c Config) (*Cluster, error) {
	cl := &Cluster{cf: c.ColumnFamily}
	if err := cl.ready(ctx, &c); err != nil {
		return nil, err
	}
	for range max(1, c.Clients) {
		client, err := newClient(ctx, &c, cl.sent.dialOptions())
		if err != nil {
			return nil, errors.Join(fmt.Errorf("client-go: %w", err), cl.Close())
		}
		cl.clients = append(cl.clients, client)
	}
	cl.pd = cl.clients[0].GetPDClient()
	if c.TTL {
		if err := checkTTL(ctx, cl.clients[0]); err != nil {
			return nil, errors.Join(err, cl.Close())
		}
	}
	return cl, nil
}

// ready checks the configuration and the cluster, and makes client-go's settings those of the process until [release].
func (n *connection) ready(ctx context.Context, c *Config) error {
	if err := c.check(); err != nil {
		return exitcode.With(exitcode.Usage, err)
	}
	creds, config, err := c.credentials()
	if err != nil {
		return exitcode.With(exitcode.Usage, err)
	}
	info, err := preflight(ctx, c, creds)
	if err != nil {
		return err
	}
	n.info, n.creds, n.tls = *info, creds, config
	return acquire(c)
}

// checkTTL finds out whether the stores keep times to live: one that does not refuses to tell that of a
// key, while it reads as ever, and would fail with the first put.
func checkTTL(ctx context.Context, client *Client) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	_, err := client.GetKeyTTL(ctx, []byte("kvbench-probe"))
	if err != nil && strings.Contains(err.Error(), "ttl is not enabled") {
		return fmt.Errorf("the cluster does not keep times to live: leave out ttl, or run TiKV with storage.enable-ttl or API version V2 (the store says: %w)", err)
	}
	if err != nil {
		return fmt.Errorf("ask a store for the time to live of a key: %w", err)
	}
	return nil
}

func newClient(ctx context.Context, c *Config, dial []grpc.DialOption) (*Client, error) {
	version, err := c.version()
	if err != nil {
		return nil, err
	}
	raw, err := rawkv.NewClientWithOpts(ctx, c.PD,
		rawkv.WithAPIVersion(version),
		rawkv.WithKeyspace(c.Keyspace),
		rawkv.WithSecurity(c.security()),
		rawkv.WithGRPCDialOptions(dial...),
		rawkv.WithPDOptions(pdOptions()...),
	)
	if err != nil {
		return nil, err
	}
	if err := trace(raw); err != nil {
		return nil, errors.Join(err, raw.Close(), closeLate(codecOf(raw).Client))
	}
	raw.SetColumnFamily(c.ColumnFamily)
	atomic := *raw
	atomic.SetAtomicForCAS(true)
	return &Client{
		Client: raw, Atomic: &atomic,
		Regions: rawkv.ClientProbe{Client: raw}.GetRegionCache(),
		Codec:   codecOf(raw).GetCodec(),
	}, nil
}

// pdOptions are those of client-go's PD clients. The preflight has just succeeded, so that one more attempt is enough;
// by default there would be a hundred, deaf to ctx.
// And gRPC would try a PD that is away ever more seldom, down to every two minutes.
func pdOptions() []pd.ClientOption {
	return []pd.ClientOption{pd.WithMaxErrorRetry(2), pd.WithGRPCDialOptions(grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: .2, MaxDelay: time.Second},
		MinConnectTimeout: attemptTime,
	}))}
}

// codecOf returns what client-go puts around the PD client of a raw client.
func codecOf(raw *rawkv.Client) *tikv.CodecPDClient { return raw.GetPDClient().(*tikv.CodecPDClient) }

// Info returns what the cluster said about itself when it was connected to.
func (n *connection) Info() Info { return n.info }

// Credentials are what connections to stores are made with.
func (n *connection) Credentials() credentials.TransportCredentials { return n.creds }

// Servers returns the stores with their status addresses, and PD's leader, whose HTTP interface is at the same address.
func (n *connection) Servers() store.Servers {
	all := store.Servers{PD: host(n.pd.GetLeaderAddr()), TLS: n.tls.Clone()}
	for _, s := range n.info.Stores {
		all.Stores = append(all.Stores, store.Server{Store: s.Address, Status: s.Status})
	}
	return all
}

// ColumnFamily is the one that was configured.
func (c *Cluster) ColumnFamily() string { return c.cf }

// Traffic returns what client-go has sent to each store since the cluster was connected to.
func (n *connection) Traffic() []store.Traffic { return n.sent.traffic() }

// Client returns the i-th instance, counted round.
func (c *Cluster) Client(i int) *Client { return c.clients[i%len(c.clients)] }

// Close closes all connections. No call may be in flight.
func (c *Cluster) Close() error {
	defer release()
	var errs []error
	for _, client := range c.clients {
		errs = append(errs, client.Close(), closeLate(codecOf(client.Client).Client))
	}
	return errors.Join(errs...)
}
