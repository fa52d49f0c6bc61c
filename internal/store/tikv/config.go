// SPDX-License-Identifier: Apache-2.0

package tikv

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/tikv/client-go/v2/config"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/kvbench/kvbench/internal/tlsfile"
)

// Config says which cluster to connect to, and how client-go is set up for it.
// The fields that client-go has too carry its names; zero means its default,
// unless it says otherwise.
type Config struct {
	PD []string // addresses of the placement drivers, host:port; at least one

	// The PEM files of TLS: all three or none. TiKV asks every client for a
	// certificate, and client-go would use TLS towards TiKV if CA is set, but
	// towards PD if Cert is.
	CA, Cert, Key string

	APIVersion   string // "V1" (also ""), "V1TTL" or "V2"
	Keyspace     string // V2: name of the keyspace, "" is DEFAULT
	ColumnFamily string // V1: "", "default", "lock" or "write"
	TTL          bool   // values will be put with a time to live, which the stores must keep

	Clients             int  // client instances, each with its own connections; 0 is 1
	GrpcConnectionCount uint // connections of one instance to each store; 0 is client-go's 4
	MaxBatchSize        int  // commands in one message; 0 is client-go's 128, -1 sends every call as an RPC of its own
	MaxBatchWaitTime    time.Duration
	BatchWaitSize       uint
	OverloadThreshold   uint

	Log io.Writer // client-go's log of warnings and errors, one JSON object a line; nil drops it

	transactions bool // it is for the transactional API
}

// ConnectionsPerStore returns how many connections client-go makes to each store.
func (c *Config) ConnectionsPerStore() int {
	return max(1, c.Clients) * int(cmp.Or(c.GrpcConnectionCount, config.DefaultTiKVClient().GrpcConnectionCount))
}

// version returns the API version as the protocol has it.
func (c *Config) version() (kvrpcpb.APIVersion, error) {
	if c.APIVersion == "" {
		return kvrpcpb.APIVersion_V1, nil
	}
	v, ok := kvrpcpb.APIVersion_value[c.APIVersion]
	if !ok {
		return 0, fmt.Errorf("API version %q: want V1, V1TTL or V2", c.APIVersion)
	}
	return kvrpcpb.APIVersion(v), nil
}

func (c *Config) security() config.Security {
	return config.NewSecurity(c.CA, c.Cert, c.Key, nil)
}

// credentials reads the TLS files. client-go will read them again, for connections of its own: what is no
// file, or far too large for one, must be found before. Without them, the TLS configuration is nil.
func (c *Config) credentials() (credentials.TransportCredentials, *tls.Config, error) {
	if c.CA == "" {
		return insecure.NewCredentials(), nil, nil
	}
	pool, err := tlsfile.Authorities(c.CA)
	if err != nil {
		return nil, nil, fmt.Errorf("tikv.ca: %w", err)
	}
	pair, err := tlsfile.KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, nil, fmt.Errorf("tikv.cert and tikv.key: %w", err)
	}
	config := &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}
	return credentials.NewTLS(config.Clone()), config, nil
}

// check finds what cannot work before anything is started.
func (c *Config) check() error {
	var errs []error
	if len(c.PD) == 0 {
		errs = append(errs, errors.New("no PD address given"))
	}
	if set := btoi(c.CA != "") + btoi(c.Cert != "") + btoi(c.Key != ""); set != 0 && set != 3 {
		errs = append(errs, errors.New("TLS needs the CA's, the client's certificate and its key file, or none of them: TiKV asks every client for a certificate"))
	}
	v, err := c.version()
	errs = append(errs, err)
	if c.Keyspace != "" && v != kvrpcpb.APIVersion_V2 {
		errs = append(errs, fmt.Errorf("keyspace %q: only API version V2 has keyspaces", c.Keyspace))
	}
	if c.ColumnFamily != "" && v == kvrpcpb.APIVersion_V2 {
		errs = append(errs, fmt.Errorf("column family %q: API version V2 has none", c.ColumnFamily))
	}
	if c.transactions && (v == kvrpcpb.APIVersion_V1TTL || c.ColumnFamily != "" || c.TTL) {
		errs = append(errs, errors.New("transactions know no API version V1TTL, column families and times to live"))
	}
	if c.Clients < 0 || c.MaxBatchSize < -1 || c.MaxBatchWaitTime < 0 {
		errs = append(errs, errors.New("client counts, batch sizes and wait times must not be negative"))
	}
	return errors.Join(errs...)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// host strips the scheme that PD's own URLs have.
func host(url string) string {
	if _, rest, ok := strings.Cut(url, "://"); ok {
		url = rest
	}
	return strings.TrimSuffix(url, "/")
}
