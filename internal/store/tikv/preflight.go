// SPDX-License-Identifier: Apache-2.0

package tikv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"github.com/tikv/client-go/v2/util/codec"
	"golang.org/x/net/http/httpproxy"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/kvbench/kvbench/internal/exitcode"
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
func (i Info) Described() store.Cluster {
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

	// Status is the status address as it was advertised; it may name no host.
	Status string `json:"status,omitempty"`
}

// preflight asks the cluster who it is before client-go is let loose, which
// would retry for minutes and in some cases end the process. It leaves nothing
// running, and its errors say what to do.
func preflight(ctx context.Context, c *Config, creds credentials.TransportCredentials) (*Info, error) {
	ctx, cancel := context.WithTimeout(ctx, preflightTime)
	defer cancel()
	named := strings.Join(c.PD, ", ")
	info, leader, err := members(ctx, c.PD, creds)
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		return nil, fmt.Errorf("PD at %s answers, but not as it should: %w", named, err)
	case err != nil:
		return nil, fmt.Errorf("PD at %s does not answer: %w\n%s", named, err, pdHint(c))
	}
	conn, err := grpc.NewClient(leader, grpc.WithTransportCredentials(creds))
	if err != nil {
		return nil, fmt.Errorf("PD's leader %s: %w", leader, err)
	}
	defer conn.Close()
	info.Stores, err = stores(ctx, conn, info.ClusterID)
	switch {
	case errors.As(err, &refused):
		return nil, fmt.Errorf("PD's leader %s answers, but %w", leader, err)
	case err != nil:
		return nil, fmt.Errorf("PD at %s answers, but its leader %s does not list the stores: %w\nCan this machine reach the address that PD advertises (its advertise-client-urls)?%s",
			named, leader, err, proxyHint(leader))
	}
	if v, _ := c.version(); v == kvrpcpb.APIVersion_V2 {
		if err := checkKeyspace(ctx, conn, info.ClusterID, c.Keyspace); err != nil {
			return nil, err
		}
	} else if c.transactions {
		if err := checkBorders(ctx, conn, info.ClusterID); err != nil {
			return nil, err
		}
	}
	return info, reachable(ctx, info.Stores, creds)
}

// refusal is an error that somebody answered with.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

// fault returns what an answer of PD has as its error.
func fault(header *pdpb.ResponseHeader) error {
	if e := header.GetError(); e != nil {
		return &refusal{fmt.Sprintf("PD says: %s (%s)", e.Message, e.Type)}
	}
	return nil
}

