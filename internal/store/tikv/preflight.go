// SPDX-License-Identifier: Apache-2.0

package tikv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/keyspacepb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"golang.org/x/net/http/httpproxy"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/kvbench/kvbench/internal/store"
)

// How long the preflight may take: long enough for an election of PD's leader, well short of what makes a user wonder.
const (
	preflightTime = 8 * time.Second
	attemptTime   = 3 * time.Second
	dialTime      = 2 * time.Second
)

// Info is what a cluster says about itself.
type Info struct {
	ClusterID uint64   `json:"cluster_id"`
	PD        []Member `json:"pd"`
	Stores    []Store  `json:"stores"`
}

// Described returns it as results have it.
func (i *Info) Described() store.Cluster {
	c := store.Cluster{ID: i.ClusterID, Details: map[string]string{}}
	for _, m := range i.PD {
		c.Details["pd."+m.Name] = m.Version
	}
	for _, s := range i.Stores {
		c.Stores = append(c.Stores, s.Address)
		c.Details["store."+strconv.FormatUint(s.ID, 10)] = s.Version
	}
	return c
}

// Member is one placement driver.
type Member struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Version string `json:"version"`
	Leader  bool   `json:"leader,omitempty"`
}

// Store is one TiKV server.
type Store struct {
	ID      uint64 `json:"id"`
	Address string `json:"address"`
	Version string `json:"version"`
	State   string `json:"state"` // "Up" or "Offline", as PD was told
}

// preflight asks the cluster who it is before client-go is let loose, which
// would retry for minutes and in some cases end the process. It leaves nothing
// running, and its errors say what to do.
func preflight(ctx context.Context, c *Config, creds credentials.TransportCredentials) (*Info, error) {
	ctx, cancel := context.WithTimeout(ctx, preflightTime)
	defer cancel()
	info, leader, err := members(ctx, c.PD, creds)
	if err != nil {
		return nil, fmt.Errorf("PD at %s does not answer: %w\n%s", strings.Join(c.PD, ", "), err, pdHint(c))
	}
	conn, err := grpc.NewClient(leader, grpc.WithTransportCredentials(creds))
	if err != nil {
		return nil, fmt.Errorf("PD's leader %s: %w", leader, err)
	}
	defer conn.Close()
	if info.Stores, err = stores(ctx, conn, info.ClusterID); err != nil {
		return nil, fmt.Errorf("PD's leader %s, which %s named, does not list the stores: %w\nCan this machine reach the address that PD advertises (its advertise-client-urls)?",
			leader, strings.Join(c.PD, ", "), err)
	}
	if v, _ := c.version(); v == kvrpcpb.APIVersion_V2 {
		if err := checkKeyspace(ctx, conn, info.ClusterID, c.Keyspace); err != nil {
			return nil, err
		}
	}
	return info, reachable(ctx, info.Stores)
}