// members asks all PD addresses at once and takes the first good answer; while
// PD has no leader, it asks again. The error is a [refusal] if any of them answered.
func members(ctx context.Context, addrs []string, creds credentials.TransportCredentials) (*Info, string, error) {
	type answer struct {
		from string
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
		for i, conn := range conns {
			go func() {
				resp, err := pdpb.NewPDClient(conn).GetMembers(round, &pdpb.GetMembersRequest{})
				answers <- answer{addrs[i], resp, err}
			}()
		}
		var errs []error
		var good *pdpb.GetMembersResponse
		for range conns {
			a := <-answers
			err := a.err
			switch {
			case good != nil: // the other attempts were ended
				continue
			case err != nil:
				err = callError(err)
			case fault(a.resp.GetHeader()) != nil:
				err = fault(a.resp.Header)
			case a.resp.GetHeader().GetClusterId() == 0 || len(a.resp.GetLeader().GetClientUrls()) == 0:
				err = &refusal{"it has no leader"}
			default:
				good = a.resp
				cancel() // ends the other attempts
				continue
			}
			if len(conns) > 1 {
				err = fmt.Errorf("%s: %w", a.from, err)
			}
			errs = append(errs, err)
		}
		cancel()
		if good != nil {
			return memberInfo(good), host(good.Leader.ClientUrls[0]), nil
		}
		slices.SortFunc(errs, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
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

// errNoStore is what PD means by "cluster is not bootstrapped".
var errNoStore = &refusal{"no TiKV has joined the cluster yet: start TiKV, and look at its log if it runs"}

func stores(ctx context.Context, pd *grpc.ClientConn, clusterID uint64) ([]Store, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	resp, err := pdpb.NewPDClient(pd).GetAllStores(ctx, &pdpb.GetAllStoresRequest{
		Header: &pdpb.RequestHeader{ClusterId: clusterID}, ExcludeTombstoneStores: true,
	})
	if err != nil {
		return nil, callError(err)
	}
	if resp.GetHeader().GetError().GetType() == pdpb.ErrorType_NOT_BOOTSTRAPPED {
		return nil, errNoStore
	}
	if err := fault(resp.GetHeader()); err != nil {
		return nil, err
	}
	var list []Store
	for _, s := range resp.Stores {
		if s.State != metapb.StoreState_Tombstone && !isTiFlash(s) {
			list = append(list, Store{ID: s.Id, Address: s.Address, Version: s.Version, State: s.State.String(), Status: s.StatusAddress})
		}
	}
	if len(list) == 0 {
		return nil, errNoStore
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
	switch {
	case status.Code(err) == codes.Unimplemented:
		return fmt.Errorf("PD knows no keyspaces, so that tikv.apiversion=V2 cannot be the cluster's: %w", callError(err))
	case err != nil:
		return fmt.Errorf("keyspace %s: %w", name, callError(err))
	case resp.GetHeader().GetError() != nil:
		return fmt.Errorf("keyspace %s: %w", name, fault(resp.Header))
	case resp.Keyspace == nil || resp.Keyspace.State != keyspacepb.KeyspaceState_ENABLED:
		return fmt.Errorf("keyspace %s is not there, or not enabled; create it, or name another", name)
	}
	return nil
}

// mostBorders is how many regions are looked at: raw data splits its regions all over the keys, so that the first few tell.
const mostBorders = 4096

// checkBorders refuses a cluster whose regions are split at keys that the transactional API does not have. client-go fails with
// every call there, since all keys lie between borders that it cannot read.
func checkBorders(ctx context.Context, conn *grpc.ClientConn, clusterID uint64) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	resp, err := pdpb.NewPDClient(conn).ScanRegions(ctx, &pdpb.ScanRegionsRequest{
		Header: &pdpb.RequestHeader{ClusterId: clusterID}, Limit: mostBorders,
	})
	if err == nil {
		err = fault(resp.GetHeader())
	}
	if err != nil {
		return fmt.Errorf("ask PD for the borders of regions: %w", callError(err))
	}
	for _, r := range resp.RegionMetas {
		if len(r.StartKey) == 0 {
			continue
		}
		if _, _, err := codec.DecodeBytes(r.StartKey, nil); err != nil {
			return exitcode.With(exitcode.Usage, fmt.Errorf("region %d begins at the key %.60q, which is not one of the transactional API: "+
				"the cluster holds data of the raw API (V1), and every transaction would fail. "+
				"Use tikv.type=raw, an empty cluster, or API version V2, which keeps both apart", r.Id, r.StartKey))
		}
	}
	return nil
}

// reachable connects to every store, as calls will (through a proxy, if gRPC is told of one), and is content
// if one answers: a cluster with stores down may well be what is to be measured.
func reachable(ctx context.Context, stores []Store, creds credentials.TransportCredentials) error {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	errs := make([]error, len(stores))
	var wg sync.WaitGroup
	for i, s := range stores {
		wg.Go(func() {
			if err := answers(ctx, s.Address, creds); err != nil {
				errs[i] = fmt.Errorf("%s: %w", s.Address, err)
			}
		})
	}
	wg.Wait()
	if slices.Contains(errs, nil) {
		return nil
	}
	var hint string
	for _, s := range stores {
		if hint = proxyHint(s.Address); hint != "" {
			break
		}
	}
	return fmt.Errorf("PD answers, but none of the %d stores that it lists can be reached from here: %w\nThe stores' advertised addresses must be reachable: a cluster in Kubernetes is, in general, from inside only.%s",
		len(stores), errors.Join(errs...), hint)
}

// answers tells whether a gRPC server answers at addr, whatever it says.
func answers(ctx context.Context, addr string, creds credentials.TransportCredentials) error {
	conn, err := grpc.NewClient(host(addr), grpc.WithTransportCredentials(creds))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	if err = callError(err); errors.As(err, new(*refusal)) {
		return nil
	}
	return err
}

// callError returns what a call came to, without the ceremony of gRPC's connections: a [refusal] if the other side answered.
func callError(err error) error {
	if err == nil {
		return nil
	}
	s := status.Convert(err)
	text := fmt.Sprintf("%s (%s)", s.Message(), s.Code())
	switch s.Code() {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		if _, cause, ok := strings.Cut(s.Message(), `desc = "`); ok {
			text = strings.TrimPrefix(strings.TrimSuffix(cause, `"`), "transport: Error while dialing: ")
		}
		return errors.New(text)
	}
	return &refusal{text}
}

// pdHint says what to look at when PD does not answer.
func pdHint(c *Config) string {
	hint := "Check the address and port (2379 by default), and that PD runs and can be reached from this machine."
	if c.CA == "" {
		hint += " If the cluster uses TLS, set tikv.ca, tikv.cert and tikv.key."
	} else {
		hint += " The server's certificate must name the host as it is dialled, and the cluster must use TLS."
	}
	for _, addr := range c.PD {
		if proxy := proxyHint(host(addr)); proxy != "" {
			return hint + proxy
		}
	}
	return hint
}

// proxyHint names the proxy through which gRPC dials an address, if there is one: that which is set for HTTPS.
func proxyHint(addr string) string {
	proxy, err := httpproxy.FromEnvironment().ProxyFunc()(&url.URL{Scheme: "https", Host: addr})
	if err != nil || proxy == nil {
		return ""
	}
	return fmt.Sprintf(" Connections to %s go through the proxy %s (HTTPS_PROXY); add the host to NO_PROXY if it should be dialled directly.", addr, proxy.Redacted())
}