// members asks all PD addresses at once and takes the first good answer; while
// PD has no leader, it asks again.
func members(ctx context.Context, addrs []string, creds credentials.TransportCredentials) (*Info, string, error) {
	type answer struct {
		resp *pdpb.GetMembersResponse
		err  error
	}
	var conns []*grpc.ClientConn
	defer func() {
		for _, conn := range conns {
			conn.Close()
		}
	}()
	for _, addr := range addrs {
		conn, err := grpc.NewClient(host(addr), grpc.WithTransportCredentials(creds))
		if err != nil {
			return nil, "", fmt.Errorf("address %q: %w", addr, err)
		}
		conns = append(conns, conn)
	}
	for {
		round, cancel := context.WithTimeout(ctx, attemptTime)
		answers := make(chan answer, len(conns))
		for _, conn := range conns {
			go func() {
				resp, err := pdpb.NewPDClient(conn).GetMembers(round, &pdpb.GetMembersRequest{})
				answers <- answer{resp, err}
			}()
		}
		var errs []error
		var good *pdpb.GetMembersResponse
		for i := range conns {
			switch a := <-answers; {
			case a.err != nil:
				if good == nil {
					errs = append(errs, errors.New(grpcText(a.err)))
				}
			case a.resp.GetHeader().GetError() != nil:
				errs = append(errs, errors.New(a.resp.Header.Error.Message))
			case a.resp.GetHeader().GetClusterId() == 0 || len(a.resp.GetLeader().GetClientUrls()) == 0:
				errs = append(errs, fmt.Errorf("%s: PD has no leader", addrs[i]))
			case good == nil:
				good = a.resp
				cancel() // ends the other attempts
			}
		}
		cancel()
		if good != nil {
			return memberInfo(good), host(good.Leader.ClientUrls[0]), nil
		}
		select {
		case <-ctx.Done():
			return nil, "", errors.Join(errs...)
		case <-time.After(200 * time.Millisecond):
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < preflightTime-attemptTime {
			return nil, "", errors.Join(errs...)
		}
	}
}

func memberInfo(r *pdpb.GetMembersResponse) *Info {
	info := &Info{ClusterID: r.Header.ClusterId}
	for _, m := range r.Members {
		member := Member{Name: m.Name, Version: m.BinaryVersion, Leader: m.MemberId == r.Leader.MemberId}
		if len(m.ClientUrls) > 0 {
			member.Address = host(m.ClientUrls[0])
		}
		info.PD = append(info.PD, member)
	}
	return info
}

func stores(ctx context.Context, pd *grpc.ClientConn, clusterID uint64) ([]Store, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	resp, err := pdpb.NewPDClient(pd).GetAllStores(ctx, &pdpb.GetAllStoresRequest{
		Header: &pdpb.RequestHeader{ClusterId: clusterID}, ExcludeTombstoneStores: true,
	})
	if err != nil {
		return nil, errors.New(grpcText(err))
	}
	if e := resp.GetHeader().GetError(); e != nil {
		return nil, errors.New(e.Message)
	}
	var list []Store
	for _, s := range resp.Stores {
		if s.State != metapb.StoreState_Tombstone && !isTiFlash(s) {
			list = append(list, Store{ID: s.Id, Address: s.Address, Version: s.Version, State: s.State.String()})
		}
	}
	if len(list) == 0 {
		return nil, errors.New("the cluster has no TiKV store yet")
	}
	slices.SortFunc(list, func(a, b Store) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}

func isTiFlash(s *metapb.Store) bool {
	return slices.ContainsFunc(s.Labels, func(l *metapb.StoreLabel) bool { return l.Key == "engine" && l.Value != "" })
}

// checkKeyspace makes sure that client-go will find the keyspace, since when it does not, it leaks its PD client.
func checkKeyspace(ctx context.Context, pd *grpc.ClientConn, clusterID uint64, name string) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	name = cmp.Or(name, "DEFAULT")
	resp, err := keyspacepb.NewKeyspaceClient(pd).LoadKeyspace(ctx, &keyspacepb.LoadKeyspaceRequest{
		Header: &pdpb.RequestHeader{ClusterId: clusterID}, Name: name,
	})
	switch e := resp.GetHeader().GetError(); {
	case err != nil:
		return fmt.Errorf("keyspace %s: %s", name, grpcText(err))
	case e != nil:
		return fmt.Errorf("keyspace %s: PD answered: %s", name, e.Message)
	case resp.Keyspace == nil || resp.Keyspace.State != keyspacepb.KeyspaceState_ENABLED:
		return fmt.Errorf("keyspace %s is not there, or not enabled; create it, or name another", name)
	}
	return nil
}

// reachable dials every store, and is content if one answers: a cluster with
// stores down may well be what is to be measured.
func reachable(ctx context.Context, stores []Store) error {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	errs := make([]error, len(stores))
	var wg sync.WaitGroup
	for i, s := range stores {
		wg.Go(func() {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Address)
			if err != nil {
				errs[i] = err
				return
			}
			conn.Close()
		})
	}
	wg.Wait()
	if !slices.Contains(errs, nil) {
		return fmt.Errorf("PD answers, but none of the %d stores that it lists can be reached from here: %w\nThe stores' advertised addresses must be reachable: a cluster in Kubernetes is, in general, from inside only.",
			len(stores), errors.Join(errs...))
	}
	return nil
}

// grpcText returns an error's text without the ceremony of a status.
func grpcText(err error) string {
	s := status.Convert(err)
	return fmt.Sprintf("%s (%s)", s.Message(), s.Code())
}

// pdHint says what to look at when PD does not answer.
func pdHint(c *Config) string {
	hint := "Check the address and port (2379 by default), and that PD runs and can be reached from this machine."
	if c.CA == "" {
		hint += " If the cluster uses TLS, give the CA, certificate and key files."
	} else {
		hint += " The server's certificate must name the host as it is dialled, and the cluster must use TLS."
	}
	for _, addr := range c.PD {
		// gRPC dials through the proxy that is set for HTTPS.
		if proxy, err := httpproxy.FromEnvironment().ProxyFunc()(&url.URL{Scheme: "https", Host: host(addr)}); err == nil && proxy != nil {
			return hint + fmt.Sprintf(" Connections to %s go through the proxy %s (HTTPS_PROXY); add the host to NO_PROXY if it should be dialled directly.", host(addr), proxy.Redacted())
		}
	}
	return hint
}
